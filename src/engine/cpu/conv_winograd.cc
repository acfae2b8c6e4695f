// 3×3 convolutions with stride 1 by Winograd's algorithm: tiles of the image are transformed, multiplied position by
// position with transformed weights, and transformed back; 2.25 (or 4) multiplications an output instead of 9.
#include <algorithm>

#include "engine/cpu/conv.h"
#include "engine/cpu/scratch.h"
#include "kernels/image.h"
#include "kernels/packed_gemm.h"

namespace ferry {
namespace {

// The transformed filters of some features as panels, one set per position of a tile, `stride` from one to the next.
void TransformWeights(const Tensor& weight, const WinogradKernels& kernels, int64_t first, int64_t features,
                      float* packed, int64_t stride) {
  constexpr int64_t kTaps = 9, kBlock = 16;  // channels at a time
  int64_t channels = weight.dim(1), line = channels * kTaps;
  alignas(64) float turned[kBlock * kTaps * kPanelWidth];
  for (int64_t m = 0; m < features; m += kPanelWidth)
    for (int64_t c = 0; c < channels; c += kBlock) {
      int64_t count = std::min(kBlock, channels - c);
      TurnIntoPanel(weight.Data<float>() + (first + m) * line + c * kTaps, line, std::min(kPanelWidth, features - m),
                    count * kTaps, turned, (channels - c - count) * kTaps);
      kernels.filter(turned, count, packed + channels * m + c * kPanelWidth, stride);
    }
}

class Winograd final : public ConvAlgorithm {
 public:
  Winograd(WeightCache::Later weights, const Tensor& source, const WinogradKernels& kernels)
      : weights_(std::move(weights)), source_(source), kernels_(kernels), zeros_(static_cast<size_t>(source.dim(1))) {}

  // Whether weights may be transformed on the way: not much is made of all tiles of the image.
  static bool TransformsOnTheWay(const ImageConvPlan& plan, const WinogradKernels& kernels) {
    constexpr int64_t kMostBytes = 2 << 20;
    const int64_t tiles = Grid(plan, kernels.outputs).tiles;
    return tiles <= 2 * plan.conv.features && kernels.positions * tiles * plan.conv.channels * 4 <= kMostBytes;
  }

  void Run(const ConvCall& call) const override {
    Grid grid(call.plan, kernels_.outputs);
    const ConvPlan& conv = call.plan.conv;
    int64_t panels = (conv.features + kPanelWidth - 1) / kPanelWidth,
            blocks = TileBlocks(conv, grid.tiles, call.threads());
    const Tensor* weights = weights_.Find();
    if (!weights) blocks = 1;
    // Few tiles: threads share the columns, each with its own transformed input.
    int64_t chunks = blocks > 1 ? 1 : std::min<int64_t>(panels, call.threads());
    call.context.ParallelFor(blocks * chunks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        int64_t block = item / chunks, chunk = item % chunks;
        int64_t first = grid.tiles * block / blocks, last = grid.tiles * (block + 1) / blocks;
        RunTiles(call, grid, weights, first, last - first, panels * chunk / chunks, panels * (chunk + 1) / chunks);
      }
    });
  }

  bool ReadsStrided() const override { return true; }
  bool WritesStrided() const override { return true; }

 private:
  // Positions lie a little apart from a power of two, so that they do not fall on the same cache sets.
  static constexpr int64_t kApart = 16;

  struct Grid {
    Grid(const ImageConvPlan& plan, int64_t outputs)
        : across((plan.axes[2].output + outputs - 1) / outputs),
          down((plan.axes[1].output + outputs - 1) / outputs),
          tiles(plan.conv.batch * across * down) {}
    int64_t across, down, tiles;
  };

  // Transformed inputs and products of a block of tiles should stay in the second-level cache, but every load of the
  // weights should serve a few tiles of rows.
  int64_t TileBlocks(const ConvPlan& conv, int64_t tiles, int64_t threads) const {
    constexpr int64_t kCache = 384 * 1024;
    int64_t rows = BestGemmKernels().best_rows, least = std::max<int64_t>(rows, 12 / rows * rows);
    int64_t fit = kCache / (kernels_.positions * (conv.channels + conv.features) * 4) / rows * rows;
    fit = std::clamp(fit, least, 4 * rows);
    if (tiles < least * threads) return std::max<int64_t>(1, tiles / (2 * fit));
    return std::max(threads, (tiles / fit + threads / 2) / threads * threads);
  }

