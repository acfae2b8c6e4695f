#include "passes/widen_floats.h"

#include <algorithm>

#include "graph/names.h"
#include "onnx/node_rewrite.h"
#include "onnx/schema.h"
#include "ops/infer_graph.h"
#include "ops/support/cast_tensor.h"

namespace ferry {
namespace {

constexpr auto kDoubleNumber = static_cast<int64_t>(DType::kDouble);

// Attributes that name an element type of the result.
constexpr std::string_view kTypeAttributes[] = {"to", "dtype", "output_dtype", "output_datatype", "softmax_precision"};

bool IsWidenedNumber(int64_t number) { return IsValidDType(number) && IsWidenedToDouble(static_cast<DType>(number)); }

bool MentionsWidened(const Type& type) {
  if (type.kind == Type::Kind::kTensor) return IsWidenedToDouble(type.dtype);
  bool is_container = type.kind == Type::Kind::kSequence || type.kind == Type::Kind::kOptional;
  return is_container && type.element && MentionsWidened(*type.element);
}

class Widener {
 public:
  explicit Widener(Graph& graph, NameMaker& names) : names_(names) {
    InferOptions options;
    options.on_error = [](const Node&, const Error&) {};
    facts_ = InferGraph(graph, {}, options);
    Visit(graph, facts_.values);
  }

  std::vector<std::string> Finish() { return std::move(kept_); }

 private:
  void Visit(Graph& graph, const FactsByName& facts) {
    scopes_.push_back(&facts);
    for (auto* infos : {&graph.inputs, &graph.outputs, &graph.value_infos})
      for (ValueInfo& info : *infos) info.type = WidenToDouble(info.type);
    for (StoredTensor& initializer : graph.initializers)
      if (IsWidenedToDouble(initializer.dtype))
        initializer = MakeStored(initializer.name, WidenToDouble(initializer.Get()));
    std::vector<Node> nodes = std::move(graph.nodes);
    graph.nodes.clear();
    for (Node& node : nodes) VisitNode(std::move(node), graph.nodes);
    scopes_.pop_back();
  }

  void VisitNode(Node node, std::vector<Node>& out) {
    for (Attribute& attribute : node.attributes)
      if (auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.held); body && *body) {
        auto facts = facts_.bodies.find(body->get());
        Visit(**body, facts == facts_.bodies.end() ? nothing_known_ : facts->second);
      }
    std::vector<Node> after;
    bool narrow = false;
    const Schema* schema = FindSchema(node.domain, node.op_type, NewestOpset(node.domain));
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (StaysNarrow(node, schema, schema ? schema->InputAt(i) : nullptr, node.inputs[i])) {
        narrow = true;
        node.inputs[i] = CastBefore(node.inputs[i], out);
      }
    bool computes_narrow = false;
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (StaysNarrow(node, schema, schema ? schema->OutputAt(i) : nullptr, node.outputs[i])) {
        computes_narrow = true;
        after.push_back(CastAfter(node.outputs[i]));
      }
    if (!computes_narrow) WidenAttributes(node, schema);
    if (!computes_narrow && !narrow) CastWhatInferenceLeavesNarrow(node, after);
    if (computes_narrow || !after.empty()) kept_.push_back(Describe(node));
    out.push_back(std::move(node));
    for (Node& cast : after) out.push_back(std::move(cast));
  }

  const Type* OriginalType(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (auto it = (*scope)->find(name); it != (*scope)->end()) return &it->second.type;
    return nullptr;
  }

  bool WasWidened(const std::string& name) const {
    const Type* type = name.empty() ? nullptr : OriginalType(name);
    return type && MentionsWidened(*type);
  }

  // The bits of a value change with its type, so what looks at bits must see the original ones.
  bool StaysNarrow(const Node& node, const Schema* schema, const SchemaParameter* parameter,
                   const std::string& name) const {
    if (!WasWidened(name)) return false;
    if (!schema || !parameter || node.op_type == "BitCast") return true;
    return !schema->TypesOf(*parameter).Contains(FindSchemaType(WidenToDouble(*OriginalType(name))));
  }

  Node Cast(const std::string& from, const std::string& to, DType type) {
    Node cast = MakeNode("Cast", {from}, {to}, {{"to", static_cast<int64_t>(type)}});
    cast.name = to;
    return cast;
  }

  std::string CastBefore(const std::string& name, std::vector<Node>& out) {
    std::string narrowed = names_.Make(Cat(name, "_narrow"));
    out.push_back(Cast(name, narrowed, OriginalType(name)->dtype));
    return narrowed;
  }

