// 3×3 convolutions of bytes with stride 1 by Winograd's algorithm in whole numbers: the same bits as the plain way,
// with 2.25 or 4 times fewer multiplications.
#include <algorithm>
#include <cstring>

#include "base/check_run.h"
#include "kernels/int8_winograd.h"
#include "providers/cpu/conv.h"
#include "providers/cpu/quantized_conv.h"
#include "providers/cpu/scratch.h"

namespace ferry {
namespace {

constexpr int64_t kTaps = 9;

const Int8WinogradKernels& KernelsOf(int64_t outputs) {
  const Int8WinogradTable& table = BestInt8WinogradTable();
  return outputs == 4 ? table.of_4 : table.of_2;
}

int64_t Points(int64_t outputs) { return (outputs + 2) * (outputs + 2); }
int64_t TilesOf(int64_t results, int64_t outputs) { return (results + outputs - 1) / outputs; }

// Panels of `features`, `stride` from one position to the next; the weights of all features end at `end`.
void TransformWeights(const int8_t* weight, const int8_t* end, int64_t channels, int64_t features, int64_t outputs,
                      int16_t* panels, int64_t stride) {
  const Int8WinogradKernels& kernels = KernelsOf(outputs);
  constexpr int64_t kUnit = kShortsUnit, kCount = kUnit * kInt8PanelWidth, kSide = kInt8WinogradChannels;
  for (int64_t n = 0; n < features; n += kInt8PanelWidth)
    for (int64_t c = 0; c < channels; c += kSide) {
      int8_t taps[kSide / kUnit][kTaps * kCount];
      for (int64_t i = 0; i < kInt8PanelWidth; ++i) {
        int8_t turned[kTaps * kSide];
        TurnTaps(weight + ((n + i) * channels + c) * kTaps, kSide, kTaps, end, turned, kSide);
        for (int64_t tap = 0; tap < kTaps; ++tap)
          for (int64_t u = 0; u < kSide; u += kUnit)
            std::memcpy(&taps[u / kUnit][tap * kCount + i * kUnit], turned + tap * kSide + u, kUnit);
      }
      for (int64_t u = 0; u < kSide; u += kUnit)
        kernels.filter(taps[u / kUnit], kCount, panels + n * channels + (c + u) * kInt8PanelWidth, stride);
    }
}

// In the second row and column of every tile a filter has the sum of its taps.
int64_t PointOfSums(int64_t outputs) { return outputs + 3; }

// For every position a matrix [channels × features] in panels, then the sums of the weights.
WeightCache::DeferredTensor WinogradWeights(const Tensor& weight, const ConvPlan& conv, int64_t outputs, bool at_once,
                                            WeightCache& cache) {
  const int64_t channels = conv.channels, features = conv.features, size = channels * features;
  const int64_t count = Points(outputs) * size;
  auto transform = [=](Tensor& made) {
    auto* panels = made.MutableData<int16_t>();
    const auto* from = weight.Data<int8_t>();
    TransformWeights(from, from + weight.size(), channels, features, outputs, panels, size);
    Int8ColumnSums(channels, Int8ColumnSums::Of::kShorts)
        .Take(panels + PointOfSums(outputs) * size, features, reinterpret_cast<int32_t*>(panels + count));
  };
  return cache.GetDeferred(weight, Cat("8-bit Winograd ", outputs, Int8Order()), DType::kInt16, count + 2 * features,
                           transform, at_once);
}

class WinogradConv8 final : public QuantizedConvAlgorithm {
 public:
  std::string_view name() const override { return "winograd int8"; }
  WinogradConv8(const NhwcConvPlan& plan, Int8Finish finish, int64_t outputs, const Tensor& weight, WeightCache& cache)
      : QuantizedConvAlgorithm(plan, std::move(finish)),
        kernels_(KernelsOf(outputs)),
        outputs_(outputs),
        down_(TilesOf(plan_.axes[1].output, outputs)),
        across_(TilesOf(plan_.axes[2].output, outputs)),
        zeros_(static_cast<size_t>(plan_.conv.channels), finish_.raw_zero()),
        source_(weight),
        weights_(
            WinogradWeights(weight, plan_.conv, outputs, plan_.conv.batch * down_ * across_ > BlockTiles(), cache)) {}

