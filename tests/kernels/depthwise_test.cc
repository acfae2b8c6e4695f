// Depthwise convolutions on every instruction set against plain loops.
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
    conv.channels = random.Size(40, 150);
    conv.kernel_height = random.Size(5, 9), conv.kernel_width = random.Size(7, 11);
    if (random.Bool()) conv.kernel_height = conv.kernel_width = random.Bool() ? 3 : 5;
    conv.stride_y = random.Int(1, 3), conv.stride_x = random.Int(1, 3);
    if (random.Int(0, 3) == 0) conv.dilation_y = random.Int(1, 3), conv.dilation_x = random.Int(1, 3);
    int64_t reach_y = (conv.kernel_height - 1) * conv.dilation_y, reach_x = (conv.kernel_width - 1) * conv.dilation_x;
    conv.pad_top = random.Int(0, reach_y), conv.pad_left = random.Int(0, reach_x);
    int64_t pad_bottom = random.Int(0, reach_y), pad_right = random.Int(0, reach_x);
    auto least = [](int64_t reach, int64_t pads) { return reach + 1 > pads + 1 ? reach + 1 - pads : int64_t{1}; };
    conv.height = least(reach_y, conv.pad_top + pad_bottom) + random.Int(0, 5);
    conv.width = least(reach_x, conv.pad_left + pad_right) + random.Int(0, 20);
    out_height = (conv.height + conv.pad_top + pad_bottom - reach_y - 1) / conv.stride_y + 1;
    conv.out_width = (conv.width + conv.pad_left + pad_right - reach_x - 1) / conv.stride_x + 1;
    x = random.Vector(conv.height * conv.width * conv.channels);
    weights = random.Vector(conv.kernel_height * conv.kernel_width * conv.channels);
    bias = random.Vector(conv.channels);
    zeros.resize(static_cast<size_t>(conv.channels));
    residual = random.Vector(outputs());
    conv.x = x.data(), conv.weights = weights.data(), conv.zeros = zeros.data();
    if (random.Bool()) conv.bias = bias.data();
    if (random.Int(0, 2) == 0) conv.residual = residual.data();
    if (random.Bool()) conv.activation = {ActivationKind::kRelu};
  }

  int64_t outputs() const { return out_height * conv.out_width * conv.channels; }

  double Sum(int64_t row, int64_t column, int64_t channel) const {
    double sum = conv.bias ? static_cast<double>(bias[static_cast<size_t>(channel)]) : 0.0;
    for (int64_t ky = 0; ky < conv.kernel_height; ++ky)
      for (int64_t kx = 0; kx < conv.kernel_width; ++kx) {
        int64_t y = row * conv.stride_y + ky * conv.dilation_y - conv.pad_top;
        int64_t at = column * conv.stride_x + kx * conv.dilation_x - conv.pad_left;
        if (y < 0 || y >= conv.height || at < 0 || at >= conv.width) continue;
        sum += static_cast<double>(conv.x[(y * conv.width + at) * conv.channels + channel]) *
               static_cast<double>(conv.weights[(ky * conv.kernel_width + kx) * conv.channels + channel]);
      }
    return sum;
  }

  std::vector<double> Plain() const {
    return testing::PlainImage(conv, out_height, conv.channels, [&](auto... at) { return Sum(at...); });
  }

  // Rows in two parts, and over the residual where there is one.
  std::vector<float> Run(const ImageKernels& kernels) const {
    std::vector<float> y = residual;
    std::vector<const float*> columns(static_cast<size_t>(DepthwiseColumns(conv)));
    DepthwiseConv image = conv;
    image.y = y.data();
    if (image.residual) image.residual = y.data();
    kernels.depthwise(image, out_height / 2, out_height, columns.data());
    kernels.depthwise(image, 0, out_height / 2, columns.data());
    return y;
  }
};

TEST(Depthwise, EveryInstructionSetAgreesWithPlainLoops) {
  RandomNumbers random(102);
  for (int round = 0; round < 1200; ++round) {
    Case one(random);
    if (one.outputs() * one.conv.kernel_height * one.conv.kernel_width > 150000) continue;
    std::vector<double> plain = one.Plain();
    for (Isa isa : testing::RunnableIsas()) {
      std::vector<float> fast = one.Run(ImageKernelsOf(isa));
      for (size_t i = 0; i < plain.size(); ++i)
        ASSERT_NEAR(fast[i], plain[i], 2e-5)
            << GemmKernelsOf(isa).isa << ": " << one.conv.height << "×" << one.conv.width << "×" << one.conv.channels
            << ", kernel " << one.conv.kernel_height << "×" << one.conv.kernel_width << ", strides "
            << one.conv.stride_y << " " << one.conv.stride_x << ", dilations " << one.conv.dilation_y << " "
            << one.conv.dilation_x << ", pads " << one.conv.pad_top << " " << one.conv.pad_left << ", element " << i;
    }
  }
}

}  // namespace
}  // namespace ferry
