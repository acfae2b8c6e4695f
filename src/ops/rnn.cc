#include "ops/operator.h"
#include "ops/support/recurrent.h"

namespace ferry {
namespace {

constexpr CellFunction kFunctions[] = {CellFunction::kTanh};

template <class T>
void RunDirection(const OpContext& context, const RecurrentPlan& plan, RecurrentTensors& tensors, int64_t direction) {
  RecurrentWalk<T> walk(context, plan, tensors, direction);
  std::vector<T> bias = BiasPart<T>(plan, tensors.inputs[3], direction, 0);
  std::vector<T> more = BiasPart<T>(plan, tensors.inputs[3], direction, 1);
  for (size_t i = 0; i < bias.size(); ++i) bias[i] += more[i];
  std::vector<T> h = FirstState<T>(plan, tensors.inputs[5], direction);
  const CellActivation& f = plan.activations[static_cast<size_t>(direction)];
  walk.Run(bias, tensors.outputs[0].MutableData<T>(), h.data(), [&](T* gates, T* state) {
    walk.AddRecurrence(0, 1, state, gates, plan.hidden);
    Activate(f, plan.clip, gates, plan.batch * plan.hidden);
    for (int64_t sequence = 0; sequence < plan.batch; ++sequence)
      if (walk.active(sequence))
        std::copy_n(gates + sequence * plan.hidden, plan.hidden, state + sequence * plan.hidden);
  });
  StoreState(plan, h, direction, tensors.outputs[1]);
}

void ComputeRnn(OpContext& context) {
  RecurrentPlan plan(context, 1, kFunctions);
  RecurrentTensors tensors(context, plan, 1);
  Dispatch(FloatTypes{}, tensors.inputs[0].dtype(), [&](auto tag) {
    for (int64_t direction = 0; direction < plan.directions; ++direction)
      RunDirection<typename decltype(tag)::type>(context, plan, tensors, direction);
  });
  tensors.Finish();
}

void InferRnn(InferContext& context) { InferRecurrent(context, 1, 1); }

}  // namespace

FERRY_OPERATOR(RNN, {.compute = ComputeRnn, .infer = InferRnn});

}  // namespace ferry
