#include "passes/fold_qdq.h"

#include <algorithm>
#include <cmath>

#include "ops/evaluate.h"
#include "ops/support/fused.h"
#include "ops/support/quantized_step.h"
#include "ops/traits.h"
#include "passes/qdq_pattern.h"

namespace ferry {
namespace {

// Elements stay what they are.
bool OnlyMoves(const Node& node) {
  return node.HasInput(0) && node.outputs.size() == 1 && TraitsOf(node).moves_elements;
}

// Other operands must be single constants.
bool IsElementwise(const Node& node) {
  return node.outputs.size() == 1 && TraitsOf(node).elementwise != Elementwise::kNo;
}

// What stands between an operator and the QuantizeLinear after it.
struct Tail {
  size_t quantize;
  Quantization how;
  int32_t low, high;
  std::string value;          // what the operator makes
  std::vector<size_t> nodes;  // Relu and Clip, the last one first
};

class Folding {
 public:
  Folding(Graph& graph, const GraphFacts& facts) : editor_(graph), facts_(facts), pattern_(editor_, facts) {}

  bool Run() {
    for (size_t i = 0, count = editor_.size(); i < count; ++i) PushDown(i);
    for (size_t i = editor_.size(); i-- > 0;) PullUp(i);
    for (size_t i = 0, count = editor_.size(); i < count; ++i)
      if (!editor_.removed(i)) FoldQuantize(i) || FoldQLinear(i);
    for (size_t i = 0, count = editor_.size(); i < count; ++i)
      if (!editor_.removed(i)) FoldToFloat(i);
    return editor_.Finish();
  }

 private:
  // Whether one value surely has more elements than another, sizes that both have aside: those are converted last, or
  // not at all.
  bool HasMore(const std::string& value, const std::string& other) const {
    const ValueFacts *facts = facts_.Find(value), *other_facts = facts_.Find(other);
    if (!facts || !other_facts || !facts->type.shape || !other_facts->type.shape) return false;
    SymbolicShape rest = *other_facts->type.shape;
    double count = 1, other_count = 1;
    for (const Dim& dim : *facts->type.shape) {
      auto same = std::find_if(rest.begin(), rest.end(), [&](const Dim& one) { return SameDim(one, dim); });
      if (same != rest.end()) {
        rest.erase(same);
      } else if (dim.known()) {
        count *= static_cast<double>(*dim.value);
      } else {
        return false;
      }
    }
    for (const Dim& dim : rest) {
      if (!dim.known()) return false;
      other_count *= static_cast<double>(*dim.value);
    }
    return count > other_count;
  }

  // DequantizeLinear, then a move: the move is made on bytes.
  void PushDown(size_t index) {
    if (editor_.removed(index) || !OnlyMoves(editor_.node(index))) return;
    const Node move = editor_.node(index);
    std::optional<QuantizedValue> x = pattern_.Find(move.inputs[0]);
    if (!x || editor_.Uses(move.inputs[0]) != 1 || HasMore(move.outputs[0], move.inputs[0])) return;
    Node dequantize = editor_.node(x->node), moved = move;
    moved.inputs[0] = x->bytes;
    moved.outputs[0] = editor_.FreshName(move.outputs[0] + "_bytes");
    pattern_.NoteType(moved.outputs[0], x->how.type);
    dequantize.inputs[0] = moved.outputs[0];
    dequantize.outputs = move.outputs;
    editor_.Remove(x->node);
    editor_.Replace(index, std::move(dequantize));
    editor_.InsertBefore(index, std::move(moved));
  }

  // A move, then QuantizeLinear: quantized first.
  void PullUp(size_t index) {
    while (!editor_.removed(index) && pattern_.Of(editor_.node(index))) {
      Node quantize = editor_.node(index);
      if (!IsStandard(quantize, "QuantizeLinear")) return;
      int producer = editor_.Producer(quantize.inputs[0]);
      if (producer < 0 || editor_.OnlyReader(quantize.inputs[0]) != static_cast<int>(index)) return;
      Node move = editor_.node(static_cast<size_t>(producer));
      const ValueFacts* moved = facts_.Find(move.inputs.empty() ? std::string() : move.inputs[0]);
      if (!OnlyMoves(move) || !moved || moved->type.dtype != DType::kFloat) return;
      if (HasMore(move.inputs[0], move.outputs[0])) return;
      DType type = pattern_.Of(quantize)->type;
      std::string between = editor_.FreshName(move.inputs[0] + "_quantized");
      quantize.inputs[0] = move.inputs[0];
      std::swap(quantize.outputs[0], move.outputs[0]);
      move.inputs[0] = quantize.outputs[0] = between;
      pattern_.NoteType(between, type);
      editor_.Replace(index, std::move(move));
      editor_.Replace(index = static_cast<size_t>(producer), std::move(quantize));
    }
  }

