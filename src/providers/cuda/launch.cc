#include "providers/cuda/launch.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/cache_folder.h"
#include "base/error.h"
#include "providers/cuda/compile.h"

namespace ferry::cuda {

const char kPrelude[] = R"(
typedef signed char int8; typedef unsigned char uint8; typedef short int16; typedef unsigned short uint16;
typedef int int32; typedef unsigned int uint32; typedef long long int64; typedef unsigned long long uint64;
struct alignas(2) half { uint16 bits; };
struct alignas(2) bfloat16 { uint16 bits; };

__device__ inline float Load(half x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y; }
__device__ inline float Load(bfloat16 x) { return __uint_as_float(static_cast<uint32>(x.bits) << 16); }
template <class T> __device__ inline T Load(T x) { return x; }
template <class T> struct Stored { template <class F> __device__ static T From(F x) { return static_cast<T>(x); } };
template <> struct Stored<bool> { template <class F> __device__ static bool From(F x) { return x != F(0); } };
template <> struct Stored<half> {
  __device__ static half From(float x) { half y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y; }
};
template <> struct Stored<bfloat16> {
  __device__ static bfloat16 From(float x) {
    uint32 bits = __float_as_uint(x);
    bfloat16 y;
    y.bits = x != x ? 0x7fff : static_cast<uint16>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    return y;
  }
};
template <class T, int N> struct alignas(sizeof(T) * N) Pack { T at[N]; };
#define FULL_WARP 0xffffffffu
)";

namespace {

struct LoadedKernels {
  std::mutex mutex;
  std::unordered_map<std::string, Function> by_key;
  std::map<std::string, std::string> code;  // of whole sources: what was loaded here, or comes from a plan
};

LoadedKernels& KernelsOf(const Device& device) {
  static std::mutex mutex;
  static std::unordered_map<int, LoadedKernels*> all;  // modules stay loaded until the process ends
  std::lock_guard lock(mutex);
  LoadedKernels*& kernels = all[device.facts().ordinal];
  if (!kernels) kernels = new LoadedKernels;
  return *kernels;
}

std::string CubinFor(const Device& device, const std::string& source) {
  const CompileTarget target{device.facts().compute_major, device.facts().compute_minor, Nvrtc().report.version,
                             Driver().report.version};
  static const std::string folder = CacheFolder("cuda");
  if (folder.empty()) return Compile(source, target);
  const std::string path = CubinPath(folder, source, target);
  if (std::optional<std::string> kept = ReadCubin(path, source, target)) return *kept;
  std::string cubin = Compile(source, target);
  WriteCubin(path, source, target, cubin);
  return cubin;
}

}  // namespace

Function FindKernel(const Device& device, const std::string& key, FunctionRef<KernelSource()> make) {
  LoadedKernels& kernels = KernelsOf(device);
  std::lock_guard lock(kernels.mutex);
  auto known = kernels.by_key.find(key);
  if (known != kernels.by_key.end()) return known->second;
  const KernelSource source = make();
  std::string& cubin = kernels.code[Cat(kPrelude, source.text)];
  if (cubin.empty()) cubin = CubinFor(device, Cat(kPrelude, source.text));
  const DriverApi& driver = device.Use();
  Module module = nullptr;
  Function function = nullptr;
  CheckDriver(driver.ModuleLoadData(&module, cubin.data()), "cuModuleLoadData");
  CheckDriver(driver.ModuleGetFunction(&function, module, source.name.c_str()), "cuModuleGetFunction");
  kernels.by_key[key] = function;
  return function;
}

Function FindKernel(const Device& device, const KernelSource& source) {
  return FindKernel(device, Cat(source.name, "\n", source.text), [&] { return source; });
}

std::map<std::string, std::string> LoadedCode(const Device& device) {
  LoadedKernels& kernels = KernelsOf(device);
  std::lock_guard lock(kernels.mutex);
  return kernels.code;
}

std::string KnownCode(const Device& device, const std::string& name) {
  LoadedKernels& kernels = KernelsOf(device);
  std::lock_guard lock(kernels.mutex);
  auto known = kernels.code.find(name);
  return known == kernels.code.end() ? std::string() : known->second;
}

void KeepCode(const Device& device, const std::string& name, std::string code) {
  LoadedKernels& kernels = KernelsOf(device);
  std::lock_guard lock(kernels.mutex);
  kernels.code[name] = std::move(code);
}

void GiveCode(const Device& device, const std::map<std::string, std::string>& code) {
  LoadedKernels& kernels = KernelsOf(device);
  std::lock_guard lock(kernels.mutex);
  for (const auto& [source, cubin] : code) kernels.code.try_emplace(source, cubin);
}

Grid GridFor(const Device& device, int64_t count, unsigned threads) {
  const int64_t blocks = (count + threads - 1) / threads;
  const int64_t most = int64_t{device.facts().multiprocessors} * (2048 / threads) * 4;
  return {static_cast<unsigned>(std::clamp<int64_t>(blocks, 1, most)), threads};
}

void LaunchRaw(const Device& device, Function function, const Grid& grid, void** parameters) {
  const DriverApi& driver = device.Use();
  if (grid.shared_bytes > 48 * 1024)
    CheckDriver(driver.FuncSetAttribute(function, kMaxDynamicSharedBytes, static_cast<int>(grid.shared_bytes)),
                "cuFuncSetAttribute");
  CheckDriver(driver.LaunchKernel(function, grid.blocks, grid.blocks_y, 1, grid.threads, 1, 1, grid.shared_bytes,
                                  device.stream(), parameters, nullptr),
              "cuLaunchKernel");
}

}  // namespace ferry::cuda
