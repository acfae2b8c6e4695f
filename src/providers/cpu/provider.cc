#include "engine/provider.h"

#include "providers/cpu/kernels.h"

namespace ferry {
namespace {

class PortableKernel final : public Kernel {
 public:
  explicit PortableKernel(const Operator& op) : op_(op) {}
  void Run(OpContext& context) const override { op_.compute(context); }
  bool ReadsAnywhere(size_t input) const override { return input < 32 && (op_.reads_anywhere >> input & 1); }

 private:
  const Operator& op_;
};

class Cpu final : public Provider {
 public:
  std::string_view name() const override { return "cpu"; }
  std::unique_ptr<Kernel> MakeKernel(const KernelRequest& request) const override {
    if (auto kernel = MakeMatMulKernel(request)) return kernel;
    if (auto kernel = MakeConvKernel(request)) return kernel;
    if (auto kernel = MakeConvTransposeKernel(request)) return kernel;
    if (auto kernel = MakeLstmKernel(request)) return kernel;
    if (auto kernel = MakeRowKernel(request)) return kernel;
    if (auto kernel = MakeIntegerProductKernel(request)) return kernel;
    if (auto kernel = MakeQuantizedConvKernel(request)) return kernel;
    if (auto kernel = MakeQuantizeKernel(request)) return kernel;
    if (auto kernel = MakeConcatKernel(request)) return kernel;
    if (auto kernel = MakeImageKernel(request)) return kernel;
    if (auto kernel = MakeElementwiseKernel(request)) return kernel;
    return std::make_unique<PortableKernel>(request.op);
  }
};

}  // namespace

Kernel::~Kernel() = default;

void Kernel::SetRows(RowLayout rows) { rows_ = std::move(rows); }

const Provider& CpuProvider() {
  static const Cpu cpu;
  return cpu;
}

const Provider& FindProvider(std::string_view name) {
  if (name == CpuProvider().name()) return CpuProvider();
  Fail(ErrorCode::kInvalidArgument, "there is no provider '", Printable(name), "'; there is: cpu");
}

}  // namespace ferry
