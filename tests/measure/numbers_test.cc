// The quick count of a tensor's numbers, held against one that looks at element after element.
#include "measure/numbers.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "tests/doctor/doctor_support.h"

namespace ferry {
namespace {

using namespace testing;

template <class T>
Numbers CountSlowly(const std::vector<T>& elements) {
  Numbers numbers{.count = static_cast<int64_t>(elements.size())};
  bool any = false;
  for (double number : elements) {
    double magnitude = std::fabs(number);
    numbers.nans += std::isnan(number);
    numbers.infinities += std::isinf(number);
    if (!std::isfinite(number)) continue;
    numbers.least = any ? std::min(numbers.least, number) : number;
    numbers.largest = any ? std::max(numbers.largest, number) : number;
    any = true;
    if (number == 0) continue;
    numbers.smallest = numbers.smallest > 0 ? std::min(numbers.smallest, magnitude) : magnitude;
    numbers.above_float16 += magnitude >= 65520;
    numbers.below_float16 += magnitude <= 0x1p-25;
    numbers.below_bfloat16 += magnitude <= 0x1p-134;
    numbers.masks += number <= -1e30;
  }
  return numbers;
}

void ExpectEqual(const Numbers& got, const Numbers& expected) {
  EXPECT_EQ(got.count, expected.count);
  EXPECT_EQ(got.nans, expected.nans);
  EXPECT_EQ(got.infinities, expected.infinities);
  EXPECT_EQ(got.least, expected.least);
  EXPECT_EQ(got.largest, expected.largest);
  EXPECT_EQ(got.smallest, expected.smallest);
  EXPECT_EQ(got.above_float16, expected.above_float16);
  EXPECT_EQ(got.below_float16, expected.below_float16);
  EXPECT_EQ(got.below_bfloat16, expected.below_bfloat16);
  EXPECT_EQ(got.masks, expected.masks);
}

template <class T>
std::vector<T> Special() {
  using Limits = std::numeric_limits<T>;
  T next = std::nextafter(T{65520}, T{0}), after = std::nextafter(T(0x1p-25), T{1});
  return {T{0},
          T(-0.0),
          Limits::quiet_NaN(),
          -Limits::quiet_NaN(),
          Limits::infinity(),
          -Limits::infinity(),
          Limits::max(),
          -Limits::max(),
          Limits::denorm_min(),
          -Limits::denorm_min(),
          T{65520},
          T{-65520},
          next,
          -next,
          T(0x1p-25),
          -T(0x1p-25),
          after,
          T(0x1p-134),
          T(0x1p-133),
          T(-1e30),
          T(-1.1e30),
          T(-0.9e30),
          T(1e30)};
}

// One special number at a time, at the edges of what is looked at together and of what a thread gets.
template <class T>
void FindEachAlone(ThreadPool* pool) {
  constexpr size_t kCount = 140001;
  std::mt19937 random(7);
  std::uniform_real_distribution<double> ordinary(-3, 3);
  std::vector<T> elements(kCount);
  for (T& element : elements) element = static_cast<T>(ordinary(random));
  elements[5] = 0;
  size_t places[] = {0, 4095, 4096, 65535, 65536, 131071, kCount - 1};
  size_t turn = 0;
  for (T special : Special<T>()) {
    size_t place = places[turn++ % std::size(places)];
    T before = elements[place];
    elements[place] = special;
    SCOPED_TRACE(Cat(static_cast<double>(special), " at ", place));
    ExpectEqual(Count(Tensor::FromVector(elements), pool), CountSlowly(elements));
    elements[place] = before;
  }
}

TEST(Numbers, NoneIsMissed) {
  ThreadPool pool(3);
  for (ThreadPool* shared : {static_cast<ThreadPool*>(nullptr), &pool}) {
    FindEachAlone<float>(shared);
    FindEachAlone<double>(shared);
  }
}

TEST(Numbers, OfSpecialNumbersOnly) {
  ExpectEqual(Count(Tensor::FromVector(Special<float>())), CountSlowly(Special<float>()));
  ExpectEqual(Count(Tensor::FromVector(Special<double>())), CountSlowly(Special<double>()));
  for (float only : Special<float>())
    ExpectEqual(Count(Tensor::FromVector(std::vector{only})), CountSlowly<float>({only}));
  ExpectEqual(Count(Tensor(DType::kFloat, {0})), Numbers{});
}

TEST(Numbers, AtAnyAddress) {
  std::vector<float> elements{1, -2, 0x1p-30f, 70000};
  std::vector<std::byte> bytes(1 + elements.size() * sizeof(float));
  std::memcpy(bytes.data() + 1, elements.data(), elements.size() * sizeof(float));
  ExpectEqual(Count(Tensor::Borrow(DType::kFloat, {4}, bytes.data() + 1)), CountSlowly(elements));
}

// Everything a fingerprint could look at is equal; one element in the midst is not.
TEST(Waste, NearlyEqualInitializersAreNoDuplicates) {
  std::vector<float> elements(100000, 0.5f);
  auto find = [&](const std::vector<float>& other) {
    return Apply("duplicate-initializer",
                 MakeModel({MakeInfo("x", DType::kFloat, {100000})},
                           {MakeNode("Add", {"x", "a"}, {"h"}), MakeNode("Mul", {"h", "b"}, {"y"})},
                           {MakeInfo("y", DType::kFloat, {100000})}, {Floats("a", elements), Floats("b", other)}));
  };
  EXPECT_EQ(find(elements).size(), 1u);
  for (size_t place : {size_t{0}, size_t{16}, size_t{4321}, size_t{50001}, size_t{99983}, size_t{99999}}) {
    std::vector<float> other = elements;
    other[place] = 0.25f;
    EXPECT_TRUE(find(other).empty()) << place;
  }
}

}  // namespace
}  // namespace ferry
