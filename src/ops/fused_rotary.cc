// FusedRotary: x · cos + turned(x) · sin for float, where turned(x) is (−b, a) for the pairs (a, b) of the last axis.
// Made by passes/fuse_rotary. Cosines and sines are as wide as x, or half as wide: one for each pair; outer axes
// broadcast.
#include <algorithm>

#include "ops/operator.h"
#include "ops/support/broadcast.h"
#include "ops/support/fused.h"
#include "ops/support/infer.h"
#include "ops/support/rotary.h"

namespace ferry {
namespace {

Shape Outer(const Shape& shape) {
  Shape outer;
  for (size_t i = 0; i + 1 < shape.rank(); ++i) outer.push_back(shape[i]);
  return outer;
}

void ComputeFusedRotary(OpContext& context) {
  const Tensor &x = context.Input(0), &cosines = context.Input(1), &sines = context.Input(2);
  Require(x.rank() >= 1 && cosines.rank() >= 1 && sines.rank() >= 1, "rotary embedding needs axes, not ", x.shape(),
          ", ", cosines.shape(), " and ", sines.shape());
  const int64_t count = x.shape().back(), width = cosines.shape().back();
  Require(count % 2 == 0 && (width == count || width == count / 2) && sines.shape().back() == width, "cosines ",
          cosines.shape(), " and sines ", sines.shape(), " do not fit pairs of ", x.shape());
  const Shape from = Outer(x.shape()), from_cosines = Outer(cosines.shape()), from_sines = Outer(sines.shape());
  const Shape outer = BroadcastShapes(from, BroadcastShapes(from_cosines, from_sines));
  Shape shape = outer;
  shape.push_back(count);
  Tensor& y = context.Output(0, DType::kFloat, shape);
  if (y.size() == 0) return;
  const bool interleaved = context.node().Int("interleaved", 0) != 0;
  BroadcastWalk<3> walk(outer, {&from, &from_cosines, &from_sines});
  const auto& strides = walk.run_strides();
  float* to = y.MutableData<float>();
  const int64_t grain = 1 + 16384 / std::max<int64_t>(1, walk.run_length() * count);
  context.ParallelFor(walk.runs(), grain, [&](int64_t begin, int64_t end) {
    walk.Visit(begin, end, [&](int64_t first, const std::array<int64_t, 3>& at) {
      for (int64_t i = 0; i < walk.run_length(); ++i)
        RotateRow({x.Data<float>() + (at[0] + i * strides[0]) * count,
                   cosines.Data<float>() + (at[1] + i * strides[1]) * width,
                   sines.Data<float>() + (at[2] + i * strides[2]) * width, count, width, interleaved,
                   to + (first + i) * count});
    });
  });
}

void InferFusedRotary(InferContext& context) {
  const SymbolicShape *x = context.InputShape(0), *cosines = context.InputShape(1), *sines = context.InputShape(2);
  if (!x || !cosines || !sines || x->empty() || cosines->empty() || sines->empty())
    return context.SetOutput(0, DType::kFloat);
  auto outer = [](const SymbolicShape& shape) { return SymbolicShape(shape.begin(), shape.end() - 1); };
  SymbolicShape shape = BroadcastSymbolic(outer(*x), BroadcastSymbolic(outer(*cosines), outer(*sines)));
  shape.push_back(x->back());
  context.SetOutput(0, DType::kFloat, shape);
}

}  // namespace

FERRY_OPERATOR_IN(internal, FusedRotary, {.compute = ComputeFusedRotary, .infer = InferFusedRotary});

}  // namespace ferry
