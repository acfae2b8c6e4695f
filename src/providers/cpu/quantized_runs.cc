// Convolutions of bytes without a copy of each window: in a padded image the taps of a kernel row lie side by side, and
// the kernel's rows are all as far apart. The image is copied only where something is missing around it or its bytes
// have to change, once instead of once for each tap.
#include <algorithm>
#include <cstring>

#include "kernels/transpose_block.h"
#include "providers/cpu/conv.h"
#include "providers/cpu/quantized_conv.h"
#include "providers/cpu/scratch.h"

namespace ferry {

void JoinPlanes(const uint8_t* planes, int64_t plane_stride, int64_t channels, int64_t pixels, uint8_t flip,
                uint8_t* to) {
  using Zip = BlockTranspose<uint8_t>;
  constexpr auto kSide = static_cast<int64_t>(Zip::kSide);
  int64_t x = 0;
  for (; x + kSide <= pixels; x += kSide) {
    Zip::Vector rows[4] = {};
    for (int64_t c = 0; c < channels; ++c) {
      std::memcpy(&rows[c], planes + c * plane_stride + x, sizeof rows[c]);
      rows[c] ^= flip;
    }
    const Zip::Vector even[] = {Zip::ZipLower(rows[0], rows[2]), Zip::ZipUpper(rows[0], rows[2])};
    const Zip::Vector odd[] = {Zip::ZipLower(rows[1], rows[3]), Zip::ZipUpper(rows[1], rows[3])};
    const Zip::Vector made[] = {Zip::ZipLower(even[0], odd[0]), Zip::ZipUpper(even[0], odd[0]),
                                Zip::ZipLower(even[1], odd[1]), Zip::ZipUpper(even[1], odd[1])};
    std::memcpy(to + 4 * x, made, sizeof made);
  }
  for (; x < pixels; ++x)
    for (int64_t c = 0; c < 4; ++c)
      to[4 * x + c] = c < channels ? static_cast<uint8_t>(planes[c * plane_stride + x] ^ flip) : uint8_t{0};
}

namespace {

class RunsConv final : public QuantizedConvAlgorithm {
 public:
  std::string_view name() const override { return "implicit gemm int8"; }
  RunsConv(const NhwcConvPlan& plan, Int8Finish finish, Int8Weights weights)
      : QuantizedConvAlgorithm(plan, std::move(finish)), weights_(std::move(weights)) {
    const ConvPlan& conv = plan_.conv;
    const WindowAxis &vertical = plan_.axes[1], &horizontal = plan_.axes[2];
    pixel_ = weights_.shape.depth / conv.counts.taps;
    height_ = Reach(vertical), width_ = Reach(horizontal);
    copies_ = plan_.channels_first || pixel_ != conv.channels || finish_.flip() != 0 ||
              LeavesImage(vertical, height_) || LeavesImage(horizontal, width_);
    if (!copies_) width_ = horizontal.input;
    runs_.count = vertical.kernel;
    runs_.length = horizontal.kernel * pixel_;
    runs_.stride = vertical.dilation * width_ * pixel_;
  }

  void Run(const QuantizedConvCall& call) const override {
    const ConvPlan& conv = plan_.conv;
    ForInt8Parts(call.context, weights_, finish_, [&](const Int8Part& part) {
      for (int64_t number = 0; number < conv.batch; ++number) {
        const uint8_t* image = call.x + number * conv.channels * conv.counts.input;
        if (copies_) image = Copy(call, image);
        ForInt8Blocks(call.context, part.shape, conv.counts.output,
                      [&](const Int8Block& block) { Multiply(call, part, image, number * conv.counts.output, block); });
      }
    });
  }

 private:
  // How many pixels windows read along an axis.
  static int64_t Reach(const WindowAxis& axis) {
    return (axis.output - 1) * axis.stride + (axis.kernel - 1) * axis.dilation + 1;
  }
  static bool LeavesImage(const WindowAxis& axis, int64_t reach) { return axis.pad_begin != 0 || reach > axis.input; }

