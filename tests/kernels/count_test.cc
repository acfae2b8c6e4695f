// Extents and counts of every instruction set, held against loops over numbers.
#include "kernels/count.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

namespace ferry {
namespace {

template <class Integer>
using NumberOf = std::conditional_t<sizeof(Integer) == 4, float, double>;

template <class Integer>
Integer ToBits(NumberOf<Integer> number) {
  Integer bits;
  std::memcpy(&bits, &number, sizeof bits);
  return bits;
}

template <class Integer>
NumberOf<Integer> FromBits(Integer bits) {
  NumberOf<Integer> number;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

template <class T>
std::vector<T> SomeNumbers(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> numbers(count);
  for (T& number : numbers) {
    const int kind = static_cast<int>(random() % 8);
    const T sign = random() % 2 ? T{1} : T{-1};
    number = kind == 0 ? T{0} : sign * std::ldexp(T(1 + random() % 100) / 100, static_cast<int>(random() % 120) - 60);
  }
  return numbers;
}

// The numbers one byte off, as they may lie in a file.
template <class T>
std::vector<char> OneByteOff(const std::vector<T>& numbers) {
  std::vector<char> bytes(numbers.size() * sizeof(T) + 1);
  if (!numbers.empty()) std::memcpy(bytes.data() + 1, numbers.data(), numbers.size() * sizeof(T));
  return bytes;
}

template <class Integer, class ExtentOf, class CountOf>
void ExpectRight(size_t count, const ExtentOf& extent_of, const CountOf& count_of) {
  using T = NumberOf<Integer>;
  const std::vector<T> numbers = SomeNumbers<T>(count, static_cast<unsigned>(count));
  const std::vector<char> bytes = OneByteOff(numbers);
  const T small = T(0x1p-25), smaller = T(0x1p-40), large = T(0x1p20), least = T(-0x1p30);
  T lowest = std::numeric_limits<T>::infinity(), highest = -lowest, smallest = lowest;
  BitCounts expected;
  for (T number : numbers) {
    lowest = std::min(lowest, number), highest = std::max(highest, number);
    if (number != 0) smallest = std::min(smallest, std::abs(number));
    expected.small += number != 0 && std::abs(number) <= small;
    expected.smaller += number != 0 && std::abs(number) <= smaller;
    expected.large += std::abs(number) >= large;
    expected.least += number <= least;
  }
  const BitExtent<Integer> extent = extent_of(bytes.data() + 1, static_cast<int64_t>(count));
  const auto counts = count_of(
      bytes.data() + 1, static_cast<int64_t>(count),
      {ToBits<Integer>(small), ToBits<Integer>(smaller), ToBits<Integer>(large), InOrder(ToBits<Integer>(least))});
  EXPECT_EQ(counts.small, expected.small) << count;
  EXPECT_EQ(counts.smaller, expected.smaller) << count;
  EXPECT_EQ(counts.large, expected.large) << count;
  EXPECT_EQ(counts.least, expected.least) << count;
  if (count == 0) return;
  EXPECT_EQ(FromBits(InOrder(extent.least)), lowest) << count;
  EXPECT_EQ(FromBits(InOrder(extent.largest)), highest) << count;
  if (std::isfinite(smallest))
    EXPECT_EQ(FromBits(extent.smallest), smallest) << count;
  else
    EXPECT_EQ(extent.smallest, std::numeric_limits<Integer>::max()) << count;
}

class CountTest : public ::testing::TestWithParam<Isa> {};

TEST_P(CountTest, SeesWhatLoopsOverNumbersSee) {
  if (!CanRun(GetParam())) GTEST_SKIP();
  const CountKernels& kernels = CountKernelsOf(GetParam());
  for (size_t count : {0, 1, 2, 7, 8, 9, 31, 33, 64, 1000, 4096}) {
    ExpectRight<int32_t>(count, kernels.extent32, kernels.count32);
    ExpectRight<int64_t>(count, kernels.extent64, kernels.count64);
  }
}

TEST_P(CountTest, PutsNanBeyondInfinity) {
  if (!CanRun(GetParam())) GTEST_SKIP();
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  for (size_t at = 0; at < 40; ++at) {
    std::vector<float> numbers(40, 1.0f);
    numbers[at] = nan;
    EXPECT_GT(CountKernelsOf(GetParam()).extent32(numbers.data(), 40).largest, ToBits<int32_t>(infinity));
    numbers[at] = -nan;
    EXPECT_LT(CountKernelsOf(GetParam()).extent32(numbers.data(), 40).least, InOrder(ToBits<int32_t>(-infinity)));
    numbers[at] = -0.0f;
    EXPECT_EQ(CountKernelsOf(GetParam()).extent32(numbers.data(), 40).smallest, ToBits<int32_t>(1.0f));
  }
}

TEST_P(CountTest, ZerosHaveNoSmallest) {
  if (!CanRun(GetParam())) GTEST_SKIP();
  const std::vector<double> zeros(37, -0.0);
  EXPECT_EQ(CountKernelsOf(GetParam()).extent64(zeros.data(), 37).smallest, std::numeric_limits<int64_t>::max());
}

INSTANTIATE_TEST_SUITE_P(All, CountTest,
                         ::testing::Values(Isa::kBaseline, Isa::kSse4, Isa::kAvx2, Isa::kAvx512, Isa::kNeon,
                                           Isa::kWasm));

}  // namespace
}  // namespace ferry
