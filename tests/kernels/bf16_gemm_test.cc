// Products with bfloat16 weights, on every instruction set against plain loops.
#include "kernels/bf16_gemm.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "tests/kernels/isas.h"
#include "tests/support/random_numbers.h"

namespace ferry {
namespace {

using testing::RandomNumbers;

uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

float FromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// The nearest number with 8 bits of mantissa, halves to even.
float Rounded(float value) {
  uint32_t bits = BitsOf(value), lower = bits & 0xFFFF;
  bits &= 0xFFFF0000u;
  if (lower > 0x8000 || (lower == 0x8000 && (bits & 0x10000) != 0)) bits += 0x10000;
  return FromBits(bits);
}

struct Named {
  std::string name;
  const Bf16Kernels& kernels;
  bool same_bits;  // the order of additions is known
};

std::vector<Named> AllKernels() {
  std::vector<Named> all;
  for (Isa isa : testing::RunnableIsas()) all.push_back({Bf16KernelsOf(isa).isa, Bf16KernelsOf(isa), true});
  if (const Bf16Kernels* native = NativeBf16Kernels()) all.push_back({native->isa, *native, false});
  return all;
}

struct Case {
  int64_t rows, taps, depth, columns, offset, c_stride, residual_stride;
  std::vector<float> pool, b, bias, residual, c;
  std::vector<uint16_t> packed;
  std::vector<const float*> pointers;
  GatheredGemm gemm;
  bool in_place = false;

  explicit Case(RandomNumbers& random)
      : rows(random.Size(20, 220)),
        taps(random.Size(5, 9)),
        depth(random.Size(30, 300)),
        columns(random.Size(70, 300)),
        offset(random.Int(0, 5)),
        c_stride(columns + random.Int(0, 3)),
        residual_stride(columns + random.Int(0, 3)),
        pool(random.Vector(offset + depth + 64)),
        b(random.Vector(taps * depth * columns)),
        bias(random.Vector(columns)),
        residual(random.Vector(rows * residual_stride)),
        c(random.Vector(rows * c_stride)),
        packed(static_cast<size_t>(PackedBf16Size(taps * depth, columns)), 0x7FC0) {
    PackBf16Matrix(b.data(), taps * depth, columns, columns, 1, packed.data());
    for (int64_t i = 0; i < taps * rows; ++i) pointers.push_back(pool.data() + random.Int(0, 63));
    gemm = {pointers.data(), rows, taps, depth, nullptr, columns};
    gemm.offset = offset;
    gemm.c_stride = c_stride;
    GemmEpilogue& epilogue = gemm.epilogue;
    if (random.Bool()) epilogue.bias = bias.data();
    if (random.Bool()) epilogue.activation = {ActivationKind::kClip, -0.5f, 0.75f};
    if (random.Int(0, 2) == 0) epilogue.activation = {ActivationKind::kSigmoid};
    if (random.Bool()) {
      in_place = random.Bool();
      epilogue.residual = residual.data();
      epilogue.residual_stride = in_place ? c_stride : residual_stride;
      epilogue.activate_first = !in_place && random.Bool();
    }
  }

  float Activated(float x) const {
    const Activation& activation = gemm.epilogue.activation;
    if (activation.kind == ActivationKind::kClip) return std::min(std::max(x, activation.alpha), activation.beta);
    if (activation.kind == ActivationKind::kSigmoid)
      return static_cast<float>(1 / (1 + std::exp(-static_cast<double>(x))));
    return x;
  }

  // Depth after depth, of each two the second first.
  float Sum(int64_t row, int64_t column, float sum) const {
    int64_t all = taps * depth;
    for (int64_t pair = 0; pair < all; pair += 2)
      for (int64_t k : {pair + 1, pair}) {
        if (k >= all) continue;
        float a = pointers[static_cast<size_t>(k / depth * rows + row)][offset + k % depth];
        sum += Rounded(a) * Rounded(b[static_cast<size_t>(k * columns + column)]);
      }
    return sum;
  }

  std::vector<float> Plain() const {
    const GemmEpilogue& epilogue = gemm.epilogue;
    std::vector<float> out = c;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t n = 0; n < columns; ++n) {
        float& to = out[static_cast<size_t>(i * c_stride + n)];
        float x = Sum(i, n, in_place ? to : 0.0f);
        if (epilogue.bias) x += epilogue.bias[n];
        float other = epilogue.residual && !in_place ? epilogue.residual[i * epilogue.residual_stride + n] : 0.0f;
        to = epilogue.activate_first ? Activated(x) + other : Activated(x + other);
      }
    return out;
  }