  bool FoldQuantize(size_t index) {
    if (!IsStandard(editor_.node(index), "QuantizeLinear")) return false;
    std::optional<Quantization> how = pattern_.Of(editor_.node(index));
    if (!how) return false;
    if (FoldElementwise(index, *how)) return true;
    std::optional<Tail> tail = TailOf(index, *how);
    int producer = tail ? editor_.Producer(tail->value) : -1;
    if (producer < 0 || editor_.Uses(tail->value) != 1) return false;
    const Node& core = editor_.node(static_cast<size_t>(producer));
    if (IsStandard(core, "Add")) return FoldAdd(static_cast<size_t>(producer), *tail) || FoldBiased(core, *tail);
    if (IsStandard(core, {"Conv", "Gemm", "MatMul"})) return FoldProduct(static_cast<size_t>(producer), {}, *tail);
    if (IsStandard(core, "Mul")) return FoldScaledSums(static_cast<size_t>(producer), *tail);
    if (IsStandard(core, "MaxPool")) return FoldMaxPool(static_cast<size_t>(producer), *tail);
    if (IsStandard(core, {"GlobalAveragePool", "ReduceMean"})) return FoldMean(static_cast<size_t>(producer), *tail);
    if (IsStandard(core, "Concat") && tail->nodes.empty()) return FoldConcat(static_cast<size_t>(producer), *tail);
    return false;
  }

  std::optional<Tail> TailOf(size_t index, const Quantization& how) const {
    ByteRange range = RangeOfByte(how.type);
    Tail tail{index, how, range.low, range.high, editor_.node(index).inputs[0], {}};
    for (;;) {
      int producer = editor_.Producer(tail.value);
      if (producer < 0 || editor_.Uses(tail.value) != 1) return tail;
      const Node& node = editor_.node(static_cast<size_t>(producer));
      float low = -INFINITY, high = INFINITY;
      if (IsStandard(node, "Relu")) {
        low = 0;
      } else if (IsStandard(node, "Clip")) {
        auto bound = [&](size_t i, float& to) {
          if (!node.HasInput(i)) return true;
          auto scalar = ScalarConstant(editor_, node.inputs[i]);
          if (scalar) to = *scalar;
          return scalar.has_value() && !std::isnan(*scalar);
        };
        if (!bound(1, low) || !bound(2, high)) return std::nullopt;
      } else {
        return tail;
      }
      // Rounding keeps order, so that limits may be rounded first.
      if (std::isfinite(low)) tail.low = std::max(tail.low, how.Level(low));
      if (std::isfinite(high)) tail.high = std::min(tail.high, how.Level(high));
      if (tail.low > tail.high || low > high) return std::nullopt;
      tail.nodes.push_back(static_cast<size_t>(producer));
      tail.value = node.inputs[0];
    }
  }

  QuantizedStep StepOf(const Tail& tail, int32_t x_zero) const {
    return {tail.how.type, x_zero, tail.how.zero, tail.low, tail.high};
  }

  // Puts `made` where the QuantizeLinear stood and drops what it stands for.
  bool Put(Node made, const Tail& tail, std::initializer_list<size_t> cores) {
    made.outputs = editor_.node(tail.quantize).outputs;
    for (size_t node : tail.nodes) editor_.Remove(node);
    for (size_t core : cores) editor_.Remove(core);
    editor_.Replace(tail.quantize, std::move(made));
    return true;
  }

  // An operator with all its attributes, under another name.
  static Node Internal(const Node& node, std::string_view op) {
    Node made = node;
    made.op_type = op;
    made.domain = kInternalDomain;
    return made;
  }

