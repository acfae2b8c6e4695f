// First layers, whose planes become pixels of many features, on every instruction set against plain loops.
#include <algorithm>

#include "tests/kernels/nhwc_case.h"

namespace ferry {
namespace {

using testing::ImageCase;
using testing::RandomNumbers;

ImageCase RandomPlanes(RandomNumbers& random) {
  ImageCase made;
  DepthwiseConv& conv = made.conv;
  conv.channels = conv.group_channels = random.Int(1, 5);
  conv.features = conv.group_features = 8 * random.Int(1, 9);
  conv.kernel_height = random.Int(1, 7), conv.kernel_width = random.Bool() ? 3 : 7;
  conv.stride_y = random.Int(1, 3), conv.stride_x = 2, conv.dilation_y = random.Int(1, 2);
  const int64_t reach_y = (conv.kernel_height - 1) * conv.dilation_y, reach_x = conv.kernel_width - 1;
  conv.pad_top = random.Int(0, reach_y), conv.pad_left = random.Int(0, reach_x);
  conv.height = reach_y + random.Int(1, 6), conv.width = random.Int(1, 40);
  made.out_height = (conv.height + conv.pad_top - reach_y - 1) / conv.stride_y + 1;
  const int64_t pad_right = std::max(random.Int(0, reach_x), reach_x + 1 - conv.width - conv.pad_left);
  conv.out_width = (conv.width + conv.pad_left + pad_right - reach_x - 1) / conv.stride_x + 1;
  made.Fill(random, conv.features, conv.features * conv.channels * conv.kernel_height * conv.kernel_width);
  return made;
}

std::vector<double> Plain(const ImageCase& one) {
  const DepthwiseConv& conv = one.conv;
  const int64_t taps = conv.kernel_height * conv.kernel_width;
  return one.Plain([&](int64_t y, int64_t x, int64_t tap, int64_t feature) {
    const float* weights = one.weights.data() + feature * conv.channels * taps + tap;
    double sum = 0;
    for (int64_t c = 0; c < conv.channels; ++c)
      sum += double{conv.x[(c * conv.height + y) * conv.width + x]} * double{weights[c * taps]};
    return sum;
  });
}

TEST(Planar, EveryInstructionSetAgreesWithPlainLoops) {
  RandomNumbers random(108);
  int64_t fitting = 0;
  for (int round = 0; round < 300; ++round) {
    const ImageCase one = RandomPlanes(random);
    const std::vector<double> plain = Plain(one);
    for (Isa isa : testing::RunnableIsas()) {
      const NhwcKernels& kernels = NhwcKernelsOf(isa);
      if (!PlanarFits(one.conv, kernels)) continue;
      ++fitting;
      std::vector<float> lines(static_cast<size_t>(PlanarLines(one.conv)));
      auto run = [&](const DepthwiseConv& image, int64_t first, int64_t last) {
        kernels.planar(image, first, last, lines.data());
      };
      ASSERT_NO_FATAL_FAILURE(one.ExpectNear(isa, one.RunGrouped(kernels, run), plain, 5e-5));
    }
  }
  EXPECT_GT(fitting, 300);
}

}  // namespace
}  // namespace ferry
