#include "kernels/nhwc.h"

namespace ferry {

static int64_t LeastFeatures(int64_t lanes) { return lanes >= kLeastHalved ? lanes / 2 : lanes; }

bool GroupsFitLanes(const DepthwiseConv& conv, int64_t lanes) {
  const int64_t size = conv.group_features;
  if (size % lanes == 0) return true;
  return lanes >= kLeastShared && size > 1 && size == conv.group_channels && lanes % size == 0 &&
         conv.features % LeastFeatures(lanes) == 0;
}

bool PlanarFits(const DepthwiseConv& conv, const NhwcKernels& kernels) {
  return conv.stride_x == 2 && conv.dilation_x == 1 && (conv.kernel_width == 3 || conv.kernel_width == 7) &&
         conv.kernel_width <= kernels.widest_planar && conv.features % LeastFeatures(kernels.lanes) == 0;
}

int64_t PlanarLines(const DepthwiseConv& conv) { return conv.channels * DepthwiseColumns(conv); }

void PackGrouped(const float* weights, const DepthwiseConv& conv, int64_t lanes, float* packed) {
  const int64_t height = conv.kernel_height, width = conv.kernel_width;
  for (int64_t first = 0; first < conv.features; first += lanes) {
    const int64_t count = conv.features - first < lanes ? conv.features - first : lanes;
    for (int64_t ky = 0; ky < height; ++ky)
      for (int64_t c = 0; c < conv.group_channels; ++c)
        for (int64_t kx = 0; kx < width; ++kx)
          for (int64_t lane = 0; lane < count; ++lane)
            *packed++ = weights[(((first + lane) * conv.group_channels + c) * height + ky) * width + kx];
  }
}

int64_t DepthwiseColumns(const DepthwiseConv& conv) {
  int64_t pixels = BestNhwcKernels().depthwise_pixels;
  int64_t outputs = (conv.out_width + pixels - 1) / pixels * pixels;
  return conv.kernel_height * ((outputs - 1) * conv.stride_x + (conv.kernel_width - 1) * conv.dilation_x + 1);
}

}  // namespace ferry