  struct Product {
    QuantizedValue x;
    QuantizedWeight w;
    std::vector<float> bias;  // per column; empty: none
    int64_t columns;
    Node made;
    std::vector<int32_t> whole_bias = {};  // the same in steps of the sums, where it was written so
  };

  std::optional<size_t> RankOf(const std::string& value) const {
    const ValueFacts* facts = facts_.Find(value);
    if (!facts || !facts->type.shape) return std::nullopt;
    return facts->type.shape->size();
  }

  // `bias` is an addend that stood in a node of its own.
  std::optional<Product> MatchProduct(const Node& core, const std::string& bias) const {
    bool is_conv = core.op_type == "Conv", is_gemm = core.op_type == "Gemm";
    if (core.inputs.size() < 2) return std::nullopt;
    if (is_gemm && (core.Float("alpha", 1) != 1 || core.Float("beta", 1) != 1 || core.Int("transA", 0) != 0))
      return std::nullopt;
    size_t axis = is_conv || (is_gemm && core.Int("transB", 0) != 0) ? 0 : 1;
    auto x = pattern_.Find(core.inputs[0]);
    auto w = x ? pattern_.FindWeight(core.inputs[1], axis) : std::nullopt;
    std::optional<size_t> rank = RankOf(core.inputs[0]);
    if (!w || !rank) return std::nullopt;
    bool fits = is_conv ? *rank == w->values.rank() && *rank >= 3 && *rank <= 5 : w->values.rank() == 2 && *rank >= 1;
    if (!fits) return std::nullopt;
    Product product{*x, *w, {}, w->values.dim(axis), Internal(core, is_conv ? "QuantizedConv" : "QuantizedMatMul")};
    std::string addend = !bias.empty() ? bias : core.HasInput(2) ? core.inputs[2] : std::string();
    if (!bias.empty() && core.HasInput(2)) return std::nullopt;
    if (addend.empty()) return SumsFit(product, axis) ? std::optional(product) : std::nullopt;
    auto values = pattern_.FloatConstant(addend);
    if (!values || (values->size() != 1 && static_cast<int64_t>(values->size()) != product.columns))
      return std::nullopt;
    std::optional<size_t> addend_rank = RankOf(addend);
    // One value per row would be something else, and a row where there was none would be a rank more.
    if (!addend_rank || *addend_rank > std::min<size_t>(*rank, 2) || (*addend_rank == 2 && !IsRow(addend)))
      return std::nullopt;
    if (values->size() == 1) values->resize(static_cast<size_t>(product.columns), values->front());
    product.bias = std::move(*values);
    product.whole_bias = WholeBias(product, addend);
    return SumsFit(product, axis) ? std::optional(product) : std::nullopt;
  }

  // Floats do not wrap around where sums of 32 bits would.
  static bool SumsFit(const Product& product, size_t axis) {
    const Quantization& x = product.x.how;
    const int64_t lowest = x.type == DType::kInt8 ? -128 : 0;
    const int64_t largest = std::max(lowest + 255 - x.zero, x.zero - lowest);
    const Tensor& w = product.w.values;
    const int64_t depth = w.size() / std::max<int64_t>(product.columns, 1);
    auto room = [&](int64_t column) {
      const int64_t bias = product.whole_bias.empty() ? 0 : product.whole_bias[static_cast<size_t>(column)];
      return (INT32_MAX - std::abs(bias)) / largest;
    };
    int64_t least = INT32_MAX;
    for (int64_t column = 0; column < product.columns; ++column) least = std::min(least, room(column));
    if (depth <= least / 255) return true;
    std::vector<int64_t> sums(static_cast<size_t>(product.columns));
    for (int64_t i = 0; i < w.size(); ++i)
      sums[static_cast<size_t>(axis == 0 ? i / depth : i % product.columns)] += std::abs(ByteAt(w, i));
    for (int64_t column = 0; column < product.columns; ++column)
      if (sums[static_cast<size_t>(column)] > room(column)) return false;
    return true;
  }

