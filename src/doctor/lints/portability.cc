// What the target runtimes state that they do not support.
#include <algorithm>
#include <map>

#include "doctor/lint.h"
#include "measure/elements.h"
#include "onnx/schema.h"

namespace ferry {
namespace {

constexpr size_t kNodesNamed = 10;

std::string KeyOf(const Node& node) {
  std::string_view domain = CanonicalDomain(node.domain);
  if (domain.empty()) return node.op_type;
  return Cat(domain == "ai.onnx.ml" ? "ml" : domain, ".", node.op_type);
}

class NodeCheck {
 public:
  NodeCheck(const Patient& patient, const Target& target) : patient_(patient), target_(target) {}

  // Why the target does not take the node; empty when it does. Whether it is only in part is in `in_part`.
  std::string Why(const Node& node, bool& in_part) const {
    auto found = target_.operators.find(KeyOf(node));
    if (found == target_.operators.end()) {
      if (target_.takes_functions_apart && IsFunction(node)) return {};
      if (patient_.model().FindFunction(node.domain, node.op_type, node.overload)) return {};
      return Cat("is not supported: it ", target_.missing);
    }
    const TargetOperator& op = found->second;
    std::string why = WhyTypes(node, op);
    if (why.empty()) why = WhyShape(node, op);
    if (why.empty()) why = WhyInputs(node, op);
    if (why.empty() && op.in_part) in_part = true, why = "is supported in part";
    return why;
  }

 private:
  bool IsFunction(const Node& node) const {
    const Schema* schema = FindSchema(node.domain, node.op_type, patient_.model().OpsetOf(node.domain));
    return schema && schema->is_function;
  }

  std::string WhyTypes(const Node& node, const TargetOperator& op) const {
    if (op.types.empty()) return {};
    // The tables give the types of the data; sizes, axes, indices and truth values have types of their own.
    std::vector<std::string> data;
    if (node.HasInput(0)) data.push_back(node.inputs[0]);
    if (node.HasOutput(0) && (data.empty() || node.op_type == "Cast")) data.push_back(node.outputs[0]);
    for (const std::string& name : data) {
      const Type* type = patient_.TypeOf(name);
      if (type && type->is_tensor() && type->dtype != DType::kUndefined && !op.types.count(type->dtype))
        return Cat("is not supported for ", type->dtype, ": it ", target_.missing);
    }
    return {};
  }

  std::string WhyShape(const Node& node, const TargetOperator& op) const {
    const Type* type = node.HasInput(0) ? patient_.TypeOf(node.inputs[0]) : nullptr;
    if (op.most_rank < 0 || !type || !type->has_rank()) return {};
    auto rank = static_cast<int64_t>(type->shape->size());
    if (rank >= op.least_rank && rank <= op.most_rank) return {};
    return Cat("is supported for ranks ", op.least_rank, " to ", op.most_rank, ", not ", rank);
  }

  std::string WhyInputs(const Node& node, const TargetOperator& op) const {
    for (size_t input : op.constant_inputs)
      if (node.HasInput(input) && !patient_.ConstantOf(node.inputs[input]))
        return Cat("needs a constant as input ", input, ", and '", Printable(node.inputs[input]), "' is computed");
    if (op.most_outputs >= 0)
      for (size_t i = static_cast<size_t>(op.most_outputs); i < node.outputs.size(); ++i)
        if (node.HasOutput(i)) return Cat("gives only ", op.most_outputs, " output there");
    const Tensor* zero_point =
        op.zero_point_is_zero && node.HasInput(2) ? patient_.ConstantOf(node.inputs[2]) : nullptr;
    if (zero_point && IsInteger(zero_point->dtype())) {
      std::vector<double> points = ToDoubles(*zero_point);
      if (std::any_of(points.begin(), points.end(), [](double point) { return point != 0; }))
        return "needs a zero point of 0";
    }
    return {};
  }

  const Patient& patient_;
  const Target& target_;
};

void LookAt(const Target& target, const Patient& patient, FindingList& findings) {
  struct Group {
    Place first;
    std::vector<std::string> nodes;
    int64_t count = 0;
    bool in_part = false;
  };
  std::map<std::pair<std::string, std::string>, Group> groups;  // by operator and reason
  NodeCheck check(patient, target);
  ForEachNode(patient.model(), [&](const Node& node, const std::string& where) {
    bool in_part = false;
    std::string why = check.Why(node, in_part);
    if (why.empty()) return;
    Group& group = groups[{node.op_type, why}];
    Place place = PlaceOf(node, where);
    if (group.count++ == 0) group.first = place, group.in_part = in_part;
    if (group.nodes.size() < kNodesNamed) group.nodes.push_back(place.node);
  });
  for (const auto& [kind, group] : groups) {
    Finding& finding = findings.Add(group.first, Cat("on ", target.title, " ", kind.first, " ", kind.second));
    if (group.in_part) finding.severity = Severity::kNote;
    finding.evidence = {{"nodes", Cat(group.count, ": ", Join(group.nodes, ", "))},
                        {"target", target.name},
                        {"source", Cat(target.source, ", ", target.date)}};
  }
}

void Look(const Patient& patient, FindingList& findings) {
  for (const Target& target : patient.targets()) LookAt(target, patient, findings);
}

}  // namespace

extern const Lint lint_portability;
constinit const Lint lint_portability = {
    .name = "portability",
    .meaning = "Every node is one that the target runtime states it supports, with the types it has.",
    .remedy = "Write that part of the network with other operators, or run it on another runtime.",
    .look = Look,
};

}  // namespace ferry
