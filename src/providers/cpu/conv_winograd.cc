// 3×3 convolutions with stride 1 by Winograd's algorithm: tiles of the image are transformed, multiplied position by
// position with transformed weights, and transformed back; 2.25 (or 4) multiplications an output instead of 9.
#include <algorithm>

#include "base/work_poll.h"
#include "kernels/nhwc.h"
#include "kernels/packed_gemm.h"
#include "providers/cpu/conv.h"
#include "providers/cpu/scratch.h"

namespace ferry {
namespace {

// The transformed filters of some features as panels, one set per position of a tile, `stride` from one to the next.
void TransformWeights(const Tensor& weight, const WinogradKernels& kernels, int64_t first, int64_t features,
                      float* packed, int64_t stride) {
  constexpr int64_t kTaps = 9, kBlock = 16;  // channels at a time
  int64_t channels = weight.dim(1), line = channels * kTaps;
  alignas(64) float turned[kBlock * kTaps * kPanelWidth];
  WorkPoll poll;
  for (int64_t m = 0; m < features; m += kPanelWidth)
    for (int64_t c = 0; c < channels; c += kBlock) {
      poll(kBlock * kPanelWidth * kernels.positions);
      int64_t count = std::min(kBlock, channels - c);
      TurnIntoPanel(weight.Data<float>() + (first + m) * line + c * kTaps, line, std::min(kPanelWidth, features - m),
                    count * kTaps, turned, (channels - c - count) * kTaps);
      kernels.filter(turned, count, packed + channels * m + c * kPanelWidth, stride);
    }
}

class Winograd final : public ConvAlgorithm {
 public:
  Winograd(WeightCache::DeferredTensor weights, const Tensor& source, const WinogradKernels& kernels)
      : weights_(std::move(weights)), source_(source), kernels_(kernels), zeros_(static_cast<size_t>(source.dim(1))) {}

  // Whether weights may be transformed on the way: not much is made of all tiles of the image.
  static bool TransformsOnTheWay(const NhwcConvPlan& plan, const WinogradKernels& kernels) {
    constexpr int64_t kMostBytes = 2 << 20;
    const int64_t tiles = Grid(plan, kernels.outputs).tiles;
    return tiles <= 2 * plan.conv.features && kernels.positions * tiles * plan.conv.channels * 4 <= kMostBytes;
  }

  void Run(const ConvCall& call) const override {
    Grid grid(call.plan, kernels_.outputs);
    const ConvPlan& conv = call.plan.conv;
    int64_t blocks = TileBlocks(conv, grid.tiles, call.threads());
    const Tensor* weights = weights_.Find();
    if (!weights) blocks = 1;
    const int64_t width = weights && conv.features >= kColumns * call.threads() ? kColumns : kPanelWidth;
    const int64_t strips = (conv.features + width - 1) / width;
    // Few tiles: threads share the columns, each with its own transformed input.
    int64_t chunks = blocks > 1 ? 1 : std::min<int64_t>(strips, call.threads());
    call.context.ParallelFor(blocks * chunks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        int64_t block = item / chunks, chunk = item % chunks;
        int64_t first = grid.tiles * block / blocks, last = grid.tiles * (block + 1) / blocks;
        RunTiles(call, grid, weights, first, last - first, strips * chunk / chunks * width,
                 std::min(conv.features, strips * (chunk + 1) / chunks * width));
      }
    });
  }

  bool ReadsStrided() const override { return true; }
  bool WritesStrided() const override { return true; }

 private:
  // Positions lie a little apart from a power of two, so that they do not fall on the same cache sets.
  static constexpr int64_t kApart = 16;
  static constexpr int64_t kColumns = 2 * kPanelWidth;            // that are multiplied and transformed at once
  static constexpr int64_t kFetchedAtOnce = 4 * kPanelWidth * 4;  // bytes of a panel

  struct Grid {
    Grid(const NhwcConvPlan& plan, int64_t outputs)
        : across((plan.axes[2].output + outputs - 1) / outputs),
          down((plan.axes[1].output + outputs - 1) / outputs),
          tiles(plan.conv.batch * across * down) {}
    int64_t across, down, tiles;
  };

