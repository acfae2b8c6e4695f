#include "passes/fuse_attention.h"

#include <algorithm>
#include <limits>

#include "ops/support/fused.h"
#include "passes/match.h"

namespace ferry {
namespace {

struct Operand {
  std::string name;
  AttentionForm form = AttentionForm::kPlain;
};

class Fusion {
 public:
  Fusion(Graph& graph, const GraphFacts& facts, bool takes_flags)
      : editor_(graph), facts_(facts), takes_flags_(takes_flags) {}

  bool Run() {
    for (size_t i = 0, count = editor_.size(); i < count; ++i)
      if (!editor_.removed(i) && IsStandard(editor_.node(i), "Softmax")) FromSoftmax(i);
    return editor_.Finish();
  }

 private:
  void FromSoftmax(size_t index) {
    const Node& softmax = editor_.node(index);
    const std::string& scores = softmax.inputs[0];
    const SymbolicShape* shape = ShapeOf(scores);
    int64_t axis = softmax.Int("axis", -1);
    if (!shape || !IsFloat(scores) || (axis != -1 && axis != static_cast<int64_t>(shape->size()) - 1)) return;
    std::string probabilities = softmax.outputs[0];
    bool nan_to_zero = TakeNanGuard(probabilities), empty_to_zero = TakeEmptyGuard(scores, probabilities);
    std::optional<Scores> found = ScoresOf(scores, empty_to_zero ? 2 : 1);
    if (!found) return;
    const Node* first = found->product;
    int last = editor_.OnlyReader(probabilities);
    if (last < 0) return;
    const Node& second = editor_.node(static_cast<size_t>(last));
    if (!IsStandard(second, "MatMul") || second.inputs[0] != probabilities || second.inputs[1] == probabilities) return;
    if (!IsMatrices(first->inputs[0]) || !IsMatrices(first->inputs[1]) || !IsMatrices(second.inputs[1])) return;

    float scale = found->scale;
    Operand q = TakeHeads(TakeScale(first->inputs[0], scale)), k = TakeKey(TakeScale(first->inputs[1], scale));
    Operand v = TakeHeads(second.inputs[1]), out{second.outputs[0]};
    int64_t sharing = TakeSharedHeads(k, v);
    size_t place = static_cast<size_t>(last);
    TakeOutputHeads(out, place);

    Node fused;
    fused.name = softmax.name;
    fused.op_type = "FusedAttention";
    fused.domain = kInternalDomain;
    fused.inputs = {q.name, k.name, v.name};
    if (!found->mask.empty() || !found->flags.empty()) fused.inputs.push_back(found->mask);
    fused.outputs = {out.name};
    fused.Set("scale", scale);
    fused.Set("nan_to_zero", int64_t{nan_to_zero});
    if (empty_to_zero) fused.Set("empty_to_zero", int64_t{1});
    if (!found->flags.empty()) {
      fused.inputs.push_back(found->flags);
      fused.Set("fill", found->fill);
      fused.Set("flags_leave_out", int64_t{found->flags_leave_out});
      fused.Set("fills_before_mask", int64_t{found->fills_before_mask});
    }
    fused.Set("q_form", static_cast<int64_t>(q.form));
    fused.Set("k_form", static_cast<int64_t>(k.form));
    fused.Set("v_form", static_cast<int64_t>(v.form));
    fused.Set("out_form", static_cast<int64_t>(out.form));
    if (sharing > 1) fused.Set("heads_sharing", sharing);
    // What led here and is needed no more is dropped when the editor finishes.
    if (place != static_cast<size_t>(last)) editor_.Remove(static_cast<size_t>(last));
    editor_.Replace(place, std::move(fused));
  }

  const SymbolicShape* ShapeOf(const std::string& value) const {
    const ValueFacts* facts = facts_.Find(value);
    return facts && facts->type.shape ? &*facts->type.shape : nullptr;
  }
  bool IsFloat(const std::string& value) const {
    const ValueFacts* facts = facts_.Find(value);
    return facts && facts->type.dtype == DType::kFloat;
  }
  bool IsMatrices(const std::string& value) const { return ShapeOf(value) && ShapeOf(value)->size() >= 2; }

