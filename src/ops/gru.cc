#include "ops/operator.h"
#include "ops/support/recurrent.h"

namespace ferry {
namespace {

// f for the update and reset gates, g for the hidden gate.
constexpr CellFunction kFunctions[] = {CellFunction::kSigmoid, CellFunction::kTanh};

// Gates lie in the order z, r, h.
template <class T>
void RunDirection(const OpContext& context, const RecurrentPlan& plan, RecurrentTensors& tensors, int64_t direction) {
  RecurrentWalk<T> walk(context, plan, tensors, direction);
  int64_t hidden = plan.hidden, row = 3 * hidden;
  bool linear_first = context.node().Int("linear_before_reset", 0) != 0;
  std::vector<T> bias = BiasPart<T>(plan, tensors.inputs[3], direction, 0);
  std::vector<T> recurrent_bias = BiasPart<T>(plan, tensors.inputs[3], direction, 1);
  // The hidden gate's recurrent bias goes through the reset gate when that comes after the product.
  int64_t added = linear_first ? 2 * hidden : row;
  for (int64_t i = 0; i < added; ++i) bias[static_cast<size_t>(i)] += recurrent_bias[static_cast<size_t>(i)];
  std::vector<T> h = FirstState<T>(plan, tensors.inputs[5], direction);
  std::vector<T> scratch(h.size());
  const CellActivation& f = plan.activations[static_cast<size_t>(2 * direction)];
  const CellActivation& g = plan.activations[static_cast<size_t>(2 * direction + 1)];

  walk.Run(bias, tensors.outputs[0].MutableData<T>(), h.data(), [&](T* gates, T* state) {
    walk.AddRecurrence(0, 2, state, gates, row);
    for (int64_t sequence = 0; sequence < plan.batch; ++sequence) {
      Activate(f, plan.clip, gates + sequence * row, 2 * hidden);
      const T* reset = gates + sequence * row + hidden;
      const T* last = state + sequence * hidden;
      T* to = scratch.data() + sequence * hidden;
      for (int64_t i = 0; i < hidden; ++i)
        to[i] = linear_first ? recurrent_bias[static_cast<size_t>(2 * hidden + i)] : reset[i] * last[i];
    }
    if (linear_first)
      walk.AddRecurrence(2, 1, state, scratch.data(), hidden);
    else
      walk.AddRecurrence(2, 1, scratch.data(), gates + 2 * hidden, row);
    for (int64_t sequence = 0; sequence < plan.batch; ++sequence) {
      T* gate = gates + sequence * row;
      T* candidate = gate + 2 * hidden;
      if (linear_first)
        for (int64_t i = 0; i < hidden; ++i)
          candidate[i] += gate[hidden + i] * scratch[static_cast<size_t>(sequence * hidden + i)];
      Activate(g, plan.clip, candidate, hidden);
      if (!walk.active(sequence)) continue;
      T* to = state + sequence * hidden;
      for (int64_t i = 0; i < hidden; ++i) to[i] = (T{1} - gate[i]) * candidate[i] + gate[i] * to[i];
    }
  });
  StoreState(plan, h, direction, tensors.outputs[1]);
}

void ComputeGru(OpContext& context) {
  RecurrentPlan plan(context, 3, kFunctions);
  RecurrentTensors tensors(context, plan, 1);
  Dispatch(FloatTypes{}, tensors.inputs[0].dtype(), [&](auto tag) {
    for (int64_t direction = 0; direction < plan.directions; ++direction)
      RunDirection<typename decltype(tag)::type>(context, plan, tensors, direction);
  });
  tensors.Finish();
}

void InferGru(InferContext& context) { InferRecurrent(context, 3, 1); }

}  // namespace

FERRY_OPERATOR(GRU, {.compute = ComputeGru, .infer = InferGru});

}  // namespace ferry
