#include "passes/widener.h"

#include <algorithm>

#include "base/mapped_file.h"
#include "graph/standard.h"
#include "onnx/node_rewrite.h"
#include "onnx/schema.h"
#include "ops/support/cast_tensor.h"
#include "tensor/alignment.h"

namespace ferry {
namespace {

// Attributes that name an element type of the result.
constexpr std::string_view kTypeAttributes[] = {"to", "dtype", "output_dtype", "output_datatype", "softmax_precision"};

bool IsContainer(const Type& type) {
  return (type.kind == Type::Kind::kSequence || type.kind == Type::Kind::kOptional) && type.element;
}

Node Cast(const std::string& from, const std::string& to, DType type) {
  Node cast = MakeNode("Cast", {from}, {to}, {{"to", static_cast<int64_t>(type)}});
  cast.name = Cat(to, " (cast)");
  return cast;
}

}  // namespace

bool IsLargeMatrix(const Tensor& tensor) {
  constexpr size_t kLarge = 64 << 10;
  return tensor.rank() == 2 && tensor.bytes() > kLarge;
}

bool MentionsWidened(const Type& type, const Widening& widening) {
  if (type.kind == Type::Kind::kTensor) return widening.takes(type.dtype);
  return IsContainer(type) && MentionsWidened(*type.element, widening);
}

Type Widen(const Type& type, const Widening& widening) {
  Type widened = type;
  if (type.kind == Type::Kind::kTensor && widening.takes(type.dtype)) widened.dtype = widening.to;
  if (IsContainer(type)) widened.element = std::make_shared<const Type>(Widen(*type.element, widening));
  return widened;
}

Widener::Widener(Graph& graph, GraphFacts facts, NameMaker& names, Widening widening,
                 std::unordered_set<std::string> narrow)
    : graph_(graph), names_(names), widening_(widening), narrow_(std::move(narrow)), facts_(std::move(facts)) {}

std::vector<std::string> Widener::Run() {
  Visit(graph_, facts_.values);
  return std::move(kept_);
}

void Widener::Visit(Graph& graph, const FactsByName& facts) {
  scopes_.push_back(&facts);
  for (auto* infos : {&graph.inputs, &graph.outputs, &graph.value_infos})
    for (ValueInfo& info : *infos)
      if (!IsNarrow(info.name)) info.type = Widen(info.type, widening_);
  for (StoredTensor& initializer : graph.initializers) {
    if (!widening_.takes(initializer.dtype) || IsNarrow(initializer.name)) continue;
    const Tensor narrow = initializer.Get();
    initializer = MakeStored(initializer.name, CastTensor(Readable(narrow), widening_.to));
    if (widening_.keeps_rounding && IsLargeMatrix(narrow)) weights_.push_back({narrow, initializer.tensor});
    DropPages(narrow.raw(), narrow.bytes());  // of the model's file, which nobody reads again
  }
  std::vector<Node> nodes = std::move(graph.nodes);
  graph.nodes.clear();
  for (Node& node : nodes) VisitNode(std::move(node), graph.nodes);
  scopes_.pop_back();
}

void Widener::VisitNode(Node node, std::vector<Node>& out) {
  for (Attribute& attribute : node.attributes)
    if (auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.held); body && *body) {
      auto facts = facts_.bodies.find(body->get());
      Visit(**body, facts == facts_.bodies.end() ? nothing_known_ : facts->second);
    }
  KeepPrecision(node);
  std::vector<Node> after;
  bool narrow = false;
  const Schema* schema = FindSchema(node.domain, node.op_type, NewestOpset(node.domain));
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (StaysNarrow(node, schema, schema ? schema->InputAt(i) : nullptr, node.inputs[i])) {
      narrow = true;
      node.inputs[i] = CastBefore(node.inputs[i], out);
    }
  bool computes_narrow = false;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    computes_narrow |= IsNarrow(node.outputs[i]);
    if (StaysNarrow(node, schema, schema ? schema->OutputAt(i) : nullptr, node.outputs[i])) {
      computes_narrow = true;
      after.push_back(CastAfter(node.outputs[i]));
    }
  }
  if (!computes_narrow) WidenAttributes(node, schema);
  if (!computes_narrow && !narrow) CastWhatInferenceLeavesNarrow(node, after);
  if (computes_narrow || !after.empty()) kept_.push_back(Describe(node));
  out.push_back(std::move(node));
  for (Node& cast : after) out.push_back(std::move(cast));
}

const Type* Widener::OriginalType(const std::string& name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
    if (auto it = (*scope)->find(name); it != (*scope)->end()) return &it->second.type;
  return nullptr;
}

// A body may have another value under the name of one outside.
bool Widener::IsNarrow(const std::string& name) const {
  return narrow_.count(name) &&
         std::none_of(scopes_.begin() + 1, scopes_.end(), [&](const auto* scope) { return scope->count(name) > 0; });
}

bool Widener::IsWidened(const std::string& name) const {
  const Type* type = name.empty() || IsNarrow(name) ? nullptr : OriginalType(name);
  return type && MentionsWidened(*type, widening_);
}

