// Nodes against the schemas of their operators: which operator, how many inputs and outputs, of which types.
#include "base/text.h"
#include "onnx/checker/context.h"
#include "onnx/schema.h"

namespace ferry::checker {
namespace {

std::string ShownDomain(std::string_view domain) {
  domain = CanonicalDomain(domain);
  return domain.empty() ? "ai.onnx" : Printable(domain);
}

// What ONNX Runtime has in the standard's domain although the standard does not.
bool IsExtension(const Node& node) {
  for (std::string_view name : {"Affine", "Crop", "DynamicSlice", "ImageScaler", "ParametricSoftplus", "Scale",
                                "ScaledTanh", "SimplifiedLayerNormalization"})
    if (node.op_type == name) return CanonicalDomain(node.domain).empty();
  return false;
}

std::string SuggestOperator(const Node& node) {
  if (node.op_type == "SimplifiedLayerNormalization" && IsExtension(node))
    return "; ONNX Runtime has it, the standard's is RMSNormalization";
  if (IsExtension(node)) return "; ONNX Runtime has it, the standard no longer";
  std::vector<std::string> names;
  for (const Schema& schema : AllSchemas())
    if (schema.domain() == CanonicalDomain(node.domain)) names.emplace_back(schema.name());
  std::string closest = ClosestName(node.op_type, names);
  return closest.empty() ? "" : Cat("; did you mean ", closest, "?");
}

// The schema of a standard operator at the imported opset; reports why there is none.
const Schema* FindSchemaFor(const Node& node, const GraphContext& context) {
  Report& report = context.report();
  int64_t opset = OpsetOf(context.opsets, node.domain);
  bool ancient = context.model.model.ir_version > 0 && context.model.model.ir_version < 3 && context.opsets.empty();
  if (opset == 0 && ancient) opset = 1;
  if (opset == 0) {
    report.Add("node.domain-not-imported", context.At(node),
               Cat("domain ", ShownDomain(node.domain), " is not imported"));
    return nullptr;
  }
  if (NewestOpset(node.domain) == 0) {
    report.Add("node.unknown-domain", context.At(node),
               Cat("domain ", ShownDomain(node.domain), " is not part of the standard"));
    return nullptr;
  }
  const Schema* schema = FindSchema(node.domain, node.op_type, opset);
  if (schema) return schema;
  auto versions = SchemaVersions(node.domain, node.op_type);
  if (versions.empty())
    report.Add("node.unknown-operator", context.At(node),
               Cat("there is no operator ", Printable(node.op_type), " in domain ", ShownDomain(node.domain),
                   SuggestOperator(node)));
  else
    report.Add(
        "node.too-new", context.At(node),
        Cat(node.op_type, " came with opset ", int64_t{versions.front().since_version}, ", the model imports ", opset));
  return nullptr;
}

struct Side {
  const char* singular;
  const char* count_rule;
  const char* missing_rule;
};

void CheckSide(const Node& node, const std::vector<std::string>& actual, std::span<const SchemaParameter> formal,
               uint32_t least, uint32_t most, const Side& side, const GraphContext& context) {
  Report& report = context.report();
  std::string limit = most == Schema::kUnlimited ? Cat(least, " or more")
                      : least == most            ? Cat(most)
                                                 : Cat(least, " to ", most);
  if (actual.size() < least || (most != Schema::kUnlimited && actual.size() > most))
    report.Add(side.count_rule, context.At(node),
               Cat("has ", actual.size(), " ", side.singular, "s, the operator has ", limit));
  for (size_t i = 0; i < actual.size() && i < formal.size(); ++i)
    if (actual[i].empty() && formal[i].option == SchemaParameter::Option::kSingle)
      report.Add(side.missing_rule, context.At(node, formal[i].name()),
                 Cat(side.singular, " ", i, " (", formal[i].name(), ") is left out, but the operator needs it"));
}

std::string ShownTypes(const SchemaTypeSet& types) {
  constexpr size_t kShown = 8;
  std::vector<std::string> names;
  size_t count = 0;
  for (size_t id = 1; id < SchemaTypeCount(); ++id)
    if (types.Contains(static_cast<SchemaTypeId>(id)) && ++count <= kShown)
      names.emplace_back(SchemaTypeName(static_cast<SchemaTypeId>(id)));
  return Cat(Join(names, ", "), count > kShown ? " …" : "");
}

void CheckCall(const Node& node, const Function& function, const GraphContext& context) {
  Report& report = context.report();
  if (node.inputs.size() > function.inputs.size())
    report.Add("call.inputs", context.At(node),
               Cat("gives ", node.inputs.size(), " inputs, the function has ", function.inputs.size()));
  if (node.outputs.size() > function.outputs.size())
    report.Add("call.outputs", context.At(node),
               Cat("takes ", node.outputs.size(), " outputs, the function has ", function.outputs.size()));
  for (const std::string& name : function.attributes)
    if (!node.Has(name)) report.Add("call.attribute", context.At(node, name), "the function needs this attribute");
  for (const Attribute& attribute : node.attributes) {
    bool declared = false;
    for (const std::string& name : function.attributes) declared |= name == attribute.name;
    for (const Attribute& with_default : function.attribute_defaults) declared |= with_default.name == attribute.name;
    if (!declared) report.Add("call.attribute", context.At(node, attribute.name), "the function has no such attribute");
  }
}

}  // namespace

void CheckNodeTypes(const Node& node, const Schema& schema, GraphContext& context) {
  struct Bound {
    SchemaTypeId id;
    std::string_view name;  // of the first parameter that has it
  };
  std::unordered_map<uint16_t, Bound> bound;  // by type constraint
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const SchemaParameter* parameter = schema.InputAt(i);
    SchemaTypeId id = node.inputs[i].empty() || !parameter ? SchemaTypeId{0} : context.scope->TypeIdOf(node.inputs[i]);
    if (id == 0) continue;
    SchemaTypeSet allowed = schema.TypesOf(*parameter);
    if (!allowed.Contains(id)) {
      context.report().Add("node.input-type", context.At(node, node.inputs[i]),
                           Cat("input ", i, " (", parameter->name(), ") is ", SchemaTypeName(id), "; allowed are ",
                               ShownTypes(allowed)));
    } else if (parameter->homogeneous) {
      auto [it, is_new] = bound.emplace(parameter->type_at, Bound{id, parameter->name()});
      if (!is_new && it->second.id != id)
        context.report().Add("node.types-differ", context.At(node, node.inputs[i]),
                             Cat("input ", i, " (", parameter->name(), ") is ", SchemaTypeName(id), ", but ",
                                 it->second.name, " is ", SchemaTypeName(it->second.id), "; they must be the same"));
    }
  }
}

