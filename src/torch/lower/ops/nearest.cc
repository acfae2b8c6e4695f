#include "torch/lower/ops/nearest.h"

#include <algorithm>
#include <cmath>

#include "torch/lower/ops/support.h"

namespace ferry::torch {
namespace {

// What a place is multiplied by to find where it comes from: PyTorch has it in the type it computes in.
double StepOf(double step, DType type) { return type == DType::kDouble ? step : double{static_cast<float>(step)}; }

Operand KnownPlaces(Builder& b, int64_t from, int64_t to, std::optional<double> factor, DType type, bool halves) {
  RequireFewPositions(static_cast<double>(to));
  double step = StepOf(factor ? 1 / *factor : static_cast<double>(from) / static_cast<double>(to), type);
  std::vector<int64_t> places;
  for (int64_t i = 0; i < to; ++i) {
    double place = StepOf((static_cast<double>(i) + (halves ? 0.5 : 0)) * step, type);
    int64_t last = std::max<int64_t>(from - 1, 0);
    bool within = place >= 0 && place < static_cast<double>(last);  // a hostile factor gives anything
    places.push_back(within ? static_cast<int64_t>(std::floor(place)) : last);
  }
  return b.Ints(places);
}

Operand OpenPlaces(Builder& b, const Operand& from, const Stretching& s, DType type, bool halves) {
  Operand to = b.Of(s.size, DType::kInt64);
  Operand step = s.factor ? b.Number(1 / *s.factor, type) : b.Div(b.Cast(from, type), b.Cast(to, type));
  Operand places = b.Cast(b.Range(b.Int(0), to, b.Int(1)), type);
  if (halves) places = b.Add(places, 0.5);
  Operand picked = b.Cast(b.Floor(b.Mul(places, step)), DType::kInt64);
  return b.Min(picked, b.Sub(from, 1));
}

}  // namespace

bool IsSameInResize(double factor) {
  if (factor < 1) {
    int exponent;
    return std::frexp(factor, &exponent) == 0.5;
  }
  // Where 1 / factor is rounded down, PyTorch itself picks the pixel before.
  return factor == std::floor(factor) && double{static_cast<float>(1 / factor)} * factor >= 1;
}

Operand NearestOf(Builder& b, Operand x, const std::vector<Stretching>& axes, bool halves) {
  DType type = x.dtype() == DType::kDouble ? DType::kDouble : DType::kFloat;
  for (size_t i = 0; i < axes.size(); ++i) {
    const Stretching& s = axes[i];
    auto axis = static_cast<int64_t>(x.rank() - axes.size() + i);
    Dim size = x.dim(axis);
    bool stays = (!s.factor || *s.factor == 1) && SameDim(size, s.size.AsDim());
    if (stays) continue;
    bool known = size.known() && s.size.is_known();
    Operand places = known ? KnownPlaces(b, *size.value, s.size.AsInt(), s.factor, type, halves)
                           : OpenPlaces(b, b.AsRank0(b.SizeOf(x, axis)), s, type, halves);
    x = b.Gather(x, places, axis);
  }
  return x;
}

}  // namespace ferry::torch