  const uint8_t* Copy(const QuantizedConvCall& call, const uint8_t* image) const {
    const int64_t line = width_ * pixel_;
    uint8_t* copy = ThreadScratch<uint8_t>(ScratchUse::kPaddedImage, height_ * line);
    call.context.ParallelFor(height_, 1 + 65536 / line, [&](int64_t begin, int64_t end) {
      for (int64_t y = begin; y < end; ++y) FillLine(image, y - plan_.axes[1].pad_begin, copy + y * line);
    });
    return copy;
  }

  void FillLine(const uint8_t* image, int64_t y, uint8_t* to) const {
    const WindowAxis& horizontal = plan_.axes[2];
    const bool inside = y >= 0 && y < plan_.axes[1].input;
    const int64_t begin = inside ? std::min(horizontal.pad_begin, width_) : width_;
    const int64_t end = inside ? std::clamp(horizontal.pad_begin + horizontal.input, begin, width_) : width_;
    std::fill_n(to, begin * pixel_, finish_.ready_zero());
    std::fill(to + end * pixel_, to + width_ * pixel_, finish_.ready_zero());
    if (begin == end) return;
    const int64_t channels = plan_.conv.channels, first = y * horizontal.input;
    to += begin * pixel_;
    if (plan_.channels_first)
      return JoinPlanes(image + first, plan_.conv.counts.input, channels, end - begin, finish_.flip(), to);
    const uint8_t* from = image + first * channels;
    if (pixel_ == channels) return kernels_.prepare(from, finish_.flip(), (end - begin) * channels, to);
    for (int64_t x = begin; x < end; ++x, from += channels, to += pixel_) {
      kernels_.prepare(from, finish_.flip(), channels, to);
      std::fill(to + channels, to + pixel_, uint8_t{0});
    }
  }

  void Multiply(const QuantizedConvCall& call, const Int8Part& part, const uint8_t* image, int64_t first_row,
                const Int8Block& block) const {
    const ConvPlan& conv = plan_.conv;
    const WindowAxis &vertical = plan_.axes[1], &horizontal = plan_.axes[2];
    const uint8_t** at = ThreadScratch<const uint8_t*>(ScratchUse::kRowPointers, block.rows);
    int64_t y = block.row / horizontal.output, x = block.row % horizontal.output;
    for (int64_t i = 0; i < block.rows; ++i) {
      at[i] = image + (y * vertical.stride * width_ + x * horizontal.stride) * pixel_;
      if (++x == horizontal.output) x = 0, ++y;
    }
    Int8Runs runs = runs_;
    runs.at = at;
    const int64_t first = block.first * kInt8PanelWidth, column = part.first + first;
    Int8Product product{nullptr, block.rows, weights_.shape.depth};
    product.packed = part.PanelsOf(0, column);
    product.columns = std::min(part.shape.columns, block.last * kInt8PanelWidth) - first;
    product.out = finish_.Output(finish_.At(call.y, (first_row + block.row) * conv.features + column), conv.features,
                                 column, part.offsets + first);
    kernels_.multiply_runs(product, runs);
  }

  Int8Weights weights_;
  const Int8Kernels& kernels_ = BestInt8Kernels();
  int64_t pixel_;           // bytes of a pixel: channels, padded to what is multiplied at once
  int64_t height_, width_;  // of the image that windows read
  bool copies_;
  Int8Runs runs_;
};

}  // namespace

bool FitsQuantizedRuns(const NhwcConvPlan& plan) {
  const auto& axes = plan.axes;
  return BestInt8Kernels().multiply_runs && plan.conv.groups == 1 && axes[0].kernel == 1 && axes[0].input == 1 &&
         axes[0].output == 1 && (axes[2].dilation == 1 || axes[2].kernel == 1) &&
         (!plan.channels_first || plan.conv.channels <= 4);
}

std::unique_ptr<QuantizedConvAlgorithm> MakeQuantizedRuns(const NhwcConvPlan& plan, const Tensor& weight,
                                                          WeightCache& cache, Int8Finish finish) {
  Int8Weights packed = PackInt8Lines(weight, 1, plan.conv.counts.taps, cache, BestInt8Kernels().depth_unit);
  return std::make_unique<RunsConv>(plan, std::move(finish), std::move(packed));
}

}  // namespace ferry
