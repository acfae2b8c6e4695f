#include "passes/fold_constants.h"

#include "ops/evaluate.h"
#include "ops/infer_graph.h"
#include "ops/operator.h"
#include "passes/match.h"

namespace ferry {
namespace {

// Results may be this much larger than what they are made of.
constexpr size_t kMostGrowth = size_t{1} << 20;

class Folding {
 public:
  explicit Folding(Graph& graph) : editor_(graph) {}

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
    std::vector<Value> values;
    size_t bytes = 0;
    for (const std::string& name : node.inputs) {
      const Tensor* constant = name.empty() ? nullptr : editor_.Constant(name);
      if (!constant && !name.empty()) return;
      values.push_back(constant ? Value(*constant) : Value());
      if (constant) bytes += constant->bytes();
    }
    if (MayGrow(node) && !GrowsLittle(node, bytes)) return;
    std::vector<const Value*> inputs;
    for (const Value& value : values) inputs.push_back(value.present() ? &value : nullptr);
    std::vector<Value> results;
    try {
      results = EvaluateNode(node, inputs, RunServices{});
    } catch (const Error&) {
      return;  // it fails where it is reached, with the same words
    }
    if (results.size() != 1 || !results[0].is_tensor() || results[0].tensor().bytes() > bytes + kMostGrowth) return;
    std::string output = node.outputs[0];
    Tensor result = results[0].tensor().Persistent();
    editor_.Remove(index);
    editor_.DefineConstant(output, std::move(result));
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

  // Quantised weights stay small; the operators that read them know how.
  static bool StaysUnfolded(const Node& node) { return IsStandard(node, "DequantizeLinear"); }

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
  mutable FactsByName facts_;
};

}  // namespace

bool FoldConstants(Graph& graph) { return Folding(graph).Run(); }

}  // namespace ferry
