#include "ops/infer_graph.h"
#include "ops/operator.h"
#include "ops/support/iteration.h"
#include "ops/support/scalar.h"

namespace ferry {
namespace {

bool ReadCondition(const Value& value) {
  const Tensor& tensor = value.tensor();
  Require(tensor.size() == 1, "the condition must be a single element, has shape ", tensor.shape());
  return *tensor.Data<bool>();
}

void ComputeLoop(OpContext& context) {
  constexpr size_t kFirstCarried = 2;
  Subgraph& body = context.subgraph("body");
  size_t carried = context.input_count() > kFirstCarried ? context.input_count() - kFirstCarried : 0;
  Require(body.input_count() == kFirstCarried + carried, "the body takes ", body.input_count(),
          " inputs, the node gives ", kFirstCarried + carried);
  Require(body.output_count() >= 1 + carried && body.output_count() - 1 == context.output_count(), "the body has ",
          body.output_count(), " outputs, the node ", context.output_count(), " and ", carried, " values are carried");
  bool has_trips = context.Has(0), has_condition = context.Has(1);
  int64_t trips = has_trips ? ScalarInt(context.Input(0), "the trip count") : INT64_MAX;
  bool goes_on = !has_condition || ReadCondition(context.InputValue(1));

  std::vector<Value> inputs(body.input_count());
  for (size_t i = 0; i < carried; ++i) inputs[kFirstCarried + i] = context.InputValue(kFirstCarried + i).Persistent();
  std::vector<StackedOutput> stacked(body.output_count() - 1 - carried);
  for (int64_t trip = 0; trip < trips && goes_on; ++trip) {
    context.CheckCancelled();
    CountIteration(context, trip);
    inputs[0] = Tensor::Scalar(trip);
    inputs[1] = Tensor::Scalar(goes_on);
    std::vector<Value> outputs = body.Run(inputs);
    // Without a condition going in, what the body says about it is ignored.
    if (has_condition) goes_on = ReadCondition(outputs[0]);
    for (size_t i = 0; i < carried; ++i) inputs[kFirstCarried + i] = std::move(outputs[1 + i]);
    for (size_t i = 0; i < stacked.size(); ++i) stacked[i].Add(std::move(outputs[1 + carried + i]));
  }
  for (size_t i = 0; i < stacked.size(); ++i) {
    if (stacked[i].empty())
      WriteEmptyStack(context, carried + i, 0, inputs, 1 + carried + i);
    else
      stacked[i].Write(context, carried + i, 0, false);
  }
  for (size_t i = 0; i < carried; ++i) context.SetOutput(i, std::move(inputs[kFirstCarried + i]));
}

bool IsConstantTrue(const std::optional<Tensor>& constant) {
  return constant && constant->dtype() == DType::kBool && constant->size() == 1 && *constant->Data<bool>();
}

void InferLoop(InferContext& context) {
  constexpr size_t kFirstCarried = 2;
  size_t carried_count = context.input_count() > kFirstCarried ? context.input_count() - kFirstCarried : 0;
  std::vector<Type> carried;
  for (size_t i = 0; i < carried_count; ++i) carried.push_back(context.InputType(kFirstCarried + i));
  std::vector<ValueFacts> facts = SettleCarriedTypes(carried, 1, [&](const std::vector<Type>& types) {
    std::vector<ValueFacts> inputs(kFirstCarried);
    inputs[0].type = Type::Tensor(DType::kInt64, SymbolicShape{});
    inputs[1] = FactsOf(Tensor::Scalar(true));  // or the body would not run
    for (const Type& type : types) inputs.push_back({.type = type});
    return context.InferSubgraph("body", inputs);
  });
  // All trips are made when nothing can stop the loop before.
  bool is_counted = !context.Has(1) || (IsConstantTrue(context.InputFacts(1).constant) && !facts.empty() &&
                                        IsConstantTrue(facts[0].constant));
  Dim trips;
  if (is_counted) trips = KnownScalar(context, 0);
  if (trips.known() && *trips.value < 0) trips = Dim(0);
  for (size_t i = 0; i < context.output_count() && 1 + i < facts.size(); ++i) {
    if (i < carried_count) {
      context.SetOutput(i, carried[i]);
      continue;
    }
    Type stacked = facts[1 + i].type;
    if (stacked.shape) stacked.shape->insert(stacked.shape->begin(), trips);
    context.SetOutput(i, std::move(stacked));
  }
}

}  // namespace

FERRY_OPERATOR(Loop, {.compute = ComputeLoop, .infer = InferLoop, .has_subgraphs = true});

}  // namespace ferry
