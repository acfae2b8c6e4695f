#include "ops/support/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "ops/support/float_softmax.h"
#include "ops/support/rounding.h"

namespace ferry {

HeadLayout::HeadLayout(const Shape& shape, int64_t packed_heads, const char* what) {
  Require(shape.rank() == 3 || shape.rank() == 4, what, " must have 3 or 4 axes, its shape is ", shape);
  batch = shape[0];
  if (shape.rank() == 4) {
    heads = shape[1];
    length = shape[2];
    size = shape[3];
    return;
  }
  is_packed = true;
  heads = packed_heads;
  length = shape[1];
  Require(heads >= 1, "the number of heads must be given for ", what, " of shape ", shape);
  Require(shape[2] % heads == 0, what, " of shape ", shape, " cannot be split into ", heads, " heads");
  size = shape[2] / heads;
}

DType SoftmaxType(int64_t number, DType otherwise) {
  if (number == 0) return otherwise;
  for (DType type : {DType::kFloat, DType::kFloat16, DType::kDouble, DType::kBFloat16})
    if (number == static_cast<int64_t>(type)) return type;
  Fail(ErrorCode::kInvalidModel, "softmax_precision ", number, " is none of float (1), float16 (10), double (11), ",
       "bfloat16 (16)");
}

namespace {

// `Real` is what `type` is computed in; rounding follows every step for the small floats.
template <class Real>
void Softmax(DType type, Real* row, int64_t count) {
  RoundTo(type, row, count);
  Real largest = -std::numeric_limits<Real>::infinity();
  for (int64_t i = 0; i < count; ++i)
    if (row[i] > largest || std::isnan(row[i])) largest = row[i];
  if (largest == -std::numeric_limits<Real>::infinity()) {
    std::fill_n(row, count, Real{0});
    return;
  }
  for (int64_t i = 0; i < count; ++i) row[i] -= largest;
  RoundTo(type, row, count);
  for (int64_t i = 0; i < count; ++i) row[i] = std::exp(row[i]);
  RoundTo(type, row, count);
  Real sum = SumRounded(type, row, count);
  for (int64_t i = 0; i < count; ++i) row[i] /= sum;
  RoundTo(type, row, count);
}

}  // namespace

template <class T>
void SoftmaxRow(DType type, T* row, int64_t count) {
  using Other = std::conditional_t<std::is_same_v<T, float>, double, float>;
  if constexpr (std::is_same_v<T, float>) {
    if (type == DType::kFloat) return FloatSoftmax(row, count);
  }
  bool is_wide = type == DType::kDouble;
  if (is_wide == std::is_same_v<T, double>) return Softmax<T>(type, row, count);
  std::vector<Other> other(row, row + count);
  Softmax<Other>(type, other.data(), count);
  std::copy(other.begin(), other.end(), row);
}
template void SoftmaxRow(DType, float*, int64_t);
template void SoftmaxRow(DType, double*, int64_t);

}  // namespace ferry
