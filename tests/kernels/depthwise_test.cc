// Depthwise convolutions on every instruction set against plain loops.
#include "tests/kernels/nhwc_case.h"

namespace ferry {
namespace {

using testing::ImageCase;
using testing::RandomNumbers;

ImageCase RandomChannels(RandomNumbers& random) {
  ImageCase made;
  DepthwiseConv& conv = made.conv;
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
  made.out_height = (conv.height + conv.pad_top + pad_bottom - reach_y - 1) / conv.stride_y + 1;
  conv.out_width = (conv.width + conv.pad_left + pad_right - reach_x - 1) / conv.stride_x + 1;
  made.Fill(random, conv.channels, conv.kernel_height * conv.kernel_width * conv.channels);
  return made;
}

std::vector<double> Plain(const ImageCase& one) {
  const DepthwiseConv& conv = one.conv;
  return one.Plain([&](int64_t y, int64_t x, int64_t tap, int64_t channel) {
    return double{conv.x[(y * conv.width + x) * conv.channels + channel]} *
           double{conv.weights[tap * conv.channels + channel]};
  });
}

TEST(Depthwise, EveryInstructionSetAgreesWithPlainLoops) {
  RandomNumbers random(102);
  for (int round = 0; round < 1200; ++round) {
    const ImageCase one = RandomChannels(random);
    if (one.residual.size() * static_cast<size_t>(one.conv.kernel_height * one.conv.kernel_width) > 150000) continue;
    const std::vector<double> plain = Plain(one);
    for (Isa isa : testing::RunnableIsas()) {
      std::vector<const float*> columns(static_cast<size_t>(DepthwiseColumns(one.conv)));
      auto run = [&](const DepthwiseConv& image, int64_t first, int64_t last) {
        NhwcKernelsOf(isa).depthwise(image, first, last, columns.data());
      };
      ASSERT_NO_FATAL_FAILURE(one.ExpectNear(isa, one.Run(one.weights, run), plain, 2e-5));
    }
  }
}

}  // namespace
}  // namespace ferry
