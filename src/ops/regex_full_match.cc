#include <re2/re2.h>

#include "ops/operator.h"

namespace ferry {
namespace {

std::shared_ptr<const RE2> Compile(const std::string& pattern) {
  RE2::Options options;
  options.set_log_errors(false);
  auto compiled = std::make_shared<const RE2>(pattern, options);
  if (!compiled->ok())
    Fail(ErrorCode::kInvalidModel, "pattern '", Printable(pattern),
         "' is not a regular expression of RE2: ", compiled->error());
  return compiled;
}

void ComputeRegexFullMatch(OpContext& context) {
  const Tensor& x = context.Input(0);
  const std::string* strings = x.Data<std::string>();
  if (!context.node().Has("pattern")) Fail(ErrorCode::kInvalidModel, "attribute 'pattern' is missing");
  auto compiled =
      context.Prepared<std::shared_ptr<const RE2>>([&] { return Compile(context.node().String("pattern", "")); });
  bool* out = context.Output(0, DType::kBool, x.shape()).MutableData<bool>();
  context.ParallelFor(x.size(), 256, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = RE2::FullMatch(strings[i], **compiled);
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
