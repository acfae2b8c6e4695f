// Convolution as a product: rows are output pixels, gathered by pointers to the pixels under the window.
#include <algorithm>

#include "base/check_run.h"
#include "kernels/bf16_gemm.h"
#include "kernels/nhwc.h"
#include "kernels/packed_gemm.h"
#include "kernels/panels_in_place.h"
#include "providers/cpu/conv.h"
#include "providers/cpu/conv_filters.h"
#include "providers/cpu/cuts.h"
#include "providers/cpu/scratch.h"

namespace ferry {
namespace {

// Taps that fall on padding wherever the window is, as wide dilations have them, are left out.
struct LiveTaps {
  explicit LiveTaps(const WindowAxis& axis) {
    auto live = [&](int64_t tap) { return ValidOutputs(axis, tap).begin < ValidOutputs(axis, tap).end; };
    last = axis.kernel;
    while (last > 1 && !live(last - 1)) --last;
    while (first + 1 < last && !live(first)) ++first;
  }
  LiveTaps(int64_t first, int64_t last) : first(first), last(last) {}
  int64_t first = 0, last = 1;

  void Trim(WindowAxis& axis) const {
    if (axis.kernel == last - first) return;
    axis.pad_begin -= first * axis.dilation;
    axis.kernel = last - first;
    int64_t reach = (axis.output - 1) * axis.stride + (axis.kernel - 1) * axis.dilation + 1;
    axis.pad_end = std::max<int64_t>(0, reach - axis.input - axis.pad_begin);
  }
};

// Few channels: the taps of a kernel row lie next to each other, so that a row of the window is one run of a padded
// copy of the image.
bool MergesTaps(const NhwcConvPlan& plan) {
  return plan.conv.groups == 1 && plan.conv.channels <= 8 && plan.axes[2].dilation == 1 &&
         (plan.channels_first || plan.axes[2].kernel > 1);
}

// The part of a padded image that windows read.
struct PaddedImage {
  explicit PaddedImage(const NhwcConvPlan& plan) : plan(plan) {
    for (size_t i = 0; i < 3; ++i) {
      const WindowAxis& axis = plan.axes[i];
      size[i] = (axis.output - 1) * axis.stride + (axis.kernel - 1) * axis.dilation + 1;
    }
  }
  int64_t rows() const { return size[0] * size[1]; }
  int64_t row_size() const { return size[2] * plan.conv.channels; }

  void FillRow(int64_t row, const float* image, float* to) const {
    const auto& axes = plan.axes;
    int64_t channels = plan.conv.channels;
    int64_t z = row / size[1] - axes[0].pad_begin, y = row % size[1] - axes[1].pad_begin;
    bool inside = z >= 0 && z < axes[0].input && y >= 0 && y < axes[1].input;
    int64_t begin = inside ? std::min(axes[2].pad_begin, size[2]) : size[2];
    int64_t end = inside ? std::clamp(axes[2].pad_begin + axes[2].input, begin, size[2]) : size[2];
    std::fill_n(to, begin * channels, 0.0f);
    std::fill(to + end * channels, to + size[2] * channels, 0.0f);
    if (begin == end) return;
    int64_t offset = (z * axes[1].input + y) * axes[2].input;
    if (!plan.channels_first) {
      std::copy_n(image + offset * channels, (end - begin) * channels, to + begin * channels);
      return;
    }
    const float* from = image + offset;
    float* out = to + begin * channels;
    if (int64_t plane = plan.conv.counts.input; channels == 3)
      return BestNhwcKernels().interleave3(from, from + plane, from + 2 * plane, end - begin, out);
    for (int64_t c = 0; c < channels; ++c, ++out, from += plan.conv.counts.input)
      for (int64_t x = 0; x < end - begin; ++x) out[x * channels] = from[x];
  }