  // A bias that quantizers wrote as integers of the scale that the sums have belongs to the sums.
  std::vector<int32_t> WholeBias(const Product& product, const std::string& addend) const {
    const Node* node = MadeBy(editor_, addend, "DequantizeLinear");
    const Tensor* levels = node ? editor_.Constant(node->inputs[0]) : nullptr;
    if (!levels || levels->dtype() != DType::kInt32 || levels->size() != product.columns) return {};
    auto whole = levels->Span<int32_t>();
    for (size_t i = 0; i < whole.size(); ++i) {
      const float of_sums = product.x.how.scale * product.w.scale(static_cast<int64_t>(i));
      const float value = static_cast<float>(whole[i]) * of_sums;
      // What differs by a rounding is the same number; a zero point, or a scale of another kind, is not.
      if (!(std::abs(value - product.bias[i]) <= 2e-7f * std::abs(value))) return {};
    }
    return {whole.begin(), whole.end()};
  }

  bool IsRow(const std::string& value) const {
    const ValueFacts* facts = facts_.Find(value);
    return SameDim(facts->type.shape->front(), Dim(1));
  }

  // Gives the node its inputs; false when the numbers are out of range.
  bool Complete(Product& product, float y_scale) {
    std::vector<float> factor(static_cast<size_t>(product.columns)), shift = product.bias;
    for (size_t i = 0; i < factor.size(); ++i) {
      // In this order, rounded after each step, as other runtimes do: what lies between two levels falls to the same
      // side.
      factor[i] = product.x.how.scale * product.w.scale(static_cast<int64_t>(i)) / y_scale;
      if (!std::isfinite(factor[i])) return false;
    }
    for (float& value : shift) {
      value /= y_scale;
      if (!std::isfinite(value)) return false;
    }
    Node& made = product.made;
    const std::string& hint = made.outputs[0];
    std::string weight =
        product.w.name.empty() ? editor_.AddConstant(hint + "_weight", product.w.values) : product.w.name;
    made.inputs = {product.x.bytes, weight, editor_.AddConstant(hint + "_factor", Tensor::FromVector(factor))};
    if (!product.whole_bias.empty())
      made.inputs.push_back(editor_.AddConstant(hint + "_bias", Tensor::FromVector(product.whole_bias)));
    else if (!shift.empty())
      made.inputs.push_back(editor_.AddConstant(hint + "_shift", Tensor::FromVector(shift)));
    return true;
  }

  bool FoldProduct(size_t core, const std::string& bias, const Tail& tail, std::optional<size_t> add = std::nullopt) {
    std::optional<Product> product = MatchProduct(editor_.node(core), bias);
    if (!product || !Complete(*product, tail.how.scale)) return false;
    StepOf(tail, product->x.how.zero).Write(product->made);
    if (add) return Put(std::move(product->made), tail, {core, *add});
    return Put(std::move(product->made), tail, {core});
  }

  // A MatMul whose bias is added by a node of its own.
  bool FoldBiased(const Node& add, const Tail& tail) {
    size_t index = static_cast<size_t>(editor_.Producer(tail.value));
    for (size_t i = 0; i < 2; ++i) {
      const Node* product = MadeOnlyBy(editor_, add.inputs[i], "MatMul");
      if (!product) continue;
      std::string bias = add.inputs[1 - i];
      return FoldProduct(static_cast<size_t>(editor_.Producer(add.inputs[i])), bias, tail, index);
    }
    return false;
  }

  // Sums of products of bytes, an int32 addend maybe, as floats times a constant: what QGemm is made of.
  struct ScaledSums {
    Product product;
    std::vector<size_t> nodes;  // between the product and its scale
  };

