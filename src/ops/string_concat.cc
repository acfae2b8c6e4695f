#include "ops/operator.h"
#include "ops/support/broadcast.h"
#include "ops/support/infer.h"

namespace ferry {

static void ComputeStringConcat(OpContext& context) {
  const Tensor& a = context.Input(0);
  const Tensor& b = context.Input(1);
  const std::string *left = a.Data<std::string>(), *right = b.Data<std::string>();
  Shape shape = BroadcastShapes(a.shape(), b.shape());
  std::string* out = context.Output(0, DType::kString, shape).MutableData<std::string>();
  ForEachRun<2>(shape, {&a.shape(), &b.shape()},
                [&](int64_t result, const auto& offsets, int64_t count, const auto& strides) {
                  for (int64_t i = 0; i < count; ++i)
                    out[result + i] = left[offsets[0] + i * strides[0]] + right[offsets[1] + i * strides[1]];
                });
}

FERRY_OPERATOR(StringConcat,
               {.compute = ComputeStringConcat, .infer = InferElementwise, .elementwise = Elementwise::kOfSeveral});

}  // namespace ferry
