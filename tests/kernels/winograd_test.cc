// One tile of Winograd's algorithm, from pixels to outputs, on every instruction set against the plain convolution.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/nhwc.h"
#include "kernels/packed_gemm.h"
#include "tests/kernels/isas.h"
#include "tests/support/random_numbers.h"

namespace ferry {
namespace {

using testing::RandomNumbers;

// G of the points that kernels/simd/winograd.cc uses: 0, 1, -1, (2, -2,) infinity.
constexpr double kFour[6][3] = {{1.0 / 4, 0, 0},
                                {-1.0 / 6, -1.0 / 6, -1.0 / 6},
                                {-1.0 / 6, 1.0 / 6, -1.0 / 6},
                                {1.0 / 24, 1.0 / 12, 1.0 / 6},
                                {1.0 / 24, -1.0 / 12, 1.0 / 6},
                                {0, 0, 1}};
constexpr double kTwo[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};

// Each channel by itself: the products over channels are the matter of the GEMM.
struct Tile {
  int64_t outputs, size, channels, stride, block_stride;
  std::vector<float> x, g, bias, residual;
  bool has_bias, has_residual, relu;
  std::vector<bool> there;

  Tile(RandomNumbers& random, int64_t outputs)
      : outputs(outputs),
        size(outputs + 2),
        channels(random.Size(40, 200)),
        stride(channels + random.Int(0, 20)),
        block_stride(kWinogradBlock * random.Int(1, 4)) {
    x = random.Vector(size * size * channels);
    g = random.Vector(9 * channels);
    bias = random.Vector(channels);
    residual = random.Vector(outputs * outputs * channels);
    has_bias = random.Bool(), has_residual = random.Bool(), relu = random.Bool();
    for (int64_t i = 0; i < outputs * outputs; ++i) there.push_back(random.Int(0, 3) > 0);
  }

  double Expected(int64_t row, int64_t column, int64_t channel) const {
    double sum = has_bias ? static_cast<double>(bias[static_cast<size_t>(channel)]) : 0.0;
    for (int64_t a = 0; a < 3; ++a)
      for (int64_t b = 0; b < 3; ++b)
        sum += static_cast<double>(x[static_cast<size_t>(((row + a) * size + column + b) * channels + channel)]) *
               static_cast<double>(g[static_cast<size_t>((a * 3 + b) * channels + channel)]);
    if (has_residual)
      sum += static_cast<double>(residual[static_cast<size_t>((row * outputs + column) * channels + channel)]);
    return relu && sum < 0 ? 0 : sum;
  }

  double TransformedFilter(int64_t i, int64_t j, int64_t channel) const {
    double sum = 0;
    for (int64_t a = 0; a < 3; ++a)
      for (int64_t b = 0; b < 3; ++b)
        sum += (outputs == 4 ? kFour[i][a] * kFour[j][b] : kTwo[i][a] * kTwo[j][b]) *
               static_cast<double>(g[static_cast<size_t>((a * 3 + b) * channels + channel)]);
    return sum;
  }