  std::optional<ScaledSums> MatchScaledSums(const Node& mul) const {
    const size_t scale = editor_.Constant(mul.inputs[0]) ? 0 : 1;
    std::vector<size_t> nodes;
    auto step = [&](const std::string& value, std::string_view op) -> const Node* {
      const Node* node = MadeOnlyBy(editor_, value, op);
      if (node) nodes.push_back(static_cast<size_t>(editor_.Producer(value)));
      return node;
    };
    const Node* cast = step(mul.inputs[1 - scale], "Cast");
    if (!cast || cast->Int("to", 0) != static_cast<int64_t>(DType::kFloat)) return std::nullopt;
    const Node *add = step(cast->inputs[0], "Add"), *sums = nullptr;
    const Tensor* addend = nullptr;
    for (size_t i = 0; add && !addend && i < 2; ++i)
      if ((addend = editor_.Constant(add->inputs[i]))) sums = step(add->inputs[1 - i], "MatMulInteger");
    if (!add) sums = step(cast->inputs[0], "MatMulInteger");
    const ValueFacts* facts = sums ? facts_.Find(sums->inputs[0]) : nullptr;
    if (!facts || !facts->type.shape || facts->type.shape->empty() || editor_.Constant(sums->inputs[0]))
      return std::nullopt;
    auto w =
        pattern_.WeightOf(sums->inputs[1], mul.inputs[scale], sums->HasInput(3) ? sums->inputs[3] : std::string(), 1);
    const Tensor* zero = sums->HasInput(2) ? editor_.Constant(sums->inputs[2]) : nullptr;
    if (!w || w->values.rank() != 2 || (sums->HasInput(2) && (!zero || zero->size() != 1))) return std::nullopt;
    const int64_t columns = w->values.dim(1);
    const size_t rank = facts->type.shape->size();
    if (addend && (addend->dtype() != DType::kInt32 || addend->size() != columns ||
                   (addend->rank() == 2 && addend->dim(0) != 1) || addend->rank() > std::min<size_t>(rank, 2)))
      return std::nullopt;
    if (const Tensor* factor = editor_.Constant(mul.inputs[scale]); !factor || factor->rank() > rank)
      return std::nullopt;
    Quantization how{1, zero ? ByteAt(*zero, 0) : 0, facts->type.dtype};
    ScaledSums found{{{sums->inputs[0], how, nodes.back()}, *w, {}, columns, Internal(*sums, "QuantizedMatMul")},
                     nodes};
    if (addend) found.product.whole_bias = {addend->Span<int32_t>().begin(), addend->Span<int32_t>().end()};
    return found;
  }

  bool FoldScaledSums(size_t mul, const Tail& tail) {
    std::optional<ScaledSums> found = MatchScaledSums(editor_.node(mul));
    if (!found || !Complete(found->product, tail.how.scale)) return false;
    StepOf(tail, found->product.x.how.zero).Write(found->product.made);
    for (size_t node : found->nodes) editor_.Remove(node);
    return Put(std::move(found->product.made), tail, {mul});
  }

  // A product of quantized operands whose result is used as it is.
  bool FoldToFloat(size_t index) {
    std::optional<Product> product;
    std::vector<size_t> others;
    if (IsStandard(editor_.node(index), {"Conv", "Gemm", "MatMul"})) {
      product = MatchProduct(editor_.node(index), {});
    } else if (IsStandard(editor_.node(index), "Mul")) {
      if (auto found = MatchScaledSums(editor_.node(index))) {
        product = std::move(found->product);
        product->made.outputs = editor_.node(index).outputs;
        others = std::move(found->nodes);
      }
    }
    if (!product || !Complete(*product, 1.0f)) return false;
    QuantizedStep{DType::kFloat, product->x.how.zero}.Write(product->made);
    for (size_t node : others) editor_.Remove(node);
    editor_.Replace(index, std::move(product->made));
    return true;
  }

  bool FoldAdd(size_t core, const Tail& tail) {
    const Node add = editor_.node(core);
    auto a = pattern_.Find(add.inputs[0]), b = pattern_.Find(add.inputs[1]);
    if (!a || !b) return false;
    const ValueFacts *first = facts_.Find(add.inputs[0]), *second = facts_.Find(add.inputs[1]);
    if (!first || !second || !first->type.shape || !second->type.shape) return false;
    const SymbolicShape &left = *first->type.shape, &right = *second->type.shape;
    if (left.size() != right.size() || !std::equal(left.begin(), left.end(), right.begin(), SameDim)) return false;
    Node made = Internal(add, "QuantizedAdd");
    made.inputs = {a->bytes, b->bytes};
    made.Set("a_factor", a->how.scale / tail.how.scale);
    made.Set("b_factor", b->how.scale / tail.how.scale);
    made.Set("b_zero", int64_t{b->how.zero});
    StepOf(tail, a->how.zero).Write(made);
    return Put(std::move(made), tail, {core});
  }

