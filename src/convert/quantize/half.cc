#include "convert/quantize/half.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "convert/convert.h"
#include "graph/editor.h"
#include "graph/names.h"
#include "graph/standard.h"
#include "onnx/schema.h"
#include "ops/infer_graph.h"
#include "ops/support/cast_tensor.h"

namespace ferry::quantize {
namespace {

constexpr float kLargest = 65504;

class Halver {
 public:
  Halver(const Model& base, const HalfOptions& options)
      : base_(base), options_(options), names_(base), model_(CopyDeep(base)) {
    InferOptions infer;
    infer.on_error = [](const Node&, const Error&) {};
    facts_ = InferGraph(base.graph, {}, infer);
  }

  HalfModel Write(int64_t opset) {
    constexpr int64_t kBFloat16Everywhere = 22;  // convolutions and pools among the last
    opset_ = std::max<int64_t>(opset, options_.type == DType::kBFloat16 ? kBFloat16Everywhere : 7);
    Graph& graph = model_.graph;
    const std::vector<Node> nodes = std::move(graph.nodes);
    graph.nodes.clear();
    CountReaders(nodes);
    for (ValueInfo& input : graph.inputs) {
      const bool is_weight = graph.FindInitializer(input.name) != nullptr;
      if (input.type.dtype != DType::kFloat || is_weight) continue;
      if (options_.inputs && !options_.too_large.count(input.name)) {
        input.type.dtype = options_.type;
        half_.insert(input.name);
      }
    }
    for (const Node& node : nodes) Put(node);
    FinishOutputs();
    graph.value_infos.clear();
    ConvertWeights();
    DropUnused(graph);
    for (Node& node : graph.nodes) node.doc.clear(), node.metadata.clear();
    model_.producer_name = "ferry";
    HalfModel made;
    made.model = model_.OpsetOf("") > opset_ ? ConvertOpset(model_, opset_) : std::move(model_);
    made.kept = std::move(kept_);
    return made;
  }

 private:
  bool IsFloat(const std::string& value) const {
    const ValueFacts* facts = facts_.Find(value);
    return facts && facts->type.is_tensor() && facts->type.dtype == DType::kFloat;
  }
  bool IsWeight(const std::string& value) const {
    return base_.graph.FindInitializer(value) && !base_.graph.FindInput(value);
  }

  void CountReaders(const std::vector<Node>& nodes) {
    for (const Node& node : nodes)
      ForEachSubgraph(node, [&](const Graph& body) {
        ForEachGraph(body, [&](const Graph& inner) {
          for (const Node& one : inner.nodes)
            for (const std::string& input : one.inputs) read_by_bodies_.insert(input);
          for (const ValueInfo& output : inner.outputs) read_by_bodies_.insert(output.name);
        });
      });
  }

  // Whether the standard lets this input or output be of half precision.
  bool Allows(const Schema& schema, const SchemaParameter* parameter) const {
    return parameter && schema.TypesOf(*parameter).Contains(FindSchemaType(Type::Tensor(options_.type)));
  }

