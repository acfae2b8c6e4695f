// What RNN, GRU and LSTM share: sizes, activations, and the walk through time in either direction.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/gemm.h"
#include "kernels/row_kernels.h"
#include "ops/context.h"
#include "ops/infer_context.h"
#include "ops/support/dispatch.h"
#include "ops/support/widen.h"

namespace ferry {

enum class CellFunction : uint8_t {
  kRelu,
  kTanh,
  kSigmoid,
  kAffine,
  kLeakyRelu,
  kThresholdedRelu,
  kScaledTanh,
  kHardSigmoid,
  kElu,
  kSoftsign,
  kSoftplus,
};

struct CellActivation {
  CellFunction function = CellFunction::kTanh;
  float alpha = 0, beta = 0;
};

// `gates` is 1, 3 or 4: how many matrices lie under each other in W and R.
struct RecurrentPlan {
  int64_t gates, steps = 0, batch = 0, inputs = 0, hidden = 0, directions = 1;
  bool first_is_reverse = false;
  bool batch_first = false;
  float clip = 0;                           // 0: none
  std::vector<CellActivation> activations;  // per direction, in the order of the operator's functions
  std::vector<int64_t> lengths;             // per sequence of the batch

  // `functions` are the operator's defaults for one direction. Checks X, W, R, B, sequence_lens and initial_h, which
  // all three operators have at inputs 0 to 5.
  RecurrentPlan(const OpContext& context, int64_t gate_count, std::span<const CellFunction> functions);

  bool is_reverse(int64_t direction) const { return direction == 1 || first_is_reverse; }
  Shape SequenceShape() const;  // of Y
  Shape StateShape() const;     // of Y_h and Y_c
  // Where a state or an output begins, in elements.
  int64_t StateOffset(int64_t direction, int64_t sequence) const {
    return (batch_first ? sequence * directions + direction : direction * batch + sequence) * hidden;
  }
  int64_t OutputOffset(int64_t step, int64_t direction, int64_t sequence) const {
    return (batch_first ? (sequence * steps + step) * directions + direction
                        : (step * directions + direction) * batch + sequence) *
           hidden;
  }
};

// Sets outputs 0 (all steps) and 1 … states (last states).
void InferRecurrent(InferContext& context, int64_t gates, size_t states);

// values[i] = f(clipped values[i])
template <class T>
void Activate(const CellActivation& activation, float clip, T* values, int64_t count);

// Y, its last states, and X, W … widened to what arithmetic is done in.
struct RecurrentTensors {
  std::vector<Tensor> inputs;   // undefined where omitted
  std::vector<Tensor> outputs;  // all steps, then the last states

  RecurrentTensors(OpContext& context, const RecurrentPlan& plan, size_t states);
  void Finish();  // narrows the outputs into their places

 private:
  std::vector<Tensor*> places_;
};

// Walks one direction. For each step, step(gates, h) finds X·Wᵀ + `input_bias` in gates [batch, gates · hidden] and the
// last states in h [batch, hidden]; it computes the new ones in place and restores what it must not change itself:
// `active(sequence)` tells whether a sequence still runs.
template <class T>
class RecurrentWalk {
 public:
  RecurrentWalk(const OpContext& context, const RecurrentPlan& plan, const RecurrentTensors& tensors, int64_t direction)
      : context_(context),
        plan_(plan),
        direction_(direction),
        x_(tensors.inputs[0].Data<T>()),
        w_(tensors.inputs[1].Data<T>() + direction * plan.gates * plan.hidden * plan.inputs),
        r_(tensors.inputs[2].Data<T>() + direction * plan.gates * plan.hidden * plan.hidden) {}

  // The recurrence weights of some gates, applied: out[batch, count · hidden] += h · R[gate …]ᵀ.
  void AddRecurrence(int64_t gate, int64_t count, const T* h, T* out, int64_t out_row) const {
    if constexpr (std::is_same_v<T, float>)
      if (plan_.batch <= kFewSequences) return AddDots(gate, count, h, out, out_row);
    Gemm<T>({.m = plan_.batch,
             .n = count * plan_.hidden,
             .k = plan_.hidden,
             .a = h,
             .a_row = plan_.hidden,
             .b = r_ + gate * plan_.hidden * plan_.hidden,
             .b_row = 1,
             .b_col = plan_.hidden,
             .c = out,
             .c_row = out_row,
             .accumulate = true},
            context_.services().pool);
  }

  bool active(int64_t sequence) const { return step_ < plan_.lengths[static_cast<size_t>(sequence)]; }

