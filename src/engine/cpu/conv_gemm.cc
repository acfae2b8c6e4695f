// Convolution as a product: rows are output pixels, gathered by pointers to the pixels under the window.
#include <algorithm>

#include "base/mapped_file.h"
#include "engine/cpu/conv.h"
#include "engine/cpu/scratch.h"
#include "kernels/packed_gemm.h"

namespace ferry {
namespace {

// A[k = tap · channels + c, n = feature] of every group, packed one after the other.
Tensor PackWeights(const Tensor& weight, const ConvPlan& conv) {
  int64_t depth = conv.depth(), size = PackedSize(depth, conv.group_features);
  Tensor packed(DType::kFloat, {conv.groups * size});
  std::vector<float> ordered;
  for (int64_t group = 0; group < conv.groups; ++group) {
    const float* from = weight.Data<float>() + group * conv.group_features * depth;
    if (conv.counts.taps > 1) {
      ordered.resize(static_cast<size_t>(conv.group_features * depth));
      for (int64_t m = 0; m < conv.group_features; ++m)
        for (int64_t c = 0; c < conv.group_channels; ++c)
          for (int64_t tap = 0; tap < conv.counts.taps; ++tap)
            ordered[static_cast<size_t>(m * depth + tap * conv.group_channels + c)] =
                from[m * depth + c * conv.counts.taps + tap];
      from = ordered.data();
    }
    PackMatrix(from, depth, conv.group_features, 1, depth, packed.MutableData<float>() + group * size);
  }
  DropPages(weight.raw(), weight.bytes());
  return packed;
}

// Few channels: the taps of a kernel row lie next to each other, so that a row of the window is one run of a padded
// copy of the image.
bool MergesTaps(const ImageConvPlan& plan) {
  return plan.conv.groups == 1 && plan.conv.channels <= 8 && plan.axes[2].dilation == 1 &&
         (plan.channels_first || plan.axes[2].kernel > 1);
}

// The part of a padded image that windows read.
struct PaddedImage {
  explicit PaddedImage(const ImageConvPlan& plan) : plan(plan) {
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
    for (int64_t c = 0; c < channels; ++c) {
      const float* from = image + c * plan.conv.counts.input + offset;
      float* out = to + begin * channels + c;
      for (int64_t x = 0; x < end - begin; ++x) out[x * channels] = from[x];
    }
  }

  const ImageConvPlan& plan;
  int64_t size[3];
};

class GemmConv final : public ConvAlgorithm {
 public:
  GemmConv(std::shared_ptr<const Tensor> packed, int64_t channels)
      : packed_(std::move(packed)), zeros_(static_cast<size_t>(channels)), kernels_(BestGemmKernels()) {}

  void Run(const ConvCall& call) const override {
    if (MergesTaps(call.plan)) return RunMerged(call);
    bool plain = call.plan.conv.groups == 1 && call.plan.conv.is_pointwise();
    ForBlocks(call, call.plan.conv.batch * call.plan.conv.counts.output, [&](const Block& block) {
      if (plain)
        RunPlain(call, block);
      else
        RunGathered(call, block);
    });
  }

 private:
  struct Block {
    int64_t row, rows;
    int64_t first, last;  // panels of columns; groups when there are several
  };

  // Cuts rows, and where they are few, columns too. Results do not depend on the cuts.
  template <class Body>
  void ForBlocks(const ConvCall& call, int64_t rows, const Body& body) const {
    const ConvPlan& conv = call.plan.conv;
    int64_t units = conv.groups > 1 ? conv.groups : (conv.features + kPanelWidth - 1) / kPanelWidth;
    int64_t block_rows = 9 * kernels_.best_rows;
    int64_t row_blocks = (rows + block_rows - 1) / block_rows, chunks = 1;
    int64_t wanted = 4 * call.threads(), work = rows * conv.depth() * conv.features;
    if (call.threads() > 1 && row_blocks < wanted)
      chunks = std::clamp<int64_t>((wanted + row_blocks - 1) / row_blocks, 1, units);
    int64_t items = row_blocks * chunks;
    int64_t grain = std::max<int64_t>(1, items * (kConvPieceWork / 4) / std::max<int64_t>(1, work));
    call.context.ParallelFor(items, grain, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        int64_t row = item / chunks * block_rows, chunk = item % chunks;
        body(Block{row, std::min(block_rows, rows - row), units * chunk / chunks, units * (chunk + 1) / chunks});
      }
    });
  }

  GemmEpilogue Epilogue(const ConvCall& call, int64_t row, int64_t column) const {
    int64_t features = call.plan.conv.features;
    GemmEpilogue epilogue;
    epilogue.activation = call.activation;
    if (call.bias) epilogue.bias = call.bias + column;
    if (call.residual) epilogue.residual = call.residual + row * features + column;
    epilogue.residual_stride = features;
    return epilogue;
  }

  void RunPlain(const ConvCall& call, const Block& block) const {
    const ConvPlan& conv = call.plan.conv;
    int64_t column = block.first * kPanelWidth, count = std::min(conv.features, block.last * kPanelWidth) - column;
    kernels_.plain(call.x + block.row * conv.channels, conv.channels, block.rows, conv.channels,
                   packed_->Data<float>() + conv.channels * column, count, call.y + block.row * conv.features + column,
                   conv.features, Epilogue(call, block.row, column));
  }