  void Run(const QuantizedConvCall& call) const override {
    const RunServices& services = call.context.services();
    int64_t threads = services.pool ? services.pool->threads() : 1, lines = plan_.conv.batch * down_;
    const Tensor* kept = weights_.Find();
    if (!kept) return RunOnTheWay(call, threads);
    const Weights weights{kept->Data<int16_t>(), plan_.conv.channels * plan_.conv.features, finish_.OffsetsOf(*kept)};
    int64_t blocks = EvenBlocks(lines, std::max<int64_t>(1, BlockTiles() / across_), threads);
    const int64_t parts = CutsFeatures(lines, threads) ? threads : 1;
    if (threads > parts) blocks = std::max(blocks, std::min(lines, 2 * threads));
    call.context.ParallelFor(blocks * parts, parts > 1 ? blocks : 1, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const int64_t part = item / blocks, block = item % blocks, chunks = Chunks();
        RunLines(call, weights, lines * block / blocks, lines * (block + 1) / blocks, chunks * part / parts,
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
  // Of all features, or of those at hand: panels of each position, `stride` apart, and what is added to sums.
  struct Weights {
    const int16_t* panels;
    int64_t stride;
    const int32_t* offsets;
  };

  // Features whose sums are made before they are transformed.
  static constexpr int64_t kMostFeatures = 64;
  int64_t ChunkFeatures() const { return std::min<int64_t>(plan_.conv.features, kMostFeatures); }
  // Transformed inputs and sums of this many tiles stay near the second-level cache: reading all weights once more
  // would cost more.
  int64_t BlockTiles() const {
    constexpr int64_t kCache = 640 << 10;
    int64_t bytes = int64_t{sizeof(int16_t)} * plan_.conv.channels + int64_t{sizeof(int32_t)} * ChunkFeatures();
    return std::max<int64_t>(16, kCache / (Points(outputs_) * bytes));
  }

  // Rows of tiles [first, last), counted through all images.
  struct Lines {
    int64_t first, last, tiles;
    int16_t* transformed;
    int32_t* sums;  // room for those of a chunk of features
  };
  Lines Transform(const QuantizedConvCall& call, int64_t first, int64_t last) const {
    const int64_t channels = plan_.conv.channels, tiles = (last - first) * across_, points = Points(outputs_);
    const int64_t inputs = points * tiles * channels;
    auto* transformed = ThreadScratch<int16_t>(ScratchUse::kWinograd, inputs + 2 * points * tiles * ChunkFeatures());
    for (int64_t line = first; line < last; ++line) {
      CheckRun();
      TransformLine(call, line, tiles * channels, transformed + (line - first) * across_ * channels);
    }
    return {first, last, tiles, transformed, reinterpret_cast<int32_t*>(transformed + inputs)};
  }

  // For chunks [first_chunk, last_chunk) of features.
  void RunLines(const QuantizedConvCall& call, const Weights& weights, int64_t first, int64_t last, int64_t first_chunk,
                int64_t last_chunk) const {
    const Lines lines = Transform(call, first, last);
    const int64_t chunk = ChunkFeatures(), end = std::min(plan_.conv.features, last_chunk * chunk);
    for (int64_t feature = first_chunk * chunk; feature < end; feature += chunk) {
      const Weights part{weights.panels + feature * plan_.conv.channels, weights.stride, weights.offsets + feature};
      RunFeatures(call, lines, part, feature, std::min(chunk, end - feature));
    }
  }

  // Threads share the features, so that each transforms its own weights, and all of them all inputs.
  void RunOnTheWay(const QuantizedConvCall& call, int64_t threads) const {
    constexpr int64_t kWidth = kInt8PanelWidth, kApart = 32;  // from a power of two, for the cache's sets
    constexpr int64_t kCache = 320 << 10;
    const int64_t channels = plan_.conv.channels, points = Points(outputs_), units = plan_.conv.features / kWidth;
    const int64_t fit = kCache / (points * channels * kWidth * int64_t{sizeof(int16_t)});
    const int64_t width = std::clamp<int64_t>(fit, 1, ChunkFeatures() / kWidth) * kWidth;
    const int64_t parts = std::min(units, threads), stride = channels * width + kApart;
    const Int8ColumnSums column_sums(channels, Int8ColumnSums::Of::kShorts);
    call.context.ParallelFor(parts, 1, [&](int64_t begin, int64_t end) {
      const Lines lines = Transform(call, 0, plan_.conv.batch * down_);
      auto* panels = ThreadScratch<int16_t>(ScratchUse::kPanels, points * stride);
      const int8_t *weight = source_.Data<int8_t>(), *weight_end = weight + source_.size();
      const int64_t last = units * end / parts * kWidth;
      for (int64_t feature = units * begin / parts * kWidth; feature < last; feature += width) {
        const int64_t features = std::min(width, last - feature);
        int32_t sums[kMostFeatures], offsets[kMostFeatures + kWidth];
        TransformWeights(weight + feature * channels * kTaps, weight_end, channels, features, outputs_, panels, stride);
        column_sums.Take(panels + PointOfSums(outputs_) * stride, features, sums);
        finish_.TakeOffsets(sums, feature, features, offsets);
        RunFeatures(call, lines, {panels, stride, offsets}, feature, features);
      }
    });
  }

  // `weights` begin with those of `feature`.
  void RunFeatures(const QuantizedConvCall& call, const Lines& lines, const Weights& weights, int64_t feature,
                   int64_t features) const {
    const int64_t channels = plan_.conv.channels, tiles = lines.tiles;
    CheckRun();
    for (int64_t point = 0; point < Points(outputs_); ++point) {
      Int8Product product{lines.transformed + point * tiles * channels, tiles, channels};
      product.packed = weights.panels + point * weights.stride;
      product.columns = features;
      product.out.c = lines.sums + point * tiles * features;
      product.out.stride = features;
      BestInt8Kernels().multiply_shorts(product);
    }
    for (int64_t line = lines.first; line < lines.last; ++line)
      FinishLine(call, line, feature, features, weights.offsets, tiles * features,
                 lines.sums + (line - lines.first) * across_ * features);
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

  void FinishLine(const QuantizedConvCall& call, int64_t line, int64_t feature, int64_t features,
                  const int32_t* offsets, int64_t point_stride, const int32_t* sums) const {
    int64_t height = plan_.axes[1].output, width = plan_.axes[2].output, all = plan_.conv.features;
    int64_t top = line % down_ * outputs_, first = (line / down_ * height + top) * width;
    Int8WinogradSums row;
    row.tiles = across_, row.features = features;
    row.from = sums, row.point_stride = point_stride;
    row.rows = std::min(outputs_, height - top), row.columns = width, row.line = width;
    row.out = finish_.Output(finish_.At(call.y, first * all + feature), all, feature, offsets);
    kernels_.output(row);
  }

  const Int8WinogradKernels& kernels_;
  int64_t outputs_, down_, across_;
  std::vector<uint8_t> zeros_;
  Tensor source_;
  WeightCache::DeferredTensor weights_;
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

// Multiply-adds in a nanosecond, nanoseconds for a byte of weights that comes from far away and for an element that is
// transformed, as measured on one core.
struct Speeds {
  double products, weights, transforms;
};
Speeds SpeedsOf(bool of_shorts) {
  const bool has_byte_products = BestInt8Kernels().multiply_runs;
  if (!has_byte_products) return {80, 0.1, 0.05};
  return {of_shorts ? 95.0 : 190.0, 0.05, 0.04};
}

double Cost(const ConvPlan& conv, int64_t rows, int64_t points) {
  const bool is_plain = points == kTaps;
  const Speeds speeds = SpeedsOf(!is_plain);
  const auto products = static_cast<double>(points * conv.channels * conv.features);
  const double transformed = is_plain ? 0 : static_cast<double>(points * rows * (conv.channels + conv.features));
  return products * (static_cast<double>(rows) / speeds.products + speeds.weights * (is_plain ? 1 : 2)) +
         speeds.transforms * transformed;
}

}  // namespace

int64_t QuantizedWinogradOutputs(const NhwcConvPlan& plan, const Tensor& weight) {
  const ConvPlan& conv = plan.conv;
  if (!BestInt8Kernels().multiply_shorts || !FitsWinograd(plan)) return 0;
  if (conv.channels % kInt8WinogradChannels != 0 || conv.features % kInt8WinogradChannels != 0) return 0;
  int64_t best = 0;
  double least = Cost(conv, conv.batch * conv.counts.output, kTaps);
  for (int64_t outputs : {int64_t{2}, int64_t{4}}) {
    int64_t tiles = conv.batch * TilesOf(plan.axes[1].output, outputs) * TilesOf(plan.axes[2].output, outputs);
    double cost = Cost(conv, tiles, Points(outputs));
    if (cost >= least || !SumsFit(weight, conv.features, KernelsOf(outputs).limit)) continue;
    best = outputs;
    least = cost;
  }
  return best;
}

std::unique_ptr<QuantizedConvAlgorithm> MakeQuantizedWinograd(const NhwcConvPlan& plan, const Tensor& weight,
                                                              int64_t outputs, WeightCache& cache, Int8Finish finish) {
  return std::make_unique<WinogradConv8>(plan, std::move(finish), outputs, weight, cache);
}

}  // namespace ferry