  const NhwcConvPlan& plan;
  int64_t size[3];
};

// Whether the panels of a float product may be made on the way: once, or twice where that is soon done.
bool PacksOnTheWay(const NhwcConvPlan& plan) {
  constexpr int64_t kFewRows = 256;
  const ConvPlan& conv = plan.conv;
  return conv.groups == 1 && !MergesTaps(plan) &&
         (conv.counts.taps == 1 || conv.batch * conv.counts.output <= kFewRows);
}

// Walks over the output pixels of all images in order, without a division for each.
struct PixelWalk {
  PixelWalk(const NhwcConvPlan& plan, int64_t row) : axes(plan.axes) {
    x = row % axes[2].output;
    row /= axes[2].output;
    y = row % axes[1].output;
    row /= axes[1].output;
    z = row % axes[0].output;
    image = row / axes[0].output;
  }
  void Next() {
    if (++x < axes[2].output) return;
    x = 0;
    if (++y < axes[1].output) return;
    y = 0;
    if (++z < axes[0].output) return;
    z = 0;
    ++image;
  }
  const decltype(NhwcConvPlan::axes)& axes;
  int64_t image, z, y, x;
};

class GemmConv final : public ConvAlgorithm {
 public:
  GemmConv(WeightCache::DeferredTensor panels, Filters filters, NhwcConvPlan plan, const Bf16Kernels* bf16_kernels)
      : panels_(std::move(panels)),
        filters_(std::move(filters)),
        plan_(std::move(plan)),
        zeros_(static_cast<size_t>(plan_.conv.channels)),
        kernels_(BestGemmKernels()),
        bf16_kernels_(bf16_kernels) {}

  void Run(const ConvCall& given) const override {
    ConvCall call{given.context,    plan_,          given.x,        given.bias,   given.residual, given.y,
                  given.activation, given.x_stride, given.y_stride, given.scaling};
    const Tensor* kept = panels_.Find();
    const std::byte* panels = kept ? kept->raw() : PackIfFew(call);
    // Blocks that share their rows would each scale them again.
    const bool by_block = panels && IsPlain() && CutsOf(call, plan_.conv.batch * plan_.conv.counts.output).parts == 1;
    RunScaled(by_block ? call : ScaledFirst(call), panels);
  }

  bool ReadsStrided() const override { return !MergesTaps(plan_); }
  bool WritesStrided() const override { return true; }
  bool Scales() const override { return true; }
  bool Packs() const override { return true; }

 private:
  struct Block {
    int64_t row, rows;
    int64_t first, last;  // panels of columns; groups when there are several
  };
  // The packed weights of some columns.
  struct Panels {
    const std::byte* begin;
    int64_t first, columns;
  };

  void RunScaled(const ConvCall& call, const std::byte* panels) const {
    if (!panels) return RunOnTheWay(call);
    if (MergesTaps(call.plan)) return RunMerged(call, panels);
    ForBlocks(call, 0, call.plan.conv.batch * call.plan.conv.counts.output, [&](const Block& block) {
      RunBlock(call, block, {panels, 0, call.plan.conv.features});
    });
  }

  // Weights that stay near the processor are packed as a whole on the way, so that rows pass by in blocks as later:
  // scaling all of them first would take memory that no other run needs. Null: there are too many.
  const std::byte* PackIfFew(const ConvCall& call) const {
    constexpr int64_t kMostBytes = 512 << 10;
    const ConvPlan& conv = plan_.conv;
    const int64_t size = PackedSize(conv.depth(), conv.features);
    if (filters_.chunks.size() > 1 || size * int64_t{sizeof(float)} > kMostBytes) return nullptr;
    float* packed = ThreadScratch<float>(ScratchUse::kPanels, size);
    const int64_t units = (conv.features + kPanelWidth - 1) / kPanelWidth;
    call.context.ParallelFor(units, 1 + (1 << 14) / conv.depth(), [&](int64_t begin, int64_t end) {
      const Columns columns = ColumnsOf(conv, {0, 0, begin, end});
      filters_.Pack(conv, columns.first, columns.count, packed + PackedSize(conv.depth(), columns.first));
    });
    return reinterpret_cast<const std::byte*>(packed);
  }

  bool IsPlain() const {
    return !bf16_kernels_ && !MergesTaps(plan_) && plan_.conv.groups == 1 && plan_.conv.is_pointwise();
  }

  void RunBlock(const ConvCall& call, const Block& block, const Panels& panels) const {
    if (IsPlain())
      RunPlain(call, block, panels);
    else
      RunGathered(call, block, panels);
  }