// The bits of a value change with its type, so what looks at bits must see the original ones.
bool Widener::StaysNarrow(const Node& node, const Schema* schema, const SchemaParameter* parameter,
                          const std::string& name) const {
  if (!IsWidened(name)) return false;
  if (!schema || !parameter || node.op_type == "BitCast" || MakesText(node)) return true;
  if (RoundsOnPurpose(node) && name == node.outputs[0]) return true;
  return !schema->TypesOf(*parameter).Contains(FindSchemaType(Widen(*OriginalType(name), widening_)));
}

// Which has as many digits as the type.
bool Widener::MakesText(const Node& node) const {
  const Type* like = IsStandard(node, "CastLike") && node.HasInput(1) ? OriginalType(node.inputs[1]) : nullptr;
  const int64_t to = IsStandard(node, "Cast") ? node.Int("to", 0) : 0;
  return to == static_cast<int64_t>(DType::kString) || (like && like->is_tensor() && like->dtype == DType::kString);
}

// To the type it has is no rounding.
bool Widener::RoundsOnPurpose(const Node& node) const {
  if (!widening_.keeps_rounding || !IsStandard(node, "Cast") || node.outputs.size() != 1) return false;
  const int64_t to = node.Int("to", 0);
  const Type* from = node.HasInput(0) ? OriginalType(node.inputs[0]) : nullptr;
  return IsWidenedNumber(to) && !(from && from->is_tensor() && from->dtype == static_cast<DType>(to));
}

std::string Widener::CastBefore(const std::string& name, std::vector<Node>& out) {
  std::string narrowed = names_.Make(Cat(name, " (as ", OriginalType(name)->dtype, ")"));
  out.push_back(Cast(name, narrowed, OriginalType(name)->dtype));
  return narrowed;
}

Node Widener::CastAfter(std::string& output) {
  std::string narrowed = names_.Make(Cat(output, " (as ", OriginalType(output)->dtype, ")"));
  Node cast = Cast(narrowed, output, widening_.to);
  output = narrowed;
  return cast;
}

bool Widener::IsWidenedNumber(int64_t number) const {
  return IsValidDType(number) && widening_.takes(static_cast<DType>(number));
}

// Quotients are rounded to the type of their scale.
void Widener::KeepPrecision(Node& node) const {
  if (!widening_.keeps_rounding || !IsStandard(node, "QuantizeLinear") || !node.HasInput(1)) return;
  const Type* scale = OriginalType(node.inputs[1]);
  if (IsWidened(node.inputs[1]) && node.Int("precision", 0) == 0)
    node.Set("precision", static_cast<int64_t>(scale->dtype));
}

void Widener::WidenAttributes(Node& node, const Schema* schema) {
  const auto wide = static_cast<int64_t>(widening_.to);
  for (std::string_view name : kTypeAttributes) {
    const SchemaAttribute* known = schema ? schema->FindAttribute(name) : nullptr;
    if (!known || known->type != AttributeType::kInt) continue;
    bool by_default = !node.Has(name) && known->has_default() && IsWidenedNumber(known->DefaultInt());
    if (by_default || IsWidenedNumber(node.Int(name, 0))) node.Set(name, wide);
  }
  if (Attribute* value = node.Find("value")) WidenConstant(*value);
  if (!widening_.takes(DType::kFloat)) return;
  if (node.op_type == "Constant") SpellOutFloats(node);
  if (node.op_type == "ConstantOfShape" && !node.Has("value"))
    node.Set("value",
             std::make_shared<StoredTensor>(MakeStored("", CastTensor(Tensor::FromVector<float>({0}), widening_.to))));
}

void Widener::WidenConstant(Attribute& attribute) const {
  auto* stored = std::get_if<std::shared_ptr<StoredTensor>>(&attribute.held);
  if (stored && *stored && widening_.takes((*stored)->dtype))
    *stored = std::make_shared<StoredTensor>(MakeStored((*stored)->name, CastTensor((*stored)->Get(), widening_.to)));
}

void Widener::SpellOutFloats(Node& node) const {
  Tensor value;
  if (const Attribute* one = node.Find("value_float")) {
    value = Tensor::Scalar<float>(std::get<float>(one->held));
  } else if (node.Has("value_floats")) {
    value = Tensor::FromVector(node.Floats("value_floats"));
  } else {
    return;
  }
  node.attributes.clear();
  node.Set("value", std::make_shared<StoredTensor>(MakeStored("", CastTensor(value, widening_.to))));
}

// Outputs whose type follows from no input and no attribute that was understood.
void Widener::CastWhatInferenceLeavesNarrow(Node& node, std::vector<Node>& after) {
  std::vector<ValueFacts> seen;
  auto known = [&](const std::string& name) -> const ValueFacts* {
    const Type* type = OriginalType(name);
    if (!type) return nullptr;
    ValueFacts& facts = widened_facts_[name];
    facts.type = IsNarrow(name) ? *type : Widen(*type, widening_);
    return &facts;
  };
  try {
    seen = InferNode(node, known);
  } catch (const Error&) {
    return;
  }
  for (size_t i = 0; i < seen.size() && i < node.outputs.size(); ++i)
    if (IsWidened(node.outputs[i]) && seen[i].type.is_tensor() && widening_.takes(seen[i].type.dtype))
      after.push_back(CastAfter(node.outputs[i]));
}

}  // namespace ferry
