#include "base/poll.h"
#include "base/utf8.h"
#include "ops/operator.h"
#include "ops/support/infer.h"
#include "ops/support/text.h"
#include "ops/support/unicode.h"

namespace ferry {
namespace {

using Parts = std::vector<std::string_view>;

// At most `splits` cuts; negative means as many as there are.
Parts SplitAt(std::string_view text, std::string_view delimiter, int64_t splits) {
  Parts parts;
  size_t begin = 0;
  for (; splits != 0; --splits) {
    size_t end = text.find(delimiter, begin);
    if (end == std::string_view::npos) break;
    parts.push_back(text.substr(begin, end - begin));
    begin = end + delimiter.size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

Parts SplitAtWhitespace(std::string_view text, int64_t splits) {
  Parts parts;
  size_t word = std::string_view::npos;  // where the current one begins
  for (size_t place = 0; place < text.size();) {
    size_t here = place;
    bool is_space = IsWhitespace(NextCodePoint(text, place));
    if (word == std::string_view::npos) {
      if (is_space) continue;
      word = here;
      if (splits == 0) break;  // what is left stays in one piece
    } else if (is_space) {
      parts.push_back(text.substr(word, here - word));
      word = std::string_view::npos;
      --splits;
    }
  }
  if (word != std::string_view::npos) parts.push_back(text.substr(word));
  return parts;
}

void ComputeStringSplit(OpContext& context) {
  const Tensor& x = context.Input(0);
  std::string delimiter = context.node().String("delimiter", "");
  int64_t splits = context.node().Int("maxsplit", -1);
  std::vector<Parts> all;
  size_t most = 0;
  Poll poll;
  for (const std::string& text : x.Span<std::string>()) {
    poll();
    all.push_back(delimiter.empty() ? SplitAtWhitespace(text, splits) : SplitAt(text, delimiter, splits));
    most = std::max(most, all.back().size());
  }
  Shape shape = x.shape();
  shape.push_back(static_cast<int64_t>(most));
  Tensor& result = context.Output(0, DType::kString, shape);
  std::string* parts = result.MutableData<std::string>();
  int64_t* counts = context.Output(1, DType::kInt64, x.shape()).MutableData<int64_t>();
  for (size_t i = 0; i < all.size(); ++i) {
    poll();
    for (const std::string_view& part : all[i]) ChargeText(result, part.size());
    for (size_t k = 0; k < all[i].size(); ++k) AssignText(parts[i * most + k], all[i][k]);
    counts[i] = static_cast<int64_t>(all[i].size());
  }
}

void InferStringSplit(InferContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  if (!x) {
    context.SetOutput(0, DType::kString);
    return context.SetOutput(1, DType::kInt64);
  }
  SymbolicShape parts = *x;
  parts.emplace_back();
  context.SetOutput(0, DType::kString, std::move(parts));
  context.SetOutput(1, DType::kInt64, *x);
}

}  // namespace

FERRY_OPERATOR(StringSplit, {.compute = ComputeStringSplit, .infer = InferStringSplit});

}  // namespace ferry
