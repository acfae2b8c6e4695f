#include "passes/fold_constants.h"

#include <algorithm>

#include "base/run_scope.h"
#include "ops/evaluate.h"
#include "ops/infer_graph.h"
#include "ops/operator.h"
#include "passes/match.h"
#include "tensor/alignment.h"

namespace ferry {
namespace {

// Results may be this much larger than what they are made of.
constexpr size_t kMostGrowth = size_t{1} << 20;
// Times as much may be in use while they are made.
constexpr size_t kMostWork = 8;

class Folding {
 public:
  Folding(Graph& graph, bool keep_codes) : editor_(graph), keep_codes_(keep_codes) {}

  bool Run() {
    for (size_t i = 0, count = editor_.size(); i < count; ++i) Fold(i);
    return editor_.Finish();
  }

 private:
  void Fold(size_t index) {
    const Node& node = editor_.node(index);
    const Operator* op = FindOperator(node.domain, node.op_type);
    if (!op || !op->compute || op->is_random || op->has_subgraphs || node.inputs.empty() || node.outputs.size() != 1)
      return;
    if (IsWeightTransposition(node) || StaysUnfolded(node)) return;
    if (std::optional<Tensor> rows = RowsTaken(node)) return Replace(index, std::move(*rows));
    std::vector<Value> values;
    size_t bytes = 0;
    for (const std::string& name : node.inputs) {
      const Tensor* constant = name.empty() ? nullptr : editor_.Constant(name);
      if (!constant && !name.empty()) return;
      values.push_back(constant ? Value(*constant) : Value());
      if (constant) bytes += constant->bytes();
    }
    if (MayGrow(node) && !GrowsLittle(node, bytes)) return;
    for (Value& value : values)
      if (value.present()) value = Readable(value.tensor());
    std::vector<const Value*> inputs;
    for (const Value& value : values) inputs.push_back(value.present() ? &value : nullptr);
    std::vector<Value> results;
    try {
      // What takes more memory than its result may have is computed by runs, which have limits of their own.
      Limits limits = RunScope::CurrentLimits();
      limits.bytes = kMostWork * (bytes + kMostGrowth);
      const RunScope scope("folding constants", limits);
      results = EvaluateNode(node, inputs, RunServices{});
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kCancelled || error.code() == ErrorCode::kDeadline) throw;
      return;  // it fails where it is reached, with the same words
    }
    if (results.size() != 1 || !results[0].is_tensor() || results[0].tensor().bytes() > MostBytes(node, bytes)) return;
    Replace(index, results[0].tensor().Persistent());
  }

  static size_t MostBytes(const Node& node, size_t bytes) {
    return (IsStandard(node, "DequantizeLinear") ? kMostWork * bytes : bytes) + kMostGrowth;
  }

  void Replace(size_t index, Tensor result) {
    std::string output = editor_.node(index).outputs[0];
    editor_.Remove(index);
    editor_.DefineConstant(output, std::move(result));
  }

  // Rows that a Slice takes out of a weight, as exporters cut the gates of an LSTM apart: they stay where they are.
  std::optional<Tensor> RowsTaken(const Node& node) const {
    if (!IsStandard(node, "Slice") || node.inputs.size() < 4) return std::nullopt;
    const Tensor* data = editor_.Constant(node.inputs[0]);
    if (!data || data->rank() == 0 || BitWidth(data->dtype()) < 8) return std::nullopt;
    std::vector<int64_t> asked;
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      const Tensor* list = editor_.Constant(node.inputs[i]);
      if (!list || list->size() != 1 || (list->dtype() != DType::kInt64 && list->dtype() != DType::kInt32))
        return std::nullopt;
      asked.push_back(ToInt64Vector(*list)[0]);
    }
    const bool in_steps = asked.size() > 3 && asked[3] != 1;
    if (asked[2] != 0 || in_steps) return std::nullopt;
    const int64_t rows = data->dim(0);
    auto place = [rows](int64_t index) { return std::clamp<int64_t>(index < 0 ? index + rows : index, 0, rows); };
    const int64_t begin = place(asked[0]), end = place(asked[1]);
    return data->Rows(begin, std::max<int64_t>(0, end - begin));
  }

  // Product kernels read a transposed weight as it is.
  bool IsWeightTransposition(const Node& node) const {
    if (!IsStandard(node, "Transpose")) return false;
    const Tensor* weight = editor_.Constant(node.inputs[0]);
    if (!weight || weight->rank() != 2) return false;
    for (size_t reader : editor_.Readers(node.outputs[0]))
      if (!IsStandard(editor_.node(reader), "MatMul")) return false;
    return true;
  }

  // Quantised weights stay small where operators read them that know how.
  bool StaysUnfolded(const Node& node) const {
    if (keep_codes_ && WidensWeight(node)) return true;
    return IsStandard(node, "DequantizeLinear") && !IsReadDecoded(node.outputs[0]);
  }

  // Halves or codes that a file keeps narrow.
  bool WidensWeight(const Node& node) const {
    constexpr int64_t kFewElements = 64;
    if (IsStandard(node, "DequantizeLinear")) return true;
    const Tensor* weight = IsStandard(node, "Cast") ? editor_.Constant(node.inputs[0]) : nullptr;
    return weight && (weight->dtype() == DType::kFloat16 || weight->dtype() == DType::kBFloat16) &&
           node.Int("to", 0) == static_cast<int64_t>(DType::kFloat) && weight->size() >= kFewElements;
  }

  // Weights of recurrent layers, and of convolutions of floats, would be decoded by every run.
  bool IsReadDecoded(const std::string& value, int most_reshapes = 8) const {
    for (size_t index : editor_.Readers(value)) {
      const Node& reader = editor_.node(index);
      if (IsStandard(reader, "Reshape") && reader.inputs[0] == value && most_reshapes > 0 &&
          IsReadDecoded(reader.outputs[0], most_reshapes - 1))
        continue;
      if (IsStandard(reader, {"LSTM", "GRU", "RNN"})) continue;
      const bool is_weight = IsStandard(reader, {"Conv", "ConvTranspose"}) && reader.inputs[1] == value;
      if (!is_weight || MadeBy(editor_, reader.inputs[0], "DequantizeLinear")) return false;
    }
    return !editor_.Readers(value).empty();
  }

  // Operators whose result is not bounded by their inputs' size.
  static bool MayGrow(const Node& node) {
    for (const char* op :
         {"Expand", "Tile", "ConstantOfShape", "Range", "Pad", "Resize", "OneHot", "EyeLike", "Upsample"})
      if (IsStandard(node, op)) return true;
    return false;
  }
  bool GrowsLittle(const Node& node, size_t bytes) const {
    InferOptions options;
    options.on_error = [](const Node&, const Error&) {};
    auto known = [&](const std::string& name) -> const ValueFacts* {
      const Tensor* constant = editor_.Constant(name);
      if (!constant) return nullptr;
      return &(facts_[name] = FactsOf(*constant));
    };
    std::vector<ValueFacts> found = InferNode(node, known, options);
    if (found.empty() || !found[0].type.shape) return false;
    std::optional<Shape> shape = ToConcrete(*found[0].type.shape);
    return shape && static_cast<size_t>(shape->ElementCount()) * 8 <= bytes + kMostGrowth;
  }

  GraphEditor editor_;
  const bool keep_codes_;
  mutable FactsByName facts_;
};

}  // namespace

bool FoldConstants(Graph& graph, bool keep_codes) { return Folding(graph, keep_codes).Run(); }

}  // namespace ferry
