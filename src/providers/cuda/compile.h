// Kernel sources to machine code: compiled by NVRTC for the device at hand when they are first needed, and kept in a
// file, so that the next process only loads them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ferry::cuda {

// What decides the machine code beside the source.
struct CompileTarget {
  int compute_major = 0, compute_minor = 0;
  std::string compiler;  // version of NVRTC
  std::string driver;    // version of the driver
};

// Machine code (a cubin) by NVRTC; throws kInternal with the compiler's own words when the source is wrong.
std::string Compile(const std::string& source, const CompileTarget& target);

// The file that keeps what became of a source, by the source's content and the target.
std::string CubinPath(std::string_view folder, const std::string& source, const CompileTarget& target);
// The machine code in such a file; nothing unless it is whole, unchanged and made from this source for this target.
std::optional<std::string> ReadCubin(const std::string& path, const std::string& source, const CompileTarget& target);
// A file that cannot be written is done without.
void WriteCubin(const std::string& path, const std::string& source, const CompileTarget& target,
                std::string_view cubin);

}  // namespace ferry::cuda
