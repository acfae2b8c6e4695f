#include "ops/support/scatter.h"

#include "ops/support/movement.h"

namespace ferry {

void ScatterOver(OpContext& context, const Tensor& data, const Tensor& updates,
                 FunctionRef<void(const Tensor&, Tensor&)> write) {
  Require(updates.dtype() == data.dtype(), "data is ", data.dtype(), ", updates are ", updates.dtype());
  Tensor source = Movable(data), changes = Movable(updates);
  WriteMoved(context, 0, data.dtype(), data.shape(), [&](Tensor& out) {
    bool in_place = out.dtype() != DType::kString && out.raw() == source.raw();
    if (in_place && changes.raw() == out.raw()) changes = changes.Clone();
    if (!in_place) CopyStrided(context, source, 0, out, 0, {{out.size(), 1, 1}});
    write(changes, out);
  });
}

}  // namespace ferry
