// float16 to float and back, on every instruction set, against the conversions of single numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/elementwise.h"
#include "tensor/small_float.h"
#include "tests/kernels/isas.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace ferry {
namespace {

TEST(Halves, EveryHalfIsWidened) {
  std::vector<uint16_t> halves(1 << 16);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  for (Isa isa : testing::RunnableIsas()) {
    std::vector<float> wide(halves.size());
    ElementwiseKernelsOf(isa).widen_halves(halves.data(), wide.data(), static_cast<int64_t>(wide.size()));
    for (size_t i = 0; i < halves.size(); ++i) {
      const float expected = ToFloat(Float16{halves[i]});
      ASSERT_EQ(FloatBits(wide[i]), FloatBits(expected)) << i << " on " << static_cast<int>(isa);
    }
  }
}

#if defined(__x86_64__)
TEST(Halves, SubnormalOnesAreNumbersWhereTheHostTakesSubnormalFloatsAsZeros) {
  constexpr unsigned kZerosForSubnormals = 0x8040;
  const std::vector<uint16_t> halves = {0x0001, 0x83ff, 0x00a8, 0x0000, 0x8000, 0x0400};
  for (Isa isa : testing::RunnableIsas()) {
    std::vector<float> wide(halves.size());
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | kZerosForSubnormals);
    ElementwiseKernelsOf(isa).widen_halves(halves.data(), wide.data(), static_cast<int64_t>(wide.size()));
    _mm_setcsr(before);
    for (size_t i = 0; i < halves.size(); ++i)
      EXPECT_EQ(FloatBits(wide[i]), FloatBits(ToFloat(Float16{halves[i]}))) << i << " on " << static_cast<int>(isa);
  }
}
#endif

// Every half, what lies right between two of them, and their neighbours: all that rounding decides.
TEST(Halves, FloatsAreRoundedToNearestAndTiesToEven) {
  std::vector<float> floats;
  for (uint32_t bits = 0; bits <= 0x7f000000u; bits += 0x1000)
    for (int near = -1; near <= 1; ++near)
      for (uint32_t sign : {0u, 0x80000000u})
        if (bits > 0 || near >= 0) floats.push_back(FloatFromBits((bits + static_cast<uint32_t>(near)) | sign));
  for (float special : {INFINITY, -INFINITY, NAN, -NAN, 65504.0f, 65519.996f, 65520.0f, -65520.0f, 3e38f, 1e-45f})
    floats.push_back(special);
  for (Isa isa : testing::RunnableIsas()) {
    std::vector<uint16_t> narrow(floats.size());
    ElementwiseKernelsOf(isa).narrow_to_halves(floats.data(), narrow.data(), static_cast<int64_t>(narrow.size()));
    for (size_t i = 0; i < floats.size(); ++i)
      ASSERT_EQ(narrow[i], ToFloat16(floats[i]).bits) << floats[i] << " on " << static_cast<int>(isa);
  }
}

TEST(Halves, NothingBeyondTheEndIsWritten) {
  for (Isa isa : testing::RunnableIsas())
    for (int64_t count = 0; count < 70; ++count) {
      const std::vector<uint16_t> ones(static_cast<size_t>(count), 0x3c00);
      std::vector<float> wide(static_cast<size_t>(count) + 1, -7);
      ElementwiseKernelsOf(isa).widen_halves(ones.data(), wide.data(), count);
      ASSERT_EQ(wide.back(), -7);
      for (int64_t i = 0; i < count; ++i) ASSERT_EQ(wide[static_cast<size_t>(i)], 1);
      std::vector<uint16_t> narrow(static_cast<size_t>(count) + 1, 7);
      ElementwiseKernelsOf(isa).narrow_to_halves(wide.data(), narrow.data(), count);
      ASSERT_EQ(narrow.back(), 7);
      for (int64_t i = 0; i < count; ++i) ASSERT_EQ(narrow[static_cast<size_t>(i)], 0x3c00);
    }
}

}  // namespace
}  // namespace ferry
