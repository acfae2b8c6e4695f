#include "kernels/image.h"

namespace ferry {

bool GroupsFitLanes(const DepthwiseConv& conv, int64_t lanes) {
  const int64_t size = conv.group_features;
  if (size % lanes == 0) return true;
  return size > 1 && size == conv.group_channels && lanes % size == 0 && conv.features % (lanes / 2) == 0;
}

void PackGrouped(const float* weights, const DepthwiseConv& conv, int64_t lanes, float* packed) {
  const int64_t height = conv.kernel_height;
  for (int64_t first = 0; first < conv.features; first += lanes) {
    const int64_t count = conv.features - first < lanes ? conv.features - first : lanes;
    for (int64_t ky = 0; ky < height; ++ky)
      for (int64_t c = 0; c < conv.group_channels; ++c)
        for (int64_t kx = 0; kx < 3; ++kx)
          for (int64_t lane = 0; lane < count; ++lane)
            *packed++ = weights[(((first + lane) * conv.group_channels + c) * height + ky) * 3 + kx];
  }
}

int64_t DepthwiseColumns(const DepthwiseConv& conv) {
  int64_t pixels = BestImageKernels().depthwise_pixels;
  int64_t outputs = (conv.out_width + pixels - 1) / pixels * pixels;
  return conv.kernel_height * ((outputs - 1) * conv.stride_x + (conv.kernel_width - 1) * conv.dilation_x + 1);
}

}  // namespace ferry
