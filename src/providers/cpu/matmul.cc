// Products with a constant matrix: packed once, shared by all shapes, rows cut among threads. The first of them packs
// what it needs on the way and forgets it.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/check_run.h"
#include "base/mapped_file.h"
#include "base/memory_files.h"
#include "engine/weight_cache.h"
#include "kernels/bf16_gemm.h"
#include "kernels/packed_gemm.h"
#include "kernels/panels_in_place.h"
#include "ops/support/fused.h"
#include "ops/support/scale_rows.h"
#include "ops/support/widen.h"
#include "providers/cpu/cuts.h"
#include "providers/cpu/kernels.h"
#include "providers/cpu/scratch.h"

namespace ferry {
namespace {

// [depth, columns], or the other way round; of floats, or of halves that are read as floats.
struct Matrix {
  Matrix(Tensor weight, bool transposed)
      : weight(std::move(weight)),
        depth(this->weight.dim(transposed ? 1 : 0)),
        columns(this->weight.dim(transposed ? 0 : 1)),
        row_stride(transposed ? 1 : columns),
        column_stride(transposed ? depth : 1),
        form(transposed ? "panels of transpose" : "panels") {}

  int64_t element_bytes() const { return has_floats() ? 4 : 2; }
  bool has_floats() const { return weight.dtype() == DType::kFloat; }

  void Pack(int64_t first, int64_t count, float* panels) const {
    if (!has_floats()) return PackHalves(first, count, panels);
    PackMatrix(weight.Data<float>() + first * column_stride, depth, count, row_stride, column_stride, panels);
  }

  void PackHalves(int64_t first, int64_t count, float* panels) const {
    constexpr int64_t kAtOnce = 2 * kPanelWidth;  // as many as a cache line has
    float* wide = ThreadScratch<float>(ScratchUse::kWidenedWeights, depth * kAtOnce);
    const bool along = row_stride == 1;
    for (int64_t done = 0; done < count; done += kAtOnce) {
      const int64_t part = std::min(kAtOnce, count - done), runs = along ? part : depth, length = along ? depth : part;
      const uint16_t* from = reinterpret_cast<const uint16_t*>(weight.raw()) + (first + done) * column_stride;
      for (int64_t run = 0; run < runs; ++run, from += along ? column_stride : row_stride)
        WidenRun(DType::kFloat16, from, wide + run * length, length);
      PackMatrix(wide, depth, part, along ? 1 : part, along ? depth : 1, panels + PackedSize(depth, done));
    }
  }

  // Asks for rows [begin, end) of some columns, which will be packed soon.
  void Fetch(int64_t begin, int64_t end, int64_t first, int64_t count) const {
    constexpr int64_t kLine = 64;
    if (column_stride != 1) return;  // these lie in long runs, which the processor follows by itself
    const std::byte* from = weight.raw() + (begin * row_stride + first) * element_bytes();
    for (int64_t k = begin; k < end; ++k, from += row_stride * element_bytes())
      for (int64_t n = 0; n < count * element_bytes(); n += kLine) __builtin_prefetch(from + n, 0, 2);
  }

  // Where columns lie one after the other in a file, its pages are given back after each few of them: the largest
  // matrix of a language model is not in memory twice, however long another thread keeps this one waiting.
  void PackAll(float* panels) const {
    constexpr int64_t kPieceBytes = 4 << 20;
    const int64_t column_bytes = depth * element_bytes(), unit = kPanelWidth;
    const int64_t width = row_stride == 1 ? std::max(unit, kPieceBytes / column_bytes / unit * unit) : columns;
    for (int64_t first = 0; first < columns; first += width) {
      const int64_t count = std::min(width, columns - first);
      Pack(first, count, panels + PackedSize(depth, first));
      if (count < columns) DropPages(weight.raw() + first * column_bytes, static_cast<size_t>(count * column_bytes));
    }
  }