  std::vector<float> Run(const Bf16Kernels& kernels) {
    std::vector<float> out = c, scratch(kBf16Scratch / sizeof(float));
    gemm.c = out.data();
    if (in_place) gemm.epilogue.residual = out.data();
    kernels.gathered(gemm, packed.data(), scratch.data());
    return out;
  }
};

TEST(Bf16Gemm, AgreesWithPlainLoopsOnRandomShapes) {
  RandomNumbers random(5);
  for (int round = 0; round < 250; ++round) {
    Case given(random);
    std::vector<float> expected = given.Plain();
    bool exact = given.gemm.epilogue.activation.kind != ActivationKind::kSigmoid;
    double close = 4e-7 * static_cast<double>(given.taps * given.depth) + 1e-6;
    for (const Named& named : AllKernels()) {
      std::vector<float> actual = given.Run(named.kernels);
      for (size_t i = 0; i < actual.size(); ++i) {
        double difference = std::abs(static_cast<double>(actual[i]) - static_cast<double>(expected[i]));
        ASSERT_LE(difference, exact && named.same_bits ? 0.0 : close)
            << named.name << ", " << given.rows << " × " << given.taps << "·" << given.depth << " × " << given.columns
            << ", element " << i << ": " << actual[i] << " instead of " << expected[i];
      }
    }
  }
}

// Where depths are cut into blocks, and rows too.
TEST(Bf16Gemm, LargePlainProductsAgreeWithPlainLoops) {
  RandomNumbers random(6);
  for (auto [rows, depth, columns] : {std::array<int64_t, 3>{1, 60000, 33},
                                      {2, 3001, 70},
                                      {7, 30000, 5},
                                      {100, 1500, 40},
                                      {97, 513, 17},
                                      {3, 1, 300},
                                      {13, 0, 9}}) {
    std::vector<float> a = random.Vector(rows * (depth + 1)), b = random.Vector(depth * columns);
    std::vector<uint16_t> packed(static_cast<size_t>(PackedBf16Size(depth, columns)));
    PackBf16Matrix(b.data(), depth, columns, 1, depth, packed.data());
    std::vector<double> expected, magnitude;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t n = 0; n < columns; ++n) {
        double sum = 0, all = 0;
        for (int64_t k = 0; k < depth; ++k) {
          double product = static_cast<double>(Rounded(a[static_cast<size_t>(i * (depth + 1) + k)])) *
                           static_cast<double>(Rounded(b[static_cast<size_t>(n * depth + k)]));
          sum += product;
          all += std::abs(product);
        }
        expected.push_back(sum);
        magnitude.push_back(all);
      }
    for (const Named& named : AllKernels()) {
      std::vector<float> c(expected.size(), 7.0f), scratch(kBf16Scratch / sizeof(float));
      named.kernels.plain(a.data(), depth + 1, rows, depth, packed.data(), columns, c.data(), columns, {},
                          scratch.data());
      for (size_t i = 0; i < c.size(); ++i)
        ASSERT_NEAR(c[i], expected[i], 2e-6 * magnitude[i]) << named.name << ", " << rows << " × " << depth;
    }
  }
}

// Rows along memory, columns along memory and neither; what is beside the matrix is zero.
TEST(Bf16Gemm, PacksPairsOfDepths) {
  for (int64_t depth : {1, 2, 3, 63, 64, 65, 130})
    for (int64_t columns : {1, 15, 16, 17, 40})
      for (auto [row_stride, column_stride] :
           {std::pair<int64_t, int64_t>{columns + 3, 1}, {1, depth + 5}, {2, 2 * depth + 1}}) {
        RandomNumbers random(static_cast<uint32_t>(depth * 100 + columns));
        std::vector<float> b = random.Vector(depth * row_stride + columns * column_stride);
        int64_t padded = (depth + 1) / 2 * 2;
        std::vector<uint16_t> expected(static_cast<size_t>(PackedBf16Size(depth, columns)), 0);
        for (int64_t k = 0; k < depth; ++k)
          for (int64_t n = 0; n < columns; ++n) {
            int64_t panel = n / kPanelWidth * kPanelWidth * padded;
            expected[static_cast<size_t>(panel + k / 2 * 2 * kPanelWidth + n % kPanelWidth * 2 + k % 2)] =
                static_cast<uint16_t>(BitsOf(Rounded(b[static_cast<size_t>(k * row_stride + n * column_stride)])) >>
                                      16);
          }
        std::vector<uint16_t> packed(expected.size(), 0x7FC0);
        PackBf16Matrix(b.data(), depth, columns, row_stride, column_stride, packed.data());
        ASSERT_EQ(packed, expected) << depth << " × " << columns << ", strides " << row_stride << " and "
                                    << column_stride;
      }
}

TEST(Bf16Gemm, RoundsToNearestAndKeepsWhatIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  // 1 + 2^-8 lies between two numbers, the even one being 1; NaN whose upper half alone would be infinite stays NaN.
  const std::pair<float, float> cases[] = {{1.0f, 1.0f},
                                           {1.00390625f, 1.0f},
                                           {1.0039063692092896f, 1.0078125f},
                                           {1.01171875f, 1.015625f},
                                           {-3.3895314e38f, -3.3895314e38f},
                                           {3.4e38f, kInfinity},
                                           {-kInfinity, -kInfinity},
                                           {nan, nan},
                                           {FromBits(0x7F800001), nan}};
  for (const Named& named : AllKernels())
    for (auto [from, to] : cases) {
      float panel[2 * kPanelWidth] = {}, one = 1.0f, c = 0.0f;
      uint16_t narrow[2 * kPanelWidth];
      for (bool as_weight : {true, false}) {
        panel[0] = as_weight ? from : one;
        named.kernels.narrow(panel, 1, narrow);
        std::vector<float> scratch(kBf16Scratch / sizeof(float));
        named.kernels.plain(as_weight ? &one : &from, 1, 1, 1, narrow, 1, &c, 1, {}, scratch.data());
        if (std::isnan(to))
          EXPECT_TRUE(std::isnan(c)) << named.name << ": " << c;
        else
          EXPECT_EQ(c, to) << named.name << ": " << from;
      }
    }
}

}  // namespace
}  // namespace ferry
