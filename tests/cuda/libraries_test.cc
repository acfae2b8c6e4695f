// The tables of NVIDIA's functions, filled from libraries that are whole, missing, old or incomplete: none of it needs
// a GPU.
#include "providers/cuda/libraries.h"

#include "base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ferry::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

int g_driver_version = 13000;
int FakeDriverVersion(int* version) {
  *version = g_driver_version;
  return kSuccess;
}
int FakeNvrtcVersion(int* major, int* minor) {
  *major = 12, *minor = 8;
  return kSuccess;
}
size_t FakeCublasVersion() { return 130101; }
size_t FakeCudnnVersion() { return 91900; }
void AnyFunction() {}

// A library that has every function but those named.
OpenLibrary Fake(std::string file, std::vector<std::string> lacking = {}) {
  return [=](std::span<const std::string> files, std::string& why) -> std::optional<OpenedLibrary> {
    if (std::find(files.begin(), files.end(), file) == files.end()) {
      why = "not there";
      return std::nullopt;
    }
    return OpenedLibrary{file, [=](const char* name) -> void* {
                           std::string_view asked = name;
                           if (std::find(lacking.begin(), lacking.end(), asked) != lacking.end()) return nullptr;
                           if (asked == "cuDriverGetVersion") return reinterpret_cast<void*>(FakeDriverVersion);
                           if (asked == "nvrtcVersion") return reinterpret_cast<void*>(FakeNvrtcVersion);
                           if (asked == "cublasLtGetVersion") return reinterpret_cast<void*>(FakeCublasVersion);
                           if (asked == "cudnnGetVersion") return reinterpret_cast<void*>(FakeCudnnVersion);
                           return reinterpret_cast<void*>(AnyFunction);
                         }};
  };
}

template <class Api>
std::string WhyUnusable(const Library<Api>& library) {
  try {
    library.Get();
    return "it is usable";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    return error.message();
  }
}

TEST(CudaLibraries, ReadVersionsOfWhatIsThere) {
  g_driver_version = 13020;
  Library<DriverApi> driver = LoadDriver(Fake("libcuda.so.1"));
  EXPECT_TRUE(driver.report.usable()) << driver.report.problem;
  EXPECT_EQ(driver.report.version, "13.2");
  EXPECT_TRUE(driver.Get().LaunchKernel);
  EXPECT_EQ(LoadNvrtc(Fake("libnvrtc.so.12"), 13).report.version, "12.8");
  EXPECT_EQ(LoadCublasLt(Fake("libcublasLt.so.13"), 13).report.version, "13.1.1");
  EXPECT_EQ(LoadCudnn(Fake("libcudnn.so.9")).report.version, "9.19.0");
}

TEST(CudaLibraries, MissingOnesAreNamedWithHowToGetThem) {
  OpenLibrary none = Fake("something else");
  EXPECT_THAT(WhyUnusable(LoadDriver(none)),
              HasSubstr("CUDA driver: libcuda.so.1 is not found; install NVIDIA's driver"));
  EXPECT_THAT(WhyUnusable(LoadNvrtc(none, 0)), HasSubstr("nvidia-cuda-nvrtc"));
  EXPECT_THAT(WhyUnusable(LoadCublasLt(none, 12)), HasSubstr("libcublasLt.so.12 is not found"));
  EXPECT_THAT(WhyUnusable(LoadCudnn(none)), HasSubstr("install cuDNN 9"));
}

TEST(CudaLibraries, MissingFunctionsAreNamed) {
  Library<DriverApi> driver = LoadDriver(Fake("libcuda.so.1", {"cuGraphLaunch", "cuMemAlloc_v2"}));
  EXPECT_THAT(driver.report.functions, ElementsAre("cuMemAlloc_v2", "cuGraphLaunch"));
  EXPECT_THAT(WhyUnusable(driver), HasSubstr("lacks cuMemAlloc_v2, cuGraphLaunch"));
  // What tells the version may be among them.
  EXPECT_THAT(LoadCudnn(Fake("libcudnn.so.9", {"cudnnGetVersion"})).report.version, IsEmpty());
}

TEST(CudaLibraries, ADriverOlderThanCuda12IsRefused) {
  g_driver_version = 11080;
  EXPECT_THAT(WhyUnusable(LoadDriver(Fake("libcuda.so.1"))), HasSubstr("CUDA 11.8 and is too old"));
}

TEST(CudaLibraries, AToolkitNewerThanTheDriverIsNotTaken) {
  EXPECT_FALSE(LoadNvrtc(Fake("libnvrtc.so.13"), 12).report.usable());
  EXPECT_TRUE(LoadNvrtc(Fake("libnvrtc.so.12"), 12).report.usable());
  EXPECT_TRUE(LoadNvrtc(Fake("libnvrtc.so.12"), 13).report.usable());
}

TEST(CudaLibraries, AreLookedForByNameFirst) {
  constexpr int kMajors[] = {13, 12};
  std::vector<std::string> files = FilesOf("libnvrtc", kMajors);
  EXPECT_EQ(files.front(), "libnvrtc.so.13");
  EXPECT_THAT(files, ::testing::Contains("/usr/local/cuda/lib64/libnvrtc.so.12"));
}

TEST(CudaLibraries, ALibraryOfAnotherKindLacksEverything) {
  OpenLibrary wrong = [](std::span<const std::string>, std::string& why) {
    const std::string files[] = {"libm.so.6"};
    return OpenOnThisMachine(files, why);
  };
  Library<CublasLtApi> library = LoadCublasLt(wrong, 13);
  EXPECT_EQ(library.report.functions.size(), sizeof(CublasLtApi) / sizeof(void*));
  EXPECT_FALSE(library.report.usable());
}

TEST(CudaLibraries, EveryReportSaysWhatIsMissingOrNothing) {
  for (const LibraryReport* report : AllReports()) {
    EXPECT_FALSE(report->name.empty());
    EXPECT_EQ(report->usable(), report->WhatIsMissing().empty());
  }
}

}  // namespace
}  // namespace ferry::cuda
