#include <algorithm>
#include <map>

#include "base/check_run.h"
#include "ops/operator.h"
#include "ops/support/infer.h"

namespace ferry {
namespace {

// The n-grams of the pool as a tree: each path of tokens from the root is an n-gram or the beginning of one.
struct NGramTree {
  struct Branch {
    int64_t ngram = -1;  // its number in the pool, when the path to here is one
    std::map<int64_t, size_t> next;
  };
  std::vector<Branch> branches = {{}};
  std::map<std::string, int64_t, std::less<>> token_of_string;

  void Add(const std::vector<int64_t>& tokens, int64_t ngram) {
    size_t at = 0;
    for (int64_t token : tokens) {
      auto [entry, is_new] = branches[at].next.try_emplace(token, branches.size());
      at = entry->second;
      if (is_new) branches.emplace_back();
    }
    branches[at].ngram = ngram;
  }
};

enum class Weighting : uint8_t { kTf, kIdf, kTfIdf };

struct Vectorizer {
  NGramTree tree;
  int64_t shortest, longest, most_skipped, width;
  Weighting weighting;
  bool has_strings;
  std::vector<int64_t> columns;
  std::vector<float> weights;
};

int64_t OutputWidth(const Node& node) {
  int64_t width = 0;
  for (int64_t column : node.Ints("ngram_indexes")) {
    Require(column >= 0 && column < INT32_MAX, "ngram_indexes has ", column, ", which is no column");
    width = std::max(width, column + 1);
  }
  Require(width > 0, "ngram_indexes is empty");
  return width;
}

// Numbers for the tokens of a string pool; an integer pool is its own.
std::vector<int64_t> PoolTokens(const Node& node, NGramTree& tree) {
  bool has_strings = node.Has("pool_strings"), has_ints = node.Has("pool_int64s");
  Require(has_strings != has_ints, "exactly one of pool_strings and pool_int64s must be given");
  if (has_ints) return node.Ints("pool_int64s");
  std::vector<int64_t> tokens;
  for (const std::string& text : node.Strings("pool_strings"))
    tokens.push_back(
        tree.token_of_string.try_emplace(text, static_cast<int64_t>(tree.token_of_string.size())).first->second);
  return tokens;
}

Vectorizer Build(const Node& node) {
  Vectorizer made{};
  made.shortest = node.Int("min_gram_length", 0);
  made.longest = node.Int("max_gram_length", 0);
  made.most_skipped = node.Int("max_skip_count", -1);
  Require(made.shortest > 0 && made.longest >= made.shortest, "gram lengths from ", made.shortest, " to ", made.longest,
          " are not a range of positive numbers");
  Require(made.most_skipped >= 0, "max_skip_count ", made.most_skipped, " is negative or missing");
  std::string mode = node.String("mode", "");
  Require(mode == "TF" || mode == "IDF" || mode == "TFIDF", "mode '", Printable(mode),
          "' is not one of TF, IDF, TFIDF");
  made.weighting = mode == "TF" ? Weighting::kTf : mode == "IDF" ? Weighting::kIdf : Weighting::kTfIdf;
  made.width = OutputWidth(node);
  made.columns = node.Ints("ngram_indexes");
  made.weights = node.Floats("weights");
  Require(made.weights.empty() || made.weights.size() == made.columns.size(), "weights has ", made.weights.size(),
          " numbers for ", made.columns.size(), " n-grams");
  made.has_strings = node.Has("pool_strings");
  std::vector<int64_t> tokens = PoolTokens(node, made.tree), starts = node.Ints("ngram_counts");
  auto total = static_cast<int64_t>(tokens.size());
  int64_t ngram = 0;
  for (size_t length = 1; length <= starts.size(); ++length) {
    int64_t begin = starts[length - 1], end = length < starts.size() ? starts[length] : total;
    Require(begin >= 0 && begin <= end && end <= total, "ngram_counts [", Join(starts, ", "),
            "] are not rising positions in a pool of ", total);
    int64_t count = (end - begin) / static_cast<int64_t>(length);
    Require(count * static_cast<int64_t>(length) == end - begin, "the ", length, "-grams of the pool are incomplete");
    bool is_used = static_cast<int64_t>(length) >= made.shortest && static_cast<int64_t>(length) <= made.longest;
    for (int64_t i = 0; i < count; ++i, ++ngram) {
      Require(ngram < static_cast<int64_t>(made.columns.size()), "the pool has more n-grams than ngram_indexes");
      auto first = tokens.begin() + begin + i * static_cast<int64_t>(length);
      if (is_used) made.tree.Add({first, first + static_cast<int64_t>(length)}, ngram);
    }
  }
  return made;
}

std::vector<int64_t> RowTokens(const Vectorizer& vectorizer, const Tensor& x, int64_t begin, int64_t count) {
  std::vector<int64_t> tokens;
  if (!vectorizer.has_strings) {
    Require(x.dtype() == DType::kInt64 || x.dtype() == DType::kInt32, "the pool has integers, the input is ",
            x.dtype());
    for (int64_t i = begin; i < begin + count; ++i)
      tokens.push_back(x.dtype() == DType::kInt64 ? x.Data<int64_t>()[i] : x.Data<int32_t>()[i]);
    return tokens;
  }
  for (int64_t i = begin; i < begin + count; ++i) {
    auto found = vectorizer.tree.token_of_string.find(x.Data<std::string>()[i]);
    tokens.push_back(found == vectorizer.tree.token_of_string.end() ? -1 : found->second);
  }
  return tokens;
}

std::vector<int64_t> CountNGrams(const Vectorizer& vectorizer, const std::vector<int64_t>& tokens) {
  std::vector<int64_t> counts(vectorizer.columns.size());
  auto length = static_cast<int64_t>(tokens.size());
  // Distances beyond the row find nothing but single tokens, which count once.
  int64_t farthest = std::min(vectorizer.most_skipped, std::max<int64_t>(0, length - 1)) + 1;
  for (int64_t distance = 1; distance <= farthest; ++distance) {
    for (int64_t start = 0; start < length; ++start) {
      size_t at = 0;
      int64_t size = 1;
      for (int64_t i = start; i < length && size <= vectorizer.longest; i += distance, ++size) {
        const auto& next = vectorizer.tree.branches[at].next;
        auto found = next.find(tokens[static_cast<size_t>(i)]);
        if (found == next.end()) break;
        at = found->second;
        int64_t ngram = vectorizer.tree.branches[at].ngram;
        if (ngram >= 0 && size >= vectorizer.shortest && (size > 1 || distance == 1))
          ++counts[static_cast<size_t>(ngram)];
      }
    }
  }
  return counts;
}

void ComputeTfIdfVectorizer(OpContext& context) {
  const Tensor& x = context.Input(0);
  Require(x.rank() == 1 || x.rank() == 2, "the input must have shape [C] or [N, C], has ", x.shape());
  auto vectorizer = context.Prepared<Vectorizer>([&] { return Build(context.node()); });
  int64_t rows = x.rank() == 2 ? x.dim(0) : 1, length = x.shape().back();
  Shape shape = x.rank() == 2 ? Shape{rows, vectorizer->width} : Shape{vectorizer->width};
  float* out = context.Output(0, DType::kFloat, shape).MutableData<float>();
  std::fill_n(out, rows * vectorizer->width, 0.0f);
  for (int64_t row = 0; row < rows; ++row) {
    CheckRun();
    std::vector<int64_t> counts = CountNGrams(*vectorizer, RowTokens(*vectorizer, x, row * length, length));
    for (size_t ngram = 0; ngram < counts.size(); ++ngram) {
      if (counts[ngram] == 0) continue;
      bool is_weighted = vectorizer->weighting != Weighting::kTf && !vectorizer->weights.empty();
      float count = vectorizer->weighting == Weighting::kIdf ? 1.0f : static_cast<float>(counts[ngram]);
      out[row * vectorizer->width + vectorizer->columns[ngram]] +=
          is_weighted ? count * vectorizer->weights[ngram] : count;
    }
  }
}

void InferTfIdfVectorizer(InferContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  if (!x) return context.SetOutput(0, DType::kFloat);
  Require(x->size() == 1 || x->size() == 2, "the input must have shape [C] or [N, C], has ", *x);
  SymbolicShape shape = *x;
  shape.back() = Dim(OutputWidth(context.node()));
  context.SetOutput(0, DType::kFloat, std::move(shape));
}

}  // namespace

FERRY_OPERATOR(TfIdfVectorizer, {.compute = ComputeTfIdfVectorizer, .infer = InferTfIdfVectorizer});

}  // namespace ferry
