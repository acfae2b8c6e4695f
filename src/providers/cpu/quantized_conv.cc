// QuantizedNhwcConv: one channel to one channel directly, 3×3 by Winograd's algorithm where it pays
// (quantized_winograd.cc), everything else as a product over windows: where they are (quantized_runs.cc), or over rows
// made ready, window by window.
#include "providers/cpu/quantized_conv.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check_run.h"
#include "kernels/int8_nhwc.h"
#include "ops/support/fused.h"
#include "providers/cpu/conv.h"
#include "providers/cpu/cuts.h"
#include "providers/cpu/kernels.h"
#include "providers/cpu/scratch.h"

namespace ferry {
namespace {

using Call = QuantizedConvCall;
using Algorithm = QuantizedConvAlgorithm;

// Few channels: the taps of a kernel row lie next to each other in a padded copy of the image. Where bytes stay bytes
// it pays longer.
bool MergesTaps(const NhwcConvPlan& plan) {
  const int64_t most = BestInt8Kernels().element_bytes == 1 && !plan.channels_first ? 64 : 8;
  return plan.conv.groups == 1 && plan.conv.channels <= most && plan.axes[2].dilation == 1 &&
         (plan.channels_first || plan.axes[2].kernel > 1);
}

class ProductConv final : public Algorithm {
 public:
  std::string_view name() const override { return "im2col gemm int8"; }
  ProductConv(const NhwcConvPlan& plan, Int8Finish finish, Int8Weights weights)
      : Algorithm(plan, std::move(finish)), weights_(std::move(weights)) {
    for (size_t i = 0; i < 3; ++i) {
      const WindowAxis& axis = plan_.axes[i];
      padded_[i] = (axis.output - 1) * axis.stride + (axis.kernel - 1) * axis.dilation + 1;
    }
  }

  void Run(const Call& call) const override {
    ForInt8Parts(call.context, weights_, finish_, [&](const Int8Part& part) { RunPart(call, part); });
  }

 private:
  void RunPart(const Call& call, const Int8Part& part) const {
    const ConvPlan& conv = plan_.conv;
    if (!MergesTaps(plan_)) {
      ForInt8Blocks(call.context, part.shape, conv.batch * conv.counts.output,
                    [&](const Int8Block& block) { RunBlock(call, part, block); });
      return;
    }
    int64_t row_size = padded_[2] * conv.channels, rows = padded_[0] * padded_[1];
    uint8_t* copy = ThreadScratch<uint8_t>(ScratchUse::kPaddedImage, rows * row_size + kInt8Slack);
    for (int64_t image = 0; image < conv.batch; ++image) {
      const uint8_t* from = call.x + image * conv.channels * conv.counts.input;
      call.context.ParallelFor(rows, 1 + 65536 / row_size, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) FillRow(row, from, copy + row * row_size);
      });
      ForInt8Blocks(call.context, part.shape, conv.counts.output, [&](const Int8Block& block) {
        void* ready = ReadyRows(block.rows, conv.depth());
        PrepareMerged(copy, block, ready);
        Int8Block placed = block;
        placed.row += image * conv.counts.output;
        Multiply(call, part, placed, 0, ready);
      });
    }
  }

  std::byte* RowAt(void* ready, int64_t row) const {
    return static_cast<std::byte*>(ready) + row * PaddedDepth(plan_.conv.depth()) * kernels_.element_bytes;
  }

  void RunBlock(const Call& call, const Int8Part& part, const Int8Block& block) const {
    const ConvPlan& conv = plan_.conv;
    if (conv.groups == 1) {
      const void* ready = conv.is_pointwise()
                              ? PrepareRows(call.x + block.row * conv.depth(), finish_.flip(), block.rows, conv.depth())
                              : PrepareWindows(call, block, 0);
      return Multiply(call, part, block, 0, ready);
    }
    for (int64_t group = block.first; group < block.last; ++group)
      Multiply(call, part, block, group, PrepareWindows(call, block, group));
  }