  WeightCache::InPlace InPlace() const {
    const int64_t deep = depth, wide = columns;
    if (wide % kPanelWidth != 0 || !has_floats()) return {};
    if (row_stride == 1)
      return {[=](float* weights) { LinesIntoPanels(weights, wide, deep, 1); },
              [=](float* weights) { PanelsIntoLines(weights, wide, deep, 1); }};
    return {[=](float* weights) { RowsIntoPanels(weights, deep, wide); },
            [=](float* weights) { PanelsIntoRows(weights, deep, wide); }};
  }

  Tensor weight;
  int64_t depth, columns, row_stride, column_stride;
  std::string form;
};

class PackedMatMul final : public CpuKernel {
 public:
  using Packed = WeightCache::DeferredTensor;
  // `rest`: the columns behind the last whole panel, where those lie by themselves.
  PackedMatMul(Packed packed, std::optional<Packed> rest, Matrix matrix, Activation activation, bool bf16)
      : packed_(std::move(packed)),
        rest_(std::move(rest)),
        matrix_(std::move(matrix)),
        depth_(matrix_.depth),
        columns_(matrix_.columns),
        activation_(activation),
        bf16_(bf16) {}

  std::string name() const override { return bf16_ ? "packed gemm bf16" : "packed gemm"; }

  bool Packs(size_t input) const override { return input == 1; }

  void Run(OpContext& context) const override {
    const Tensor& a = context.Input(0);
    Require(a.rank() >= 1 && a.shape().back() == depth_, "inner sizes differ: ", a.shape(), " × [", depth_, ", ",
            columns_, "]");
    Shape shape = a.shape();
    shape.back() = columns_;
    int64_t rows = a.shape().CountBetween(0, a.rank() - 1);
    GemmEpilogue epilogue;
    if (const Tensor* bias = context.OptionalInput(2)) epilogue.bias = bias->Data<float>();
    const Tensor* residual = context.OptionalInput(3);
    if (residual) {
      Require(residual->size() == rows * columns_ && residual->dtype() == DType::kFloat, "residual of shape ",
              residual->shape(), " does not fit result ", shape);
      epilogue.residual = residual->Data<float>();
      epilogue.residual_stride = columns_;
    }
    epilogue.activation = activation_;
    const Tensor* scale = context.OptionalInput(4);
    Tensor& c = context.Output(0, DType::kFloat, shape);
    Finish finish{epilogue, scale ? scale->Data<float>() : nullptr};
    Multiply(context, a.Data<float>(), rows, c.MutableData<float>(), finish);
  }

 private:
  // What is done to sums: with a scale, the residual is added after it.
  struct Finish {
    GemmEpilogue epilogue;
    const float* scale;  // of columns, may be null

    Finish At(int64_t row, int64_t column, int64_t stride) const {
      Finish part = *this;
      if (part.epilogue.bias) part.epilogue.bias += column;
      if (part.epilogue.residual) part.epilogue.residual += row * stride + column;
      if (part.scale) part.scale += column;
      return part;
    }
  };

  void Multiply(OpContext& context, const float* a, int64_t rows, float* c, const Finish& finish) const {
    const Tensor* packed = packed_.Find();
    const int64_t best_rows = bf16_ ? BestBf16Kernels().best_rows : BestGemmKernels().best_rows;
    // Few rows: cut the columns, so that each thread reads its own part of the weights. Many rows: cut those.
    int64_t panels = (columns_ + kPanelWidth - 1) / kPanelWidth;
    int64_t row_tiles = (rows + best_rows - 1) / best_rows;
    // No two threads should pack the same columns, nor one thread twice.
    const int64_t threads = ThreadsOf(context);
    if (panels >= row_tiles || (!packed && panels >= threads)) {
      int64_t grain = std::max(PanelsOfPiece(rows, depth_), LeastOfPiece(context, panels));
      if (!packed) grain = std::max(grain, std::min(panels / threads, PanelsOnTheWay(depth_)));
      ForColumns(context, columns_, grain, [&](int64_t column, int64_t count) {
        MultiplyPart(packed, a, rows, column, count, c + column, finish.At(0, column, columns_));
      });
    } else {
      int64_t grain =
          std::max<int64_t>({1, kPieceWork / WorkOf(best_rows, depth_, columns_), LeastOfPiece(context, row_tiles)});
      if (!packed) grain = std::max(grain, row_tiles / threads);
      context.ParallelFor(row_tiles, grain, [&](int64_t first, int64_t last) {
        int64_t row = first * best_rows, count = std::min(rows, last * best_rows) - row;
        MultiplyPart(packed, a + row * depth_, count, 0, columns_, c + row * columns_, finish.At(row, 0, columns_));
      });
    }
  }

