#include "base/poll.h"
#include "ops/operator.h"
#include "ops/support/broadcast.h"
#include "ops/support/infer.h"
#include "ops/support/text.h"

namespace ferry {

static void ComputeStringConcat(OpContext& context) {
  const Tensor& a = context.Input(0);
  const Tensor& b = context.Input(1);
  const std::string *left = a.Data<std::string>(), *right = b.Data<std::string>();
  Shape shape = BroadcastShapes(a.shape(), b.shape());
  Tensor& result = context.Output(0, DType::kString, shape);
  std::string* out = result.MutableData<std::string>();
  Poll poll;
  ForEachRun<2>(shape, {&a.shape(), &b.shape()},
                [&](int64_t first, const auto& offsets, int64_t count, const auto& strides) {
                  for (int64_t i = 0; i < count; ++i) {
                    const std::string &x = left[offsets[0] + i * strides[0]], &y = right[offsets[1] + i * strides[1]];
                    poll();
                    ChargeText(result, x.size() + y.size());
                    AssignText(out[first + i], x, y);
                  }
                });
}

FERRY_OPERATOR(StringConcat,
               {.compute = ComputeStringConcat, .infer = InferElementwise, .elementwise = Elementwise::kOfSeveral});

}  // namespace ferry
