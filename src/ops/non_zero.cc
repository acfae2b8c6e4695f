#include "base/poll.h"
#include "ops/operator.h"
#include "ops/support/elements.h"
#include "ops/support/infer.h"
#include "ops/support/movement.h"

namespace ferry {
namespace {

// The bits that make an element non-zero: all but the signs, because -0.0 is zero.
uint64_t ValueBits(DType dtype) {
  if (dtype == DType::kComplex64) return 0x7fffffff7fffffff;
  if (dtype == DType::kComplex128) return ~(uint64_t{1} << 63);
  return IsFloating(dtype) ? ~(uint64_t{1} << (BitWidth(dtype) - 1)) : ~uint64_t{0};
}

std::vector<int64_t> NonZeroPlaces(const Tensor& tensor) {
  std::vector<int64_t> places;
  uint64_t mask = ValueBits(tensor.dtype());
  Tensor x = Movable(tensor);
  Poll poll;
  ForEachWidth(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* data = RawData<T>(x);
    for (int64_t i = 0; i < x.size(); ++i, poll()) {
      bool is_set;
      if constexpr (std::is_same_v<T, std::string>)
        is_set = !data[i].empty();
      else if constexpr (std::is_same_v<T, Bytes16>)
        is_set = ((data[i].low | data[i].high) & mask) != 0;
      else
        is_set = (data[i] & mask) != 0;
      if (is_set) places.push_back(i);
    }
  });
  return places;
}

void ComputeNonZero(OpContext& context) {
  const Tensor& x = context.Input(0);
  std::vector<int64_t> places = NonZeroPlaces(x);
  auto count = static_cast<int64_t>(places.size()), rank = static_cast<int64_t>(x.rank());
  int64_t* out = context.Output(0, DType::kInt64, {rank, count}).MutableData<int64_t>();
  for (int64_t axis = rank; axis-- > 0;) {
    int64_t dim = x.dim(static_cast<size_t>(axis));
    for (int64_t i = 0; i < count; ++i) {
      int64_t& place = places[static_cast<size_t>(i)];
      out[axis * count + i] = place % dim;
      place /= dim;
    }
  }
}

void InferNonZero(InferContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  context.SetOutput(0, DType::kInt64, {x ? Dim(static_cast<int64_t>(x->size())) : Dim(), Dim()});
}

}  // namespace

FERRY_OPERATOR(NonZero, {.compute = ComputeNonZero, .infer = InferNonZero});

}  // namespace ferry
