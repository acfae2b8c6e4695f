#include "kernels/image.h"

#include "kernels/isa.h"

namespace ferry {

#if defined(__x86_64__)
namespace avx512 {
extern const ImageKernels kImageKernels;
}
namespace avx2 {
extern const ImageKernels kImageKernels;
}
#endif
namespace baseline {
extern const ImageKernels kImageKernels;
}

const ImageKernels& BestImageKernels() {
  switch (BestIsa()) {
#if defined(__x86_64__)
    case Isa::kAvx512: return avx512::kImageKernels;
    case Isa::kAvx2: return avx2::kImageKernels;
#endif
    default: return baseline::kImageKernels;
  }
}

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
