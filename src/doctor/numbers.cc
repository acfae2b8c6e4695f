#include "doctor/numbers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <type_traits>

#include "base/thread_pool.h"
#include "doctor/elements.h"

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

// Floats are in the order of their bits, once those of negative ones are turned around. Integers are what a compiler
// makes vectors of, whatever NaN may be among the elements.
template <class T>
using BitsOf = std::conditional_t<std::is_same_v<T, float>, int32_t, int64_t>;

template <class T>
T FromBits(BitsOf<T> bits) {
  T number;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

// Its own inverse.
template <class Integer>
Integer Ordered(Integer bits) {
  return bits ^ ((bits >> (8 * sizeof(Integer) - 1)) & std::numeric_limits<Integer>::max());
}

template <class T>
struct Extent {
  T least, largest;
  T smallest;  // magnitude above 0; infinity when all are 0
};

template <class T>
Extent<T> ExtentOf(const BitsOf<T>* bits, int64_t count) {
  using Integer = BitsOf<T>;
  constexpr Integer kMost = std::numeric_limits<Integer>::max();
  Integer least = kMost, largest = std::numeric_limits<Integer>::min(), smallest = kMost;
  for (int64_t i = 0; i < count; ++i) {
    Integer key = Ordered(bits[i]), magnitude = bits[i] & kMost;
    Integer unless_zero = magnitude == 0 ? kMost : magnitude;
    least = key < least ? key : least;
    largest = key > largest ? key : largest;
    smallest = unless_zero < smallest ? unless_zero : smallest;
  }
  return {FromBits<T>(Ordered(least)), FromBits<T>(Ordered(largest)),
          smallest == kMost ? std::numeric_limits<T>::infinity() : FromBits<T>(smallest)};
}

// Nearly every chunk holds nothing worth counting, which its extent tells; that of a chunk with NaN is NaN.
template <class T>
void AddChunk(Numbers& numbers, const BitsOf<T>* bits, int64_t count) {
  Extent<T> extent = ExtentOf<T>(bits, count);
  bool ordinary =
      extent.least > -kFloat16Overflow && extent.largest < kFloat16Overflow && extent.smallest > kFloat16Vanish;
  if (!ordinary) {
    for (int64_t i = 0; i < count; ++i) AddOne(numbers, FromBits<T>(bits[i]));
    return;
  }
  numbers.least = std::min<double>(numbers.least, extent.least);
  numbers.largest = std::max<double>(numbers.largest, extent.largest);
  numbers.smallest = std::min<double>(numbers.smallest, extent.smallest);
}

// In a file a tensor may lie at any address: elements are looked at in a buffer.
template <class T>
Numbers CountRun(const std::byte* data, int64_t count) {
  Numbers numbers = NoNumbers();
  BitsOf<T> buffer[kChunk];
  for (int64_t i = 0; i < count; i += kChunk) {
    int64_t here = std::min(kChunk, count - i);
    std::memcpy(buffer, data + static_cast<size_t>(i) * sizeof(T), static_cast<size_t>(here) * sizeof(T));
    AddChunk<T>(numbers, buffer, here);
  }
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
