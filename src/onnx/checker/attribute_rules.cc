// Attributes by themselves and against schemas, and the bodies of control flow inside them.
#include <algorithm>

#include "base/text.h"
#include "onnx/checker/context.h"
#include "onnx/schema.h"

namespace ferry::checker {
namespace {

// Attributes that begin so are left to implementations.
bool IsInternal(std::string_view name) { return name.substr(0, 2) == "__"; }

void CheckReference(const Node& node, const Attribute& attribute, const GraphContext& context) {
  Place place = context.At(node, attribute.name);
  if (!context.function)
    return context.report().Add("attribute.reference", place, "refers to an attribute of a call outside any function");
  const Function& function = *context.function;
  bool declared = std::count(function.attributes.begin(), function.attributes.end(), attribute.ref_name) > 0;
  for (const Attribute& with_default : function.attribute_defaults) declared |= with_default.name == attribute.ref_name;
  if (!declared)
    context.report().Add("attribute.reference", place,
                         Cat("refers to '", Printable(attribute.ref_name), "', which the function does not declare"));
}

void CheckHeldTensors(const Node& node, const Attribute& attribute, const GraphContext& context) {
  Place place = context.At(node, attribute.name);
  Report& report = context.report();
  if (auto* one = std::get_if<std::shared_ptr<StoredTensor>>(&attribute.held); one && *one)
    CheckTensor(**one, place, report);
  if (auto* many = std::get_if<std::vector<std::shared_ptr<StoredTensor>>>(&attribute.held))
    for (const auto& tensor : *many)
      if (tensor) CheckTensor(*tensor, place, report);
  if (auto* one = std::get_if<std::shared_ptr<StoredSparseTensor>>(&attribute.held); one && *one)
    CheckSparseTensor(**one, place, report);
  if (auto* many = std::get_if<std::vector<std::shared_ptr<StoredSparseTensor>>>(&attribute.held))
    for (const auto& tensor : *many)
      if (tensor) CheckSparseTensor(*tensor, place, report);
}

void CheckAgainstSchema(const Node& node, const Attribute& attribute, const Schema& schema,
                        const GraphContext& context) {
  const SchemaAttribute* formal = schema.FindAttribute(attribute.name);
  Place place = context.At(node, attribute.name);
  if (!formal) {
    if (IsInternal(attribute.name)) return;
    std::vector<std::string> known;
    for (const SchemaAttribute& one : schema.attributes()) known.emplace_back(one.name());
    std::string closest = ClosestName(attribute.name, known);
    return context.report().Add("attribute.unknown", place,
                                Cat(schema.name(), " has no attribute '", Printable(attribute.name), "' at this opset",
                                    closest.empty() ? "" : Cat("; did you mean '", closest, "'?")));
  }
  if (attribute.type != formal->type)
    context.report().Add("attribute.type", place,
                         Cat("is of type ", Name(attribute.type), "; ", schema.name(), " needs ", Name(formal->type)));
}

void CheckBody(const Graph& body, std::string_view attribute, const Node& node, GraphContext& context) {
  std::string where = Cat(attribute, " of ", Describe(node));
  if (!context.where.empty() && context.depth < 3) where += Cat(" in ", context.where);
  Scope scope(body.nodes, context.opsets, context.scope);
  GraphContext inner{.model = context.model,
                     .where = std::move(where),
                     .opsets = context.opsets,
                     .outer = &context,
                     .function = context.function,
                     .depth = context.depth + 1,
                     .scope = &scope};
  CheckGraph(body, inner);
}

void RequireCount(const char* rule, size_t has, size_t needs, const char* what, std::string_view attribute,
                  const Node& node, const GraphContext& context) {
  if (has != needs)
    context.report().Add(rule, context.At(node, attribute),
                         Cat("the body has ", has, " ", what, ", the node needs ", needs));
}

// How If, Loop and Scan fit their bodies.
void CheckBodyArity(const Node& node, const GraphContext& context) {
  if (!CanonicalDomain(node.domain).empty()) return;
  auto body_of = [&](std::string_view name) -> const Graph* {
    const Attribute* attribute = node.Find(name);
    auto* body = attribute ? std::get_if<std::shared_ptr<Graph>>(&attribute->held) : nullptr;
    return body ? body->get() : nullptr;
  };
  if (node.op_type == "If") {
    for (std::string_view name : {"then_branch", "else_branch"}) {
      const Graph* body = body_of(name);
      if (!body) continue;
      RequireCount("body.inputs", body->inputs.size(), 0, "inputs", name, node, context);
      RequireCount("body.outputs", body->outputs.size(), node.outputs.size(), "outputs", name, node, context);
    }
  }
  const Graph* body = body_of("body");
  if (node.op_type == "Loop" && body && node.inputs.size() >= 2) {
    RequireCount("body.inputs", body->inputs.size(), node.inputs.size(), "inputs", "body", node, context);
    RequireCount("body.outputs", body->outputs.size(), node.outputs.size() + 1, "outputs", "body", node, context);
  }
  if (node.op_type == "Scan" && body && OpsetOf(context.opsets, "") >= 9) {
    RequireCount("body.inputs", body->inputs.size(), node.inputs.size(), "inputs", "body", node, context);
    RequireCount("body.outputs", body->outputs.size(), node.outputs.size(), "outputs", "body", node, context);
  }
}

}  // namespace

void CheckAttributes(const Node& node, const Schema* schema, GraphContext& context) {
  Report& report = context.report();
  std::unordered_set<std::string_view> seen;
  for (const Attribute& attribute : node.attributes) {
    if (attribute.name.empty()) {
      report.Add("attribute.name-missing", context.At(node), "an attribute has no name");
      continue;
    }
    if (!seen.insert(attribute.name).second)
      report.Add("attribute.duplicate", context.At(node, attribute.name), "is given twice");
    if (!attribute.problem.empty())
      report.Add("attribute.malformed", context.At(node, attribute.name), attribute.problem);
    else if (schema)
      CheckAgainstSchema(node, attribute, *schema, context);
    if (!attribute.ref_name.empty()) CheckReference(node, attribute, context);
    CheckHeldTensors(node, attribute, context);
  }
  if (!schema) return;
  for (const SchemaAttribute& formal : schema->attributes())
    if (formal.required && !seen.count(formal.name()))
      report.Add("attribute.missing", context.At(node, formal.name()),
                 Cat(schema->name(), " needs the attribute '", formal.name(), "'"));
}

void CheckBodies(const Node& node, GraphContext& context) {
  for (const Attribute& attribute : node.attributes) {
    if (auto* one = std::get_if<std::shared_ptr<Graph>>(&attribute.held); one && *one)
      CheckBody(**one, attribute.name, node, context);
    else if (auto* many = std::get_if<std::vector<std::shared_ptr<Graph>>>(&attribute.held))
      for (const auto& body : *many)
        if (body) CheckBody(*body, attribute.name, node, context);
  }
  CheckBodyArity(node, context);
}

}  // namespace ferry::checker
