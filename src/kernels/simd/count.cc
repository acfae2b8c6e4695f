// Plain loops that compilers make vectors of.
#include "kernels/count.h"

#include "kernels/simd/target.h"

namespace ferry::FERRY_ISA {
namespace {

template <class Integer>
struct Unsigned;
template <>
struct Unsigned<int32_t> {
  using Type = uint32_t;
};
template <>
struct Unsigned<int64_t> {
  using Type = uint64_t;
};
template <class Integer>
using UnsignedOf = typename Unsigned<Integer>::Type;

template <class Integer>
constexpr Integer kMagnitude = static_cast<Integer>(~(Integer{1} << (8 * sizeof(Integer) - 1)));

template <class Integer>
HWY_INLINE Integer BitsAt(const void* numbers, int64_t i) {
  Integer bits;
  __builtin_memcpy(&bits, static_cast<const char*>(numbers) + i * static_cast<int64_t>(sizeof bits), sizeof bits);
  return bits;
}

// A magnitude less one, so that 0 is the largest of them.
template <class Integer>
HWY_INLINE UnsignedOf<Integer> BelowMagnitude(Integer bits) {
  return static_cast<UnsignedOf<Integer>>(bits & kMagnitude<Integer>) - 1;
}

template <class Integer>
BitExtent<Integer> Extent(const void* numbers, int64_t count) {
  Integer least = kMagnitude<Integer>, largest = ~kMagnitude<Integer>;
  auto below_smallest = static_cast<UnsignedOf<Integer>>(-1);
  for (int64_t i = 0; i < count; ++i) {
    const auto bits = BitsAt<Integer>(numbers, i);
    const Integer key = InOrder(bits);
    const UnsignedOf<Integer> below = BelowMagnitude(bits);
    least = key < least ? key : least;
    largest = key > largest ? key : largest;
    below_smallest = below < below_smallest ? below : below_smallest;
  }
  const auto smallest = static_cast<Integer>(below_smallest + 1);
  return {least, largest, smallest == 0 ? kMagnitude<Integer> : smallest};
}

template <class Integer>
BitCounts Count(const void* numbers, int64_t count, const BitLimits<Integer>& limits) {
  constexpr int64_t kRun = int64_t{1} << 20;  // what integers of the elements' own width count
  const BitLimits<Integer> held = limits;
  const auto small_limit = static_cast<UnsignedOf<Integer>>(held.small);
  const auto smaller_limit = static_cast<UnsignedOf<Integer>>(held.smaller);
  BitCounts counts;
  for (int64_t begin = 0; begin < count; begin += kRun) {
    const int64_t end = count - begin < kRun ? count : begin + kRun;
    Integer small = 0, smaller = 0, large = 0, least = 0;
    for (int64_t i = begin; i < end; ++i) {
      const auto bits = BitsAt<Integer>(numbers, i);
      const UnsignedOf<Integer> below = BelowMagnitude(bits);
      small += below < small_limit ? 1 : 0;
      smaller += below < smaller_limit ? 1 : 0;
      large += (bits & kMagnitude<Integer>) >= held.large ? 1 : 0;
      least += InOrder(bits) <= held.least ? 1 : 0;
    }
    counts.small += small, counts.smaller += smaller, counts.large += large, counts.least += least;
  }
  return counts;
}

}  // namespace

extern const CountKernels kCountKernels;
const CountKernels kCountKernels = {Extent<int32_t>, Extent<int64_t>, Count<int32_t>, Count<int64_t>};

}  // namespace ferry::FERRY_ISA