  // Threads share the columns, so that each packs its own, and the rows where there are too few of those.
  void RunOnTheWay(const ConvCall& call) const {
    const ConvPlan& conv = call.plan.conv;
    const int64_t rows = conv.batch * conv.counts.output, units = (conv.features + kPanelWidth - 1) / kPanelWidth;
    const int64_t parts = std::min<int64_t>(units, call.threads()), row_parts = call.threads() / parts;
    call.context.ParallelFor(parts * row_parts, 1, [&](int64_t begin, int64_t end) {
      const int64_t width = std::min(PanelsOnTheWay(conv.depth()), (units + parts - 1) / parts);
      float* packed = ThreadScratch<float>(ScratchUse::kPanels, PackedSize(conv.depth(), width * kPanelWidth));
      for (int64_t item = begin; item < end; ++item) {
        const int64_t part = item % parts, row_part = item / parts, row = rows * row_part / row_parts;
        const int64_t last = units * (part + 1) / parts;
        for (int64_t first = units * part / parts; first < last; first += width) {
          const Block block{row, rows * (row_part + 1) / row_parts - row, first, std::min(last, first + width)};
          const Columns columns = ColumnsOf(conv, block);
          filters_.Pack(conv, columns.first, columns.count, packed);
          RunBlock(call, block, {reinterpret_cast<const std::byte*>(packed), columns.first, columns.count});
        }
      }
    });
  }

  struct Cuts {
    int64_t units;  // panels of columns; groups when there are several
    int64_t whole;  // units that stay together
    int64_t tiles, row_blocks, parts;

    int64_t FirstUnit(int64_t part) const { return part == parts ? units : units * part / parts / whole * whole; }
  };

  // Cuts rows, and where they are few, columns too. Results do not depend on the cuts.
  Cuts CutsOf(const ConvCall& call, int64_t rows) const {
    const ConvPlan& conv = call.plan.conv;
    int64_t units = conv.groups > 1 ? conv.groups : (conv.features + kPanelWidth - 1) / kPanelWidth;
    int64_t threads = call.threads(), tiles = (rows + best_rows() - 1) / best_rows(), wanted = 4 * threads;
    int64_t row_blocks = EvenBlocks(tiles, 9, threads), parts = 1;
    const int64_t narrowest = conv.groups > 1 ? 1 : PanelsOfUnit(2, 1);  // two panels where tiles are so wide
    if (threads > 1 && row_blocks < wanted)
      parts = std::clamp<int64_t>((wanted + row_blocks - 1) / row_blocks, 1, std::max<int64_t>(1, units / narrowest));
    const int64_t whole = conv.groups > 1 ? 1 : PanelsOfUnit(units, parts);
    return {units, whole, tiles, row_blocks, parts};
  }

  template <class Body>
  void ForBlocks(const ConvCall& call, int64_t first_row, int64_t rows, const Body& body) const {
    const Cuts cuts = CutsOf(call, rows);
    int64_t tile_rows = best_rows(), items = cuts.row_blocks * cuts.parts;
    // Where a block has few tiles, those of the last one that are not there would keep others waiting.
    const bool few = cuts.tiles < 4 * cuts.row_blocks;
    auto first_of = [&](int64_t block) {
      if (few) return rows * block / cuts.row_blocks;
      return std::min(rows, cuts.tiles * block / cuts.row_blocks * tile_rows);
    };
    int64_t work = WorkOf(rows, call.plan.conv.depth(), call.plan.conv.features);
    int64_t grain = std::max<int64_t>(1, items * (kPieceWork / 4) / work);
    call.context.ParallelFor(items, grain, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        int64_t block = item / cuts.parts, part = item % cuts.parts;
        CheckRun();
        const int64_t row = first_of(block), last = first_of(block + 1);
        body(Block{first_row + row, last - row, cuts.FirstUnit(part), cuts.FirstUnit(part + 1)});
      }
    });
  }

  struct Columns {
    int64_t first, count;
  };

  static Columns ColumnsOf(const ConvPlan& conv, const Block& block) {
    int64_t width = conv.groups > 1 ? conv.group_features : kPanelWidth;
    return {block.first * width, std::min(conv.features, block.last * width) - block.first * width};
  }

  // An activation that is no mere limit is applied to a block at a time, where rows are long.
  void Activate(const ConvCall& call, const Block& block) const {
    if (IsLimit(call.activation.kind)) return;
    Columns columns = ColumnsOf(call.plan.conv, block);
    float* y = To(call, block.row, columns.first);
    bool whole = columns.count == call.y_stride;
    for (int64_t i = 0; i < (whole ? 1 : block.rows); ++i)
      BestNhwcKernels().activate(call.activation, y + i * call.y_stride, (whole ? block.rows : 1) * columns.count);
  }