  template <class Step>
  void Run(const std::vector<T>& input_bias, T* y, T* h, const Step& step) {
    int64_t row = plan_.gates * plan_.hidden;
    // Inputs are taken to the gates for some steps at a time, so that long sequences need little memory.
    constexpr int64_t kChunkElements = 1 << 20;
    int64_t chunk = std::clamp<int64_t>(kChunkElements / std::max<int64_t>(plan_.batch * row, 1), 1, 256);
    chunk = std::min(chunk, std::max<int64_t>(plan_.steps, 1));
    std::vector<T> inputs(static_cast<size_t>(chunk * plan_.batch * plan_.inputs));
    std::vector<T> gates(static_cast<size_t>(chunk * plan_.batch * row));
    for (int64_t first = 0; first < plan_.steps; first += chunk) {
      int64_t count = std::min(chunk, plan_.steps - first);
      Gather(first, count, inputs.data());
      for (int64_t i = 0; i < count * plan_.batch; ++i) std::copy_n(input_bias.data(), row, gates.data() + i * row);
      Gemm<T>({.m = count * plan_.batch,
               .n = row,
               .k = plan_.inputs,
               .a = inputs.data(),
               .a_row = plan_.inputs,
               .b = w_,
               .b_row = 1,
               .b_col = plan_.inputs,
               .c = gates.data(),
               .c_row = row,
               .accumulate = true},
              context_.services().pool);
      for (int64_t i = 0; i < count; ++i) {
        step_ = first + i;
        context_.CheckCancelled();
        step(gates.data() + i * plan_.batch * row, h);
        Store(h, y);
      }
    }
  }

 private:
  // Few sequences: rows of R are read as they lie, at the speed of memory.
  static constexpr int64_t kFewSequences = 2;
  void AddDots(int64_t gate, int64_t count, const T* h, T* out, int64_t out_row) const {
    const RowKernels& kernels = BestRowKernels();
    const T* weights = r_ + gate * plan_.hidden * plan_.hidden;
    constexpr int64_t kPieceWork = 1 << 18;
    int64_t grain = std::max<int64_t>(1, kPieceWork / std::max<int64_t>(plan_.hidden, 1));
    context_.ParallelFor(count * plan_.hidden, grain, [&](int64_t first, int64_t last) {
      for (int64_t line = first; line < last; ++line)
        for (int64_t sequence = 0; sequence < plan_.batch; ++sequence)
          out[sequence * out_row + line] +=
              kernels.dot(weights + line * plan_.hidden, h + sequence * plan_.hidden, plan_.hidden);
    });
  }

  // The place in the input that a sequence is at; a reversed one starts at its own end.
  int64_t TimeOf(int64_t step, int64_t sequence) const {
    return plan_.is_reverse(direction_) ? plan_.lengths[static_cast<size_t>(sequence)] - 1 - step : step;
  }

  void Gather(int64_t first, int64_t count, T* to) const {
    for (int64_t step = first; step < first + count; ++step)
      for (int64_t sequence = 0; sequence < plan_.batch; ++sequence, to += plan_.inputs) {
        if (step >= plan_.lengths[static_cast<size_t>(sequence)]) {
          std::fill_n(to, plan_.inputs, T{0});
          continue;
        }
        int64_t time = TimeOf(step, sequence);
        int64_t at = plan_.batch_first ? sequence * plan_.steps + time : time * plan_.batch + sequence;
        std::copy_n(x_ + at * plan_.inputs, plan_.inputs, to);
      }
  }

  void Store(const T* h, T* y) const {
    for (int64_t sequence = 0; sequence < plan_.batch; ++sequence) {
      if (active(sequence))
        std::copy_n(h + sequence * plan_.hidden, plan_.hidden,
                    y + plan_.OutputOffset(TimeOf(step_, sequence), direction_, sequence));
      else
        std::fill_n(y + plan_.OutputOffset(step_, direction_, sequence), plan_.hidden, T{0});
    }
  }

  const OpContext& context_;
  const RecurrentPlan& plan_;
  int64_t direction_;
  const T *x_, *w_, *r_;
  int64_t step_ = 0;
};

// The state a direction starts from, [batch, hidden]: `initial` in the node's layout, or zeros when it is undefined.
template <class T>
std::vector<T> FirstState(const RecurrentPlan& plan, const Tensor& initial, int64_t direction) {
  std::vector<T> state(static_cast<size_t>(plan.batch * plan.hidden));
  for (int64_t sequence = 0; sequence < plan.batch && initial.defined(); ++sequence)
    std::copy_n(initial.Data<T>() + plan.StateOffset(direction, sequence), plan.hidden,
                state.data() + sequence * plan.hidden);
  return state;
}

template <class T>
void StoreState(const RecurrentPlan& plan, const std::vector<T>& state, int64_t direction, Tensor& to) {
  for (int64_t sequence = 0; sequence < plan.batch; ++sequence)
    std::copy_n(state.data() + sequence * plan.hidden, plan.hidden,
                to.MutableData<T>() + plan.StateOffset(direction, sequence));
}

// One half of a direction's biases: part 0 belongs to W, part 1 to R. Zeros when B is omitted.
template <class T>
std::vector<T> BiasPart(const RecurrentPlan& plan, const Tensor& bias, int64_t direction, int64_t part) {
  int64_t count = plan.gates * plan.hidden;
  if (!bias.defined()) return std::vector<T>(static_cast<size_t>(count));
  const T* from = bias.Data<T>() + (2 * direction + part) * count;
  return {from, from + count};
}

}  // namespace ferry
