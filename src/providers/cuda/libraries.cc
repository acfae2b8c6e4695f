#include "providers/cuda/libraries.h"

#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/shared_library.h"

namespace ferry::cuda {
namespace {

#define FERRY_CUDA_SYMBOL(field, symbol, result, parameters) symbol,
constexpr const char* kDriverSymbols[] = {FERRY_CUDA_DRIVER(FERRY_CUDA_SYMBOL)};
constexpr const char* kNvrtcSymbols[] = {FERRY_CUDA_NVRTC(FERRY_CUDA_SYMBOL)};
constexpr const char* kCublasLtSymbols[] = {FERRY_CUDA_CUBLASLT(FERRY_CUDA_SYMBOL)};
constexpr const char* kCudnnSymbols[] = {FERRY_CUDA_CUDNN(FERRY_CUDA_SYMBOL)};
#undef FERRY_CUDA_SYMBOL

// Opens the library and fills the table, an array of pointers in the order of the symbols.
void Load(const OpenLibrary& open, const std::vector<std::string>& files, std::span<const char* const> symbols,
          void* table, LibraryReport& report) {
  std::string why;
  std::optional<OpenedLibrary> library = open(files, why);
  if (!library) {
    report.problem = Cat(files.front(), " is not found");
    return;
  }
  report.file = library->file;
  for (size_t i = 0; i < symbols.size(); ++i) {
    void* function = library->find(symbols[i]);
    if (!function) report.functions.push_back(symbols[i]);
    std::memcpy(static_cast<char*>(table) + i * sizeof function, &function, sizeof function);
  }
  if (!report.functions.empty())
    report.problem = Cat(Printable(report.file), " lacks ", Join(report.functions, ", "), ": it is too old or too new");
}

template <class Api, size_t kCount>
Library<Api> LoadTable(const OpenLibrary& open, const std::vector<std::string>& files,
                       const char* const (&symbols)[kCount], std::string_view name, std::string_view remedy) {
  static_assert(sizeof(Api) == kCount * sizeof(void*), "a table of pointers and nothing else");
  Library<Api> library;
  library.report.name = name;
  library.report.remedy = remedy;
  Load(open, files, symbols, &library.api, library.report);
  return library;
}

std::string PointedVersion(int64_t major, int64_t minor) { return Cat(major, ".", minor); }

// From the newest that the driver takes to the oldest that has everything.
std::vector<int> MajorsUpTo(int driver_major) {
  if (driver_major == 12) return {12};
  return {13, 12};
}

int DriverMajor() {
  const Library<DriverApi>& driver = Driver();
  int version = 0;
  if (driver.report.usable() && driver.api.DriverGetVersion(&version) == kSuccess) return version / 1000;
  return 0;
}

void AddToolkitFolders(std::vector<std::string>& folders) {
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* root = std::getenv(variable); root && *root)
      for (const char* part : {"/lib64", "/lib"}) folders.push_back(Cat(root, part));
  folders.push_back("/usr/local/cuda/lib64");
  folders.push_back("/usr/local/cuda/lib");
}

}  // namespace

std::string LibraryReport::WhatIsMissing() const {
  return usable() ? std::string() : Cat(name, ": ", problem, "; ", remedy);
}

template <class Api>
void Library<Api>::FailMissing(const LibraryReport& report) {
  Fail(ErrorCode::kUnsupported, "provider cuda cannot be used here: ", report.WhatIsMissing());
}
template struct Library<DriverApi>;
template struct Library<NvrtcApi>;
template struct Library<CublasLtApi>;
template struct Library<CudnnApi>;

std::vector<std::string> FilesOf(std::string_view library, std::span<const int> majors) {
  std::vector<std::string> folders{""};
  AddToolkitFolders(folders);
  std::vector<std::string> files;
  for (int major : majors)
    for (const std::string& folder : folders)
      files.push_back(Cat(folder, folder.empty() ? "" : "/", library, ".so.", major));
  return files;
}