  static float* To(const ConvCall& call, int64_t row, int64_t column) { return call.y + row * call.y_stride + column; }

  GemmEpilogue Epilogue(const ConvCall& call, int64_t row, int64_t column) const {
    int64_t features = call.plan.conv.features;
    GemmEpilogue epilogue;
    if (IsLimit(call.activation.kind)) epilogue.activation = call.activation;
    if (call.bias) epilogue.bias = call.bias + column;
    if (call.residual) epilogue.residual = call.residual + row * features + column;
    epilogue.residual_stride = features;
    return epilogue;
  }

  int64_t best_rows() const { return bf16_kernels_ ? bf16_kernels_->best_rows : kernels_.best_rows; }
  // Elements of a column in its panel.
  int64_t PanelDepth(int64_t depth) const { return bf16_kernels_ ? PackedBf16Size(depth, 1) / kPanelWidth : depth; }

  // With what begins `offset` elements into the panels.
  void Multiply(GatheredGemm& gemm, const Panels& panels, int64_t offset) const {
    if (bf16_kernels_) {
      auto* scratch = ThreadScratch<std::byte>(ScratchUse::kBf16Rows, kBf16Scratch);
      return bf16_kernels_->gathered(gemm, reinterpret_cast<const uint16_t*>(panels.begin) + offset, scratch);
    }
    gemm.packed = reinterpret_cast<const float*>(panels.begin) + offset;
    kernels_.gathered(gemm);
  }

  void RunPlain(const ConvCall& call, const Block& block, const Panels& panels) const {
    const ConvPlan& conv = call.plan.conv;
    Columns columns = ColumnsOf(conv, block);
    const float* x = call.x + block.row * call.x_stride;
    int64_t x_stride = call.x_stride;
    if (const InputScaling& scaling = call.scaling; scaling.factor) {
      float* scaled = ThreadScratch<float>(ScratchUse::kScaledRows, block.rows * conv.channels);
      BestNhwcKernels().affine(x, x_stride, block.rows, conv.channels, scaling.factor, scaling.offset, scaling.before,
                               scaled);
      x = scaled, x_stride = conv.channels;
    }
    kernels_.plain(x, x_stride, block.rows, conv.channels,
                   reinterpret_cast<const float*>(panels.begin) + conv.channels * (columns.first - panels.first),
                   columns.count, To(call, block.row, columns.first), call.y_stride,
                   Epilogue(call, block.row, columns.first));
    Activate(call, block);
  }

  void RunGathered(const ConvCall& call, const Block& block, const Panels& panels) const {
    const ConvPlan& conv = call.plan.conv;
    const float** pointers = ThreadScratch<const float*>(ScratchUse::kRowPointers, conv.counts.taps * block.rows);
    PointAtWindows(call, block, pointers);
    GatheredGemm gemm{pointers, block.rows, conv.counts.taps, conv.group_channels};
    gemm.c_stride = call.y_stride;
    if (conv.group_channels >= 16) gemm.zeros = zeros_.data();
    if (conv.groups > 1)
      MultiplyGroups(call, block, panels, gemm);
    else
      MultiplyChunks(call, block, panels, gemm);
    Activate(call, block);
  }

  void MultiplyGroups(const ConvCall& call, const Block& block, const Panels& panels, GatheredGemm gemm) const {
    const ConvPlan& conv = call.plan.conv;
    int64_t size = PackedSize(PanelDepth(conv.depth()), conv.group_features);
    gemm.columns = conv.group_features;
    for (int64_t group = block.first; group < block.last; ++group) {
      int64_t column = group * conv.group_features;
      gemm.offset = group * conv.group_channels;
      gemm.c = To(call, block.row, column);
      gemm.epilogue = Epilogue(call, block.row, column);
      Multiply(gemm, panels, group * size);
    }
  }

