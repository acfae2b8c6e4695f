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

int64_t DepthwiseColumns(const DepthwiseConv& conv) {
  int64_t pixels = BestImageKernels().depthwise_pixels;
  int64_t outputs = (conv.out_width + pixels - 1) / pixels * pixels;
  return conv.kernel_height * ((outputs - 1) * conv.stride_x + (conv.kernel_width - 1) * conv.dilation_x + 1);
}

}  // namespace ferry