  // Transformed inputs of a block of tiles, and products of some columns, should stay in the second-level cache, and
  // the weights too where they can; else every load of them should serve a few groups of rows.
  int64_t TileBlocks(const ConvPlan& conv, int64_t tiles, int64_t threads) const {
    const int64_t rows = kernels_.most_rows, least = std::max<int64_t>(rows, 12 / rows * rows);
    const int64_t cache = (rows > 8 ? 640 : 320) * 1024;  // long vectors come with a larger one
    const int64_t weights = kernels_.positions * PackedSize(conv.channels, conv.features) * 4;
    int64_t fit = cache / (kernels_.positions * (conv.channels + kColumns) * 4) / rows * rows;
    fit = weights <= cache ? least : std::clamp(fit, least, 4 * rows);
    if (tiles < least * threads) {
      // Few columns can not be shared without transforming the input more often than they are worth.
      const bool narrow = conv.features < 2 * kColumns * threads && tiles >= 4 * threads;
      return narrow ? threads : std::max<int64_t>(1, tiles / (2 * fit));
    }
    const int64_t blocks = (tiles + fit / 2) / fit;
    return std::max(threads, (blocks + threads / 2) / threads * threads);
  }

  // Where the pixels of some tiles go, and what is added to them.
  class Outputs {
   public:
    Outputs(const ConvCall& call, const Grid& grid, int64_t outputs, int64_t first, int64_t count)
        : size_(outputs * outputs), y_(ThreadScratch<float*>(ScratchUse::kRowPointers, 2 * count * size_)) {
      if (call.residual) residual_ = const_cast<const float**>(y_) + count * size_;
      const int64_t height = call.plan.axes[1].output, width = call.plan.axes[2].output;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t tile = first + i, image = tile / (grid.across * grid.down);
        const int64_t left = tile % grid.across * outputs, top = tile / grid.across % grid.down * outputs;
        for (int64_t k = 0; k < size_; ++k) {
          const int64_t row = top + k / outputs, column = left + k % outputs;
          const int64_t pixel = (image * height + row) * width + column;
          const bool there = row < height && column < width;
          y_[i * size_ + k] = there ? call.y + pixel * call.y_stride : nullptr;
          if (residual_) residual_[i * size_ + k] = call.residual + pixel * call.plan.conv.features;
        }
      }
    }
    float* const* y(int64_t tile) const { return y_ + tile * size_; }
    const float* const* residual(int64_t tile) const { return residual_ ? residual_ + tile * size_ : nullptr; }

