#include "engine/view_kernel.h"

namespace ferry {

bool KeepsOrder(const Shape& shape, const std::vector<int64_t>& order) {
  int64_t last = -1;
  for (int64_t axis : order) {
    if (axis < 0 || axis >= static_cast<int64_t>(shape.rank())) return false;
    if (shape[static_cast<size_t>(axis)] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return order.size() == shape.rank();
}

namespace {

class ViewKernel final : public Kernel {
 public:
  ViewKernel(const Operator& op, std::vector<int64_t> order) : compute_(op.compute), order_(std::move(order)) {}

  void Run(OpContext& context) const override {
    const Tensor& x = context.Input(0);
    if (!KeepsOrder(x.shape(), order_)) return compute_(context);
    Shape shape;
    for (int64_t axis : order_) shape.push_back(x.dim(static_cast<size_t>(axis)));
    context.SetOutput(0, x.Reshaped(shape));
  }

 private:
  void (*compute_)(OpContext&);
  std::vector<int64_t> order_;
};

}  // namespace

std::unique_ptr<Kernel> MakeViewKernel(const Operator& transpose, std::vector<int64_t> order) {
  return std::make_unique<ViewKernel>(transpose, std::move(order));
}

}  // namespace ferry