  // `count` columns from `first` on, which begins a panel; c and what finishes it begin there too.
  void MultiplyPart(const Tensor* packed, const float* a, int64_t rows, int64_t first, int64_t count, float* c,
                    const Finish& finish) const {
    if (!finish.scale) return MultiplyRows(packed, a, rows, first, count, c, finish.epilogue);
    constexpr int64_t kRowsInCache = 240;  // whole tiles of nearly every kernel
    const int64_t block = packed ? kRowsInCache : rows;
    for (int64_t row = 0; row < rows; row += block) {
      const int64_t height = std::min(block, rows - row);
      GemmEpilogue sums = finish.epilogue;
      const float* residual = std::exchange(sums.residual, nullptr);
      MultiplyRows(packed, a + row * depth_, height, first, count, c + row * columns_, sums);
      ScaleRows(finish.scale, residual ? residual + row * columns_ : nullptr, height, count, columns_,
                c + row * columns_);
    }
  }

  void MultiplyRows(const Tensor* packed, const float* a, int64_t rows, int64_t first, int64_t count, float* c,
                    const GemmEpilogue& epilogue) const {
    if (!packed) return MultiplyOnTheWay(a, rows, first, count, c, epilogue);
    if (!bf16_) return MultiplyPanels(*packed, a, rows, first, count, c, epilogue);
    const uint16_t* panels = &packed->Data<BFloat16>()->bits + PackedBf16Size(depth_, first);
    BestBf16Kernels().plain(a, depth_, rows, depth_, panels, count, c, columns_, epilogue,
                            ThreadScratch<std::byte>(ScratchUse::kBf16Rows, kBf16Scratch));
  }

  void MultiplyPanels(const Tensor& packed, const float* a, int64_t rows, int64_t first, int64_t count, float* c,
                      const GemmEpilogue& epilogue) const {
    const int64_t whole = rest_ ? columns_ / kPanelWidth * kPanelWidth : columns_;
    const int64_t in_whole = std::clamp<int64_t>(whole - first, 0, count);
    if (in_whole > 0)
      BestGemmKernels().plain(a, depth_, rows, depth_, packed.Data<float>() + depth_ * first, in_whole, c, columns_,
                              epilogue);
    if (in_whole == count) return;
    BestGemmKernels().plain(a, depth_, rows, depth_, rest_->Get().Data<float>(), count - in_whole, c + in_whole,
                            columns_, Finish{epilogue, nullptr}.At(0, in_whole, columns_).epilogue);
  }

  void MultiplyOnTheWay(const float* a, int64_t rows, int64_t first, int64_t count, float* c,
                        const GemmEpilogue& epilogue) const {
    const int64_t width = PanelsOnTheWay(depth_) * kPanelWidth;
    float* panels = ThreadScratch<float>(ScratchUse::kPanels, PackedSize(depth_, std::min(count, width)));
    for (int64_t done = 0; done < count; done += width) {
      const int64_t part = std::min(width, count - done);
      CheckRun();
      matrix_.Pack(first + done, part, panels);
      // What comes next, often in this thread's next piece, is fetched meanwhile, a little with every tile: multiplying
      // leaves the memory idle.
      const int64_t after = first + done + part, next = std::min(width, columns_ - after);
      const int64_t best_rows = BestGemmKernels().best_rows;
      const int64_t tiles = next > 0 ? (rows + best_rows - 1) / best_rows : 1;
      for (int64_t tile = 0; tile < tiles; ++tile) {
        const int64_t row = rows * tile / tiles, height = rows * (tile + 1) / tiles - row;
        if (tile > 0) CheckRun();
        matrix_.Fetch(depth_ * tile / tiles, depth_ * (tile + 1) / tiles, after, next);
        BestGemmKernels().plain(a + row * depth_, depth_, height, depth_, panels, part, c + row * columns_ + done,
                                columns_, Finish{epilogue, nullptr}.At(row, done, columns_).epilogue);
      }
    }
  }

