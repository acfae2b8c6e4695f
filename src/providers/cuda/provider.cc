#include "providers/cuda/provider.h"

#include "providers/cuda/choices.h"
#include "providers/cuda/launch.h"
#include "providers/cuda/operators.h"
#include "providers/cuda/pipeline.h"
#include "providers/cuda/record.h"
#include "providers/cuda/state.h"

namespace ferry {
namespace {

// What plans name the device's memory by where there is no device: nothing runs there.
class PlannedMemory final : public MemorySpace {
 public:
  std::string_view name() const override { return "cuda:0"; }
  std::byte* Allocate(size_t bytes) override { return HostMemory().Allocate(bytes); }
  void Free(std::byte* data, size_t bytes) override { HostMemory().Free(data, bytes); }
  void CopyFromHost(std::byte* to, const std::byte* from, size_t bytes) override { CopyInside(to, from, bytes); }
  void CopyToHost(std::byte* to, const std::byte* from, size_t bytes) override { CopyInside(to, from, bytes); }
  void CopyInside(std::byte* to, const std::byte* from, size_t bytes) override {
    HostMemory().CopyInside(to, from, bytes);
  }
};

const cuda::LibraryReport* FirstMissing() {
  for (const cuda::LibraryReport* report : cuda::AllReports())
    if (!report->usable()) return report;
  return nullptr;
}

class CudaCompiler final : public Compiler {
 public:
  // Without a device it only plans.
  CudaCompiler(const cuda::Device* device, Precision precision)
      : settings_{device, precision == Precision::kTf32,
                  precision == Precision::kFp16   ? DType::kFloat16
                  : precision == Precision::kBf16 ? DType::kBFloat16
                                                  : DType::kUndefined} {}

  void Rewrite(Graph& graph) const override { cuda::Rewrite(graph, settings_); }
  std::shared_ptr<Graph> RewriteForShapes(const Graph& graph, const FactsByName& inputs,
                                          GraphFacts& facts) const override {
    return cuda::RewriteForShapes(graph, inputs, facts, settings_, weights_);
  }
  std::optional<ChosenKernel> Choose(const KernelRequest& request) const override {
    return cuda::ChooseOperator({request, settings_});
  }
  bool LeavesToHost(const KernelRequest& request) const override {
    return cuda::IsArithmeticOnShapes({request, settings_});
  }

 private:
  const cuda::Settings settings_;
  mutable cuda::LoweredWeights weights_;
};

class Cuda final : public Provider {
 public:
  std::string_view name() const override { return "cuda"; }
  std::string WhyUnusable() const override {
    if (IsThere()) return {};
    if (const cuda::LibraryReport* missing = FirstMissing()) return missing->WhatIsMissing();
    return "the driver finds no GPU; 'ferry providers' says more";
  }
  MemorySpace& memory() const override {
    static PlannedMemory planned;
    return IsThere() ? static_cast<MemorySpace&>(cuda::Device::Get().memory()) : planned;
  }
  std::string Fingerprint(const ProviderOptions&) const override {
    if (!IsThere()) return "no device";
    const cuda::DeviceFacts& facts = cuda::Device::Get().facts();
    std::string text = Cat(facts.name, ", compute capability ", facts.compute_major, ".", facts.compute_minor);
    for (const cuda::LibraryReport* report : cuda::AllReports()) text += Cat(", ", report->name, " ", report->version);
    return text;
  }
  std::unique_ptr<const Compiler> Open(const ProviderOptions& options) const override {
    if (options.only_plans && !IsThere()) return std::make_unique<CudaCompiler>(nullptr, options.precision);
    // All of them before a model is read: what is missing is said at once.
    if (const std::string why = WhyUnusable(); !why.empty())
      Fail(ErrorCode::kUnsupported, "provider cuda cannot be used here: ", why);
    const cuda::Device& device = cuda::Device::Get();
    if (options.device_memory > 0) device.memory().SetLimit(options.device_memory);
    return std::make_unique<CudaCompiler>(&device, options.precision);
  }
  std::string State() const override {
    const cuda::Device& device = cuda::Device::Get();
    return ToBytes(cuda::ReadyState{cuda::LoadedCode(device), cuda::Choices::Of(device).All()});
  }
  void Restore(std::string_view state) const override {
    const cuda::Device& device = cuda::Device::Get();
    const cuda::ReadyState ready = cuda::ParseState(state);
    cuda::GiveCode(device, ready.kernels);
    cuda::Choices::Of(device).Add(ready.choices);
  }
  void WaitForDevice() const override {
    if (IsThere()) cuda::CheckDriver(cuda::Device::Get().Use().StreamSynchronize(nullptr), "cuStreamSynchronize");
  }
  std::unique_ptr<RecordedWork> Record(FunctionRef<void()> work) const override {
    const cuda::Device& device = cuda::Device::Get();
    std::unique_ptr<RecordedWork> recorded = cuda::RecordGraph(device, work);
    if (recorded) device.ReleaseIdle();  // what finding the fastest ways, and the runs before, used
    return recorded;
  }

 private:
  static bool IsThere() {
    static const bool there = !FirstMissing() && !cuda::FindDevices().empty();
    return there;
  }
};

}  // namespace

const Provider& MakeCudaProvider() {
  static const Cuda provider;
  return provider;
}

}  // namespace ferry