  void RunTiles(const ConvCall& call, const Grid& grid, const Tensor* weights, int64_t first, int64_t count,
                int64_t first_panel, int64_t last_panel) const {
    const ConvPlan& conv = call.plan.conv;
    int64_t column = first_panel * kPanelWidth;
    int64_t columns = std::min(conv.features, last_panel * kPanelWidth) - column;
    if (columns <= 0) return;
    const int64_t step = weights ? columns : std::min(columns, kPanelWidth);  // made in one go
    int64_t v_stride = count * conv.channels + kApart, m_stride = count * step + kApart;
    float* v = ThreadScratch<float>(ScratchUse::kWinograd, kernels_.positions * (v_stride + m_stride));
    float* m = v + kernels_.positions * v_stride;
    for (int64_t i = 0; i < count; ++i) TransformInput(call, grid, first + i, v + i * conv.channels, v_stride);
    for (const int64_t end = column + columns; column < end; column += step) {
      columns = std::min(step, end - column);
      int64_t size = weights ? PackedSize(conv.channels, conv.features) : PackedSize(conv.channels, columns) + kApart;
      const float* panels =
          weights ? weights->Data<float>() + conv.channels * column : Transformed(column, columns, size);
      for (int64_t p = 0; p < kernels_.positions; ++p)
        BestGemmKernels().plain(v + p * v_stride, conv.channels, count, conv.channels, panels + p * size, columns,
                                m + p * m_stride, columns, {});
      for (int64_t i = 0; i < count; ++i)
        TransformOutput(call, grid, first + i, column, columns, m + i * columns, m_stride);
    }
  }

  const float* Transformed(int64_t column, int64_t columns, int64_t stride) const {
    float* panels = ThreadScratch<float>(ScratchUse::kPanels, kernels_.positions * stride);
    TransformWeights(source_, kernels_, column, columns, panels, stride);
    return panels;
  }

  void TransformInput(const ConvCall& call, const Grid& grid, int64_t tile, float* v, int64_t stride) const {
    const ConvPlan& conv = call.plan.conv;
    const WindowAxis &vertical = call.plan.axes[1], &horizontal = call.plan.axes[2];
    int64_t size = kernels_.outputs + 2;
    int64_t left = tile % grid.across * kernels_.outputs - horizontal.pad_begin;
    int64_t top = tile / grid.across % grid.down * kernels_.outputs - vertical.pad_begin;
    const float* image = call.x + tile / (grid.across * grid.down) * conv.counts.input * call.x_stride;
    const float* pixels[kMostWinogradPositions];
    for (int64_t y = 0; y < size; ++y)
      for (int64_t x = 0; x < size; ++x) {
        bool inside = top + y >= 0 && top + y < vertical.input && left + x >= 0 && left + x < horizontal.input;
        pixels[y * size + x] =
            inside ? image + ((top + y) * horizontal.input + left + x) * call.x_stride : zeros_.data();
      }
    kernels_.input(pixels, conv.channels, v, stride);
  }

  void TransformOutput(const ConvCall& call, const Grid& grid, int64_t tile, int64_t column, int64_t columns,
                       const float* m, int64_t stride) const {
    const ConvPlan& conv = call.plan.conv;
    const WindowAxis &vertical = call.plan.axes[1], &horizontal = call.plan.axes[2];
    int64_t left = tile % grid.across * kernels_.outputs, top = tile / grid.across % grid.down * kernels_.outputs;
    int64_t image = tile / (grid.across * grid.down) * conv.counts.output;
    float* y[kMostWinogradOutputs];
    const float* residual[kMostWinogradOutputs];
    for (int64_t i = 0; i < kernels_.outputs * kernels_.outputs; ++i) {
      int64_t row = top + i / kernels_.outputs, x = left + i % kernels_.outputs;
      int64_t pixel = image + row * horizontal.output + x;
      bool there = row < vertical.output && x < horizontal.output;
      y[i] = there ? call.y + pixel * call.y_stride + column : nullptr;
      residual[i] = there && call.residual ? call.residual + pixel * conv.features + column : nullptr;
    }
    kernels_.output({m, stride, columns, call.bias ? call.bias + column : nullptr, y,
                     call.residual ? residual : nullptr, call.activation});
  }

  WeightCache::Later weights_;
  Tensor source_;
  const WinogradKernels& kernels_;
  std::vector<float> zeros_;
};

}  // namespace

bool FitsWinograd(const ImageConvPlan& plan) {
  auto fits = [](const WindowAxis& axis) { return axis.kernel == 3 && axis.stride == 1 && axis.dilation == 1; };
  return plan.conv.groups == 1 && !plan.channels_first && plan.axes[0].kernel == 1 && plan.axes[0].input == 1 &&
         plan.axes[0].output == 1 && fits(plan.axes[1]) && fits(plan.axes[2]);
}

std::unique_ptr<ConvAlgorithm> MakeWinogradConv(const Tensor& weight, const ImageConvPlan& plan, int outputs,
                                                WeightCache& cache) {
  const WinogradKernels& kernels = outputs == 4 ? *BestImageKernels().winograd4 : *BestImageKernels().winograd2;
  auto transform = [weight, &kernels](Tensor& made) {
    TransformWeights(weight, kernels, 0, weight.dim(0), made.MutableData<float>(),
                     PackedSize(weight.dim(1), weight.dim(0)));
  };
  auto weights = cache.GetLater(weight, Cat("Winograd ", outputs), DType::kFloat,
                                kernels.positions * PackedSize(plan.conv.channels, plan.conv.features), transform,
                                !Winograd::TransformsOnTheWay(plan, kernels));
  return std::make_unique<Winograd>(std::move(weights), weight, kernels);
}

}  // namespace ferry
