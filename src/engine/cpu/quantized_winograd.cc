// 3×3 convolutions of bytes with stride 1 by Winograd's algorithm in whole numbers: the same bits as the plain way,
// with 2.25 or 4 times fewer multiplications.
#include <algorithm>

#include "engine/cpu/conv.h"
#include "engine/cpu/quantized_conv.h"
#include "engine/cpu/scratch.h"
#include "kernels/int8_winograd.h"

namespace ferry {
namespace {

constexpr int64_t kTaps = 9;

const Int8WinogradKernels& KernelsOf(int64_t outputs) {
  const Int8WinogradTable& table = BestInt8WinogradTable();
  return outputs == 4 ? table.of_4 : table.of_2;
}

int64_t Points(int64_t outputs) { return (outputs + 2) * (outputs + 2); }
int64_t TilesOf(int64_t results, int64_t outputs) { return (results + outputs - 1) / outputs; }

void TransformWeights(const int8_t* weight, int64_t channels, int64_t features, int64_t outputs, int16_t* panels) {
  const Int8WinogradKernels& kernels = KernelsOf(outputs);
  constexpr int64_t kUnit = kShortsUnit, kCount = kUnit * kInt8PanelWidth;
  const int64_t size = channels * features;
  for (int64_t n = 0; n < features; n += kInt8PanelWidth)
    for (int64_t c = 0; c < channels; c += kUnit) {
      int8_t taps[kTaps * kCount];
      int8_t* to = taps;
      for (int64_t i = 0; i < kInt8PanelWidth; ++i) {
        const int8_t* from = weight + ((n + i) * channels + c) * kTaps;
        for (int64_t u = 0; u < kUnit; ++u, ++to, from += kTaps)
          for (int64_t tap = 0; tap < kTaps; ++tap) to[tap * kCount] = from[tap];
      }
      kernels.filter(taps, kCount, panels + n * channels + c * kInt8PanelWidth, size);
    }
}

// For every position a matrix [channels × features] in panels, then the sums of the weights.
std::shared_ptr<const Tensor> WinogradWeights(const Tensor& weight, const ConvPlan& conv, int64_t outputs,
                                              WeightCache& cache) {
  const int64_t channels = conv.channels, features = conv.features, size = channels * features;
  const int64_t count = Points(outputs) * size;
  return cache.GetTensor(
      weight, Cat("8-bit Winograd ", outputs, Int8Order()), DType::kInt16, count + 2 * features, [=](Tensor& made) {
        auto* panels = made.MutableData<int16_t>();
        TransformWeights(weight.Data<int8_t>(), channels, features, outputs, panels);
        // In the second row and column of every tile a filter has the sum of its taps.
        Int8ColumnSums(channels, Int8ColumnSums::Of::kShorts)
            .Take(panels + (outputs + 3) * size, features, reinterpret_cast<int32_t*>(panels + count));
      });
}

class WinogradConv8 final : public QuantizedConvAlgorithm {
 public:
  WinogradConv8(const ImageConvPlan& plan, Int8Finish finish, int64_t outputs, std::shared_ptr<const Tensor> weights)
      : QuantizedConvAlgorithm(plan, std::move(finish)),
        weights_(std::move(weights)),
        kernels_(KernelsOf(outputs)),
        outputs_(outputs),
        down_(TilesOf(plan_.axes[1].output, outputs)),
        across_(TilesOf(plan_.axes[2].output, outputs)),
        zeros_(static_cast<size_t>(plan_.conv.channels), finish_.raw_zero()) {}

  void Run(const QuantizedConvCall& call) const override {
    const RunServices& services = call.context.services();
    int64_t threads = services.pool ? services.pool->threads() : 1, lines = plan_.conv.batch * down_;
    int64_t blocks = EvenBlocks(lines, std::max<int64_t>(1, BlockTiles() / across_), threads);
    const int64_t parts = CutsFeatures(lines, threads) ? threads : 1;
    if (threads > parts) blocks = std::max(blocks, std::min(lines, 2 * threads));
    call.context.ParallelFor(blocks * parts, parts > 1 ? blocks : 1, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const int64_t part = item / blocks, block = item % blocks, chunks = Chunks();
        RunLines(call, lines * block / blocks, lines * (block + 1) / blocks, chunks * part / parts,
                 chunks * (part + 1) / parts);
      }
    });
  }

