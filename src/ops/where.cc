#include <array>
#include <string>

#include "ops/support/elementwise.h"

namespace ferry {
namespace {

struct Bytes16 {
  uint64_t low, high;
};

// Choosing moves bits and looks at none of them: one loop per width serves every type.
template <class T>
void Choose(const OpContext& context, const Tensor& condition, const T* x, const Shape& x_shape, const T* y,
            const Shape& y_shape, T* out, const Shape& shape) {
  BroadcastWalk<3> walk(shape, {&condition.shape(), &x_shape, &y_shape});
  auto* chosen = reinterpret_cast<const uint8_t*>(condition.raw());
  const auto& steps = walk.run_strides();
  RunPieces(context, walk, [&](int64_t result, const std::array<int64_t, 3>& offsets, int64_t count) {
    const uint8_t* run_chosen = chosen + offsets[0];
    const T* run_x = x + offsets[1];
    const T* run_y = y + offsets[2];
    for (int64_t i = 0; i < count; ++i)
      out[result + i] = run_chosen[i * steps[0]] ? run_x[i * steps[1]] : run_y[i * steps[2]];
  });
}

template <class T>
void ChooseBits(const OpContext& context, const Tensor& condition, const Tensor& x, const Tensor& y, Tensor& out) {
  Choose(context, condition, reinterpret_cast<const T*>(x.raw()), x.shape(), reinterpret_cast<const T*>(y.raw()),
         y.shape(), reinterpret_cast<T*>(out.mutable_raw()), out.shape());
}

void ComputeWhere(OpContext& context) {
  const Tensor& condition = context.Input(0);
  const Tensor& x = context.Input(1);
  const Tensor& y = context.Input(2);
  Require(condition.dtype() == DType::kBool, "the condition must be bool, got ", condition.dtype());
  Require(x.dtype() == y.dtype(), "X and Y must have one element type, got ", x.dtype(), " and ", y.dtype());
  Shape shape = BroadcastShapes(BroadcastShapes(condition.shape(), x.shape()), y.shape());
  Tensor& out = context.Output(0, x.dtype(), shape);
  if (x.dtype() == DType::kString)
    return Choose(context, condition, x.Data<std::string>(), x.shape(), y.Data<std::string>(), y.shape(),
                  out.MutableData<std::string>(), shape);
  switch (BitWidth(x.dtype())) {
    case 8: return ChooseBits<uint8_t>(context, condition, x, y, out);
    case 16: return ChooseBits<uint16_t>(context, condition, x, y, out);
    case 32: return ChooseBits<uint32_t>(context, condition, x, y, out);
    case 64: return ChooseBits<uint64_t>(context, condition, x, y, out);
    case 128: return ChooseBits<Bytes16>(context, condition, x, y, out);
    default: Fail(ErrorCode::kUnsupported, "element type ", x.dtype(), " is not one this operator is defined for");
  }
}

void InferWhere(InferContext& context) {
  InferBroadcast(context, CommonDType(context, 1, 3), 0, 3);
  InferElements(context, 3, [](std::span<const Dim> x) {
    if (x[0].known()) return *x[0].value != 0 ? x[1] : x[2];
    return SameDim(x[1], x[2]) ? x[1] : Dim();
  });
}

}  // namespace

FERRY_OPERATOR(Where, {.compute = ComputeWhere,
                       .infer = InferWhere,
                       .in_place = kInput1 | kInput2,
                       .elementwise = Elementwise::kOfSeveral});

}  // namespace ferry
