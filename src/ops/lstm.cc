#include "ops/operator.h"
#include "ops/support/recurrent.h"

namespace ferry {
namespace {

// f for the input, output and forget gates, g for the cell gate, h for the new cell.
constexpr CellFunction kFunctions[] = {CellFunction::kSigmoid, CellFunction::kTanh, CellFunction::kTanh};

template <class T>
struct LstmCell {
  const RecurrentPlan& plan;
  const CellActivation *f, *g, *h;
  bool couples_forget;
  std::vector<T> peephole;  // i, o, f; empty: none

  // Gates of one sequence lie in the order i, o, f, c; `cell` becomes the new cell, the result the new state.
  void Run(T* gates, T* cell, T* result) const {
    int64_t n = plan.hidden;
    T *in = gates, *out = gates + n, *forget = gates + 2 * n, *candidate = gates + 3 * n;
    if (!peephole.empty()) {
      Peep(0, cell, in);
      Peep(2, cell, forget);
    }
    Activate(*f, plan.clip, in, n);
    if (couples_forget)
      for (int64_t i = 0; i < n; ++i) forget[i] = T{1} - in[i];
    else
      Activate(*f, plan.clip, forget, n);
    Activate(*g, plan.clip, candidate, n);
    for (int64_t i = 0; i < n; ++i) cell[i] = forget[i] * cell[i] + in[i] * candidate[i];
    if (!peephole.empty()) Peep(1, cell, out);
    Activate(*f, plan.clip, out, n);
    std::copy_n(cell, n, result);
    Activate(*h, plan.clip, result, n);
    for (int64_t i = 0; i < n; ++i) result[i] *= out[i];
  }

 private:
  void Peep(int64_t which, const T* cell, T* gate) const {
    const T* weights = peephole.data() + which * plan.hidden;
    for (int64_t i = 0; i < plan.hidden; ++i) gate[i] += weights[i] * cell[i];
  }
};

template <class T>
void RunDirection(const OpContext& context, const RecurrentPlan& plan, RecurrentTensors& tensors, int64_t direction) {
  RecurrentWalk<T> walk(context, plan, tensors, direction);
  int64_t hidden = plan.hidden, row = 4 * hidden;
  std::vector<T> bias = BiasPart<T>(plan, tensors.inputs[3], direction, 0);
  std::vector<T> more = BiasPart<T>(plan, tensors.inputs[3], direction, 1);
  for (size_t i = 0; i < bias.size(); ++i) bias[i] += more[i];
  std::vector<T> h = FirstState<T>(plan, tensors.inputs[5], direction);
  std::vector<T> c = FirstState<T>(plan, tensors.inputs[6], direction);
  const CellActivation* functions = plan.activations.data() + 3 * direction;
  LstmCell<T> cell{plan, functions, functions + 1, functions + 2, context.node().Int("input_forget", 0) != 0, {}};
  if (tensors.inputs[7].defined()) {
    const T* from = tensors.inputs[7].Data<T>() + direction * 3 * hidden;
    cell.peephole.assign(from, from + 3 * hidden);
  }
  walk.Run(bias, tensors.outputs[0].MutableData<T>(), h.data(), [&](T* gates, T* state) {
    walk.AddRecurrence(0, 4, state, gates, row);
    for (int64_t sequence = 0; sequence < plan.batch; ++sequence)
      if (walk.active(sequence))
        cell.Run(gates + sequence * row, c.data() + sequence * hidden, state + sequence * hidden);
  });
  StoreState(plan, h, direction, tensors.outputs[1]);
  StoreState(plan, c, direction, tensors.outputs[2]);
}

void ComputeLstm(OpContext& context) {
  RecurrentPlan plan(context, 4, kFunctions);
  if (const Tensor* initial = context.OptionalInput(6))
    Require(initial->shape() == plan.StateShape(), "initial_c must have shape ", plan.StateShape(), ", has ",
            initial->shape());
  if (const Tensor* peephole = context.OptionalInput(7))
    Require(peephole->shape() == Shape{plan.directions, 3 * plan.hidden}, "P must have shape ",
            Shape{plan.directions, 3 * plan.hidden}, ", has ", peephole->shape());
  RecurrentTensors tensors(context, plan, 2);
  Dispatch(FloatTypes{}, tensors.inputs[0].dtype(), [&](auto tag) {
    for (int64_t direction = 0; direction < plan.directions; ++direction)
      RunDirection<typename decltype(tag)::type>(context, plan, tensors, direction);
  });
  tensors.Finish();
}

void InferLstm(InferContext& context) { InferRecurrent(context, 4, 2); }

}  // namespace

FERRY_OPERATOR(LSTM, {.compute = ComputeLstm, .infer = InferLstm});

}  // namespace ferry
