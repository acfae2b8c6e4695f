#include "kernels/image.h"

namespace ferry {

void PackGrouped(const float* weights, const DepthwiseConv& conv, float* packed) {
  int64_t lanes = BestImageKernels().lanes, height = conv.kernel_height;
  for (int64_t first = 0; first < conv.features; first += lanes)
    for (int64_t ky = 0; ky < height; ++ky)
      for (int64_t c = 0; c < conv.group_channels; ++c)
        for (int64_t kx = 0; kx < 3; ++kx)
          for (int64_t lane = 0; lane < lanes; ++lane)
            *packed++ = weights[(((first + lane) * conv.group_channels + c) * height + ky) * 3 + kx];
}

int64_t DepthwiseColumns(const DepthwiseConv& conv) {
  int64_t pixels = BestImageKernels().depthwise_pixels;
  int64_t outputs = (conv.out_width + pixels - 1) / pixels * pixels;
  return conv.kernel_height * ((outputs - 1) * conv.stride_x + (conv.kernel_width - 1) * conv.dilation_x + 1);
}

}  // namespace ferry
