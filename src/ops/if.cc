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

// A branch that is never taken may contradict the shapes at hand: that is why it is not taken.
void InferUntaken(InferContext& context, std::string_view branch) {
  try {
    context.InferSubgraph(branch, {});
  } catch (const Error&) {
  }
}

void InferIf(InferContext& context) {
  const Tensor* condition = context.InputConstant(0);
  if (condition && condition->dtype() == DType::kBool && condition->size() == 1) {
    bool taken = *condition->Data<bool>();
    std::vector<ValueFacts> facts = context.InferSubgraph(taken ? "then_branch" : "else_branch", {});
    InferUntaken(context, taken ? "else_branch" : "then_branch");
    for (size_t i = 0; i < facts.size(); ++i) context.SetOutputFacts(i, std::move(facts[i]));
    return;
  }
  std::vector<ValueFacts> then_facts = context.InferSubgraph("then_branch", {});
  std::vector<ValueFacts> else_facts = context.InferSubgraph("else_branch", {});
  for (size_t i = 0; i < then_facts.size() && i < else_facts.size(); ++i)
    context.SetOutput(i, EitherType(then_facts[i].type, else_facts[i].type));
}

}  // namespace

FERRY_OPERATOR(If, {.compute = ComputeIf, .infer = InferIf, .has_subgraphs = true});

}  // namespace ferry
