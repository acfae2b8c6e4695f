// NVIDIA's libraries as this machine has them: opened when they are first asked for, with a report of what was found.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "providers/cuda/api.h"

namespace ferry::cuda {

struct LibraryReport {
  std::string name;                    // "CUDA driver"
  std::string file;                    // as it was opened; empty: none was
  std::string version;                 // "13.0"; empty when it is not known
  std::vector<std::string> functions;  // that it lacks
  std::string problem;                 // empty: usable
  std::string remedy;                  // how to get it

  bool usable() const { return problem.empty(); }
  std::string WhatIsMissing() const;  // the problem and what to do, in a sentence
};

template <class Api>
struct Library {
  Api api;
  LibraryReport report;

  // The functions; throws kUnsupported saying what is missing and how to get it.
  const Api& Get() const {
    if (!report.usable()) FailMissing(report);
    return api;
  }

 private:
  [[noreturn]] static void FailMissing(const LibraryReport& report);
};

// Each is opened once; the answer stays for as long as the process runs. Those of a toolkit are taken in the newest
// version that the driver can work with.
const Library<DriverApi>& Driver();
const Library<NvrtcApi>& Nvrtc();
const Library<CublasLtApi>& CublasLt();
const Library<CudnnApi>& Cudnn();
std::vector<const LibraryReport*> AllReports();

// An opened library: its file and a way to find functions in it.
struct OpenedLibrary {
  std::string file;
  std::function<void*(const char*)> find;
};
// The first of some files; nothing when none can be opened, with the reason.
using OpenLibrary = std::function<std::optional<OpenedLibrary>(std::span<const std::string> files, std::string& why)>;

std::optional<OpenedLibrary> OpenOnThisMachine(std::span<const std::string> files, std::string& why);
// As above, from anywhere. `driver_major`: the newest CUDA that the driver knows (0: not known).
Library<DriverApi> LoadDriver(const OpenLibrary& open);
Library<NvrtcApi> LoadNvrtc(const OpenLibrary& open, int driver_major);
Library<CublasLtApi> LoadCublasLt(const OpenLibrary& open, int driver_major);
Library<CudnnApi> LoadCudnn(const OpenLibrary& open);
// The files in which a library is looked for, in this order: by name alone, as the system finds it, then in the folders
// of a toolkit.
std::vector<std::string> FilesOf(std::string_view library, std::span<const int> majors);

}  // namespace ferry::cuda