  void RunGathered(const ConvCall& call, const Block& block) const {
    const ConvPlan& conv = call.plan.conv;
    const float** pointers = ThreadScratch<const float*>(ScratchUse::kRowPointers, conv.counts.taps * block.rows);
    PointAtWindows(call, block, pointers);
    Multiply(call, block, pointers, conv.counts.taps, conv.group_channels, call.y, block.row);
  }

  // The columns of a block for rows given by pointers; `row` counts from `y`.
  void Multiply(const ConvCall& call, const Block& block, const float* const* pointers, int64_t taps, int64_t depth,
                float* y, int64_t row) const {
    const ConvPlan& conv = call.plan.conv;
    GatheredGemm gemm{pointers, block.rows, taps, depth};
    gemm.c_stride = conv.features;
    if (conv.groups == 1) {
      int64_t column = block.first * kPanelWidth;
      gemm.columns = std::min(conv.features, block.last * kPanelWidth) - column;
      gemm.packed = packed_->Data<float>() + conv.depth() * column;
      gemm.c = y + row * conv.features + column;
      gemm.epilogue = Epilogue(call, (y - call.y) / conv.features + row, column);
      return kernels_.gathered(gemm);
    }
    int64_t size = PackedSize(conv.depth(), conv.group_features);
    gemm.columns = conv.group_features;
    for (int64_t group = block.first; group < block.last; ++group) {
      int64_t column = group * conv.group_features;
      gemm.packed = packed_->Data<float>() + group * size;
      gemm.offset = group * conv.group_channels;
      gemm.c = y + row * conv.features + column;
      gemm.epilogue = Epilogue(call, (y - call.y) / conv.features + row, column);
      kernels_.gathered(gemm);
    }
  }

  void PointAtWindows(const ConvCall& call, const Block& block, const float** pointers) const {
    const ConvPlan& conv = call.plan.conv;
    const auto& axes = call.plan.axes;
    for (int64_t i = 0; i < block.rows; ++i) {
      int64_t pixel = (block.row + i) % conv.counts.output;
      const float* image = call.x + (block.row + i) / conv.counts.output * conv.counts.input * conv.channels;
      int64_t x = pixel % axes[2].output, y = pixel / axes[2].output % axes[1].output,
              z = pixel / axes[2].output / axes[1].output;
      const float** to = pointers + i;
      for (int64_t kz = 0; kz < axes[0].kernel; ++kz) {
        int64_t at_z = axes[0].Position(z, kz);
        for (int64_t ky = 0; ky < axes[1].kernel; ++ky) {
          int64_t at_y = axes[1].Position(y, ky);
          bool inside = at_z >= 0 && at_z < axes[0].input && at_y >= 0 && at_y < axes[1].input;
          const float* line = image + (at_z * axes[1].input + at_y) * axes[2].input * conv.channels;
          for (int64_t kx = 0; kx < axes[2].kernel; ++kx, to += block.rows) {
            int64_t at_x = axes[2].Position(x, kx);
            *to = inside && at_x >= 0 && at_x < axes[2].input ? line + at_x * conv.channels : zeros_.data();
          }
        }
      }
    }
  }

  void RunMerged(const ConvCall& call) const {
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
      float* y = call.y + image * conv.counts.output * conv.features;
      ForBlocks(call, conv.counts.output, [&](const Block& block) {
        const float** pointers = ThreadScratch<const float*>(ScratchUse::kRowPointers, taps * block.rows);
        for (int64_t i = 0; i < block.rows; ++i) {
          int64_t pixel = block.row + i;
          int64_t left = pixel % axes[2].output * axes[2].stride;
          int64_t top = pixel / axes[2].output % axes[1].output * axes[1].stride;
          int64_t front = pixel / axes[2].output / axes[1].output * axes[0].stride;
          for (int64_t tap = 0; tap < taps; ++tap) {
            int64_t line = (front + tap / axes[1].kernel * axes[0].dilation) * padded.size[1] + top +
                           tap % axes[1].kernel * axes[1].dilation;
            pointers[tap * block.rows + i] = copy + line * padded.row_size() + left * conv.channels;
          }
        }
        Multiply(call, block, pointers, taps, depth, y, block.row);
      });
    }
  }

  std::shared_ptr<const Tensor> packed_;
  std::vector<float> zeros_;
  const GemmKernels& kernels_;
};

}  // namespace

std::unique_ptr<ConvAlgorithm> MakeGemmConv(const Tensor& weight, const ImageConvPlan& plan, WeightCache& cache) {
  Require(!plan.channels_first || MergesTaps(plan), "an image with its channels first needs few of them");
  auto packed = cache.Get<Tensor>(weight, Cat("convolution panels in ", plan.conv.groups, " groups"),
                                  [&] { return PackWeights(weight, plan.conv); });
  return std::make_unique<GemmConv>(std::move(packed), plan.conv.channels);
}

}  // namespace ferry
