#include "providers/cpu/provider.h"

#include "kernels/isa.h"
#include "providers/cpu/image_chains.h"
#include "providers/cpu/kernels.h"
#include "providers/cpu/pipeline.h"
#include "providers/cpu/place_concats.h"
#include "providers/cpu/tuner.h"

namespace ferry {
namespace {

// To be raised whenever a form of packed weights changes its layout under the same name.
constexpr int kPackingVersion = 2;

class PortableKernel final : public CpuKernel {
 public:
  explicit PortableKernel(const Operator& op) : op_(op) {}
  std::string name() const override { return op_.is_view ? "view" : "portable"; }
  void Run(OpContext& context) const override { op_.compute(context); }
  bool IsPortable() const override { return true; }

 private:
  const Operator& op_;
};

using KernelMaker = std::unique_ptr<CpuKernel> (*)(const CpuKernelRequest&);
constexpr KernelMaker kMakers[] = {
    MakeMatMulKernel,   MakeConvKernel,           MakeConvTransposeKernel, MakeLstmKernel,     MakeRowKernel,
    MakeFloatMapKernel, MakeIntegerProductKernel, MakeQuantizedConvKernel, MakeQuantizeKernel, MakeConcatKernel,
    MakeNhwcKernel,     MakeElementwiseKernel,    MakeNbitsMatMulKernel,
};

std::unique_ptr<CpuKernel> MakeKernel(const CpuKernelRequest& request) {
  for (KernelMaker make : kMakers)
    if (auto kernel = make(request)) return kernel;
  return std::make_unique<PortableKernel>(request.op);
}

std::unique_ptr<Tuner> MakeTuner(const std::string& file) {
  if (file.empty()) return nullptr;
  return std::make_unique<Tuner>(file == "none" ? "" : file);
}

class CpuCompiler final : public Compiler {
 public:
  explicit CpuCompiler(const ProviderOptions& options)
      : tuner_(MakeTuner(options.tune)), policy_{options.exact, tuner_.get(), options.precision} {}

  void Rewrite(Graph& graph) const override { Optimize(graph); }
  std::shared_ptr<Graph> RewriteForShapes(const Graph& graph, const FactsByName& inputs,
                                          GraphFacts& facts) const override {
    return Specialize(graph, inputs, facts);
  }

  std::optional<ChosenKernel> Choose(const KernelRequest& request) const override {
    std::unique_ptr<CpuKernel> kernel = MakeKernel({request, policy_});
    KernelPlan plan{.name = kernel->name(), .writes_strided = kernel->WritesStrided()};
    // What only moves elements copies bytes.
    if (request.op.moves_elements || !kernel->IsPortable()) plan.reads_anywhere = request.op.reads_anywhere;
    for (size_t i = 0; i < request.inputs.size() && i < 32; ++i) {
      plan.reads_strided |= uint32_t{kernel->ReadsStrided(i)} << i;
      plan.packs |= uint32_t{kernel->Packs(i)} << i;
    }
    return ChosenKernel{std::move(plan), std::move(kernel)};
  }

  std::vector<ImageChain> FindChains(std::span<const Node* const> nodes, const OuterFacts& facts,
                                     const std::vector<std::string>& results) const override {
    return FindImageChains(nodes, facts, results);
  }
  std::vector<PartPlace> PlaceParts(const Plan& plan, const std::vector<int>& viewed,
                                    const OuterFacts& facts) const override {
    return PlaceConcats(plan, viewed, facts);
  }

  void Save() const override {
    if (tuner_) tuner_->Save();
  }

 private:
  const std::unique_ptr<Tuner> tuner_;
  const KernelPolicy policy_;
};

class Cpu final : public Provider {
 public:
  std::string_view name() const override { return "cpu"; }
  std::string Fingerprint(const ProviderOptions& options) const override {
    return Cat("packing ", kPackingVersion, ", instructions ", static_cast<int>(BestIsa()),
               options.exact ? ", exact" : "", options.tune.empty() ? "" : ", tuned", ", precision ",
               static_cast<int>(options.precision));
  }
  std::unique_ptr<const Compiler> Open(const ProviderOptions& options) const override {
    return std::make_unique<CpuCompiler>(options);
  }
};

}  // namespace

const Provider& MakeCpuProvider() {
  static const Cpu cpu;
  return cpu;
}

}  // namespace ferry