  // Later chunks of taps add to what earlier ones left.
  void MultiplyChunks(const ConvCall& call, const Block& block, const Panels& panels, GatheredGemm gemm) const {
    const ConvPlan& conv = call.plan.conv;
    const float* const* pointers = gemm.rows;
    Columns columns = ColumnsOf(conv, block);
    gemm.columns = columns.count;
    gemm.c = To(call, block.row, columns.first);
    const Activation activation = Epilogue(call, block.row, columns.first).activation;
    for (const TapChunk& chunk : filters_.chunks) {
      bool last = &chunk == &filters_.chunks.back();
      gemm.rows = pointers + chunk.first * block.rows;
      gemm.taps = chunk.count;
      if (chunk.first == 0) {
        gemm.epilogue = Epilogue(call, block.row, columns.first);
      } else {
        gemm.epilogue.bias = nullptr;
        gemm.epilogue.residual = gemm.c;
        gemm.epilogue.residual_stride = gemm.c_stride;
      }
      gemm.epilogue.activation = last ? activation : Activation{};
      Multiply(gemm, panels,
               chunk.Offset(conv, panels.columns) +
                   PanelDepth(chunk.count * conv.group_channels) * (columns.first - panels.first));
    }
  }

  void PointAtWindows(const ConvCall& call, const Block& block, const float** pointers) const {
    const ConvPlan& conv = call.plan.conv;
    const auto& axes = call.plan.axes;
    PixelWalk pixel(call.plan, block.row);
    for (int64_t i = 0; i < block.rows; ++i, pixel.Next()) {
      const float* image = call.x + pixel.image * conv.counts.input * call.x_stride;
      const float** to = pointers + i;
      for (int64_t kz = 0; kz < axes[0].kernel; ++kz) {
        int64_t at_z = axes[0].Position(pixel.z, kz);
        for (int64_t ky = 0; ky < axes[1].kernel; ++ky) {
          int64_t at_y = axes[1].Position(pixel.y, ky);
          bool inside = at_z >= 0 && at_z < axes[0].input && at_y >= 0 && at_y < axes[1].input;
          const float* line = image + (at_z * axes[1].input + at_y) * axes[2].input * call.x_stride;
          for (int64_t kx = 0; kx < axes[2].kernel; ++kx, to += block.rows) {
            int64_t at_x = axes[2].Position(pixel.x, kx);
            *to = inside && at_x >= 0 && at_x < axes[2].input ? line + at_x * call.x_stride : zeros_.data();
          }
        }
      }
    }
  }

  // The windows of one output row lie evenly.
  static void PointAtPadded(const PaddedImage& padded, const float* copy, const Block& block, const float** pointers) {
    const auto& axes = padded.plan.axes;
    const int64_t step = axes[2].stride * padded.plan.conv.channels;
    PixelWalk pixel(padded.plan, block.row);
    for (int64_t done = 0, run; done < block.rows; done += run, pixel.Next()) {
      run = std::min(block.rows - done, axes[2].output - pixel.x);
      const float** to = pointers + done;
      for (int64_t kz = 0; kz < axes[0].kernel; ++kz) {
        int64_t plane = (pixel.z * axes[0].stride + kz * axes[0].dilation) * padded.size[1];
        for (int64_t ky = 0; ky < axes[1].kernel; ++ky, to += block.rows) {
          int64_t row = plane + pixel.y * axes[1].stride + ky * axes[1].dilation;
          const float* window = copy + row * padded.row_size() + pixel.x * step;
          for (int64_t i = 0; i < run; ++i) to[i] = window + i * step;
        }
      }
      pixel.x += run - 1;
    }
  }

  void RunMerged(const ConvCall& call, const std::byte* panels) const {
    const ConvPlan& conv = call.plan.conv;
    const auto& axes = call.plan.axes;
    PaddedImage padded(call.plan);
    float* copy = ThreadScratch<float>(ScratchUse::kPaddedImage, padded.rows() * padded.row_size());
    int64_t taps = axes[0].kernel * axes[1].kernel, depth = axes[2].kernel * conv.channels;
    for (int64_t image = 0; image < conv.batch; ++image) {
      const float* from = call.x + image * conv.channels * conv.counts.input;
      call.context.ParallelFor(padded.rows(), 1 + 16384 / padded.row_size(), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) padded.FillRow(row, from, copy + row * padded.row_size());
      });
      int64_t first_row = image * conv.counts.output;
      ForBlocks(call, first_row, conv.counts.output, [&](const Block& block) {
        const float** pointers = ThreadScratch<const float*>(ScratchUse::kRowPointers, taps * block.rows);
        PointAtPadded(padded, copy, block, pointers);
        Columns columns = ColumnsOf(conv, block);
        const float* packed = reinterpret_cast<const float*>(panels) + conv.depth() * columns.first;
        GatheredGemm gemm{pointers, block.rows, taps, depth, packed, columns.count};
        gemm.c = To(call, block.row, columns.first);
        gemm.c_stride = call.y_stride;
        gemm.epilogue = Epilogue(call, block.row, columns.first);
        kernels_.gathered(gemm);
        Activate(call, block);
      });
    }
  }

  WeightCache::DeferredTensor panels_;  // of every chunk; of every group where there are several
  Filters filters_;
  const NhwcConvPlan plan_;
  std::vector<float> zeros_;
  const GemmKernels& kernels_;
  const Bf16Kernels* bf16_kernels_;  // null: panels are float
};

