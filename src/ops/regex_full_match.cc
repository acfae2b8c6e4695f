#include "ops/operator.h"
#include "ops/support/regular_expression.h"

namespace ferry {
namespace {

void ComputeRegexFullMatch(OpContext& context) {
  const Tensor& x = context.Input(0);
  const std::string* strings = x.Data<std::string>();
  if (!context.node().Has("pattern")) Fail(ErrorCode::kInvalidModel, "attribute 'pattern' is missing");
  auto compiled = context.Prepared<std::shared_ptr<const RegularExpression>>(
      [&] { return CompileExpression(context.node().String("pattern", "")); });
  bool* out = context.Output(0, DType::kBool, x.shape()).MutableData<bool>();
  context.ParallelFor(x.size(), 256, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = (*compiled)->MatchesAll(strings[i]);
  });
}

void InferRegexFullMatch(InferContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  if (x)
    context.SetOutput(0, DType::kBool, *x);
  else
    context.SetOutput(0, DType::kBool);
}

}  // namespace

FERRY_OPERATOR(RegexFullMatch,
               {.compute = ComputeRegexFullMatch, .infer = InferRegexFullMatch, .elementwise = Elementwise::kOfOne});

}  // namespace ferry