 private:
  // Whether threads take features of all lines rather than lines of all features: where few lines can not be shared
  // evenly. Each of them transforms all inputs then, but reads only its own weights.
  bool CutsFeatures(int64_t lines, int64_t threads) const {
    auto share = [&](int64_t count) {
      return static_cast<double>((count + threads - 1) / threads) / static_cast<double>(count);
    };
    return share(Chunks()) * (1 + 4 / static_cast<double>(plan_.conv.features)) < share(lines);
  }
  int64_t Chunks() const { return (plan_.conv.features + ChunkFeatures() - 1) / ChunkFeatures(); }
  // Features whose sums are made before they are transformed.
  int64_t ChunkFeatures() const { return std::min<int64_t>(plan_.conv.features, 64); }
  // Transformed inputs and sums of this many tiles stay near the second-level cache: reading all weights once more
  // would cost more.
  int64_t BlockTiles() const {
    constexpr int64_t kCache = 640 << 10;
    int64_t bytes = int64_t{sizeof(int16_t)} * plan_.conv.channels + int64_t{sizeof(int32_t)} * ChunkFeatures();
    return std::max<int64_t>(16, kCache / (Points(outputs_) * bytes));
  }

  // Rows of tiles [first, last), counted through all images, and chunks [first_chunk, last_chunk) of features.
  void RunLines(const QuantizedConvCall& call, int64_t first, int64_t last, int64_t first_chunk,
                int64_t last_chunk) const {
    const ConvPlan& conv = plan_.conv;
    int64_t tiles = (last - first) * across_, points = Points(outputs_), chunk = ChunkFeatures();
    int64_t inputs = points * tiles * conv.channels;
    auto* transformed = ThreadScratch<int16_t>(ScratchUse::kWinograd, inputs + 2 * points * tiles * chunk);
    auto* sums = reinterpret_cast<int32_t*>(transformed + inputs);
    for (int64_t line = first; line < last; ++line)
      TransformLine(call, line, tiles * conv.channels, transformed + (line - first) * across_ * conv.channels);
    const int64_t end = std::min(conv.features, last_chunk * chunk);
    for (int64_t feature = first_chunk * chunk; feature < end; feature += chunk) {
      int64_t features = std::min(chunk, end - feature);
      for (int64_t point = 0; point < points; ++point) {
        Int8Product product{transformed + point * tiles * conv.channels, tiles, conv.channels};
        product.packed = weights_->Data<int16_t>() + (point * conv.features + feature) * conv.channels;
        product.columns = features;
        product.out.c = sums + point * tiles * features;
        product.out.stride = features;
        BestInt8Kernels().multiply_shorts(product);
      }
      for (int64_t line = first; line < last; ++line)
        FinishLine(call, line, feature, features, tiles * features, sums + (line - first) * across_ * features);
    }
  }

  void TransformLine(const QuantizedConvCall& call, int64_t line, int64_t point_stride, int16_t* to) const {
    const WindowAxis &vertical = plan_.axes[1], &horizontal = plan_.axes[2];
    int64_t channels = plan_.conv.channels, width = outputs_ * across_ + 2, top = line % down_ * outputs_;
    const uint8_t* image = call.x + line / down_ * plan_.conv.counts.input * channels;
    const uint8_t** pixels = ThreadScratch<const uint8_t*>(ScratchUse::kRowPointers, (outputs_ + 2) * width);
    for (int64_t row = 0; row < outputs_ + 2; ++row) {
      int64_t y = top + row - vertical.pad_begin;
      const uint8_t** to_row = pixels + row * width;
      for (int64_t column = 0; column < width; ++column) {
        int64_t x = column - horizontal.pad_begin;
        bool inside = y >= 0 && y < vertical.input && x >= 0 && x < horizontal.input;
        to_row[column] = inside ? image + (y * horizontal.input + x) * channels : zeros_.data();
      }
    }
    kernels_.input({across_, channels, pixels, finish_.flip(), to, point_stride});
  }