   private:
    const int64_t size_;
    float** y_;
    const float** residual_ = nullptr;
  };

  // Rows of tiles lie in groups of nearly equal height.
  struct Group {
    Group(int64_t index, int64_t groups, int64_t tiles)
        : first(tiles * index / groups), count(tiles * (index + 1) / groups - first) {}
    int64_t first, count;
  };

  void RunTiles(const ConvCall& call, const Grid& grid, const Tensor* weights, int64_t first, int64_t count,
                int64_t begin, int64_t end) const {
    const ConvPlan& conv = call.plan.conv;
    const int64_t step = weights ? kColumns : kPanelWidth;  // made in one go
    const int64_t padded = (conv.channels + kWinogradBlock - 1) / kWinogradBlock * kWinogradBlock;
    const int64_t v_stride = count * padded + kApart, m_stride = count * step + kApart;
    float* v = ThreadScratch<float>(ScratchUse::kWinograd, kernels_.positions * (v_stride + m_stride));
    float* m = v + kernels_.positions * v_stride;
    const int64_t groups = (count + kernels_.most_rows - 1) / kernels_.most_rows;
    for (int64_t g = 0; g < groups; ++g) {
      const Group group(g, groups, count);
      CheckRun();
      for (int64_t i = 0; i < group.count; ++i)
        TransformInput(call, grid, first + group.first + i, v + group.first * padded + i * kWinogradBlock, v_stride,
                       group.count * kWinogradBlock);
    }
    const Outputs outputs(call, grid, kernels_.outputs, first, count);
    for (int64_t column = begin; column < end; column += step) {
      const int64_t columns = std::min(step, end - column);
      CheckRun();
      const int64_t size =
          weights ? PackedSize(conv.channels, conv.features) : PackedSize(conv.channels, columns) + kApart;
      const float* panels =
          weights ? weights->Data<float>() + conv.channels * column : Transformed(column, columns, size);
      const float* next_columns = weights && column + step < end ? panels + conv.channels * step : panels;
      WinogradProduct product;
      product.channels = conv.channels;
      product.panel_count = (columns + kPanelWidth - 1) / kPanelWidth;
      product.to_stride = step;
      // Every group fetches its share of the next position's panels.
      const int64_t share = product.panel_count * conv.channels * kPanelWidth * 4 / groups;
      product.ahead_step = weights ? kFetchedAtOnce * product.panel_count / groups : 0;
      for (int64_t p = 0; p < kernels_.positions; ++p)
        for (int64_t g = 0; g < groups; ++g) {
          const Group group(g, groups, count);
          product.rows = v + p * v_stride + group.first * padded;
          product.row_count = group.count;
          product.panels = panels + p * size;
          product.ahead =
              reinterpret_cast<const char*>(p + 1 < kernels_.positions ? product.panels + size : next_columns) +
              g * share;
          product.to = m + p * m_stride + group.first * step;
          kernels_.multiply(product);
        }
      for (int64_t i = 0; i < count; ++i)
        kernels_.output(
            {m + i * step, m_stride, column, columns, call.bias, outputs.y(i), outputs.residual(i), call.activation});
    }
  }

  const float* Transformed(int64_t column, int64_t columns, int64_t stride) const {
    float* panels = ThreadScratch<float>(ScratchUse::kPanels, kernels_.positions * stride);
    TransformWeights(source_, kernels_, column, columns, panels, stride);
    return panels;
  }

  void TransformInput(const ConvCall& call, const Grid& grid, int64_t tile, float* v, int64_t stride,
                      int64_t block_stride) const {
    const ConvPlan& conv = call.plan.conv;
    const WindowAxis &vertical = call.plan.axes[1], &horizontal = call.plan.axes[2];
    const int64_t size = kernels_.outputs + 2;
    const int64_t left = tile % grid.across * kernels_.outputs - horizontal.pad_begin;
    const int64_t top = tile / grid.across % grid.down * kernels_.outputs - vertical.pad_begin;
    const float* image = call.x + tile / (grid.across * grid.down) * conv.counts.input * call.x_stride;
    const float* pixels[kMostWinogradPositions];
    for (int64_t y = 0; y < size; ++y) {
      const bool line_there = top + y >= 0 && top + y < vertical.input;
      const float* pixel = image + ((top + y) * horizontal.input + left) * call.x_stride;
      for (int64_t x = 0; x < size; ++x, pixel += call.x_stride)
        pixels[y * size + x] = line_there && left + x >= 0 && left + x < horizontal.input ? pixel : zeros_.data();
    }
    kernels_.input(pixels, conv.channels, v, stride, block_stride);
  }

  WeightCache::DeferredTensor weights_;
  Tensor source_;
  const WinogradKernels& kernels_;
  std::vector<float> zeros_;
};

}  // namespace

bool FitsWinograd(const NhwcConvPlan& plan) {
  auto fits = [](const WindowAxis& axis) { return axis.kernel == 3 && axis.stride == 1 && axis.dilation == 1; };
  return plan.conv.groups == 1 && !plan.channels_first && plan.axes[0].kernel == 1 && plan.axes[0].input == 1 &&
         plan.axes[0].output == 1 && fits(plan.axes[1]) && fits(plan.axes[2]);
}

std::unique_ptr<ConvAlgorithm> MakeWinogradConv(const Tensor& weight, const NhwcConvPlan& plan, int outputs,
                                                WeightCache& cache) {
  const WinogradKernels& kernels = outputs == 4 ? *BestNhwcKernels().winograd4 : *BestNhwcKernels().winograd2;
  auto transform = [weight, &kernels](Tensor& made) {
    TransformWeights(weight, kernels, 0, weight.dim(0), made.MutableData<float>(),
                     PackedSize(weight.dim(1), weight.dim(0)));
  };
  auto weights = cache.GetDeferred(weight, Cat("Winograd ", outputs), DType::kFloat,
                                   kernels.positions * PackedSize(plan.conv.channels, plan.conv.features), transform,
                                   !Winograd::TransformsOnTheWay(plan, kernels));
  return std::make_unique<Winograd>(std::move(weights), weight, kernels);
}

}  // namespace ferry
