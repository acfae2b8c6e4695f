// First layers, whose planes become pixels of many features, on every instruction set against plain loops.
#include <gtest/gtest.h>

#include "kernels/image.h"
#include "kernels/packed_gemm.h"
#include "tests/kernels/isas.h"
#include "tests/kernels/plain_image.h"
#include "tests/support/random_numbers.h"

namespace ferry {
namespace {

using testing::RandomNumbers;

struct Case {
  DepthwiseConv conv;
  int64_t out_height;
  std::vector<float> x, weights, bias, residual;

  explicit Case(RandomNumbers& random) {
    conv.channels = conv.group_channels = random.Int(1, 5);
    conv.features = conv.group_features = 8 * random.Int(1, 9);
    conv.kernel_height = random.Int(1, 7), conv.kernel_width = random.Bool() ? 3 : 7;
    conv.stride_y = random.Int(1, 3), conv.stride_x = 2, conv.dilation_y = random.Int(1, 2);
    const int64_t reach_y = (conv.kernel_height - 1) * conv.dilation_y, reach_x = conv.kernel_width - 1;
    conv.pad_top = random.Int(0, reach_y), conv.pad_left = random.Int(0, reach_x);
    conv.height = reach_y + random.Int(1, 6), conv.width = random.Int(1, 40);
    out_height = (conv.height + conv.pad_top - reach_y - 1) / conv.stride_y + 1;
    const int64_t pad_right = std::max(random.Int(0, reach_x), reach_x + 1 - conv.width - conv.pad_left);
    conv.out_width = (conv.width + conv.pad_left + pad_right - reach_x - 1) / conv.stride_x + 1;
    x = random.Vector(conv.height * conv.width * conv.channels);
    weights = random.Vector(conv.features * conv.channels * conv.kernel_height * conv.kernel_width);
    bias = random.Vector(conv.features);
    residual = random.Vector(out_height * conv.out_width * conv.features);
    conv.x = x.data();
    if (random.Bool()) conv.bias = bias.data();
    if (random.Int(0, 2) == 0) conv.residual = residual.data();
    if (random.Bool()) conv.activation = {ActivationKind::kRelu};
  }

  double Sum(int64_t row, int64_t column, int64_t feature) const {
    double sum = conv.bias ? static_cast<double>(bias[static_cast<size_t>(feature)]) : 0.0;
    const float* taps = weights.data() + feature * conv.channels * conv.kernel_height * conv.kernel_width;
    for (int64_t c = 0; c < conv.channels; ++c)
      for (int64_t ky = 0; ky < conv.kernel_height; ++ky)
        for (int64_t kx = 0; kx < conv.kernel_width; ++kx, ++taps) {
          int64_t y = row * conv.stride_y + ky * conv.dilation_y - conv.pad_top;
          int64_t at = column * conv.stride_x + kx - conv.pad_left;
          if (y < 0 || y >= conv.height || at < 0 || at >= conv.width) continue;
          sum += static_cast<double>(conv.x[(c * conv.height + y) * conv.width + at]) * double{*taps};
        }
    return sum;
  }

  std::vector<double> Plain() const {
    return testing::PlainImage(conv, out_height, conv.features, [&](auto... at) { return Sum(at...); });
  }

  // Rows in two parts, and over the residual where there is one.
  std::vector<float> Run(const ImageKernels& kernels) const {
    std::vector<float> y = residual, packed(weights.size());
    std::vector<float> lines(static_cast<size_t>(PlanarLines(conv)));
    PackGrouped(weights.data(), conv, kernels.lanes, packed.data());
    DepthwiseConv image = conv;
    image.weights = packed.data(), image.y = y.data();
    if (image.residual) image.residual = y.data();
    kernels.planar(image, out_height / 2, out_height, lines.data());
    kernels.planar(image, 0, out_height / 2, lines.data());
    return y;
  }
};

TEST(Planar, EveryInstructionSetAgreesWithPlainLoops) {
  RandomNumbers random(108);
  int64_t fitting = 0;
  for (int round = 0; round < 300; ++round) {
    Case one(random);
    std::vector<double> plain = one.Plain();
    for (Isa isa : testing::RunnableIsas()) {
      const ImageKernels& kernels = ImageKernelsOf(isa);
      if (!PlanarFits(one.conv, kernels)) continue;
      ++fitting;
      std::vector<float> fast = one.Run(kernels);
      for (size_t i = 0; i < plain.size(); ++i)
        ASSERT_NEAR(fast[i], plain[i], 5e-5)
            << GemmKernelsOf(isa).isa << ": " << one.conv.height << "×" << one.conv.width << "×" << one.conv.channels
            << " to " << one.conv.features << ", kernel " << one.conv.kernel_height << "×" << one.conv.kernel_width
            << ", pads " << one.conv.pad_top << " " << one.conv.pad_left << ", element " << i;
    }
  }
  EXPECT_GT(fitting, 300);
}

}  // namespace
}  // namespace ferry
