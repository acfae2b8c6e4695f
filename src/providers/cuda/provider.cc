#include "providers/cuda/provider.h"

#include "providers/cuda/operators.h"
#include "providers/cuda/pipeline.h"
#include "providers/cuda/record.h"

namespace ferry {
namespace {

class CudaCompiler final : public Compiler {
 public:
  CudaCompiler(const cuda::Device& device, bool tf32) : settings_{&device, tf32} {}

  void Rewrite(Graph& graph) const override { cuda::Rewrite(graph); }
  std::shared_ptr<Graph> RewriteForShapes(const Graph& graph, const FactsByName& inputs,
                                          GraphFacts& facts) const override {
    return cuda::RewriteForShapes(graph, inputs, facts);
  }
  std::optional<ChosenKernel> Choose(const KernelRequest& request) const override {
    return cuda::ChooseOperator({request, settings_});
  }
  bool LeavesToHost(const KernelRequest& request) const override {
    return cuda::IsArithmeticOnShapes({request, settings_});
  }

 private:
  const cuda::Settings settings_;
};

class Cuda final : public Provider {
 public:
  std::string_view name() const override { return "cuda"; }
  MemorySpace& memory() const override { return cuda::Device::Get().memory(); }
  std::string Fingerprint(const ProviderOptions&) const override {
    const cuda::DeviceFacts& facts = cuda::Device::Get().facts();
    return Cat("cuda ", facts.name, " ", facts.compute_major, ".", facts.compute_minor);
  }
  std::unique_ptr<const Compiler> Open(const ProviderOptions& options) const override {
    // All of them before a model is read: what is missing is said at once.
    for (const cuda::LibraryReport* report : cuda::AllReports())
      if (!report->usable())
        Fail(ErrorCode::kUnsupported, "provider cuda cannot be used here: ", report->WhatIsMissing());
    if (options.precision == Precision::kBf16)
      Fail(ErrorCode::kUnsupported, "provider cuda has the precisions float32 and tf32");
    return std::make_unique<CudaCompiler>(cuda::Device::Get(), options.precision == Precision::kTf32);
  }
  std::unique_ptr<Recording> Record(FunctionRef<void()> work) const override {
    return cuda::RecordGraph(cuda::Device::Get(), work);
  }
};

}  // namespace

const Provider& MakeCudaProvider() {
  static const Cuda provider;
  return provider;
}

}  // namespace ferry