  // The product behind the scores, and what lies between: a scale, a mask that is added, a number in place of scores.
  struct Scores {
    const Node* product = nullptr;
    float scale = 1, fill = 0;
    std::string mask, flags;
    bool flags_leave_out = false, fills_before_mask = false;
  };
  std::optional<Scores> ScoresOf(const std::string& scores, size_t uses = 1, int steps = 4) const {
    const int maker = editor_.Producer(scores);
    if (maker < 0 || editor_.Uses(scores) != uses || steps == 0) return std::nullopt;
    const Node& node = editor_.node(static_cast<size_t>(maker));
    if (IsStandard(node, "MatMul")) return Scores{&node};
    if (IsStandard(node, "Add")) return Masked(node, steps - 1);
    if (IsStandard(node, "Where") && takes_flags_) return Chosen(node, steps - 1);
    if (IsStandard(node, "Mul") || IsStandard(node, "Div")) return Scaled(node, steps - 1);
    return std::nullopt;
  }

  std::optional<Scores> Scaled(const Node& node, int steps) const {
    std::optional<WithScalar> scaled;
    if (node.op_type == "Mul") scaled = ScalarOperand(editor_, node);
    if (std::optional<float> by = ScalarConstant(editor_, node.inputs[1]); node.op_type == "Div" && by && *by != 0)
      scaled = {1 / *by, node.inputs[0]};
    std::optional<Scores> found = scaled ? ScoresOf(scaled->other, 1, steps) : std::nullopt;
    if (!found || !found->mask.empty() || !found->flags.empty()) return std::nullopt;
    found->scale *= scaled->scalar;
    return found;
  }

  std::optional<Scores> Masked(const Node& sum, int steps) const {
    for (size_t i = 0; i < 2; ++i) {
      if (sum.inputs[0] == sum.inputs[1] || !ShapeOf(sum.inputs[1 - i])) continue;
      std::optional<Scores> found = ScoresOf(sum.inputs[i], 1, steps);
      if (!found || !found->mask.empty()) continue;
      found->mask = sum.inputs[1 - i];
      found->fills_before_mask = !found->flags.empty();
      return found;
    }
    return std::nullopt;
  }

  std::optional<Scores> Chosen(const Node& choice, int steps) const {
    for (size_t i : {1, 2}) {
      std::optional<float> fill = ScalarConstant(editor_, choice.inputs[3 - i]);
      if (!fill || !ShapeOf(choice.inputs[0])) continue;
      std::optional<Scores> found = ScoresOf(choice.inputs[i], 1, steps);
      if (!found || !found->flags.empty()) continue;
      found->flags = choice.inputs[0];
      found->fill = *fill;
      found->flags_leave_out = i == 2;
      return found;
    }
    return std::nullopt;
  }

  // Where(IsNaN(p), 0, p): a query that may look nowhere gets zeros.
  bool TakeNanGuard(std::string& probabilities) const {
    const std::vector<size_t>& readers = editor_.Readers(probabilities);
    if (readers.size() != 2 || editor_.Uses(probabilities) != 2) return false;
    for (size_t i = 0; i < 2; ++i) {
      const Node& test = editor_.node(readers[i]);
      const Node& choice = editor_.node(readers[1 - i]);
      if (!IsStandard(test, "IsNaN") || !IsStandard(choice, "Where")) continue;
      if (choice.inputs[0] != test.outputs[0] || choice.inputs[2] != probabilities) continue;
      if (editor_.Uses(test.outputs[0]) != 1 || ScalarConstant(editor_, choice.inputs[1]) != 0.0f) continue;
      probabilities = choice.outputs[0];
      return true;
    }
    return false;
  }