  Node CastAfter(std::string& output) {
    std::string narrowed = names_.Make(Cat(output, "_narrow"));
    Node cast = Cast(narrowed, output, DType::kDouble);
    output = narrowed;
    return cast;
  }

  void WidenAttributes(Node& node, const Schema* schema) {
    for (std::string_view name : kTypeAttributes) {
      const SchemaAttribute* known = schema ? schema->FindAttribute(name) : nullptr;
      if (!known || known->type != AttributeType::kInt) continue;
      bool by_default = !node.Has(name) && known->has_default() && IsWidenedNumber(known->DefaultInt());
      if (by_default || IsWidenedNumber(node.Int(name, 0))) node.Set(name, kDoubleNumber);
    }
    if (Attribute* value = node.Find("value"))
      if (auto* stored = std::get_if<std::shared_ptr<StoredTensor>>(&value->held))
        if (*stored && IsWidenedToDouble((*stored)->dtype))
          *stored = std::make_shared<StoredTensor>(MakeStored((*stored)->name, WidenToDouble((*stored)->Get())));
    if (node.op_type == "Constant") SpellOutFloats(node);
    if (node.op_type == "ConstantOfShape" && !node.Has("value"))
      node.Set("value", std::make_shared<StoredTensor>(MakeStored("", Tensor::FromVector<double>({0}))));
  }

  void SpellOutFloats(Node& node) {
    Tensor value;
    if (const Attribute* one = node.Find("value_float")) {
      value = Tensor::Scalar<double>(std::get<float>(one->held));
    } else if (node.Has("value_floats")) {
      std::vector<float> floats = node.Floats("value_floats");
      value = Tensor::FromVector(std::vector<double>(floats.begin(), floats.end()));
    } else {
      return;
    }
    node.attributes.clear();
    node.Set("value", std::make_shared<StoredTensor>(MakeStored("", value)));
  }

  // Outputs whose type follows from no input and no attribute that was understood.
  void CastWhatInferenceLeavesNarrow(Node& node, std::vector<Node>& after) {
    std::vector<ValueFacts> seen;
    auto known = [&](const std::string& name) -> const ValueFacts* {
      const Type* type = OriginalType(name);
      if (!type) return nullptr;
      ValueFacts& facts = widened_facts_[name];
      facts.type = WidenToDouble(*type);
      return &facts;
    };
    try {
      seen = InferNode(node, known);
    } catch (const Error&) {
      return;
    }
    for (size_t i = 0; i < seen.size() && i < node.outputs.size(); ++i)
      if (WasWidened(node.outputs[i]) && seen[i].type.is_tensor() && IsWidenedToDouble(seen[i].type.dtype))
        after.push_back(CastAfter(node.outputs[i]));
  }

  NameMaker& names_;
  GraphFacts facts_;
  const FactsByName nothing_known_;
  FactsByName widened_facts_;
  std::vector<const FactsByName*> scopes_;
  std::vector<std::string> kept_;
};

}  // namespace

bool IsWidenedToDouble(DType type) {
  return type == DType::kFloat || type == DType::kFloat16 || type == DType::kBFloat16;
}

Tensor WidenToDouble(const Tensor& tensor) {
  return IsWidenedToDouble(tensor.dtype()) ? CastTensor(tensor, DType::kDouble) : tensor;
}

Value WidenToDouble(const Value& value) {
  if (value.is_tensor()) return WidenToDouble(value.tensor());
  if (!value.is_sequence()) return value;
  Sequence widened;
  for (const Value& element : value.sequence().elements) widened.elements.push_back(WidenToDouble(element));
  return widened;
}

Type WidenToDouble(const Type& type) {
  Type widened = type;
  if (type.kind == Type::Kind::kTensor && IsWidenedToDouble(type.dtype)) widened.dtype = DType::kDouble;
  bool is_container = type.kind == Type::Kind::kSequence || type.kind == Type::Kind::kOptional;
  if (is_container && type.element) widened.element = std::make_shared<const Type>(WidenToDouble(*type.element));
  return widened;
}

std::vector<std::string> WidenFloats(Graph& graph) {
  Model around;  // names are made for a whole model
  around.graph = std::move(graph);
  NameMaker names(around);
  names.Make("widened");  // gathers the names in use while every node is still in its place
  std::vector<std::string> kept = Widener(around.graph, names).Finish();
  graph = std::move(around.graph);
  return kept;
}

}  // namespace ferry
