#include <cmath>
#include <limits>

#include "base/work_poll.h"
#include "ops/operator.h"
#include "ops/support/dispatch.h"
#include "ops/support/pool.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

template <class T>
constexpr T kLowest = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                           : std::numeric_limits<T>::lowest();

template <class T>
bool Beats(T value, T best) {
  if constexpr (std::is_floating_point_v<T>) return value > best || std::isnan(value);
  return value > best;
}

template <class T>
void PoolPlane(const PoolPlan& plan, const T* plane, T* out) {
  const WindowAxis& last = plan.axes.back();
  std::fill_n(out, plan.counts.output, kLowest<T>);
  WorkPoll poll;
  ForEachKernelRow(plan.axes, [&](int64_t row, int64_t, int64_t offset) {
    poll(last.kernel * last.output);
    T* to = out + row * last.output;
    for (int64_t k = 0; k < last.kernel; ++k) {
      OutputRange valid = ValidOutputs(last, k);
      int64_t from = offset + last.Position(0, k);
      for (int64_t j = valid.begin; j < valid.end; ++j) {
        T value = plane[from + j * last.stride];
        to[j] = Beats(value, to[j]) ? value : to[j];
      }
    }
  });
}

template <class T>
void PoolPlaneWithPlaces(const PoolPlan& plan, const T* plane, T* out, int64_t* places) {
  const WindowAxis& last = plan.axes.back();
  std::fill_n(out, plan.counts.output, kLowest<T>);
  std::fill_n(places, plan.counts.output, int64_t{-1});
  WorkPoll poll;
  ForEachKernelRow(plan.axes, [&](int64_t row, int64_t, int64_t offset) {
    poll(last.kernel * last.output);
    int64_t to = row * last.output;
    for (int64_t k = 0; k < last.kernel; ++k) {
      OutputRange valid = ValidOutputs(last, k);
      int64_t from = offset + last.Position(0, k);
      for (int64_t j = valid.begin; j < valid.end; ++j) {
        T value = plane[from + j * last.stride];
        if (places[to + j] >= 0 && !Beats(value, out[to + j])) continue;
        out[to + j] = value;
        places[to + j] = from + j * last.stride;
      }
    }
  });
}

// An offset into a plane counted with the first axis fastest.
int64_t ColumnMajor(const PoolPlan& plan, int64_t place) {
  std::vector<int64_t> index(plan.axes.size());
  for (size_t a = plan.axes.size(); a-- > 0; place /= plan.axes[a].input) index[a] = place % plan.axes[a].input;
  int64_t result = 0;
  for (size_t a = plan.axes.size(); a-- > 0;) result = result * plan.axes[a].input + index[a];
  return result;
}

void FinishPlaces(const PoolPlan& plan, bool column_major, int64_t plane, int64_t* places) {
  for (int64_t i = 0; i < plan.counts.output; ++i) {
    if (places[i] < 0) continue;
    if (column_major) places[i] = ColumnMajor(plan, places[i]);
    places[i] += plane * plan.counts.input;
  }
}

void ComputeMaxPool(OpContext& context) {
  const Tensor& x = context.Input(0);
  PoolPlan plan(context.node(), x.shape());
  Tensor& y = context.Output(0, x.dtype(), plan.output);
  bool wants_places = context.Wants(1);
  bool column_major = context.node().Int("storage_order", 0) != 0;
  int64_t* places = wants_places ? context.Output(1, DType::kInt64, plan.output).MutableData<int64_t>() : nullptr;
  bool is_small = IsSmallFloat(x.dtype());
  Tensor wide = is_small ? WidenToFloat(x) : x;
  Tensor result = is_small ? Tensor(DType::kFloat, plan.output) : y;
  int64_t work = std::max<int64_t>(plan.counts.output * plan.counts.taps, 1);
  Dispatch(TypeList<float, double, int8_t, uint8_t>{}, wide.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = wide.Data<T>();
    T* to = result.MutableData<T>();
    context.ParallelFor(plan.planes, 1 + 65536 / work, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* plane = from + i * plan.counts.input;
        T* out = to + i * plan.counts.output;
        if (!wants_places) {
          PoolPlane(plan, plane, out);
          continue;
        }
        PoolPlaneWithPlaces(plan, plane, out, places + i * plan.counts.output);
        FinishPlaces(plan, column_major, i, places + i * plan.counts.output);
      }
    });
  });
  NarrowInto(result, y);
}

void InferMaxPool(InferContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  if (!x) {
    context.SetOutput(0, context.InputDType(0));
    return context.SetOutput(1, DType::kInt64);
  }
  SymbolicShape out = InferPooled(context, *x);
  context.SetOutput(0, context.InputDType(0), out);
  context.SetOutput(1, DType::kInt64, std::move(out));
}

}  // namespace

FERRY_OPERATOR(MaxPool, {.compute = ComputeMaxPool, .infer = InferMaxPool});

}  // namespace ferry