  bool FoldMean(size_t core, const Tail& tail) {
    const Node mean = editor_.node(core);
    auto x = pattern_.Find(mean.inputs[0]);
    std::optional<size_t> rank = RankOf(mean.inputs[0]);
    if (!x || !rank || *rank < 3) return false;
    if (mean.op_type == "ReduceMean") {
      const Tensor* axes = mean.HasInput(1) ? editor_.Constant(mean.inputs[1]) : nullptr;
      if (!axes || !CoversSpatialAxes(*axes, *rank)) return false;
    }
    Node made = Internal(mean, "QuantizedMean");
    made.attributes.clear();
    made.inputs = {x->bytes};
    made.Set("keepdims", mean.op_type == "ReduceMean" ? mean.Int("keepdims", 1) : int64_t{1});
    made.Set("factor", x->how.scale / tail.how.scale);
    StepOf(tail, x->how.zero).Write(made);
    return Put(std::move(made), tail, {core});
  }

  // The largest byte is the byte of the largest number; another scale is looked up afterwards.
  bool FoldMaxPool(size_t core, const Tail& tail) {
    Node pool = editor_.node(core);
    auto x = pattern_.Find(pool.inputs[0]);
    if (!x || pool.outputs.size() != 1) return false;
    pool.inputs[0] = x->bytes;
    if (x->how == tail.how && tail.nodes.empty()) return Put(std::move(pool), tail, {core});
    std::vector<size_t> chain(tail.nodes.rbegin(), tail.nodes.rend());
    std::optional<Tensor> table = Table(x->node, chain, tail.quantize);
    if (!table) return false;
    pool.outputs[0] = editor_.FreshName(pool.outputs[0] + "_bytes");
    Node lookup = Lookup(pool.outputs[0], *table, editor_.node(tail.quantize).outputs[0]);
    for (size_t node : tail.nodes) editor_.Remove(node);
    editor_.Replace(core, std::move(pool));
    editor_.Replace(tail.quantize, std::move(lookup));
    return true;
  }

  bool FoldConcat(size_t core, const Tail& tail) {
    Node concat = editor_.node(core);
    std::vector<Node> lookups;
    for (std::string& input : concat.inputs) {
      auto x = pattern_.Find(input);
      if (!x) return false;
      input = x->bytes;
      if (x->how == tail.how) continue;
      std::optional<Tensor> table = Table(x->node, {}, tail.quantize);
      if (!table) return false;
      input = editor_.FreshName(x->bytes + "_rescaled");
      lookups.push_back(Lookup(x->bytes, *table, input));
    }
    for (Node& lookup : lookups) editor_.InsertBefore(tail.quantize, std::move(lookup));
    return Put(std::move(concat), tail, {core});
  }

  // Any chain of functions of one element, also the empty one: a table of all 256 answers.
  bool FoldElementwise(size_t index, const Quantization& how) {
    std::vector<size_t> chain;
    std::string value = editor_.node(index).inputs[0];
    for (;;) {
      if (auto x = pattern_.Find(value)) {
        std::reverse(chain.begin(), chain.end());
        return PutTable(index, *x, chain, how);
      }
      int producer = editor_.Producer(value);
      if (producer < 0 || editor_.Uses(value) != 1) return false;
      const Node& node = editor_.node(static_cast<size_t>(producer));
      std::optional<std::string> operand = IsElementwise(node) ? OnlyOperand(node) : std::nullopt;
      if (!operand) return false;
      chain.push_back(static_cast<size_t>(producer));
      value = *operand;
    }
  }

  // The one input that is no constant, where all others are single ones.
  std::optional<std::string> OnlyOperand(const Node& node) const {
    std::optional<std::string> operand;
    size_t widest = 0;
    for (const std::string& input : node.inputs) {
      if (input.empty()) continue;
      if (const Tensor* constant = editor_.Constant(input)) {
        if (constant->size() != 1) return std::nullopt;
        widest = std::max(widest, constant->rank());
      } else if (operand) {
        return std::nullopt;
      } else {
        operand = input;
      }
    }
    const std::optional<size_t> rank = operand ? RankOf(*operand) : std::nullopt;
    return rank && widest <= *rank ? operand : std::nullopt;
  }