  // The block's columns, or all of a group.
  void Multiply(const Call& call, const Int8Part& part, const Int8Block& block, int64_t group,
                const void* ready) const {
    const ConvPlan& conv = plan_.conv;
    const int64_t first = conv.groups > 1 ? 0 : block.first * kInt8PanelWidth;
    const int64_t last = conv.groups > 1 ? part.shape.columns : block.last * kInt8PanelWidth;
    Int8Product product{ready, block.rows, conv.depth()};
    product.packed = part.PanelsOf(group, part.first + first);
    product.columns = std::min(part.shape.columns, last) - first;
    product.is_signed = finish_.has_signed_rows();
    product.scratch = Int8Scratch(block.rows, conv.depth());
    const int64_t in_part = group * conv.group_features + first, column = part.first + in_part;
    product.out = finish_.Output(finish_.At(call.y, block.row * conv.features + column), conv.features, column,
                                 part.offsets + in_part);
    kernels_.multiply(product);
  }

  struct Place {
    int64_t image, z, y, x;
  };

  void* PrepareWindows(const Call& call, const Int8Block& block, int64_t group) const {
    const auto& axes = plan_.axes;
    const int64_t pixel = block.row % plan_.conv.counts.output;
    Place at{block.row / plan_.conv.counts.output, pixel / axes[2].output / axes[1].output,
             pixel / axes[2].output % axes[1].output, pixel % axes[2].output};
    void* ready = ReadyRows(block.rows, plan_.conv.depth());
    for (int64_t i = 0; i < block.rows; ++i) {
      PrepareWindow(call, at, group, RowAt(ready, i));
      if (++at.x < axes[2].output) continue;
      at.x = 0;
      if (++at.y < axes[1].output) continue;
      at.y = 0;
      if (++at.z == axes[0].output) at.z = 0, ++at.image;
    }
    return ready;
  }

  // What pads the depth meets weights of zero, but must be some number.
  void FillRest(std::byte* row) const {
    int64_t depth = plan_.conv.depth(), padded = PaddedDepth(depth);
    if (padded > depth) kernels_.fill(0, padded - depth, row + depth * kernels_.element_bytes);
  }

  // One tap for each result, all of them on the image.
  bool TakesPixels() const {
    const auto& axes = plan_.axes;
    return plan_.conv.counts.taps == 1 && std::all_of(axes.begin(), axes.end(), [](const WindowAxis& axis) {
             return axis.pad_begin == 0 && (axis.output - 1) * axis.stride < axis.input;
           });
  }

  void PrepareWindow(const Call& call, const Place& place, int64_t group, std::byte* to) const {
    const ConvPlan& conv = plan_.conv;
    const auto& axes = plan_.axes;
    if (takes_pixels_) {
      const int64_t z = place.z * axes[0].stride, y = place.y * axes[1].stride, x = place.x * axes[2].stride;
      const int64_t pixel = ((place.image * axes[0].input + z) * axes[1].input + y) * axes[2].input + x;
      kernels_.prepare(call.x + pixel * conv.channels + group * conv.group_channels, finish_.flip(),
                       conv.group_channels, to);
      return FillRest(to);
    }
    const int64_t step = conv.group_channels * kernels_.element_bytes;
    const uint8_t* image = call.x + place.image * conv.counts.input * conv.channels + group * conv.group_channels;
    std::byte* at = to;
    for (int64_t kz = 0; kz < axes[0].kernel; ++kz) {
      int64_t at_z = axes[0].Position(place.z, kz);
      for (int64_t ky = 0; ky < axes[1].kernel; ++ky) {
        int64_t at_y = axes[1].Position(place.y, ky);
        bool inside = at_z >= 0 && at_z < axes[0].input && at_y >= 0 && at_y < axes[1].input;
        const uint8_t* line = image + (at_z * axes[1].input + at_y) * axes[2].input * conv.channels;
        for (int64_t kx = 0; kx < axes[2].kernel; ++kx, at += step) {
          int64_t at_x = axes[2].Position(place.x, kx);
          if (inside && at_x >= 0 && at_x < axes[2].input)
            kernels_.prepare(line + at_x * conv.channels, finish_.flip(), conv.group_channels, at);
          else
            kernels_.fill(finish_.ready_zero(), conv.group_channels, at);
        }
      }
    }
    FillRest(to);
  }

