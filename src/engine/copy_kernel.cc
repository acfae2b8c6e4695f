#include "engine/copy_kernel.h"

#include "tensor/copy.h"

namespace ferry {
namespace {

class CopyKernel final : public Kernel {
 public:
  void Run(OpContext& context) const override {
    const Value& from = context.InputValue(0);
    if (!from.is_tensor() || from.tensor().dtype() == DType::kString) return context.SetOutput(0, from);
    Tensor& to = context.Output(0, from.tensor().dtype(), from.tensor().shape());
    // It may have been made where it is wanted.
    if (to.address() != from.tensor().address() || &to.space() != &from.tensor().space()) CopyBytes(from.tensor(), to);
  }
};

}  // namespace

std::unique_ptr<Kernel> MakeCopyKernel() { return std::make_unique<CopyKernel>(); }

}  // namespace ferry
