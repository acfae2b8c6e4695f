#include <unordered_set>

#include "base/poll.h"
#include "ops/operator.h"
#include "ops/support/unicode.h"

namespace ferry {
namespace {

enum class CaseChange : uint8_t { kNone, kLower, kUpper };

CaseChange ReadCaseChange(const Node& node) {
  std::string action = node.String("case_change_action", "NONE");
  if (action == "NONE") return CaseChange::kNone;
  if (action == "LOWER") return CaseChange::kLower;
  if (action == "UPPER") return CaseChange::kUpper;
  Fail(ErrorCode::kInvalidModel, "case_change_action '", Printable(action), "' is not one of NONE, LOWER, UPPER");
}

void ComputeStringNormalizer(OpContext& context) {
  const Tensor& x = context.Input(0);
  Require(x.rank() == 1 || (x.rank() == 2 && x.dim(0) == 1), "the input must have shape [C] or [1, C], has ",
          x.shape());
  CaseChange change = ReadCaseChange(context.node());
  bool case_sensitive = context.node().Int("is_case_sensitive", 0) != 0;
  std::unordered_set<std::string> stopwords;
  for (const std::string& word : context.node().Strings("stopwords"))
    stopwords.insert(case_sensitive ? word : LowerCase(word));

  std::vector<std::string> kept;
  Poll poll;
  for (const std::string& word : x.Span<std::string>()) {
    poll();
    if (!stopwords.empty() && stopwords.count(case_sensitive ? word : LowerCase(word))) continue;
    kept.push_back(change == CaseChange::kNone    ? word
                   : change == CaseChange::kLower ? LowerCase(word)
                                                  : UpperCase(word));
  }
  if (kept.empty()) kept.emplace_back();
  auto count = static_cast<int64_t>(kept.size());
  Tensor& out = context.Output(0, DType::kString, x.rank() == 1 ? Shape{count} : Shape{1, count});
  std::move(kept.begin(), kept.end(), out.MutableData<std::string>());
}

void InferStringNormalizer(InferContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  if (!x) return context.SetOutput(0, DType::kString);
  SymbolicShape shape = *x;
  Require(shape.size() == 1 || shape.size() == 2, "the input must have shape [C] or [1, C], has ", *x);
  if (shape.size() == 2) shape[0] = Dim(1);
  // Stop words may go; when nothing is left one empty string stands for it.
  bool keeps_all = context.node().Strings("stopwords").empty();
  bool is_empty = shape.back().known() && *shape.back().value == 0;
  if (is_empty)
    shape.back() = Dim(1);
  else if (!(keeps_all && shape.back().known()))
    shape.back() = Dim();
  context.SetOutput(0, DType::kString, std::move(shape));
}

}  // namespace

FERRY_OPERATOR(StringNormalizer, {.compute = ComputeStringNormalizer, .infer = InferStringNormalizer});

}  // namespace ferry
