// Convolutions in groups on every instruction set against plain loops.
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
  std::vector<float> x, weights, bias, zeros, residual;

  explicit Case(RandomNumbers& random) {
    const int64_t sizes[] = {2, 4, 8, 16, 32}, groups = random.Int(2, 9);
    conv.group_channels = conv.group_features = sizes[random.Int(0, 4)];
    if (random.Int(0, 3) == 0) conv.group_channels = random.Int(1, 20);
    conv.channels = groups * conv.group_channels, conv.features = groups * conv.group_features;
    conv.kernel_height = random.Int(1, 4), conv.kernel_width = 3;
    conv.stride_y = random.Int(1, 3), conv.stride_x = random.Int(1, 2), conv.dilation_y = random.Int(1, 2);
    conv.pad_top = random.Int(0, 2), conv.pad_left = random.Int(0, 2);
    conv.height = (conv.kernel_height - 1) * conv.dilation_y + random.Int(1, 5), conv.width = random.Int(3, 24);
    out_height = (conv.height + conv.pad_top - (conv.kernel_height - 1) * conv.dilation_y - 1) / conv.stride_y + 1;
    conv.out_width = (conv.width + conv.pad_left + random.Int(0, 2) - 3) / conv.stride_x + 1;
    x = random.Vector(conv.height * conv.width * conv.channels);
    weights = random.Vector(conv.features * conv.group_channels * conv.kernel_height * 3);
    bias = random.Vector(conv.features);
    zeros.resize(static_cast<size_t>(conv.channels));
    residual = random.Vector(out_height * conv.out_width * conv.features);
    conv.x = x.data(), conv.zeros = zeros.data();
    if (random.Bool()) conv.bias = bias.data();
    if (random.Int(0, 2) == 0) conv.residual = residual.data();
    if (random.Bool()) conv.activation = {ActivationKind::kRelu};
  }

  double Sum(int64_t row, int64_t column, int64_t feature) const {
    double sum = conv.bias ? static_cast<double>(bias[static_cast<size_t>(feature)]) : 0.0;
    const int64_t first = feature / conv.group_features * conv.group_channels;
    const float* taps = weights.data() + feature * conv.group_channels * conv.kernel_height * 3;
    for (int64_t c = 0; c < conv.group_channels; ++c)
      for (int64_t ky = 0; ky < conv.kernel_height; ++ky)
        for (int64_t kx = 0; kx < 3; ++kx, ++taps) {
          int64_t y = row * conv.stride_y + ky * conv.dilation_y - conv.pad_top;
          int64_t at = column * conv.stride_x + kx - conv.pad_left;
          if (y < 0 || y >= conv.height || at < 0 || at >= conv.width) continue;
          sum += static_cast<double>(conv.x[(y * conv.width + at) * conv.channels + first + c]) * double{*taps};
        }
    return sum;
  }

  std::vector<double> Plain() const {
    return testing::PlainImage(conv, out_height, conv.features, [&](auto... at) { return Sum(at...); });
  }

  // Rows in two parts, and over the residual where there is one.
  std::vector<float> Run(const ImageKernels& kernels) const {
    std::vector<float> y = residual, packed(weights.size());
    std::vector<const float*> columns(static_cast<size_t>(DepthwiseColumns(conv)));
    PackGrouped(weights.data(), conv, kernels.lanes, packed.data());
    DepthwiseConv image = conv;
    image.weights = packed.data(), image.y = y.data();
    if (image.residual) image.residual = y.data();
    kernels.grouped(image, out_height / 2, out_height, columns.data());
    kernels.grouped(image, 0, out_height / 2, columns.data());
    return y;
  }
};

TEST(Grouped, EveryInstructionSetAgreesWithPlainLoops) {
  RandomNumbers random(107);
  int64_t fitting = 0;
  for (int round = 0; round < 500; ++round) {
    Case one(random);
    std::vector<double> plain = one.Plain();
    for (Isa isa : testing::RunnableIsas()) {
      const ImageKernels& kernels = ImageKernelsOf(isa);
      if (!GroupsFitLanes(one.conv, kernels.lanes)) continue;
      ++fitting;
      std::vector<float> fast = one.Run(kernels);
      for (size_t i = 0; i < plain.size(); ++i)
        ASSERT_NEAR(fast[i], plain[i], 5e-5)
            << GemmKernelsOf(isa).isa << ": " << one.conv.height << "×" << one.conv.width << "×" << one.conv.channels
            << ", " << one.conv.group_channels << " to " << one.conv.group_features << ", kernel height "
            << one.conv.kernel_height << ", strides " << one.conv.stride_y << " " << one.conv.stride_x << ", pads "
            << one.conv.pad_top << " " << one.conv.pad_left << ", element " << i;
    }
  }
  EXPECT_GT(fitting, 500);
}

}  // namespace
}  // namespace ferry