// Where all taps are packed at once, a panel's weights lie where those of its features lay.
WeightCache::InPlace InPlace(const Filters& filters, const ConvPlan& conv) {
  const int64_t taps = filters.weight.shape().CountBetween(2, filters.weight.rank()), features = conv.features;
  if (conv.groups > 1 || features % kPanelWidth != 0 || filters.chunks.size() > 1 || conv.counts.taps != taps)
    return {};
  const int64_t channels = conv.group_channels;
  return {[=](float* weights) { LinesIntoPanels(weights, features, channels, taps); },
          [=](float* weights) { PanelsIntoLines(weights, features, channels, taps); }};
}

std::unique_ptr<ConvAlgorithm> MakeProduct(const Tensor& weight, const NhwcConvPlan& plan, WeightCache& cache,
                                           bool bf16) {
  Require(!plan.channels_first || MergesTaps(plan), "an image with its channels first needs few of them");
  NhwcConvPlan trimmed = plan;
  std::vector<int64_t> taps = {0};
  std::string form = Cat("convolution panels in ", plan.conv.groups, " groups");
  for (size_t i = 0; i < 3; ++i) {
    const WindowAxis& axis = plan.axes[i];
    LiveTaps live = MergesTaps(plan) ? LiveTaps(0, axis.kernel) : LiveTaps(axis);
    std::vector<int64_t> places;
    for (int64_t place : taps)
      for (int64_t tap = live.first; tap < live.last; ++tap) places.push_back(place * axis.kernel + tap);
    taps = std::move(places);
    live.Trim(trimmed.axes[i]);
    form += Cat(" ", live.first, "-", live.last);
  }
  std::copy_n(trimmed.axes.end() - static_cast<std::ptrdiff_t>(trimmed.conv.axes.size()), trimmed.conv.axes.size(),
              trimmed.conv.axes.begin());
  trimmed.conv.counts.taps = static_cast<int64_t>(taps.size());
  const ConvPlan& conv = trimmed.conv;
  Filters filters{weight, taps, CutTaps(conv, bf16 || MergesTaps(plan) || conv.groups > 1)};
  if (bf16) {
    int64_t size = conv.groups * PackedBf16Size(conv.depth(), conv.group_features);
    auto fill = [filters, conv](Tensor& made) { filters.PackBf16Groups(conv, &made.MutableData<BFloat16>()->bits); };
    auto panels = cache.GetDeferred(weight, form + " of bf16", DType::kBFloat16, size, fill, true);
    return std::make_unique<GemmConv>(std::move(panels), std::move(filters), std::move(trimmed), &BestBf16Kernels());
  }
  form += Cat(" in ", filters.chunks.size(), " chunks");
  int64_t size = conv.groups * PackedSize(conv.depth(), conv.group_features);
  auto fill = [filters, conv](Tensor& made) { filters.PackGroups(conv, made.MutableData<float>()); };
  auto panels =
      cache.GetDeferred(weight, form, DType::kFloat, size, fill, !PacksOnTheWay(trimmed), InPlace(filters, conv));
  return std::make_unique<GemmConv>(std::move(panels), std::move(filters), std::move(trimmed), nullptr);
}

}  // namespace

std::unique_ptr<ConvAlgorithm> MakeGemmConv(const Tensor& weight, const NhwcConvPlan& plan, WeightCache& cache) {
  return MakeProduct(weight, plan, cache, false);
}

std::unique_ptr<ConvAlgorithm> MakeBf16GemmConv(const Tensor& weight, const NhwcConvPlan& plan, WeightCache& cache) {
  return MakeProduct(weight, plan, cache, true);
}

bool FitsBf16Gemm(const NhwcConvPlan& plan) { return !MergesTaps(plan); }

}  // namespace ferry