  // NaN where nothing may be written.
  std::vector<float> Run(const WinogradKernels& kernels) const {
    std::vector<const float*> pixels;
    for (int64_t i = 0; i < size * size; ++i) pixels.push_back(x.data() + i * channels);
    const int64_t v_stride = (channels / kWinogradBlock + 1) * block_stride;
    std::vector<float> v(static_cast<size_t>(kernels.positions * v_stride));
    std::vector<float> m(static_cast<size_t>(kernels.positions * stride));
    kernels.input(pixels.data(), channels, v.data(), v_stride, block_stride);
    for (int64_t p = 0; p < kernels.positions; ++p)
      for (int64_t channel = 0; channel < channels; ++channel) {
        const int64_t block = channel / kWinogradBlock;
        m[static_cast<size_t>(p * stride + channel)] =
            v[static_cast<size_t>(p * v_stride + block * block_stride + channel % kWinogradBlock)] *
            static_cast<float>(TransformedFilter(p / size, p % size, channel));
      }
    std::vector<float> y(residual.size(), NAN);
    std::vector<float*> to;
    std::vector<const float*> added;
    for (int64_t i = 0; i < outputs * outputs; ++i) {
      to.push_back(there[static_cast<size_t>(i)] ? y.data() + i * channels : nullptr);
      added.push_back(there[static_cast<size_t>(i)] ? residual.data() + i * channels : nullptr);
    }
    // In two parts, as products are made.
    const int64_t first = channels / 2;
    auto part = [&](int64_t from, int64_t until) {
      kernels.output({m.data() + from, stride, from, until - from, has_bias ? bias.data() : nullptr, to.data(),
                      has_residual ? added.data() : nullptr, relu ? Activation{ActivationKind::kRelu} : Activation{}});
    };
    part(0, first);
    part(first, channels);
    return y;
  }
};

void HoldAgainstPlainLoops(int64_t outputs, double tolerance) {
  RandomNumbers random(103);
  for (int round = 0; round < 500; ++round) {
    Tile tile(random, outputs);
    for (Isa isa : testing::RunnableIsas()) {
      const NhwcKernels& kernels = NhwcKernelsOf(isa);
      std::vector<float> y = tile.Run(outputs == 4 ? *kernels.winograd4 : *kernels.winograd2);
      for (int64_t i = 0; i < outputs * outputs; ++i)
        for (int64_t channel = 0; channel < tile.channels; ++channel) {
          float got = y[static_cast<size_t>(i * tile.channels + channel)];
          if (tile.there[static_cast<size_t>(i)])
            ASSERT_NEAR(got, tile.Expected(i / outputs, i % outputs, channel), tolerance) << tile.channels;
          else
            ASSERT_NE(got, got);
        }
    }
  }
}

TEST(Winograd, ProductsOfGroupsAgreeWithPlainLoops) {
  RandomNumbers random(107);
  for (int round = 0; round < 300; ++round)
    for (Isa isa : testing::RunnableIsas()) {
      const WinogradKernels& kernels = *NhwcKernelsOf(isa).winograd4;
      const int64_t rows = random.Int(1, static_cast<int>(kernels.most_rows)), channels = random.Size(40, 300);
      const int64_t panel_count = random.Int(1, 4), columns = panel_count * kPanelWidth,
                    stride = columns + random.Int(0, 9);
      const int64_t blocks = (channels + kWinogradBlock - 1) / kWinogradBlock;
      std::vector<float> v = random.Vector(blocks * kWinogradBlock * rows), panels = random.Vector(channels * columns);
      std::vector<float> to(static_cast<size_t>(rows * stride), 7.0f);
      WinogradProduct product{v.data(), rows, channels, panels.data(), panel_count};
      product.ahead = reinterpret_cast<const char*>(panels.data());
      product.ahead_step = 64 * random.Int(0, 3);
      product.to = to.data(), product.to_stride = stride;
      kernels.multiply(product);
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t n = 0; n < stride; ++n) {
          double sum = n < columns ? 0 : 7;
          for (int64_t k = 0; n < columns && k < channels; ++k)
            sum += static_cast<double>(
                       v[static_cast<size_t>((k / kWinogradBlock * rows + i) * kWinogradBlock + k % kWinogradBlock)]) *
                   static_cast<double>(panels[static_cast<size_t>(PackedIndex(channels, k, n))]);
          ASSERT_NEAR(to[static_cast<size_t>(i * stride + n)], sum, 1e-4) << rows << " " << channels;
        }
    }
}

TEST(Winograd, SmallTilesAgreeWithPlainLoops) { HoldAgainstPlainLoops(2, 5e-6); }
TEST(Winograd, LargeTilesAgreeWithPlainLoops) { HoldAgainstPlainLoops(4, 3e-5); }

}  // namespace
}  // namespace ferry