  std::string WhyNot(const Node& node, const Schema* schema) const {
    if (options_.keep.count(node.name) || (!node.outputs.empty() && options_.keep.count(node.outputs[0])))
      return "kept as the options say";
    if (!schema || !CanonicalDomain(node.domain).empty()) return "an operator of its own";
    bool has_body = false;
    ForEachSubgraph(node, [&](const Graph&) { has_body = true; });
    if (has_body) return "has a body";
    if (node.Has("dtype")) return "says its own type";
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const std::string& output = node.outputs[i];
      if (output.empty() || !IsFloat(output)) continue;
      if (!Allows(*schema, schema->OutputAt(i))) return "has no such numbers at this opset";
      if (options_.too_large.count(output)) return Cat("makes numbers beyond ", kLargest);
      if (read_by_bodies_.count(output)) return "is read by a body";
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].empty() || !IsFloat(node.inputs[i])) continue;
      if (options_.too_large.count(node.inputs[i])) return Cat("reads numbers beyond ", kLargest);
      if (IsWeight(node.inputs[i]) && !FitsWeight(node.inputs[i])) return Cat("has weights beyond ", kLargest);
      if (i == 0 && !Allows(*schema, schema->InputAt(i))) return "takes no such numbers at this opset";
    }
    return {};
  }

  bool FitsWeight(const std::string& name) const {
    if (options_.type != DType::kFloat16) return true;
    auto [found, is_new] = fits_.try_emplace(name, true);
    if (!is_new) return found->second;
    const Tensor& weight = base_.graph.FindInitializer(name)->Get();
    if (weight.dtype() != DType::kFloat) return true;
    const std::byte* raw = weight.raw();
    bool fits = true;
    for (int64_t i = 0; i < weight.size(); ++i) {
      float value;
      std::memcpy(&value, raw + i * 4, 4);
      fits &= !(std::abs(value) > kLargest) || !std::isfinite(value);
    }
    return found->second = fits;
  }

  // The value in one width or the other, with a Cast where it has only the other.
  std::string As(const std::string& value, bool half) {
    if (IsWeight(value)) {
      (half ? half_weights_ : wide_weights_).insert(value);
      return half ? HalfName(value) : value;
    }
    if (half_.count(value) == (half ? 1u : 0u)) return value;
    std::string& made = casts_[value];
    if (!made.empty()) return made;
    made = names_.Make(value + (half ? "_h" : "_w"));
    Node cast;
    cast.op_type = "Cast";
    cast.inputs = {value};
    cast.outputs = {made};
    cast.Set("to", static_cast<int64_t>(half ? options_.type : DType::kFloat));
    model_.graph.nodes.push_back(std::move(cast));
    return made;
  }

  std::string HalfName(const std::string& weight) {
    std::string& name = half_names_[weight];
    if (name.empty()) name = names_.Make(weight + "_h");
    return name;
  }

  void Put(const Node& node) {
    const Schema* schema = FindSchema(node.domain, node.op_type, opset_);
    const bool any =
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](const std::string& i) { return IsFloat(i); }) ||
        std::any_of(node.outputs.begin(), node.outputs.end(), [&](const std::string& o) { return IsFloat(o); });
    Node copy = node;
    if (!any) return model_.graph.nodes.push_back(std::move(copy));
    const std::string why = WhyNot(node, schema);
    const bool half = why.empty();
    if (!half) kept_.emplace_back(node.name.empty() ? node.outputs[0] : node.name, why);
    for (size_t i = 0; i < copy.inputs.size(); ++i) {
      if (copy.inputs[i].empty() || !IsFloat(copy.inputs[i])) continue;
      copy.inputs[i] = As(copy.inputs[i], half && Allows(*schema, schema->InputAt(i)));
    }
    for (const std::string& output : node.outputs)
      if (half && IsFloat(output)) half_.insert(output);
    if (half && IsStandard(copy, "Cast") && copy.Int("to", 0) == 1) copy.Set("to", static_cast<int64_t>(options_.type));
    if (half && IsStandard(copy, "ConstantOfShape")) {
      Tensor value = copy.Has("value") ? copy.TensorAttribute("value") : Tensor::Zeros(DType::kFloat, {1});
      copy.Set("value", std::make_shared<StoredTensor>(MakeStored("", CastTensor(value, options_.type))));
    }
    model_.graph.nodes.push_back(std::move(copy));
  }

  // Outputs keep their names: what made one in half precision is renamed and widened.
  void FinishOutputs() {
    for (ValueInfo& output : model_.graph.outputs) {
      if (!half_.count(output.name)) continue;
      if (options_.inputs) {
        output.type.dtype = options_.type;
        continue;
      }
      const std::string inner = names_.Make(output.name + "_h");
      for (Node& node : model_.graph.nodes) {
        std::replace(node.inputs.begin(), node.inputs.end(), output.name, inner);
        std::replace(node.outputs.begin(), node.outputs.end(), output.name, inner);
      }
      Node cast;
      cast.op_type = "Cast";
      cast.inputs = {inner};
      cast.outputs = {output.name};
      cast.Set("to", int64_t{1});
      model_.graph.nodes.push_back(std::move(cast));
    }
  }

  void ConvertWeights() {
    for (const std::string& name : half_weights_) {
      const Tensor& weight = base_.graph.FindInitializer(name)->Get();
      model_.graph.initializers.push_back(MakeStored(half_names_[name], CastTensor(weight, options_.type)));
    }
  }

  const Model& base_;
  const HalfOptions& options_;
  NameMaker names_;
  Model model_;
  GraphFacts facts_;
  int64_t opset_ = 0;
  std::set<std::string> half_, read_by_bodies_, half_weights_, wide_weights_;
  std::map<std::string, std::string> casts_, half_names_;
  mutable std::map<std::string, bool> fits_;
  std::vector<std::pair<std::string, std::string>> kept_;
};

}  // namespace

HalfModel WriteHalf(const Model& base, const HalfOptions& options, int64_t opset) {
  return Halver(base, options).Write(opset);
}

}  // namespace ferry::quantize
