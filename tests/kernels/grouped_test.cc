// Convolutions in groups on every instruction set against plain loops.
#include "tests/kernels/nhwc_case.h"

namespace ferry {
namespace {

using testing::ImageCase;
using testing::RandomNumbers;

ImageCase RandomGroups(RandomNumbers& random) {
  ImageCase made;
  DepthwiseConv& conv = made.conv;
  const int64_t sizes[] = {2, 4, 8, 16, 32}, groups = random.Int(2, 9);
  conv.group_channels = conv.group_features = sizes[random.Int(0, 4)];
  if (random.Int(0, 3) == 0) conv.group_channels = random.Int(1, 20);
  conv.channels = groups * conv.group_channels, conv.features = groups * conv.group_features;
  conv.kernel_height = random.Int(1, 4), conv.kernel_width = 3;
  conv.stride_y = random.Int(1, 3), conv.stride_x = random.Int(1, 2), conv.dilation_y = random.Int(1, 2);
  conv.pad_top = random.Int(0, 2), conv.pad_left = random.Int(0, 2);
  conv.height = (conv.kernel_height - 1) * conv.dilation_y + random.Int(1, 5), conv.width = random.Int(3, 24);
  made.out_height = (conv.height + conv.pad_top - (conv.kernel_height - 1) * conv.dilation_y - 1) / conv.stride_y + 1;
  conv.out_width = (conv.width + conv.pad_left + random.Int(0, 2) - 3) / conv.stride_x + 1;
  made.Fill(random, conv.features, conv.features * conv.group_channels * conv.kernel_height * 3);
  return made;
}

std::vector<double> Plain(const ImageCase& one) {
  const DepthwiseConv& conv = one.conv;
  const int64_t taps = conv.kernel_height * conv.kernel_width;
  return one.Plain([&](int64_t y, int64_t x, int64_t tap, int64_t feature) {
    const float* pixel = conv.x + (y * conv.width + x) * conv.channels;
    pixel += feature / conv.group_features * conv.group_channels;
    const float* weights = one.weights.data() + feature * conv.group_channels * taps + tap;
    double sum = 0;
    for (int64_t c = 0; c < conv.group_channels; ++c) sum += double{pixel[c]} * double{weights[c * taps]};
    return sum;
  });
}

TEST(Grouped, EveryInstructionSetAgreesWithPlainLoops) {
  RandomNumbers random(107);
  int64_t fitting = 0;
  for (int round = 0; round < 500; ++round) {
    const ImageCase one = RandomGroups(random);
    const std::vector<double> plain = Plain(one);
    for (Isa isa : testing::RunnableIsas()) {
      const NhwcKernels& kernels = NhwcKernelsOf(isa);
      if (!GroupsFitLanes(one.conv, kernels.lanes)) continue;
      ++fitting;
      std::vector<const float*> columns(static_cast<size_t>(DepthwiseColumns(one.conv)));
      auto run = [&](const DepthwiseConv& image, int64_t first, int64_t last) {
        kernels.grouped(image, first, last, columns.data());
      };
      ASSERT_NO_FATAL_FAILURE(one.ExpectNear(isa, one.RunGrouped(kernels, run), plain, 5e-5));
    }
  }
  EXPECT_GT(fitting, 500);
}

}  // namespace
}  // namespace ferry
