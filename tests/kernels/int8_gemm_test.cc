#include "kernels/int8_gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace ferry {
namespace {

// A product, its operands, and the sums as they must be.
struct Trial {
  explicit Trial(std::mt19937& random) {
    rows = 1 + random() % (random() % 3 == 0 ? 230 : 30);
    depth = 1 + random() % (random() % 12 == 0 ? 1500 : 90), columns = 1 + random() % (random() % 2 ? 200 : 70);
    flip = random() % 2 ? kSignFlip : uint8_t{0};
    is_signed = BestInt8Kernels().takes_signed && random() % 2;
    // Products that saturate where two of them are added in 16 bits, and those of which four just do not.
    const bool extreme = random() % 4 == 0, lowest = random() % 2;
    const uint32_t edge = is_signed ? (random() % 2 ? 160 : 96) : 64, level = random() % 2 ? 255 : edge;
    // Most numbers lie near the zero point; how many do not is different from trial to trial.
    const uint32_t outliers = random() % 3 == 0 ? 1 + random() % 200 : 0;
    const uint32_t reach = random() % 2 ? 128 : 64;
    std::vector<uint8_t> a(static_cast<size_t>(rows * depth));
    for (uint8_t& value : a) {
      value = static_cast<uint8_t>(extreme ? level ^ flip : random());
      if (outliers && random() % 1000 > outliers)
        value = static_cast<uint8_t>((is_signed ? 96 + random() % 64 : random() % reach) ^ flip);
    }
    if (random() % 2) FlattenStretches(random, a);
    packed.resize(static_cast<size_t>(PackedInt8Size(depth, columns)));
    std::vector<int8_t> b(static_cast<size_t>(depth * columns));
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t n = 0; n < columns; ++n) {
        auto weight = static_cast<int8_t>(extreme ? (lowest ? -128 : 127) : random());
        packed[static_cast<size_t>(PackedInt8Index(depth, k, n))] = b[static_cast<size_t>(k * columns + n)] = weight;
      }
    const Int8Kernels& kernels = BestInt8Kernels();
    int64_t padded = PaddedDepth(depth) * kernels.element_bytes;
    ready.resize(static_cast<size_t>(rows * padded));
    for (int64_t i = 0; i < rows; ++i) {
      uint8_t* row = ready.data() + i * padded;
      kernels.fill(0, PaddedDepth(depth), row);
      kernels.prepare(a.data() + i * depth, is_signed ? flip ^ kSignFlip : flip, depth, row);
    }
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t n = 0; n < columns; ++n) {
        int32_t sum = 0;
        for (int64_t k = 0; k < depth; ++k)
          sum += ((a[static_cast<size_t>(i * depth + k)] ^ flip) - (is_signed ? kSignFlip : 0)) *
                 b[static_cast<size_t>(k * columns + n)];
        sums.push_back(sum);
      }
    if (random() % 4) scratch.resize(static_cast<size_t>(rows * PaddedDepth(depth) * kernels.scratch_bytes));
  }
  // As behind a ReLU: neighbouring rows have the same numbers in many depths, mostly 0.
  void FlattenStretches(std::mt19937& random, std::vector<uint8_t>& a) const {
    constexpr int64_t kStretch = 9;
    for (int64_t first = 0; first < rows; first += kStretch)
      for (int64_t k = 0; k < depth; ++k) {
        const uint32_t kind = random() % 4;
        for (int64_t i = first; kind < 3 && i < std::min(rows, first + kStretch); ++i)
          a[static_cast<size_t>(i * depth + k)] = static_cast<uint8_t>((kind == 2 ? 250 : 0) ^ flip);
      }
  }
  Int8Product Product(Int8Output out) {
    return {ready.data(), rows, depth,     packed.data(),
            columns,      out,  is_signed, scratch.empty() ? nullptr : scratch.data()};
  }

  int64_t rows, depth, columns;
  uint8_t flip;
  bool is_signed;
  std::vector<uint8_t> ready, scratch;
  std::vector<int8_t> packed;
  std::vector<int32_t> sums;
};

