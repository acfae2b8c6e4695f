#include "kernels/int8_gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace ferry {
namespace {

TEST(Int8Gemm, IsExactOnRandomShapes) {
  std::mt19937 random(17);
  for (int round = 0; round < 400; ++round) {
    int64_t rows = 1 + random() % 30, depth = 1 + random() % 70, columns = 1 + random() % 60,
            padded = PaddedDepth(depth);
    auto number = [&] { return static_cast<int16_t>(static_cast<int>(random() % 511) - 255); };
    std::vector<int16_t> a(static_cast<size_t>(rows * padded)), b(static_cast<size_t>(depth * columns));
    std::vector<int16_t> packed(static_cast<size_t>(PackedInt8Size(depth, columns)));
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t k = 0; k < depth; ++k) a[static_cast<size_t>(i * padded + k)] = number();
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t n = 0; n < columns; ++n)
        packed[static_cast<size_t>(PackedInt8Index(depth, k, n))] = b[static_cast<size_t>(k * columns + n)] = number();
    std::vector<int32_t> c(static_cast<size_t>(rows * columns), -1);
    BestInt8Kernels().multiply(a.data(), rows, depth, packed.data(), columns, c.data(), columns);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t n = 0; n < columns; ++n) {
        int32_t sum = 0;
        for (int64_t k = 0; k < depth; ++k)
          sum += a[static_cast<size_t>(i * padded + k)] * b[static_cast<size_t>(k * columns + n)];
        ASSERT_EQ(c[static_cast<size_t>(i * columns + n)], sum) << rows << "×" << depth << "×" << columns;
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
    std::vector<uint8_t> y(x.size());
    BestInt8Kernels().quantize(x.data(), count, 0.0625f, 100.0f, y.data());
    for (size_t i = 0; i < x.size(); ++i) {
      float level = std::nearbyint(x[i] / 0.0625f) + 100.0f;
      ASSERT_EQ(y[i], !(level > 0) ? 0 : level > 255 ? 255 : static_cast<int>(level)) << x[i];
    }
  }
}

}  // namespace
}  // namespace ferry