  void FillRow(int64_t row, const uint8_t* image, uint8_t* to) const {
    const auto& axes = plan_.axes;
    int64_t channels = plan_.conv.channels, width = padded_[2];
    int64_t z = row / padded_[1] - axes[0].pad_begin, y = row % padded_[1] - axes[1].pad_begin;
    bool inside = z >= 0 && z < axes[0].input && y >= 0 && y < axes[1].input;
    int64_t begin = inside ? std::min(axes[2].pad_begin, width) : width;
    int64_t end = inside ? std::clamp(axes[2].pad_begin + axes[2].input, begin, width) : width;
    // Bytes that stay bytes are made ready here, once for all windows.
    const bool makes_ready = kernels_.element_bytes == 1;
    const uint8_t zero = makes_ready ? finish_.ready_zero() : finish_.raw_zero(),
                  flip = makes_ready ? finish_.flip() : uint8_t{0};
    std::fill_n(to, begin * channels, zero);
    std::fill(to + end * channels, to + width * channels, zero);
    if (begin == end) return;
    int64_t offset = (z * axes[1].input + y) * axes[2].input;
    if (!plan_.channels_first) {
      const uint8_t* from = image + offset * channels;
      uint8_t* out = to + begin * channels;
      if (makes_ready) return kernels_.prepare(from, flip, (end - begin) * channels, out);
      std::memcpy(out, from, static_cast<size_t>((end - begin) * channels));
      return;
    }
    if (channels == 3) return FillColours(image + offset, end - begin, flip, to + begin * channels);
    for (int64_t c = 0; c < channels; ++c) {
      const uint8_t* from = image + c * plan_.conv.counts.input + offset;
      uint8_t* out = to + begin * channels + c;
      for (int64_t x = 0; x < end - begin; ++x) out[x * channels] = from[x] ^ flip;
    }
  }

  // Pixels of four bytes, each written over the last byte of the one before.
  void FillColours(const uint8_t* from, int64_t count, uint8_t flip, uint8_t* to) const {
    constexpr int64_t kAtOnce = 64;
    for (uint8_t pixels[4 * kAtOnce]; count > 0; count -= kAtOnce, from += kAtOnce, to += 3 * kAtOnce) {
      const int64_t some = std::min(count, kAtOnce);
      JoinPlanes(from, plan_.conv.counts.input, 3, some, flip, pixels);
      for (int64_t x = 0; x + 1 < some; ++x) std::memcpy(to + 3 * x, pixels + 4 * x, 4);
      std::memcpy(to + 3 * (some - 1), pixels + 4 * (some - 1), 3);
    }
  }

  void PrepareMerged(const uint8_t* copy, const Int8Block& block, void* ready) const {
    const WindowAxis& across = plan_.axes[2];
    for (int64_t done = 0; done < block.rows;) {
      const int64_t line = (block.row + done) / across.output, x = (block.row + done) % across.output;
      const int64_t count = std::min(across.output - x, block.rows - done);
      const int64_t top = line % plan_.axes[1].output * plan_.axes[1].stride,
                    front = line / plan_.axes[1].output * plan_.axes[0].stride;
      const int64_t first = (front * padded_[1] + top) * padded_[2] + x * across.stride;
      PrepareLine(copy + first * plan_.conv.channels, count, RowAt(ready, done));
      done += count;
    }
  }