  bool PutTable(size_t index, const QuantizedValue& x, const std::vector<size_t>& chain, const Quantization& how) {
    Node made;
    if (chain.empty() && x.how == how) {
      made.op_type = "Identity";
      made.inputs = {x.bytes};
      made.outputs = editor_.node(index).outputs;
    } else {
      std::optional<Tensor> table = Table(x.node, chain, index);
      if (!table) return false;
      made = Lookup(x.bytes, *table, editor_.node(index).outputs[0]);
    }
    made.name = editor_.node(index).name;
    for (size_t node : chain) editor_.Remove(node);
    editor_.Replace(index, std::move(made));
    return true;
  }

  Node Lookup(const std::string& bytes, const Tensor& table, const std::string& output) {
    Node node;
    node.op_type = "QuantizedLookup";
    node.domain = kInternalDomain;
    node.inputs = {bytes, editor_.AddConstant(output + "_table", table)};
    node.outputs = {output};
    return node;
  }

  // What the nodes themselves make of every byte there is.
  std::optional<Tensor> Table(size_t dequantize, const std::vector<size_t>& chain, size_t quantize) const {
    std::vector<size_t> nodes = {dequantize};
    nodes.insert(nodes.end(), chain.begin(), chain.end());
    nodes.push_back(quantize);
    Tensor all(pattern_.Of(editor_.node(dequantize))->type, {256});
    for (int i = 0; i < 256; ++i) MutableBytesOf(all)[i] = static_cast<uint8_t>(i);
    Value value(std::move(all));
    for (size_t index : nodes) {
      const Node& node = editor_.node(index);
      std::vector<Value> values;
      for (const std::string& name : node.inputs) {
        const Tensor* constant = name.empty() ? nullptr : editor_.Constant(name);
        values.push_back(name.empty() ? Value() : constant ? Value(*constant) : value);
      }
      std::vector<const Value*> inputs;
      for (const Value& input : values) inputs.push_back(input.present() ? &input : nullptr);
      try {
        value = EvaluateNode(node, inputs, RunServices{})[0];
      } catch (const Error&) {
        return std::nullopt;  // it fails where it is reached, with the same words
      }
    }
    return value.tensor().Persistent();
  }

  // The QLinear operators say the same in one node.
  bool FoldQLinear(size_t index) {
    const Node node = editor_.node(index);
    bool is_conv = IsStandard(node, "QLinearConv");
    if ((!is_conv && !IsStandard(node, "QLinearMatMul")) || node.inputs.size() < 8) return false;
    const ValueFacts* facts = facts_.Find(node.inputs[0]);
    if (!facts || !facts->type.shape || editor_.Constant(node.inputs[0])) return false;
    size_t rank = facts->type.shape->size();
    auto x = pattern_.Constants(node.inputs[1], node.inputs[2], facts->type.dtype);
    auto w = pattern_.WeightOf(node.inputs[3], node.inputs[4], node.inputs[5], is_conv ? 0 : 1);
    auto y = pattern_.Constants(node.inputs[6], node.inputs[7], DType::kUndefined);
    if (!x || !w || !y) return false;
    if (is_conv ? rank != w->values.rank() || rank < 3 || rank > 5 : w->values.rank() != 2 || rank < 1) return false;
    if (is_conv && node.HasInput(8) && !editor_.Constant(node.inputs[8])) return false;
    Product product{{node.inputs[0], *x, index},
                    *w,
                    {},
                    w->values.dim(is_conv ? 0 : 1),
                    Internal(node, is_conv ? "QuantizedConv" : "QuantizedMatMul")};
    if (!Complete(product, y->scale)) return false;
    if (is_conv && node.HasInput(8)) product.made.inputs.push_back(node.inputs[8]);
    ByteRange range = RangeOfByte(y->type);
    QuantizedStep{y->type, x->zero, y->zero, range.low, range.high}.Write(product.made);
    editor_.Replace(index, std::move(product.made));
    return true;
  }

  GraphEditor editor_;
  const GraphFacts& facts_;
  QdqPattern pattern_;
};

}  // namespace

bool FoldQdq(Graph& graph, const GraphFacts& facts) {
  return HasAny(graph, {"DequantizeLinear", "QLinearConv", "QLinearMatMul", "MatMulInteger"}) &&
         Folding(graph, facts).Run();
}

}  // namespace ferry