  // Where(ReduceMax(scores) == −∞, 0, p): the same, as Ferry's exporter writes it.
  bool TakeEmptyGuard(const std::string& scores, std::string& probabilities) const {
    const int reader = editor_.OnlyReader(probabilities);
    if (reader < 0 || !takes_flags_) return false;
    const Node& choice = editor_.node(static_cast<size_t>(reader));
    if (!IsStandard(choice, "Where") || choice.inputs[2] != probabilities || choice.inputs[0] == probabilities ||
        ScalarConstant(editor_, choice.inputs[1]) != 0.0f)
      return false;
    const Node* test = MadeOnlyBy(editor_, choice.inputs[0], "Equal");
    if (!test || ScalarConstant(editor_, test->inputs[1]) != -std::numeric_limits<float>::infinity()) return false;
    const Node* largest = MadeOnlyBy(editor_, test->inputs[0], "ReduceMax");
    if (!largest || largest->inputs[0] != scores || largest->Int("keepdims", 1) != 1 || largest->inputs.size() < 2)
      return false;
    const Tensor* axes = editor_.Constant(largest->inputs[1]);
    const SymbolicShape* shape = ShapeOf(scores);
    if (!axes || axes->size() != 1 || axes->dtype() != DType::kInt64) return false;
    const int64_t axis = axes->Data<int64_t>()[0];
    if (axis != -1 && axis != static_cast<int64_t>(shape->size()) - 1) return false;
    probabilities = choice.outputs[0];
    return true;
  }

  std::string TakeScale(const std::string& value, float& scale) const {
    const Node* product = MadeOnlyBy(editor_, value, "Mul");
    auto scaled = product ? ScalarOperand(editor_, *product) : std::nullopt;
    if (!scaled) return value;
    scale *= scaled->scalar;
    return scaled->other;
  }

  // Heads moved in front of the length: the kernel can do without.
  Operand TakeHeads(const std::string& value) const {
    const Node* transpose = MadeBy(editor_, value, "Transpose");
    if (!transpose || !IsPermutation(*transpose, {0, 2, 1, 3})) return {value};
    return {transpose->inputs[0], AttentionForm::kHeadsInside};
  }

  Operand TakeKey(const std::string& value) const {
    if (const Node* transpose = MadeBy(editor_, value, "Transpose")) {
      const SymbolicShape* shape = ShapeOf(value);
      if (IsPermutation(*transpose, {0, 1, 3, 2}) || (shape->size() == 3 && IsPermutation(*transpose, {0, 2, 1})))
        return TakeHeads(transpose->inputs[0]);
      if (IsPermutation(*transpose, {0, 2, 3, 1})) return {transpose->inputs[0], AttentionForm::kHeadsInside};
    }
    // Reshape to three dimensions, transpose, reshape back: PyTorch's exporter.
    const Node* back = MadeBy(editor_, value, "Reshape");
    const Node* transpose = back ? MadeBy(editor_, back->inputs[0], "Transpose") : nullptr;
    const Node* flat =
        transpose && IsPermutation(*transpose, {0, 2, 1}) ? MadeBy(editor_, transpose->inputs[0], "Reshape") : nullptr;
    if (flat && IsTransposedOf(value, flat->outputs[0], flat->inputs[0])) return TakeHeads(flat->inputs[0]);
    return {value, AttentionForm::kTransposed};
  }

  bool IsTransposedOf(const std::string& result, const std::string& flat, const std::string& key) const {
    const SymbolicShape *r = ShapeOf(result), *f = ShapeOf(flat), *k = ShapeOf(key);
    return r && f && k && r->size() == 4 && f->size() == 3 && k->size() == 4 && SameDim((*r)[0], (*k)[0]) &&
           SameDim((*r)[1], (*k)[1]) && SameDim((*r)[2], (*k)[3]) && SameDim((*r)[3], (*k)[2]) &&
           SameDim((*f)[1], (*k)[2]) && SameDim((*f)[2], (*k)[3]);
  }

  // Heads of keys and values that stand for several of the queries' are repeated for a plain product; the kernel reads
  // them as they lie. Gives how many share one.
  int64_t TakeSharedHeads(Operand& k, Operand& v) const {
    std::optional<Repeated> keys = RepeatedHeads(k), values = RepeatedHeads(v);
    if (!keys || !values || keys->times != values->times) return 1;
    k = TakeHeads(keys->source);
    v = TakeHeads(values->source);
    return keys->times;
  }