  void FinishLine(const QuantizedConvCall& call, int64_t line, int64_t feature, int64_t features, int64_t point_stride,
                  const int32_t* sums) const {
    int64_t height = plan_.axes[1].output, width = plan_.axes[2].output, all = plan_.conv.features;
    int64_t top = line % down_ * outputs_, first = (line / down_ * height + top) * width;
    Int8WinogradSums row;
    row.tiles = across_, row.features = features;
    row.from = sums, row.point_stride = point_stride;
    row.rows = std::min(outputs_, height - top), row.columns = width, row.line = width;
    row.out = finish_.Output(finish_.At(call.y, first * all + feature), all, feature);
    kernels_.output(row);
  }

  std::shared_ptr<const Tensor> weights_;
  const Int8WinogradKernels& kernels_;
  int64_t outputs_, down_, across_;
  std::vector<uint8_t> zeros_;
};

// Whether all sums over bytes are smaller than `limit` in magnitude. Where any weights would do they are not read.
bool SumsFit(const Tensor& weight, int64_t features, int64_t limit) {
  constexpr int64_t kByte = 255, kLargestWeight = 128;
  int64_t largest = 0, size = weight.size() / features;
  if (size * kLargestWeight * kByte < limit) return true;
  for (int64_t n = 0; n < features; ++n) {
    int64_t above = 0, all = 0;
    for (int64_t k = 0; k < size; ++k) {
      int64_t value = weight.Data<int8_t>()[n * size + k];
      above += std::max<int64_t>(value, 0);
      all += value;
    }
    largest = std::max({largest, above, above - all});
  }
  return largest * kByte < limit;
}

// Nanoseconds, as measured on one core: multiplications, weights that come from far away, transforms.
double Cost(const ConvPlan& conv, int64_t rows, int64_t points, int64_t weight_bytes) {
  double products = static_cast<double>(points * conv.channels * conv.features);
  double transforms = points == kTaps ? 0 : 0.05 * static_cast<double>(points * rows * (conv.channels + conv.features));
  return products * (static_cast<double>(rows) / 80 + 0.1 * static_cast<double>(weight_bytes)) + transforms;
}

}  // namespace

int64_t QuantizedWinogradOutputs(const ImageConvPlan& plan, const Tensor& weight) {
  const ConvPlan& conv = plan.conv;
  if (!BestInt8Kernels().multiply_shorts || !FitsWinograd(plan)) return 0;
  if (conv.channels % kInt8WinogradChannels != 0 || conv.features % kInt8WinogradChannels != 0) return 0;
  int64_t best = 0;
  double least = Cost(conv, conv.batch * conv.counts.output, kTaps, sizeof(int8_t));
  for (int64_t outputs : {int64_t{2}, int64_t{4}}) {
    int64_t tiles = conv.batch * TilesOf(plan.axes[1].output, outputs) * TilesOf(plan.axes[2].output, outputs);
    double cost = Cost(conv, tiles, Points(outputs), sizeof(int16_t));
    if (cost >= least || !SumsFit(weight, conv.features, KernelsOf(outputs).limit)) continue;
    best = outputs;
    least = cost;
  }
  return best;
}

std::unique_ptr<QuantizedConvAlgorithm> MakeQuantizedWinograd(const ImageConvPlan& plan, const Tensor& weight,
                                                              int64_t outputs, WeightCache& cache,
                                                              MakeInt8Finish finish) {
  auto weights = WinogradWeights(weight, plan.conv, outputs, cache);
  return std::make_unique<WinogradConv8>(plan, finish(weights), outputs, weights);
}

}  // namespace ferry