void CheckNode(const Node& node, GraphContext& context) {
  Report& report = context.report();
  if (node.op_type.empty()) return report.Add("node.op-type-missing", context.At(node), "the node names no operator");
  if (node.inputs.empty() && node.outputs.empty())
    report.Add("node.empty", context.At(node), "the node has no input and no output");
  auto function = context.model.functions.find(FunctionKey(node.domain, node.op_type, node.overload));
  if (function != context.model.functions.end()) {
    if (OpsetOf(context.opsets, node.domain) == 0)
      report.Add("node.domain-not-imported", context.At(node),
                 Cat("domain ", ShownDomain(node.domain), " is not imported"));
    CheckCall(node, *function->second, context);
    CheckAttributes(node, nullptr, context);
    return CheckBodies(node, context);
  }
  const Schema* schema = FindSchemaFor(node, context);
  if (schema && schema->deprecated) {
    report.Add("node.deprecated", context.At(node),
               Cat(schema->name(), " is deprecated since opset ", int64_t{schema->since_version}));
    schema = nullptr;
  }
  if (schema) {
    static constexpr Side kInputs = {"input", "node.inputs", "node.input-missing"};
    static constexpr Side kOutputs = {"output", "node.outputs", "node.output-missing"};
    CheckSide(node, node.inputs, schema->inputs(), schema->min_inputs, schema->max_inputs, kInputs, context);
    CheckSide(node, node.outputs, schema->outputs(), schema->min_outputs, schema->max_outputs, kOutputs, context);
    CheckNodeTypes(node, *schema, context);
  }
  CheckAttributes(node, schema, context);
  CheckBodies(node, context);
}

}  // namespace ferry::checker
