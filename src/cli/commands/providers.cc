#include <thread>

#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "kernels/isa.h"
#include "providers/cuda/device.h"

namespace ferry::cli {
namespace {

constexpr Example kExamples[] = {
    {"ferry providers", "what can run a model on this machine, and what is missing?"},
    {"ferry providers --json", "the same for a script"},
};

const char* Instructions() {
  switch (BestIsa()) {
    case Isa::kBaseline: return "baseline";
    case Isa::kSse4: return "SSE4";
    case Isa::kAvx2: return "AVX2";
    case Isa::kAvx512: return "AVX-512";
    case Isa::kNeon: return "NEON";
    case Isa::kWasm: return "WebAssembly";
  }
  return "";
}

std::string ComputeCapability(const cuda::DeviceFacts& device) {
  return Cat(device.compute_major, ".", device.compute_minor);
}

bool CudaIsUsable(const std::vector<cuda::DeviceFacts>& devices) {
  bool usable = !devices.empty();
  for (const cuda::LibraryReport* report : cuda::AllReports()) usable &= report->usable();
  return usable;
}

Json CpuJson() {
  return Json()
      .Set("name", "cpu")
      .Set("usable", true)
      .Set("instructions", Instructions())
      .Set("threads", std::thread::hardware_concurrency());
}

Json CudaJson(const std::vector<cuda::DeviceFacts>& devices) {
  Json found = Json::Array{}, libraries = Json::Array{};
  for (const cuda::DeviceFacts& device : devices)
    found.Add(Json()
                  .Set("id", device.ordinal)
                  .Set("name", device.name)
                  .Set("memory_bytes", device.total_bytes)
                  .Set("compute_capability", ComputeCapability(device))
                  .Set("multiprocessors", device.multiprocessors));
  for (const cuda::LibraryReport* report : cuda::AllReports()) {
    Json library = Json().Set("name", report->name).Set("usable", report->usable());
    library.Set("file", report->file).Set("version", report->version);
    if (!report->usable()) library.Set("problem", report->problem).Set("remedy", report->remedy);
    libraries.Add(std::move(library));
  }
  return Json()
      .Set("name", "cuda")
      .Set("usable", CudaIsUsable(devices))
      .Set("devices", std::move(found))
      .Set("libraries", std::move(libraries));
}

std::string CudaText(const std::vector<cuda::DeviceFacts>& devices) {
  std::string out = Cat("cuda: ", CudaIsUsable(devices) ? "can be used" : "cannot be used", "\n");
  Columns columns;
  for (const cuda::DeviceFacts& device : devices)
    columns.Add(
        {Cat("device cuda:", device.ordinal),
         Cat(Printable(device.name), ", ", HumanBytes(static_cast<double>(device.total_bytes)), ", compute capability ",
             ComputeCapability(device), ", ", Plural(device.multiprocessors, "multiprocessor"))});
  if (devices.empty()) columns.Add({"devices", "none is found"});
  for (const cuda::LibraryReport* report : cuda::AllReports()) {
    columns.Add({report->name, report->usable() ? Cat(report->version, " (", Printable(report->file), ")")
                                                : Cat("missing: ", report->problem)});
    if (!report->usable()) columns.Add({"", report->remedy});
  }
  return out + columns.Text();
}

int Run(const Arguments& arguments) {
  const std::vector<cuda::DeviceFacts> devices = cuda::FindDevices();
  if (arguments.json()) {
    PrintJson(Json().Set("providers", Json(Json::Array{CpuJson(), CudaJson(devices)})));
    return kGood;
  }
  Print(Cat("cpu: can be used\n  instructions  ", Instructions(), "\n  threads       ",
            std::thread::hardware_concurrency(), "\n"));
  Print(CudaText(devices));
  return kGood;
}

}  // namespace

extern const Command command_providers;
constinit const Command command_providers = {
    .name = "providers",
    .group = Group::kFerry,
    .summary = "List what can run a model on this machine, and what is missing",
    .details =
        "A provider runs models on one kind of machine: cpu always, cuda on NVIDIA's GPUs. For each the devices, "
        "libraries and versions that were found are listed, and for what is missing how to get it.",
    .examples = kExamples,
    .run = Run,
};

}  // namespace ferry::cli
