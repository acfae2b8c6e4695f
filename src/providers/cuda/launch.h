// Kernels of a device, found by their source, and how they are started.
#pragma once

#include <map>
#include <string>

#include "base/function_ref.h"
#include "providers/cuda/device.h"

namespace ferry::cuda {

// A kernel's text, complete but for the prelude, and the name of the function in it.
struct KernelSource {
  std::string name;
  std::string text;
  int only_major = 0;  // the compute capability whose instructions it needs; 0: none
};

// What every source begins with: types of all elements, conversions, and arithmetic of the small floats.
extern const char kPrelude[];

// The kernel ready to be launched: from memory, from the cache folder, or compiled now.
Function FindKernel(const Device& device, const KernelSource& source);
// The same by a short name that stands for the source, which is made only when it is needed.
Function FindKernel(const Device& device, const std::string& key, FunctionRef<KernelSource()> make);

// Machine code of the kernels that this process has used, by their whole sources, and its way into another process.
std::map<std::string, std::string> LoadedCode(const Device& device);
// The same for what libraries compiled, by a name that says all it depends on; empty: nothing is known.
std::string KnownCode(const Device& device, const std::string& name);
void KeepCode(const Device& device, const std::string& name, std::string code);
void GiveCode(const Device& device, const std::map<std::string, std::string>& code);

struct Grid {
  unsigned blocks = 1, threads = 1;
  unsigned shared_bytes = 0;
  unsigned blocks_y = 1;
};
// Enough blocks of `threads` for `count` pieces of work, at most as many as keep the device busy: kernels walk in steps
// of the grid.
Grid GridFor(const Device& device, int64_t count, unsigned threads = 256);

void LaunchRaw(const Device& device, Function function, const Grid& grid, void** parameters);

// On the calling thread's stream. Parameters must have exactly the types of the kernel's.
template <class... Parameters>
void Launch(const Device& device, Function function, const Grid& grid, Parameters... parameters) {
  void* addresses[] = {&parameters...};
  LaunchRaw(device, function, grid, addresses);
}

}  // namespace ferry::cuda