  // Windows side by side, the first one at `from`.
  void PrepareLine(const uint8_t* from, int64_t count, std::byte* to) const {
    const auto& axes = plan_.axes;
    const int64_t channels = plan_.conv.channels, run = axes[2].kernel * channels, row_size = padded_[2] * channels;
    const int64_t bytes = kernels_.element_bytes, ready_size = PaddedDepth(plan_.conv.depth()) * bytes;
    // Whole vectors are faster; what is too much is written over by what comes next, or pads the depth.
    const int64_t reach = (run + kInt8Slack - 1) / kInt8Slack * kInt8Slack;
    const int64_t lines = axes[0].kernel * axes[1].kernel, rest = ready_size / bytes - lines * run;
    // Where the lines of the first window begin.
    std::array<int64_t, 16> known;
    std::vector<int64_t> many;
    int64_t* offsets = known.data();
    if (lines > static_cast<int64_t>(known.size())) {
      many.resize(static_cast<size_t>(lines));
      offsets = many.data();
    }
    for (int64_t line = 0; line < lines; ++line)
      offsets[line] =
          (line / axes[1].kernel * axes[0].dilation * padded_[1] + line % axes[1].kernel * axes[1].dilation) * row_size;
    for (; count > 0; --count, from += axes[2].stride * channels, to += ready_size) {
      std::byte* at = to;
      if (bytes > 1) {
        for (int64_t line = 0; line < lines; ++line, at += run * bytes)
          kernels_.prepare(from + offsets[line], finish_.flip(), reach, at);
      } else {
        for (int64_t line = 0; line < lines; ++line, at += run)
          for (int64_t i = 0; i < reach; i += kInt8Slack) std::memcpy(at + i, from + offsets[line] + i, kInt8Slack);
      }
      if (rest > reach - run) kernels_.fill(0, rest, at);
    }
  }

  Int8Weights weights_;
  const Int8Kernels& kernels_ = BestInt8Kernels();
  const bool takes_pixels_ = TakesPixels();
  int64_t padded_[3];  // the part of a padded image that windows read
};

int64_t TapPairs(const ConvPlan& conv) { return (conv.counts.taps + 1) / 2; }

class DepthwiseConv8 final : public Algorithm {
 public:
  std::string_view name() const override { return "depthwise int8"; }
  DepthwiseConv8(const NhwcConvPlan& plan, Int8Finish finish, WeightCache::DeferredTensor weights)
      : Algorithm(plan, std::move(finish)),
        weights_(std::move(weights)),
        pairs_(TapPairs(plan_.conv)),
        zeros_(static_cast<size_t>(plan_.conv.channels), finish_.raw_zero()) {
    const WindowAxis &vertical = plan_.axes[1], &horizontal = plan_.axes[2];
    const int64_t taps = 2 * pairs_, down = vertical.stride * horizontal.input * plan_.conv.channels;
    steps_.resize(static_cast<size_t>(horizontal.output * taps));
    for (int64_t tap = 0; tap < vertical.kernel * horizontal.kernel; ++tap) {
      const OutputRange valid = ValidOutputs(horizontal, tap % horizontal.kernel);
      for (int64_t x = valid.begin; x < valid.end; ++x) steps_[static_cast<size_t>(x * taps + tap)] = down;
    }
  }

  void Run(const Call& call) const override {
    const ConvPlan& conv = plan_.conv;
    int64_t rows = plan_.axes[1].output, width = plan_.axes[2].output;
    int64_t row_work = width * conv.channels * conv.counts.taps;
    int64_t grain = std::max<int64_t>(1, kPieceWork / 16 / std::max<int64_t>(1, row_work));
    const Tensor& weights = weights_.Get();
    const int32_t* offsets = finish_.OffsetsOf(weights);
    // Short rows come several at once: weights are brought into registers for each.
    constexpr int64_t kPixels = 64;
    const int64_t at_once = std::max<int64_t>(1, kPixels / width), taps = 2 * pairs_;
    call.context.ParallelFor(conv.batch * rows, grain, [&](int64_t begin, int64_t end) {
      const uint8_t** pointers = ThreadScratch<const uint8_t*>(ScratchUse::kRowPointers, at_once * width * taps);
      Int8Depthwise line;
      line.taps = pointers;
      line.line = width, line.pairs = pairs_, line.channels = conv.channels;
      line.weights = weights.Data<int16_t>();
      line.slides = plan_.axes[1].kernel == 3 && plan_.axes[2].kernel == 3 && plan_.axes[2].stride == 1 &&
                    plan_.axes[2].dilation == 1;
      line.flip = finish_.flip();
      for (int64_t row = begin; row < end; row += at_once) {
        CheckRun();
        const int64_t count = std::min(at_once, end - row);
        for (int64_t i = 0; i < count; ++i) {
          const int64_t y = (row + i) % rows;
          const uint8_t** to = pointers + i * width * taps;
          if (row + i > begin && IsInside(y) && IsInside(y - 1))
            StepDown(pointers + (i > 0 ? i - 1 : at_once - 1) * width * taps, to);
          else
            PointAtTaps(call.x + (row + i) / rows * conv.counts.input * conv.channels, y, to);
        }
        line.pixels = count * width;
        line.out = finish_.Output(finish_.At(call.y, row * width * conv.channels), conv.channels, 0, offsets);
        BestInt8NhwcKernels().depthwise(line);
      }
    });
  }