TEST(Int8Gemm, IsExactOnRandomShapes) {
  std::mt19937 random(17);
  for (int round = 0; round < 2000; ++round) {
    Trial trial(random);
    std::vector<int32_t> offset(static_cast<size_t>(trial.columns + kInt8PanelWidth)),
        column_term = offset, row_term(static_cast<size_t>(trial.rows));
    bool has_terms = random() % 2;
    for (int32_t& value : offset) value = static_cast<int32_t>(random() % 2000) - 1000;
    for (int32_t& value : column_term) value = static_cast<int32_t>(random() % 200) - 100;
    for (int32_t& value : row_term) value = static_cast<int32_t>(random() % 200) - 100;
    int64_t stride = trial.columns + static_cast<int64_t>(random() % 3);
    std::vector<int32_t> c(static_cast<size_t>(trial.rows * stride), -77);
    Int8Output out;
    out.c = c.data();
    out.stride = stride;
    out.offset = offset.data();
    if (has_terms) out.row_term = row_term.data(), out.column_term = column_term.data();
    BestInt8Kernels().multiply(trial.Product(out));
    for (int64_t i = 0; i < trial.rows; ++i)
      for (int64_t n = 0; n < stride; ++n) {
        auto column = static_cast<size_t>(n);
        int32_t expected = -77;
        if (n < trial.columns) {
          expected = trial.sums[static_cast<size_t>(i * trial.columns + n)] + offset[column];
          if (has_terms) expected += row_term[static_cast<size_t>(i)] * column_term[column];
        }
        ASSERT_EQ(c[static_cast<size_t>(i * stride + n)], expected)
            << trial.rows << "×" << trial.depth << "×" << trial.columns;
      }
  }
}

TEST(Int8Gemm, FindsRowsThatLieApart) {
  const Int8Kernels& kernels = BestInt8Kernels();
  if (!kernels.multiply_runs) GTEST_SKIP() << "this processor's kernels make rows ready";
  std::mt19937 random(29);
  for (int round = 0; round < 1000; ++round) {
    const int64_t rows = 1 + random() % 60, columns = 1 + random() % 150;
    Int8Runs runs;
    runs.count = 1 + random() % 4;
    runs.length = kernels.depth_unit * (1 + random() % 12);
    runs.stride = runs.length + random() % 5;
    const int64_t depth = runs.count * runs.length;
    std::vector<uint8_t> image(static_cast<size_t>(runs.count * runs.stride + 500));
    for (uint8_t& value : image) value = static_cast<uint8_t>(random());
    std::vector<const uint8_t*> at(static_cast<size_t>(rows));
    for (const uint8_t*& row : at) row = image.data() + random() % 500;
    runs.at = at.data();
    std::vector<int8_t> b(static_cast<size_t>(depth * columns)),
        packed(static_cast<size_t>(PackedInt8Size(depth, columns)));
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t n = 0; n < columns; ++n)
        packed[static_cast<size_t>(PackedInt8Index(depth, k, n))] = b[static_cast<size_t>(k * columns + n)] =
            static_cast<int8_t>(random());
    std::vector<int32_t> c(static_cast<size_t>(rows * columns));
    Int8Product product{nullptr, rows, depth, packed.data(), columns, {}};
    product.out.c = c.data();
    product.out.stride = columns;
    kernels.multiply_runs(product, runs);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t n = 0; n < columns; ++n) {
        int32_t sum = 0;
        for (int64_t k = 0; k < depth; ++k)
          sum += at[static_cast<size_t>(i)][k / runs.length * runs.stride + k % runs.length] *
                 b[static_cast<size_t>(k * columns + n)];
        ASSERT_EQ(c[static_cast<size_t>(i * columns + n)], sum) << rows << "×" << depth << "×" << columns;
      }
  }
}

TEST(Int8Gemm, IsExactWhereOneRowIsVeryDeep) {
  const int64_t depth = 170003, columns = 3;
  const Int8Kernels& kernels = BestInt8Kernels();
  std::mt19937 random(5);
  std::vector<uint8_t> a(static_cast<size_t>(depth)), ready(static_cast<size_t>(PaddedDepth(depth) * 2));
  std::vector<int8_t> packed(static_cast<size_t>(PackedInt8Size(depth, columns)));
  std::vector<int32_t> expected(columns), sums(columns);
  for (int64_t k = 0; k < depth; ++k) {
    a[static_cast<size_t>(k)] = static_cast<uint8_t>(random());
    for (int64_t n = 0; n < columns; ++n) {
      auto weight = static_cast<int8_t>(random());
      packed[static_cast<size_t>(PackedInt8Index(depth, k, n))] = weight;
      expected[static_cast<size_t>(n)] += a[static_cast<size_t>(k)] * weight;
    }
  }
  kernels.fill(0, PaddedDepth(depth), ready.data());
  kernels.prepare(a.data(), 0, depth, ready.data());
  Int8Output out;
  out.c = sums.data();
  out.stride = columns;
  kernels.multiply({ready.data(), 1, depth, packed.data(), columns, out});
  EXPECT_EQ(sums, expected);
}

