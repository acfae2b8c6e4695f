#include <algorithm>

#include "base/check_run.h"
#include "kernels/nhwc.h"
#include "providers/cpu/conv.h"
#include "providers/cpu/cuts.h"
#include "providers/cpu/scratch.h"
#include "tensor/alignment.h"

namespace ferry {
namespace {

DepthwiseConv ImageOf(const NhwcConvPlan& plan) {
  const ConvPlan& conv = plan.conv;
  const WindowAxis &vertical = plan.axes[1], &horizontal = plan.axes[2];
  DepthwiseConv image;
  image.channels = conv.channels;
  image.height = vertical.input, image.width = horizontal.input, image.out_width = horizontal.output;
  image.kernel_height = vertical.kernel, image.kernel_width = horizontal.kernel;
  image.stride_y = vertical.stride, image.stride_x = horizontal.stride;
  image.dilation_y = vertical.dilation, image.dilation_x = horizontal.dilation;
  image.pad_top = vertical.pad_begin, image.pad_left = horizontal.pad_begin;
  image.features = conv.features, image.group_channels = conv.group_channels;
  image.group_features = conv.group_features;
  return image;
}

// Kernels that make whole rows of outputs, with room for Entry's on the way.
template <class Entry>
class ByRows final : public ConvAlgorithm {
 public:
  using Kernel = void (*)(const DepthwiseConv& conv, int64_t first, int64_t last, Entry* room);
  ByRows(std::shared_ptr<const Tensor> weights, const ConvPlan& conv, Kernel kernel, int64_t room)
      : weights_(std::move(weights)), zeros_(static_cast<size_t>(conv.channels)), kernel_(kernel), room_(room) {}

  void Run(const ConvCall& call) const override {
    const ConvPlan& conv = call.plan.conv;
    DepthwiseConv image = ImageOf(call.plan);
    image.weights = weights_->Data<float>();
    image.bias = call.bias;
    image.zeros = zeros_.data();
    image.activation = call.activation;
    int64_t rows = call.plan.axes[1].output, row_work = image.out_width * conv.features * conv.depth();
    // Rows that follow each other read the same pixels: no more pieces than even out the work.
    int64_t grain = std::max<int64_t>(
        {1, kPieceWork / 16 / std::max<int64_t>(1, row_work), conv.batch * rows / (4 * call.threads())});
    const int64_t most = std::max<int64_t>(1, kWorkBetweenLooks / std::max<int64_t>(1, row_work));
    call.context.ParallelFor(conv.batch * rows, grain, [&](int64_t begin, int64_t end) {
      Entry* room = ThreadScratch<Entry>(ScratchUse::kRowPointers, room_);
      while (begin < end) {
        int64_t number = begin / rows, first = begin % rows, last = std::min({rows, first + end - begin, first + most});
        CheckRun();
        DepthwiseConv part = image;
        int64_t offset = number * conv.counts.output * conv.features;
        part.x = call.x + number * conv.counts.input * conv.channels;
        part.y = call.y + offset;
        if (call.residual) part.residual = call.residual + offset;
        kernel_(part, first, last, room);
        begin += last - first;
      }
    });
  }

 private:
  std::shared_ptr<const Tensor> weights_;
  std::vector<float> zeros_;
  Kernel kernel_;
  int64_t room_;
};

using ByPixels = ByRows<const float*>;

}  // namespace

std::unique_ptr<ConvAlgorithm> MakeDepthwiseConv(const Tensor& weight, const NhwcConvPlan& plan, WeightCache& cache) {
  int64_t channels = plan.conv.channels, taps = plan.conv.counts.taps;
  auto turned = cache.GetTensor(weight, "depthwise taps", DType::kFloat, taps * channels, [=](Tensor& made) {
    const Tensor source = Readable(weight);
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t tap = 0; tap < taps; ++tap)
        made.MutableData<float>()[tap * channels + c] = source.Data<float>()[c * taps + tap];
  });
  return std::make_unique<ByPixels>(std::move(turned), plan.conv, BestNhwcKernels().depthwise,
                                    DepthwiseColumns(ImageOf(plan)));
}

static bool IsFlat(const NhwcConvPlan& plan) {
  const WindowAxis& depth = plan.axes[0];
  return depth.kernel == 1 && depth.input == 1 && depth.output == 1;
}

static std::shared_ptr<const Tensor> PackTaps(const Tensor& weight, const NhwcConvPlan& plan, WeightCache& cache) {
  std::string form = Cat("taps of ", plan.conv.groups, " groups");
  return cache.GetTensor(weight, form, DType::kFloat, weight.size(), [weight, image = ImageOf(plan)](Tensor& made) {
    PackGrouped(Readable(weight).Data<float>(), image, BestNhwcKernels().lanes, made.MutableData<float>());
  });
}

bool FitsGrouped(const NhwcConvPlan& plan) {
  const WindowAxis& horizontal = plan.axes[2];
  return plan.conv.groups > 1 && !plan.channels_first && IsFlat(plan) && horizontal.kernel == 3 &&
         horizontal.dilation == 1 && horizontal.stride <= 2 && GroupsFitLanes(ImageOf(plan), BestNhwcKernels().lanes);
}

std::unique_ptr<ConvAlgorithm> MakeGroupedConv(const Tensor& weight, const NhwcConvPlan& plan, WeightCache& cache) {
  return std::make_unique<ByPixels>(PackTaps(weight, plan, cache), plan.conv, BestNhwcKernels().grouped,
                                    DepthwiseColumns(ImageOf(plan)));
}

bool FitsPlanar(const NhwcConvPlan& plan) {
  return plan.conv.groups == 1 && plan.channels_first && IsFlat(plan) && PlanarFits(ImageOf(plan), BestNhwcKernels());
}

std::unique_ptr<ConvAlgorithm> MakePlanarConv(const Tensor& weight, const NhwcConvPlan& plan, WeightCache& cache) {
  return std::make_unique<ByRows<float>>(PackTaps(weight, plan, cache), plan.conv, BestNhwcKernels().planar,
                                         PlanarLines(ImageOf(plan)));
}

}  // namespace ferry