 private:
  // Whether all taps of a row lie on rows of the image.
  bool IsInside(int64_t row) const {
    const WindowAxis& vertical = plan_.axes[1];
    return row >= 0 && vertical.Position(row, 0) >= 0 && vertical.Position(row, vertical.kernel - 1) < vertical.input;
  }

  // The taps of the row below one that is inside as well.
  void StepDown(const uint8_t* const* above, const uint8_t** to) const {
    if constexpr (sizeof(void*) == sizeof(int64_t)) {
      using Two = int64_t __attribute__((vector_size(16), aligned(8), may_alias));
      for (size_t i = 0; i < steps_.size(); i += 2)
        *reinterpret_cast<Two*>(to + i) =
            *reinterpret_cast<const Two*>(above + i) + *reinterpret_cast<const Two*>(steps_.data() + i);
    } else {
      for (size_t i = 0; i < steps_.size(); ++i) to[i] = above[i] + steps_[i];
    }
  }

  void PointAtTaps(const uint8_t* image, int64_t row, const uint8_t** pointers) const {
    const WindowAxis &vertical = plan_.axes[1], &horizontal = plan_.axes[2];
    int64_t channels = plan_.conv.channels, stride = 2 * pairs_, width = horizontal.output;
    int64_t all = vertical.kernel * horizontal.kernel, step = horizontal.stride * channels;
    for (int64_t tap = 0; tap < stride; ++tap) {
      int64_t y = tap < all ? vertical.Position(row, tap / horizontal.kernel) : -1, kx = tap % horizontal.kernel;
      OutputRange valid{0, 0};
      if (y >= 0 && y < vertical.input) valid = ValidOutputs(horizontal, kx);
      const uint8_t** to = pointers + tap;
      int64_t x = 0;
      for (; x < std::min(valid.begin, width); ++x) to[x * stride] = zeros_.data();
      if (x < valid.end) {
        const uint8_t* from = image + (y * horizontal.input + horizontal.Position(x, kx)) * channels;
        for (; x < valid.end; ++x, from += step) to[x * stride] = from;
      }
      for (; x < width; ++x) to[x * stride] = zeros_.data();
    }
  }

  WeightCache::DeferredTensor weights_;  // never put off: [2 · pairs, channels] and the sums
  int64_t pairs_;
  std::vector<uint8_t> zeros_;
  std::vector<int64_t> steps_;  // from the taps of a row to those of the next, 0 where there are zeros
};

WeightCache::DeferredTensor DepthwiseTaps(const Tensor& weight, const ConvPlan& conv, WeightCache& cache) {
  int64_t channels = conv.channels, taps = conv.counts.taps, count = 2 * TapPairs(conv) * channels;
  auto turn = [=](Tensor& turned) {
    auto* to = turned.MutableData<int16_t>();
    std::fill_n(to, turned.size(), int16_t{0});
    auto* sums = reinterpret_cast<int32_t*>(to + count);
    const int8_t* from = weight.Data<int8_t>();
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t tap = 0; tap < taps; ++tap, ++from) {
        to[tap * channels + c] = *from;
        sums[c] += *from;
      }
  };
  return cache.GetDeferred(weight, "8-bit taps", DType::kInt16, count + 2 * channels, turn, true);
}

