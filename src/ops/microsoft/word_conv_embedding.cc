// Words of characters to vectors: characters are looked up, convolved over a window, and the largest tanh of each
// feature is kept. As ONNX Runtime has it, only the first two axes of Sequence count, and a word ends where its zeros
// begin.
#include <cmath>
#include <vector>

#include "ops/operator.h"

namespace ferry {
namespace {

void ComputeWordConvEmbedding(OpContext& context) {
  const Node& node = context.node();
  const Tensor &words = context.Input(0), &w = context.Input(1), &bias = context.Input(2), &table = context.Input(3);
  Require(words.rank() >= 2 && words.dtype() == DType::kInt32 && w.rank() == 4 && table.rank() == 2 &&
              bias.shape() == Shape{w.dim(0)} && table.dim(1) == w.dim(3),
          "Sequence ", words.shape(), ", W ", w.shape(), ", B ", bias.shape(), " and C ", table.shape(),
          " do not go together");
  int64_t count = words.dim(0), length = words.dim(1), features = w.dim(0), window = w.dim(2), size = w.dim(3);
  Require(words.size() >= count * length, "Sequence ", words.shape(), " has no elements");
  Require(window >= 1 && window <= length && w.dim(1) == 1, "a window of ", window, " does not fit words of ", length);
  auto matches = [&](const char* name, int64_t actual) {
    int64_t wanted = node.Int(name, -1);
    Require(wanted == -1 || wanted == actual, "attribute '", name, "' is ", wanted, ", the inputs have ", actual);
  };
  matches("embedding_size", features);
  matches("conv_window_size", window);
  matches("char_embedding_size", size);
  Tensor& y = context.Output(0, DType::kFloat, Shape{count, features});
  std::vector<float> looked(static_cast<size_t>(length * size));
  for (int64_t word = 0; word < count; ++word) {
    const int32_t* letters = words.Data<int32_t>() + word * length;
    int64_t used = 0;
    for (int64_t i = 0; i < length && letters[0] > 0; ++i) used += letters[i] > 0 ? 1 : 0;
    float* out = y.MutableData<float>() + word * features;
    std::fill_n(out, features, used > 0 ? -1e12f : 0.0f);
    if (used == 0) continue;
    std::fill(looked.begin(), looked.end(), 0.0f);
    int64_t read = std::max(used, window);
    for (int64_t i = 0; i < read; ++i)
      if (letters[i] >= 0 && letters[i] < table.dim(0))
        std::copy_n(table.Data<float>() + letters[i] * size, size, looked.begin() + i * size);
    for (int64_t at = 0; at + window <= read; ++at)
      for (int64_t f = 0; f < features; ++f) {
        float sum = bias.Data<float>()[f];
        const float *weights = w.Data<float>() + f * window * size, *from = looked.data() + at * size;
        for (int64_t k = 0; k < window * size; ++k) sum += weights[k] * from[k];
        out[f] = std::max(out[f], std::tanh(sum));
      }
  }
}

void InferWordConvEmbedding(InferContext& context) {
  const SymbolicShape *words = context.InputShape(0), *w = context.InputShape(1);
  SymbolicShape shape(2);
  if (words && !words->empty()) shape[0] = (*words)[0];
  if (w && !w->empty()) shape[1] = (*w)[0];
  context.SetOutput(0, DType::kFloat, std::move(shape));
}

}  // namespace

FERRY_OPERATOR_IN(microsoft, WordConvEmbedding, {.compute = ComputeWordConvEmbedding, .infer = InferWordConvEmbedding});

}  // namespace ferry