std::optional<OpenedLibrary> OpenOnThisMachine(std::span<const std::string> files, std::string& why) {
  std::shared_ptr<SharedLibrary> library = SharedLibrary::Open(files, why);
  if (!library) return std::nullopt;
  return OpenedLibrary{library->name(), [library](const char* function) { return library->Find(function); }};
}

Library<DriverApi> LoadDriver(const OpenLibrary& open) {
  auto driver = LoadTable<DriverApi>(open, {"libcuda.so.1"}, kDriverSymbols, "CUDA driver",
                                     "install NVIDIA's driver for this machine's GPU (CUDA 12 or newer)");
  int version = 0;
  if (!driver.api.DriverGetVersion || driver.api.DriverGetVersion(&version) != kSuccess) return driver;
  driver.report.version = PointedVersion(version / 1000, version % 1000 / 10);
  if (driver.report.usable() && version < 12000)
    driver.report.problem = Cat("it knows CUDA ", driver.report.version, " and is too old");
  return driver;
}

Library<NvrtcApi> LoadNvrtc(const OpenLibrary& open, int driver_major) {
  auto nvrtc = LoadTable<NvrtcApi>(
      open, FilesOf("libnvrtc", MajorsUpTo(driver_major)), kNvrtcSymbols, "NVRTC",
      "install CUDA's libraries (package cuda-nvrtc, or 'pip install nvidia-cuda-nvrtc') and name their folder in "
      "LD_LIBRARY_PATH");
  int major = 0, minor = 0;
  if (nvrtc.api.Version && nvrtc.api.Version(&major, &minor) == kSuccess)
    nvrtc.report.version = PointedVersion(major, minor);
  return nvrtc;
}

Library<CublasLtApi> LoadCublasLt(const OpenLibrary& open, int driver_major) {
  auto cublas = LoadTable<CublasLtApi>(
      open, FilesOf("libcublasLt", MajorsUpTo(driver_major)), kCublasLtSymbols, "cuBLASLt",
      "install CUDA's libraries (package libcublas, or 'pip install nvidia-cublas') and name their folder in "
      "LD_LIBRARY_PATH");
  if (cublas.api.GetVersion) {
    size_t version = cublas.api.GetVersion();
    cublas.report.version = Cat(version / 10000, ".", version / 100 % 100, ".", version % 100);
  }
  return cublas;
}

Library<CudnnApi> LoadCudnn(const OpenLibrary& open) {
  constexpr int kMajors[] = {9};
  auto cudnn = LoadTable<CudnnApi>(
      open, FilesOf("libcudnn", kMajors), kCudnnSymbols, "cuDNN",
      "install cuDNN 9 (package libcudnn9-cuda-13 or -12, or 'pip install nvidia-cudnn-cu13') and name its folder in "
      "LD_LIBRARY_PATH");
  if (cudnn.api.GetVersion) {
    size_t version = cudnn.api.GetVersion();
    cudnn.report.version = Cat(version / 10000, ".", version / 100 % 100, ".", version % 100);
  }
  return cudnn;
}

const Library<DriverApi>& Driver() {
  static const Library<DriverApi> driver = LoadDriver(OpenOnThisMachine);
  return driver;
}

const Library<NvrtcApi>& Nvrtc() {
  static const Library<NvrtcApi> nvrtc = LoadNvrtc(OpenOnThisMachine, DriverMajor());
  return nvrtc;
}

const Library<CublasLtApi>& CublasLt() {
  static const Library<CublasLtApi> cublas = LoadCublasLt(OpenOnThisMachine, DriverMajor());
  return cublas;
}

const Library<CudnnApi>& Cudnn() {
  static const Library<CudnnApi> cudnn = LoadCudnn(OpenOnThisMachine);
  return cudnn;
}

std::vector<const LibraryReport*> AllReports() {
  return {&Driver().report, &Nvrtc().report, &CublasLt().report, &Cudnn().report};
}

}  // namespace ferry::cuda