TEST(Int8Gemm, ScalesItsSums) {
  std::mt19937 random(23);
  for (int round = 0; round < 1000; ++round) {
    Trial trial(random);
    std::vector<float> factor(static_cast<size_t>(trial.columns + kInt8PanelWidth)), shift = factor;
    float scale = 100.0f / (1000.0f * std::sqrt(static_cast<float>(trial.depth)));
    for (float& value : factor) value = scale * static_cast<float>(random() % 1000) / 1000.0f;
    for (float& value : shift) value = static_cast<float>(random() % 64) - 32;
    bool is_signed = random() % 2, has_shift = random() % 2;
    std::vector<uint8_t> bytes(static_cast<size_t>(trial.rows * trial.columns));
    std::vector<float> floats(bytes.size());
    Int8Output out;
    out.kind = Int8Output::Kind::kBytes;
    out.c = bytes.data();
    out.stride = trial.columns;
    out.factor = factor.data();
    if (has_shift) out.shift = shift.data();
    out.zero = is_signed ? -3 : 7;
    out.low = is_signed ? -128 : round % 3 == 0 ? 7 : 0;
    out.high = is_signed ? 127 : 200;
    BestInt8Kernels().multiply(trial.Product(out));
    out.kind = Int8Output::Kind::kFloats;
    out.c = floats.data();
    BestInt8Kernels().multiply(trial.Product(out));
    for (size_t i = 0; i < bytes.size(); ++i) {
      size_t n = i % static_cast<size_t>(trial.columns);
      float product = static_cast<float>(trial.sums[i]) * factor[n], value = product + (has_shift ? shift[n] : 0);
      ASSERT_NEAR(floats[i], value, 1e-5f * (1 + std::abs(product)));
      auto level = static_cast<int32_t>(
          std::min(std::max(std::nearbyint(floats[i]) + static_cast<float>(out.zero), static_cast<float>(out.low)),
                   static_cast<float>(out.high)));
      int32_t got = is_signed ? static_cast<int8_t>(bytes[i]) : bytes[i];
      ASSERT_EQ(got, level) << floats[i];
    }
  }
}

TEST(Int8Gemm, QuantizesAsTheStandardSays) {
  std::mt19937 random(19);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> x(1 + random() % 100);
    for (float& value : x) value = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 64.0f;
    if (round % 5 == 0) x[random() % x.size()] = std::numeric_limits<float>::quiet_NaN();
    float low = 0, high = 0, found_low = 1, found_high = -1;
    for (float value : x) {
      low = std::min(low, value);
      high = std::max(high, value);
    }
    auto count = static_cast<int64_t>(x.size());
    BestInt8Kernels().range(x.data(), count, &found_low, &found_high);
    ASSERT_EQ(found_low, low);
    ASSERT_EQ(found_high, high);
    uint8_t flip = round % 2 ? kSignFlip : uint8_t{0};
    std::vector<uint8_t> y(x.size());
    std::vector<float> back(x.size());
    BestInt8Kernels().quantize(x.data(), count, 0.0625f, 100.0f, flip, y.data());
    BestInt8Kernels().dequantize(y.data(), count, 0.0625f, 100, flip, back.data());
    for (size_t i = 0; i < x.size(); ++i) {
      float level = std::nearbyint(x[i] / 0.0625f) + 100.0f;
      int whole = !(level > 0) ? 0 : level > 255 ? 255 : static_cast<int>(level);
      ASSERT_EQ(y[i] ^ flip, whole) << x[i];
      ASSERT_EQ(back[i], static_cast<float>(whole - 100) * 0.0625f);
    }
  }
}

}  // namespace
}  // namespace ferry
