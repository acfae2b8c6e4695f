// Speculative decoding by looking things up in the input: the tokens that were guessed right (and one more) are taken
// over, and the place in the source is found where their last few occur just once, to guess from there on.
#include <algorithm>

#include "ops/operator.h"

namespace ferry {
namespace {

std::vector<int64_t> ListOf(const Tensor& tensor, const char* what) {
  Require(tensor.rank() == 1 && tensor.dtype() == DType::kInt64, what, " must be a list of int64, is ", tensor.dtype(),
          tensor.shape());
  return ToInt64Vector(tensor);
}

// Where a run of the source that only the last tokens equal ends; −1 when there is none.
int64_t FindSuffix(const std::vector<int64_t>& source, const std::vector<int64_t>& tokens, int64_t least,
                   int64_t most) {
  int64_t found = -1;
  for (int64_t size = least; size <= most && size <= static_cast<int64_t>(tokens.size()); ++size) {
    auto at = std::search(source.begin(), source.end(), tokens.end() - size, tokens.end());
    if (at == source.end()) break;
    found = at - source.begin() + size;
    if (found >= static_cast<int64_t>(source.size())) break;
    if (std::search(at + 1, source.end(), tokens.end() - size, tokens.end()) != source.end()) found = -1;
  }
  return found;
}

void ComputeBifurcationDetector(OpContext& context) {
  int64_t least = context.node().Int("min_ngram_size", 1), most = context.node().Int("max_ngram_size", 3);
  Require(least > 0 && most >= least, "sizes of runs must be positive and in order, are ", least, " and ", most);
  std::vector<int64_t> source = ListOf(context.Input(0), "src_tokens"), tokens = ListOf(context.Input(1), "cur_tokens");
  const Tensor& previous = context.Input(2);
  std::vector<int64_t> last = ToInt64Vector(previous);
  Require(last.size() == 1, "prev_suffix_match_idx must be one number, has shape ", previous.shape());
  if (const Tensor* given = context.OptionalInput(3)) {
    std::vector<int64_t> guesses = ListOf(*given, "pred_tokens");
    auto length = static_cast<int64_t>(source.size());
    Require(last[0] >= 0 && last[0] <= length, "prev_suffix_match_idx is ", last[0], ", the source has ", length);
    Require(static_cast<int64_t>(guesses.size()) == length + 1 - last[0], "pred_tokens must have ",
            length + 1 - last[0], " tokens, has ", guesses.size());
    auto right = std::mismatch(source.begin() + last[0], source.end(), guesses.begin()).second;
    tokens.insert(tokens.end(), guesses.begin(), right + 1);
  }
  Tensor& out = context.Output(0, DType::kInt64, Shape{static_cast<int64_t>(tokens.size())});
  std::copy(tokens.begin(), tokens.end(), out.MutableData<int64_t>());
  *context.Output(1, DType::kInt64, previous.shape()).MutableData<int64_t>() = FindSuffix(source, tokens, least, most);
}

void InferBifurcationDetector(InferContext& context) {
  const SymbolicShape* tokens = context.InputShape(1);
  context.SetOutput(0, DType::kInt64, {!context.Has(3) && tokens && tokens->size() == 1 ? (*tokens)[0] : Dim()});
  context.SetOutput(1, context.InputType(2));
}

}  // namespace

FERRY_OPERATOR_IN(microsoft, BifurcationDetector,
                  {.compute = ComputeBifurcationDetector, .infer = InferBifurcationDetector});

}  // namespace ferry