std::unique_ptr<Algorithm> Choose(const CpuKernelRequest& request, const Shape& shape) {
  const Tensor& weight = *request.inputs[1]->constant;
  NhwcConvPlan plan = PlanNhwcConv(request.node, shape, weight.shape());
  const ConvPlan& conv = plan.conv;
  if (conv.counts.output * conv.batch == 0) return nullptr;
  QuantizedStep step = QuantizedStep::Read(request.node);
  DType x_type = request.inputs[0]->type.dtype;
  bool has_bias = request.inputs.size() > 3 && request.inputs[3];
  auto finish_of = [&](Int8Finish::Of maker) {
    return Int8Finish(maker, step, x_type, *request.inputs[2]->constant,
                      has_bias ? &*request.inputs[3]->constant : nullptr, conv.features);
  };
  using enum Int8Finish::Of;
  if (conv.group_channels == 1 && conv.group_features == 1 && !plan.channels_first && plan.axes[0].kernel == 1 &&
      plan.axes[0].input == 1) {
    return std::make_unique<DepthwiseConv8>(plan, finish_of(kImage), DepthwiseTaps(weight, conv, request.weights));
  }
  if (int64_t outputs = QuantizedWinogradOutputs(plan, weight))
    return MakeQuantizedWinograd(plan, weight, outputs, request.weights, finish_of(kImage));
  if (FitsQuantizedRuns(plan)) return MakeQuantizedRuns(plan, weight, request.weights, finish_of(kImage));
  if (plan.channels_first && !MergesTaps(plan)) return nullptr;
  Int8Weights packed = PackInt8Lines(weight, conv.groups, conv.counts.taps, request.weights);
  return std::make_unique<ProductConv>(plan, finish_of(kProduct), std::move(packed));
}

class QuantizedNhwcConv final : public CpuKernel {
 public:
  std::string name() const override { return std::string(algorithm_->name()); }
  QuantizedNhwcConv(Shape shape, std::unique_ptr<Algorithm> algorithm, void (*portable)(OpContext&))
      : shape_(std::move(shape)), algorithm_(std::move(algorithm)), portable_(portable) {}

  void Run(OpContext& context) const override {
    const Tensor& x = context.Input(0);
    if (!(x.shape() == shape_)) return portable_(context);
    Tensor& y = context.Output(0, algorithm_->y_type(), algorithm_->plan().output);
    algorithm_->Run({context, BytesOf(x), y.mutable_raw()});
  }

 private:
  Shape shape_;
  std::unique_ptr<Algorithm> algorithm_;
  void (*portable_)(OpContext&);
};

}  // namespace

std::unique_ptr<CpuKernel> MakeQuantizedConvKernel(const CpuKernelRequest& request) {
  if (request.node.op_type != "QuantizedNhwcConv" || request.node.domain != kInternalDomain) return nullptr;
  if (request.inputs.size() < 3 || !request.inputs[0]) return nullptr;
  for (size_t i = 1; i < request.inputs.size(); ++i)
    if (request.inputs[i] ? !request.inputs[i]->constant : i < 3) return nullptr;
  const Type& type = request.inputs[0]->type;
  const Tensor& weight = *request.inputs[1]->constant;
  std::optional<Shape> shape = type.shape ? ToConcrete(*type.shape) : std::nullopt;
  if (!shape || !IsByte(type.dtype) || weight.dtype() != DType::kInt8 || weight.size() == 0) return nullptr;
  try {
    auto algorithm = Choose(request, *shape);
    if (!algorithm) return nullptr;
    return std::make_unique<QuantizedNhwcConv>(*shape, std::move(algorithm), request.op.compute);
  } catch (const Error&) {
    return nullptr;  // told again when the node runs, where more is known
  }
}

}  // namespace ferry
