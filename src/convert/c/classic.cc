// Operators of classic machine learning: trees, n-grams, picked features; and the steps of optimisers.
#include <algorithm>
#include <cmath>
#include <map>

#include "convert/c/kernels.h"
#include "ops/support/ml.h"
#include "ops/support/trees.h"

namespace ferry::c {
namespace {

template <class T, class Of>
Tensor Listed(DType type, size_t count, const Of& of) {
  Tensor table(type, Shape{static_cast<int64_t>(std::max<size_t>(count, 1))});
  std::fill_n(table.MutableData<T>(), table.size(), T{});
  for (size_t i = 0; i < count; ++i) table.MutableData<T>()[i] = static_cast<T>(of(i));
  return table;
}

void WritePostTransform(StepWriter& w, PostTransform transform, const std::string& s, int64_t count) {
  const std::string each = Cat("for (int t = 0; t < ", count, "; t++) ");
  switch (transform) {
    case PostTransform::kNone: return;
    case PostTransform::kLogistic: return w.Line(each, s, "[t] = 1.0 / (1.0 + exp(-", s, "[t]));");
    case PostTransform::kSoftmax:
    case PostTransform::kSoftmaxZero: {
      const bool zero = transform == PostTransform::kSoftmaxZero;
      w.Line("double most = ", s, "[0], whole = 0;");
      w.Line(each, "if (", s, "[t] > most) most = ", s, "[t];");
      w.Line(each, "whole += ", s, "[t] = ", zero ? Cat("fabs(", s, "[t]) <= 1e-7 ? 0.0 : ") : "", "exp(", s,
             "[t] - most);");
      return w.Line(each, s, "[t] = ", zero ? "whole == 0 ? 0.5 : " : "", s, "[t] / whole;");
    }
    case PostTransform::kProbit:
      w.Open(each.substr(0, each.size() - 1));
      w.Line("const double x = 2 * ", s, "[t] - 1, log_x = log((1 - x) * (1 + x));");
      w.Line("const double half = 4.330746750799873 + 0.5 * log_x;");
      w.Line("const double root = sqrt(sqrt(half * half - log_x / 0.147) - half);");
      w.Line(s, "[t] = 1.4142135623730951 * (x < 0 ? -root : root);");
      return w.Close();
  }
}

void WriteDecision(StepWriter& w, const TreeEnsembleModel& model, const std::string& threshold, const std::string& kind,
                   bool any_member, const std::string& c) {
  static constexpr const char* kCompare[] = {"<=", "<", ">=", ">", "==", "!="};
  bool used[8] = {};
  for (const TreeEnsembleModel::Branch& branch : model.branches) used[static_cast<size_t>(branch.mode)] = true;
  w.Line("int yes = 0;");
  w.Line("if (v != v) yes = ", kind, "[place] >> 4;");
  for (size_t mode = 0; mode < std::size(kCompare); ++mode)
    if (used[mode])
      w.Line("else if ((", kind, "[place] & 15) == ", mode, ") yes = v ", kCompare[mode], " ", threshold, "[place];");
  if (!any_member) return;
  auto set_of = [&](size_t i, bool end) {
    const int32_t set = model.branches[i].set;
    if (set < 0) return 0;
    return end ? model.sets[static_cast<size_t>(set)].end : model.sets[static_cast<size_t>(set)].begin;
  };
  const size_t count = model.branches.size();
  const std::string begins = w.Table(Listed<int32_t>(DType::kInt32, count, [&](size_t i) { return set_of(i, false); }));
  const std::string ends = w.Table(Listed<int32_t>(DType::kInt32, count, [&](size_t i) { return set_of(i, true); }));
  const std::string members =
      w.Table(Listed<double>(DType::kDouble, model.members.size(), [&](size_t i) { return model.members[i]; }));
  w.Line("else if ((", kind, "[place] & 15) == 6)");
  w.Line("  for (int k = ", begins, "[place]; k < ", ends, "[place]; k++) yes |= ", members, "[k] == (double)v;");
  (void)c;
}

void WriteTrees(StepWriter& w, const TreeEnsembleModel& model, Aggregate aggregate, PostTransform transform,
                const std::vector<double>& base) {
  const Operand &x = w.in[0], &y = w.out[0];
  const int64_t rows = y.shape[0], targets = model.targets, features = x.shape.back();
  Require(features >= model.features_needed, "the trees look at feature ", model.features_needed - 1,
          ", the input has ", features, " features");
  const std::vector<TreeEnsembleModel::Branch>& branches = model.branches;
  bool is_float = ArithmeticType(x.type) == DType::kFloat, any_member = false;
  for (const TreeEnsembleModel::Branch& branch : branches) {
    is_float = is_float && !(static_cast<double>(static_cast<float>(branch.threshold)) != branch.threshold);
    any_member |= branch.mode == BranchMode::kMember;
  }
  const std::string c = is_float ? "float" : "double";
  auto branch = [&](auto get) { return [&branches, get](size_t i) { return get(branches[i]); }; };
  using Branch = TreeEnsembleModel::Branch;
  const size_t count = branches.size();
  auto threshold_of = branch([](const Branch& b) { return b.threshold; });
  const std::string threshold = w.Table(is_float ? Listed<float>(DType::kFloat, count, threshold_of)
                                                 : Listed<double>(DType::kDouble, count, threshold_of));
  const std::string feature =
      w.Table(Listed<int32_t>(DType::kInt32, count, branch([](const Branch& b) { return b.feature; })));
  const std::string kind = w.Table(Listed<uint8_t>(DType::kUInt8, count, branch([](const Branch& b) {
                                                     return static_cast<int>(b.mode) | (b.nan_is_true ? 16 : 0);
                                                   })));
  const std::string children = w.Table(Listed<int32_t>(
      DType::kInt32, 2 * count, [&](size_t i) { return i % 2 ? branches[i / 2].if_false : branches[i / 2].if_true; }));
  const std::string roots =
      w.Table(Listed<int32_t>(DType::kInt32, model.roots.size(), [&](size_t i) { return model.roots[i]; }));
  const std::string votes = w.Table(Listed<int32_t>(DType::kInt32, model.leaves.size() + 1, [&](size_t i) {
    return i < model.leaves.size() ? model.leaves[i].begin : static_cast<int32_t>(model.votes.size());
  }));
  const std::string vote_ends =
      w.Table(Listed<int32_t>(DType::kInt32, model.leaves.size(), [&](size_t i) { return model.leaves[i].end; }));
  const std::string target =
      w.Table(Listed<int32_t>(DType::kInt32, model.votes.size(), [&](size_t i) { return model.votes[i].target; }));
  const std::string weight =
      w.Table(Listed<double>(DType::kDouble, model.votes.size(), [&](size_t i) { return model.votes[i].weight; }));
  const std::string s = w.Scratch(DType::kDouble, targets), seen = w.Scratch(DType::kUInt8, targets);
  const bool extreme = aggregate == Aggregate::kMin || aggregate == Aggregate::kMax;
  w.For("r", rows);
  w.Line("for (int t = 0; t < ", targets, "; t++) ", s, "[t] = 0", extreme ? Cat(", ", seen, "[t] = 0") : "", ";");
  w.For("tree", static_cast<int64_t>(model.roots.size()));
  w.Line("int place = ", roots, "[tree];");
  w.Open("while (place >= 0)");
  w.Line("const ", c, " v = (", c, ")", w.Load(x, Cat("r * ", features, " + ", feature, "[place]")), ";");
  WriteDecision(w, model, threshold, kind, any_member, c);
  w.Line("place = ", children, "[2 * place + !yes];");
  w.Close();
  w.Line("place = -1 - place;");
  w.Open("for (int k = ", votes, "[place]; k < ", vote_ends, "[place]; k++)");
  w.Line("const int t = ", target, "[k];");
  if (extreme)
    w.Line("if (!", seen, "[t] || ", weight, "[k] ", aggregate == Aggregate::kMin ? "<" : ">", " ", s, "[t]) ", s,
           "[t] = ", weight, "[k];"),
        w.Line(seen, "[t] = 1;");
  else
    w.Line(s, "[t] += ", weight, "[k];");
  w.Close(2);
  if (aggregate == Aggregate::kAverage && !model.roots.empty())
    w.Line("for (int t = 0; t < ", targets, "; t++) ", s,
           "[t] /= ", Literal(static_cast<double>(model.roots.size()), DType::kDouble), ";");
  for (size_t t = 0; t < base.size(); ++t) w.Line(s, "[", t, "] += ", Literal(base[t], DType::kDouble), ";");
  WritePostTransform(w, transform, s, targets);
  w.For("t", targets);
  w.Line(w.Store(y, Cat("r * ", targets, " + t"), Cat("(", ArithmeticC(y.type), ")", s, "[t]")));
  w.Close(2);
}

void WriteTreeEnsemble(StepWriter& w) {
  const int64_t aggregate = w.node.Int("aggregate_function", 1), transform = w.node.Int("post_transform", 0);
  Require(aggregate >= 0 && aggregate <= 3 && transform >= 0 && transform <= 4,
          "aggregate_function or post_transform is none that there is");
  WriteTrees(w, ReadTreeEnsemble(w.node), static_cast<Aggregate>(aggregate), static_cast<PostTransform>(transform), {});
}

void WriteTreeRegressor(StepWriter& w) {
  const std::string name = w.node.String("aggregate_function", "SUM");
  const Aggregate aggregate = name == "AVERAGE" ? Aggregate::kAverage
                              : name == "MIN"   ? Aggregate::kMin
                              : name == "MAX"   ? Aggregate::kMax
                                                : Aggregate::kSum;
  const int64_t targets = w.node.Int("n_targets", 1);
  const std::vector<double> base = ReadFloatsOrTensor(w.node, "base_values");
  Require(base.empty() || static_cast<int64_t>(base.size()) == targets, "there are ", base.size(), " base values for ",
          targets, " targets");
  WriteTrees(w, ReadLegacyTrees(w.node, "target", targets), aggregate, ReadPostTransform(w.node), base);
}

void WriteFeatureExtractor(StepWriter& w) {
  const Operand &x = w.in[0], &y = w.out[0];
  const int64_t columns = x.shape.back(), picked = w.in[1].size(), rows = x.size() / std::max<int64_t>(1, columns);
  w.For("r", rows);
  w.For("k", picked);
  w.Line("const int64_t named = ", w.Load(w.in[1], "k"), ";");
  w.Line("const int at = named < 0 || named >= ", columns, " ? 0 : (int)named;");
  w.Line(w.Store(y, Cat("r * ", picked, " + k"), w.Load(x, Cat("r * ", columns, " + at"))));
  w.Close(2);
}

struct NGrams {
  std::vector<std::vector<int64_t>> tokens;
  std::vector<int64_t> numbers;  // in the pool
};

// Those of the wanted lengths; where the pool has one twice, the later counts.
NGrams ReadNGrams(StepWriter& w, int64_t shortest, int64_t longest) {
  const std::vector<int64_t> pool = w.node.Ints("pool_int64s"), starts = w.node.Ints("ngram_counts");
  std::map<std::vector<int64_t>, int64_t> by_tokens;
  int64_t number = 0;
  const auto total = static_cast<int64_t>(pool.size());
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t begin = starts[i], end = i + 1 < starts.size() ? starts[i + 1] : total,
                  length = static_cast<int64_t>(i) + 1;
    Require(begin >= 0 && begin <= end && end <= total && (end - begin) % length == 0,
            "ngram_counts are not rising positions in the pool");
    for (int64_t at = begin; at < end; at += length, ++number)
      if (length >= shortest && length <= longest) by_tokens[{pool.begin() + at, pool.begin() + at + length}] = number;
  }
  NGrams made;
  for (const auto& [tokens, its_number] : by_tokens) made.tokens.push_back(tokens), made.numbers.push_back(its_number);
  return made;
}

void WriteTfIdf(StepWriter& w) {
  const Operand &x = w.in[0], &y = w.out[0];
  if (!w.node.Has("pool_int64s")) w.Refuse("its pool holds strings: C has only arrays of numbers");
  const int64_t shortest = w.node.Int("min_gram_length", 0), longest = w.node.Int("max_gram_length", 0),
                skipped = w.node.Int("max_skip_count", -1), length = x.shape.back(),
                rows = x.shape.rank() == 2 ? x.shape[0] : 1, width = y.shape.back();
  Require(shortest > 0 && longest >= shortest && skipped >= 0,
          "its gram lengths or max_skip_count are no numbers of tokens");
  const NGrams ngrams = ReadNGrams(w, shortest, longest);
  const std::vector<int64_t> columns = w.node.Ints("ngram_indexes");
  const std::vector<float> weights = w.node.Floats("weights");
  const std::string mode = w.node.String("mode", "");
  std::vector<int64_t> tokens;
  std::vector<int64_t> begins = {0};
  for (size_t i = 0; i < ngrams.tokens.size(); ++i) {
    const auto number = static_cast<size_t>(ngrams.numbers[i]);
    Require(number < columns.size() && columns[number] >= 0 && columns[number] < width &&
                (weights.empty() || weights.size() == columns.size()),
            "ngram_indexes or weights do not fit the pool");
    tokens.insert(tokens.end(), ngrams.tokens[i].begin(), ngrams.tokens[i].end());
    begins.push_back(static_cast<int64_t>(tokens.size()));
  }
  const size_t count = ngrams.tokens.size();
  auto number = [&](size_t i) { return static_cast<size_t>(ngrams.numbers[i]); };
  const std::string pool = w.Table(Listed<int64_t>(DType::kInt64, tokens.size(), [&](size_t i) { return tokens[i]; }));
  const std::string begin = w.Table(Listed<int32_t>(DType::kInt32, begins.size(), [&](size_t i) { return begins[i]; }));
  const std::string column =
      w.Table(Listed<int32_t>(DType::kInt32, count, [&](size_t i) { return columns[number(i)]; }));
  const std::string weight = w.Table(Listed<float>(
      DType::kFloat, count, [&](size_t i) { return mode == "TF" || weights.empty() ? 1.0f : weights[number(i)]; }));
  w.Line("for (int i = 0; i < ", y.size(), "; i++) ", y.c, "[i] = 0;");
  w.For("r", rows);
  w.For("g", static_cast<int64_t>(count));
  w.Line("const int size = ", begin, "[g + 1] - ", begin, "[g];");
  w.Line("int found = 0;");
  const int64_t farthest = std::min(skipped, std::max<int64_t>(0, length - 1)) + 1;
  w.Open("for (int far = 1; far <= (size > 1 ? ", farthest, " : 1); far++)");
  w.Open("for (int at = 0; at + (size - 1) * far < ", length, "; at++)");
  w.Line("int k = 0;");
  w.Line("while (k < size && (int64_t)", w.Load(x, Cat("r * ", length, " + at + k * far")), " == ", pool, "[", begin,
         "[g] + k]) k++;");
  w.Line("if (k == size) found++;");
  w.Close(2);
  w.Line(y.c, "[r * ", width, " + ", column, "[g]] += (float)", mode == "IDF" ? "(found > 0)" : "found", " * ", weight,
         "[g];");
  w.Close(2);
}

// Inputs: R, T, then n tensors, n gradients and n of each kind of state.
template <size_t kStates, class Update>
void WriteOptimizer(StepWriter& w, const Update& update) {
  constexpr size_t kKinds = 2 + kStates;
  Require(w.in.size() > 2 && (w.in.size() - 2) % kKinds == 0, "it takes R, T and then ", kKinds, " inputs per tensor");
  const size_t tensors = (w.in.size() - 2) / kKinds;
  for (size_t t = 0; t < tensors; ++t) {
    w.For("i", w.in[2 + t].size());
    w.Line("double x = (double)", w.Load(w.in[2 + t], "i"), ";");
    w.Line("const double gradient = (double)", w.Load(w.in[2 + tensors + t], "i"), ";");
    for (size_t s = 0; s < kStates; ++s)
      w.Line("double s", s, "_ = (double)", w.Load(w.in[2 + (2 + s) * tensors + t], "i"), ";");
    w.Line("const double g = ", Literal(w.node.Float("norm_coefficient", 0), DType::kDouble), " * x + gradient;");
    update();
    for (size_t kind = 0; kind < 1 + kStates; ++kind)
      if (w.Wants(kind * tensors + t)) {
        const Operand& y = w.out[kind * tensors + t];
        w.Line(w.Store(y, "i", Cat("(", ArithmeticC(y.type), ")", kind == 0 ? "x" : Cat("s", kind - 1, "_"))));
      }
    w.Close();
  }
}

std::string Number(StepWriter& w, const char* name, float otherwise) {
  return Literal(w.node.Float(name, otherwise), DType::kDouble);
}

void WriteAdagrad(StepWriter& w) {
  w.Line("const double rate = (double)", w.Load(w.in[0], "0"), " / (1.0 + (double)", w.Load(w.in[1], "0"), " * ",
         Number(w, "decay_factor", 0), ");");
  WriteOptimizer<1>(w, [&] {
    w.Line("s0_ += g * g;");
    w.Line("x -= rate * g / (sqrt(s0_) + ", Number(w, "epsilon", 1e-6f), ");");
  });
}

void WriteAdam(StepWriter& w) {
  const std::string alpha = Number(w, "alpha", 0.9f), beta = Number(w, "beta", 0.999f);
  w.Line("const double step = (double)", w.Load(w.in[1], "0"), ";");
  w.Line("double rate = (double)", w.Load(w.in[0], "0"), ";");
  w.Line("if (step > 0) rate *= sqrt(1.0 - pow(", beta, ", step)) / (1.0 - pow(", alpha, ", step));");
  WriteOptimizer<2>(w, [&] {
    w.Line("s0_ = ", alpha, " * s0_ + (1.0 - ", alpha, ") * g;");
    w.Line("s1_ = ", beta, " * s1_ + (1.0 - ", beta, ") * g * g;");
    w.Line("x = (1.0 - ", Number(w, "norm_coefficient_post", 0), ") * (x - rate * s0_ / (sqrt(s1_) + ",
           Number(w, "epsilon", 1e-6f), "));");
  });
}

void WriteMomentum(StepWriter& w) {
  const std::string alpha = Number(w, "alpha", 0);
  w.Line("const double rate = (double)", w.Load(w.in[0], "0"), ", beta = (double)", w.Load(w.in[1], "0"), " > 0 ? ",
         Number(w, "beta", 0), " : 1.0;");
  WriteOptimizer<1>(w, [&] {
    w.Line("s0_ = ", alpha, " * s0_ + beta * g;");
    w.Line("x -= rate * ", w.node.String("mode", "") == "nesterov" ? Cat("(g + ", alpha, " * s0_)") : "s0_", ";");
  });
}

}  // namespace

const std::vector<KernelEntry>& ClassicKernels() {
  static const std::vector<KernelEntry> kernels = {
      {"ai.onnx.ml.TreeEnsemble", WriteTreeEnsemble},
      {"ai.onnx.ml.TreeEnsembleRegressor", WriteTreeRegressor},
      {"ai.onnx.ml.ArrayFeatureExtractor", WriteFeatureExtractor},
      {"TfIdfVectorizer", WriteTfIdf},
      {"ai.onnx.preview.training.Adagrad", WriteAdagrad},
      {"ai.onnx.preview.training.Adam", WriteAdam},
      {"ai.onnx.preview.training.Momentum", WriteMomentum},
  };
  return kernels;
}

}  // namespace ferry::c
