#include "providers/cuda/provider.h"

#include "providers/cuda/operators.h"
#include "providers/cuda/pipeline.h"
#include "providers/cuda/record.h"

namespace ferry {
namespace {

class CudaCompiler final : public Compiler {
 public:
  CudaCompiler(const cuda::Device& device, Precision precision)
      : settings_{&device, precision == Precision::kTf32,
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
    return std::make_unique<CudaCompiler>(cuda::Device::Get(), options.precision);
  }
  std::unique_ptr<RecordedWork> Record(FunctionRef<void()> work) const override {
    return cuda::RecordGraph(cuda::Device::Get(), work);
  }
};

}  // namespace

const Provider& MakeCudaProvider() {
  static const Cuda provider;
  return provider;
}

}  // namespace ferry