  struct Repeated {
    std::string source;
    int64_t times;
  };
  std::optional<Repeated> RepeatedHeads(const Operand& operand) const {
    if (operand.form != AttentionForm::kPlain) return std::nullopt;
    if (const Node* gather = MadeBy(editor_, operand.name, "Gather")) return GatheredHeads(*gather);
    const Node* merged = MadeBy(editor_, operand.name, "Reshape");
    const Node* stretched = merged ? MadeBy(editor_, merged->inputs[0], "Expand") : nullptr;
    if (merged && !stretched) stretched = MadeBy(editor_, merged->inputs[0], "Tile");
    const Node* apart = stretched ? MadeBy(editor_, stretched->inputs[0], "Unsqueeze") : nullptr;
    if (stretched && !apart) apart = MadeBy(editor_, stretched->inputs[0], "Reshape");
    if (!apart) return std::nullopt;
    const SymbolicShape *from = ShapeOf(apart->inputs[0]), *one = ShapeOf(apart->outputs[0]),
                        *many = ShapeOf(merged->inputs[0]), *to = ShapeOf(merged->outputs[0]);
    if (!from || !one || !many || !to || from->size() != 4 || one->size() != 5 || many->size() != 5 || to->size() != 4)
      return std::nullopt;
    // [batch, heads, length, size] → [batch, heads, times, length, size] → [batch, heads · times, length, size]
    const Dim &heads = (*from)[1], &times = (*many)[2], &all = (*to)[1];
    if (!heads.known() || !times.known() || !all.known() || (*one)[2].value != 1) return std::nullopt;
    if (*heads.value <= 0 || *times.value <= 0 || *all.value % *times.value ||
        *all.value / *times.value != *heads.value)
      return std::nullopt;
    const bool keeps_others = Takes(*apart, "Unsqueeze", {2}) && Takes(*stretched, "Tile", {1, 1, *times.value, 1, 1});
    for (size_t axis : {0, 1, 2, 3}) {
      size_t apart_axis = axis < 2 ? axis : axis + 1;
      if (!keeps_others &&
          (!SameDim((*from)[axis], (*one)[apart_axis]) || !SameDim((*from)[axis], (*many)[apart_axis])))
        return std::nullopt;
      // Where the others agree, the number of elements leaves nothing else for the length.
      if ((axis == 0 || axis == 3) && !SameDim((*from)[axis], (*to)[axis])) return std::nullopt;
    }
    return Repeated{apart->inputs[0], *times.value};
  }

  // Is this the operator's second input?
  bool Takes(const Node& node, std::string_view op, std::initializer_list<int64_t> numbers) const {
    const Tensor* constant = IsStandard(node, op) ? editor_.Constant(node.inputs[1]) : nullptr;
    return constant && constant->dtype() == DType::kInt64 &&
           std::equal(numbers.begin(), numbers.end(), constant->Data<int64_t>(),
                      constant->Data<int64_t>() + constant->size());
  }

  // Heads 0, 0, 1, 1 … taken by their numbers.
  std::optional<Repeated> GatheredHeads(const Node& gather) const {
    const SymbolicShape* from = ShapeOf(gather.inputs[0]);
    const Tensor* numbers = editor_.Constant(gather.inputs[1]);
    if (!from || from->size() != 4 || gather.Int("axis", 0) != 1 || !(*from)[1].known() || !numbers ||
        numbers->rank() != 1 || numbers->dtype() != DType::kInt64)
      return std::nullopt;
    int64_t heads = *(*from)[1].value, count = numbers->size();
    if (heads <= 0 || count < heads || count % heads) return std::nullopt;
    for (int64_t i = 0; i < count; ++i)
      if (numbers->Data<int64_t>()[i] != i / (count / heads)) return std::nullopt;
    return Repeated{gather.inputs[0], count / heads};
  }

  void TakeOutputHeads(Operand& out, size_t& place) const {
    int reader = editor_.OnlyReader(out.name);
    if (reader < 0) return;
    const Node& transpose = editor_.node(static_cast<size_t>(reader));
    if (!IsStandard(transpose, "Transpose") || !IsPermutation(transpose, {0, 2, 1, 3})) return;
    place = static_cast<size_t>(reader);
    out = {transpose.outputs[0], AttentionForm::kHeadsInside};
  }

  GraphEditor editor_;
  const GraphFacts& facts_;
  const bool takes_flags_;
};

}  // namespace

bool FuseAttention(Graph& graph, const GraphFacts& facts, AttentionFlags flags) {
  return HasAny(graph, {"Softmax"}) && Fusion(graph, facts, flags == AttentionFlags::kTaken).Run();
}

}  // namespace ferry