  Packed packed_;
  std::optional<Packed> rest_;
  Matrix matrix_;
  int64_t depth_, columns_;
  Activation activation_;
  bool bf16_;
};

WeightCache::DeferredTensor PackedWeight(const CpuKernelRequest& request, const Matrix& matrix) {
  if (request.policy.precision == Precision::kBf16)
    return request.weights.GetDeferred(
        matrix.weight, matrix.form + " of bf16", DType::kBFloat16, PackedBf16Size(matrix.depth, matrix.columns),
        [=](Tensor& made) {
          PackBf16Matrix(WidenToFloat(matrix.weight).Data<float>(), matrix.depth, matrix.columns, matrix.row_stride,
                         matrix.column_stride, &made.MutableData<BFloat16>()->bits);
        },
        true);
  return request.weights.GetDeferred(
      matrix.weight, matrix.form, DType::kFloat, PackedSize(matrix.depth, matrix.columns),
      [=](Tensor& made) { matrix.PackAll(made.MutableData<float>()); }, false, matrix.InPlace());
}

// Columns of a matrix whose columns lie one after the other.
Matrix ColumnsOf(const Matrix& matrix, int64_t first, int64_t count) {
  const float* begin = matrix.weight.Data<float>() + first * matrix.depth;
  auto keep = std::make_shared<Tensor>(matrix.weight);
  return {Tensor::Borrow(DType::kFloat, {count, matrix.depth}, begin, std::move(keep)), true};
}

// Whether packed columns may take the place of these, so that those of the last panel are to be packed by themselves:
// that one takes more room than they have.
bool SplitsLastPanel(const Matrix& matrix) {
  return matrix.row_stride == 1 && matrix.columns > kPanelWidth && matrix.columns % kPanelWidth != 0 &&
         matrix.has_floats() && IsInOwnMemoryFile(matrix.weight.raw(), matrix.weight.bytes());
}

}  // namespace

std::unique_ptr<CpuKernel> MakeMatMulKernel(const CpuKernelRequest& request) {
  bool fused = request.node.op_type == "FusedMatMul" && request.node.domain == kInternalDomain;
  bool plain = request.node.op_type == "MatMul" && CanonicalDomain(request.node.domain).empty();
  if ((!fused && !plain) || request.inputs.size() < 2 || !request.inputs[0] || !request.inputs[1]) return nullptr;
  const std::optional<Tensor>& weight = request.inputs[1]->constant;
  if (!weight || weight->rank() != 2 || weight->size() == 0) return nullptr;
  if (weight->dtype() != DType::kFloat && weight->dtype() != DType::kFloat16) return nullptr;
  if (request.inputs[0]->type.dtype != DType::kFloat || !request.inputs[0]->type.shape ||
      request.inputs[0]->type.shape->empty())
    return nullptr;
  bool transposed = fused && request.node.Int("transB", 0) != 0;
  Matrix matrix(*weight, transposed);
  const Activation activation = fused ? ActivationOf(request.node) : Activation{};
  const bool bf16 = request.policy.precision == Precision::kBf16;
  const bool splits = !bf16 && SplitsLastPanel(matrix);
  const int64_t whole = splits ? matrix.columns / kPanelWidth * kPanelWidth : matrix.columns;
  WeightCache::DeferredTensor packed = PackedWeight(request, splits ? ColumnsOf(matrix, 0, whole) : matrix);
  std::optional<WeightCache::DeferredTensor> rest;
  if (splits) rest = PackedWeight(request, ColumnsOf(matrix, whole, matrix.columns - whole));
  return std::make_unique<PackedMatMul>(std::move(packed), std::move(rest), std::move(matrix), activation, bf16);
}

}  // namespace ferry
