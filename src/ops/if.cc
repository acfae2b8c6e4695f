#include "ops/operator.h"

namespace ferry {
namespace {

void ComputeIf(OpContext& context) {
  const Tensor& condition = context.Input(0);
  Require(condition.size() == 1, "the condition must be a single element, has shape ", condition.shape());
  std::string_view branch = *condition.Data<bool>() ? "then_branch" : "else_branch";
  std::vector<Value> results = context.subgraph(branch).Run({});
  Require(results.size() == context.output_count(), branch, " has ", results.size(), " outputs, the node has ",
          context.output_count());
  for (size_t i = 0; i < results.size(); ++i) context.SetOutput(i, std::move(results[i]));
}

// What holds whichever branch runs. An optional on one side makes the result optional.
Type EitherType(const Type& a, const Type& b) {
  bool a_optional = a.kind == Type::Kind::kOptional, b_optional = b.kind == Type::Kind::kOptional;
  if (a_optional == b_optional || !a.known() || !b.known()) return Union(a, b);
  return Union(a_optional ? a : Type::OptionalOf(a), b_optional ? b : Type::OptionalOf(b));
}

void InferIf(InferContext& context) {
  std::vector<ValueFacts> then_facts = context.InferSubgraph("then_branch", {});
  std::vector<ValueFacts> else_facts = context.InferSubgraph("else_branch", {});
  const Tensor* condition = context.InputConstant(0);
  bool decided = condition && condition->dtype() == DType::kBool && condition->size() == 1;
  for (size_t i = 0; i < context.output_count() && i < then_facts.size() && i < else_facts.size(); ++i) {
    if (decided)
      context.SetOutputFacts(i, *condition->Data<bool>() ? then_facts[i] : else_facts[i]);
    else
      context.SetOutput(i, EitherType(then_facts[i].type, else_facts[i].type));
  }
}

}  // namespace

FERRY_OPERATOR(If, {.compute = ComputeIf, .infer = InferIf, .has_subgraphs = true});

}  // namespace ferry
