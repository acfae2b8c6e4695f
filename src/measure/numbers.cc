#include "measure/numbers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <type_traits>

#include "base/thread_pool.h"
#include "kernels/count.h"
#include "measure/elements.h"

namespace ferry {
namespace {

constexpr double kFloat16Overflow = 65520;  // the first magnitude that rounds to infinity
constexpr double kFloat16Vanish = 0x1p-25;  // at or below this a number rounds to 0
constexpr double kBFloat16Vanish = 0x1p-134;
constexpr double kMask = -1e30;

constexpr int64_t kChunk = 4096;            // elements: what fits into the first cache
constexpr int64_t kWorthAThread = 1 << 16;  // elements

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// While counting, `least` and `largest` are infinities as long as there is no finite element; so is `smallest`.
Numbers NoNumbers() { return {.least = kInfinity, .largest = -kInfinity, .smallest = kInfinity}; }

void Add(Numbers& all, const Numbers& some) {
  all.nans += some.nans;
  all.infinities += some.infinities;
  all.least = std::min(all.least, some.least);
  all.largest = std::max(all.largest, some.largest);
  all.smallest = std::min(all.smallest, some.smallest);
  all.above_float16 += some.above_float16;
  all.below_float16 += some.below_float16;
  all.below_bfloat16 += some.below_bfloat16;
  all.masks += some.masks;
}

void AddOne(Numbers& numbers, double number) {
  double magnitude = std::fabs(number);
  if (!std::isfinite(number)) {
    (std::isnan(number) ? numbers.nans : numbers.infinities) += 1;
    return;
  }
  numbers.least = std::min(numbers.least, number);
  numbers.largest = std::max(numbers.largest, number);
  if (magnitude == 0) return;
  numbers.smallest = std::min(numbers.smallest, magnitude);
  numbers.above_float16 += magnitude >= kFloat16Overflow;
  numbers.below_float16 += magnitude <= kFloat16Vanish;
  numbers.below_bfloat16 += magnitude <= kBFloat16Vanish;
  numbers.masks += number <= kMask;
}

template <class T>
using BitsOf = std::conditional_t<std::is_same_v<T, float>, int32_t, int64_t>;

template <class T>
T FromBits(BitsOf<T> bits) {
  T number;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

template <class T>
BitsOf<T> ToBits(double number) {
  const T narrow = static_cast<T>(number);
  BitsOf<T> bits;
  std::memcpy(&bits, &narrow, sizeof bits);
  return bits;
}

// The largest number that is not beyond `limit`, which lies between two of T perhaps.
template <class T>
BitsOf<T> LastUpTo(double limit) {
  T narrow = static_cast<T>(limit);
  if (narrow > limit) narrow = std::nextafter(narrow, -std::numeric_limits<T>::infinity());
  return ToBits<T>(narrow);
}

template <class T>
void AddOrdinary(Numbers& numbers, const BitExtent<BitsOf<T>>& extent) {
  numbers.least = std::min<double>(numbers.least, FromBits<T>(InOrder(extent.least)));
  numbers.largest = std::max<double>(numbers.largest, FromBits<T>(InOrder(extent.largest)));
  if (extent.smallest != std::numeric_limits<BitsOf<T>>::max())
    numbers.smallest = std::min<double>(numbers.smallest, FromBits<T>(extent.smallest));
}

// Nearly every chunk holds nothing worth counting, which its extent tells.
template <class T>
void AddChunk(Numbers& numbers, const std::byte* data, int64_t count) {
  using Bits = BitsOf<T>;
  static const BitLimits<Bits> limits = {ToBits<T>(kFloat16Vanish), ToBits<T>(kBFloat16Vanish),
                                         ToBits<T>(kFloat16Overflow), InOrder(LastUpTo<T>(kMask))};
  static const Bits infinity = ToBits<T>(kInfinity);
  const CountKernels& kernels = BestCountKernels();
  BitExtent<Bits> extent;
  if constexpr (std::is_same_v<T, float>)
    extent = kernels.extent32(data, count);
  else
    extent = kernels.extent64(data, count);
  const bool finite = extent.largest < infinity && extent.least > InOrder(ToBits<T>(-kInfinity));
  if (!finite) {
    for (int64_t i = 0; i < count; ++i) {
      T number;
      std::memcpy(&number, data + static_cast<size_t>(i) * sizeof number, sizeof number);
      AddOne(numbers, number);
    }
    return;
  }
  AddOrdinary<T>(numbers, extent);
  const bool nothing_large = extent.largest < limits.large && extent.least > InOrder(ToBits<T>(-kFloat16Overflow));
  if (nothing_large && extent.smallest > limits.small) return;
  BitCounts counts;
  if constexpr (std::is_same_v<T, float>)
    counts = kernels.count32(data, count, limits);
  else
    counts = kernels.count64(data, count, limits);
  numbers.below_float16 += counts.small;
  numbers.below_bfloat16 += counts.smaller;
  numbers.above_float16 += counts.large;
  numbers.masks += counts.least;
}

template <class T>
Numbers CountRun(const std::byte* data, int64_t count) {
  Numbers numbers = NoNumbers();
  for (int64_t i = 0; i < count; i += kChunk)
    AddChunk<T>(numbers, data + static_cast<size_t>(i) * sizeof(T), std::min(kChunk, count - i));
  return numbers;
}

template <class T>
Numbers CountFloats(const Tensor& tensor, ThreadPool* pool) {
  if (!pool) return CountRun<T>(tensor.raw(), tensor.size());
  std::mutex mutex;
  Numbers all = NoNumbers();
  pool->ParallelFor(tensor.size(), kWorthAThread, [&](int64_t begin, int64_t end) {
    Numbers some = CountRun<T>(tensor.raw() + static_cast<size_t>(begin) * sizeof(T), end - begin);
    std::lock_guard lock(mutex);
    Add(all, some);
  });
  return all;
}

}  // namespace

Numbers Count(const Tensor& tensor, ThreadPool* pool) {
  Numbers numbers = NoNumbers();
  if (tensor.dtype() == DType::kFloat)
    numbers = CountFloats<float>(tensor, pool);
  else if (tensor.dtype() == DType::kDouble)
    numbers = CountFloats<double>(tensor, pool);
  else
    for (double number : ToDoubles(tensor)) AddOne(numbers, number);
  numbers.count = tensor.size();
  if (numbers.least > numbers.largest) numbers.least = numbers.largest = 0;
  numbers.least += 0.0, numbers.largest += 0.0;  // -0 is no other number
  if (numbers.smallest == kInfinity) numbers.smallest = 0;
  return numbers;
}

}  // namespace ferry
