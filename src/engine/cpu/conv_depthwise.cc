#include <algorithm>

#include "base/mapped_file.h"
#include "engine/cpu/conv.h"
#include "engine/cpu/scratch.h"
#include "kernels/image.h"

namespace ferry {
namespace {

class Depthwise final : public ConvAlgorithm {
 public:
  Depthwise(std::shared_ptr<const Tensor> weights, int64_t channels)
      : weights_(std::move(weights)), zeros_(static_cast<size_t>(channels)) {}

  void Run(const ConvCall& call) const override {
    const ConvPlan& conv = call.plan.conv;
    const WindowAxis &vertical = call.plan.axes[1], &horizontal = call.plan.axes[2];
    DepthwiseConv image;
    image.weights = weights_->Data<float>();
    image.bias = call.bias;
    image.zeros = zeros_.data();
    image.channels = conv.channels;
    image.height = vertical.input, image.width = horizontal.input, image.out_width = horizontal.output;
    image.kernel_height = vertical.kernel, image.kernel_width = horizontal.kernel;
    image.stride_y = vertical.stride, image.stride_x = horizontal.stride;
    image.dilation_y = vertical.dilation, image.dilation_x = horizontal.dilation;
    image.pad_top = vertical.pad_begin, image.pad_left = horizontal.pad_begin;
    image.activation = call.activation;
    int64_t rows = vertical.output, row_work = horizontal.output * conv.channels * conv.counts.taps;
    int64_t grain = std::max<int64_t>(1, kConvPieceWork / 16 / std::max<int64_t>(1, row_work));
    call.context.ParallelFor(conv.batch * rows, grain, [&](int64_t begin, int64_t end) {
      const float** columns = ThreadScratch<const float*>(ScratchUse::kRowPointers, DepthwiseColumns(image));
      while (begin < end) {
        int64_t number = begin / rows, first = begin % rows, last = std::min(rows, first + end - begin);
        DepthwiseConv part = image;
        int64_t offset = number * conv.counts.output * conv.channels;
        part.x = call.x + number * conv.counts.input * conv.channels;
        part.y = call.y + offset;
        if (call.residual) part.residual = call.residual + offset;
        BestImageKernels().depthwise(part, first, last, columns);
        begin += last - first;
      }
    });
  }

 private:
  std::shared_ptr<const Tensor> weights_;
  std::vector<float> zeros_;
};

}  // namespace

std::unique_ptr<ConvAlgorithm> MakeDepthwiseConv(const Tensor& weight, const ImageConvPlan& plan, WeightCache& cache) {
  int64_t channels = plan.conv.channels, taps = plan.conv.counts.taps;
  auto turned = cache.Get<Tensor>(weight, "depthwise taps", [&] {
    Tensor made(DType::kFloat, {taps, channels});
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t tap = 0; tap < taps; ++tap)
        made.MutableData<float>()[tap * channels + c] = weight.Data<float>()[c * taps + tap];
    DropPages(weight.raw(), weight.bytes());
    return made;
  });
  return std::make_unique<Depthwise>(std::move(turned), channels);
}

}  // namespace ferry
