// Products with a constant matrix: packed once, shared by all shapes, rows cut among threads. The first of them packs
// what it needs on the way and forgets it.
#include <algorithm>

#include "engine/cpu/cuts.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/scratch.h"
#include "engine/weight_cache.h"
#include "kernels/bf16_gemm.h"
#include "kernels/packed_gemm.h"
#include "ops/support/fused.h"

namespace ferry {
namespace {

// [depth, columns], or the other way round.
struct Matrix {
  Matrix(Tensor weight, bool transposed)
      : weight(std::move(weight)),
        depth(this->weight.dim(transposed ? 1 : 0)),
        columns(this->weight.dim(transposed ? 0 : 1)),
        row_stride(transposed ? 1 : columns),
        column_stride(transposed ? depth : 1),
        form(transposed ? "panels of transpose" : "panels") {}

  void Pack(int64_t first, int64_t count, float* panels) const {
    PackMatrix(weight.Data<float>() + first * column_stride, depth, count, row_stride, column_stride, panels);
  }

  Tensor weight;
  int64_t depth, columns, row_stride, column_stride;
  std::string form;
};

class PackedMatMul final : public Kernel {
 public:
  PackedMatMul(WeightCache::Later packed, Matrix matrix, Activation activation, bool bf16)
      : packed_(std::move(packed)),
        matrix_(std::move(matrix)),
        depth_(matrix_.depth),
        columns_(matrix_.columns),
        activation_(activation),
        bf16_(bf16) {}

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
    Tensor& c = context.Output(0, DType::kFloat, shape);
    Multiply(context, a.Data<float>(), rows, c.MutableData<float>(), epilogue);
  }

 private:
  void Multiply(OpContext& context, const float* a, int64_t rows, float* c, const GemmEpilogue& epilogue) const {
    const Tensor* packed = packed_.Find();
    const int64_t best_rows = bf16_ ? BestBf16Kernels().best_rows : BestGemmKernels().best_rows;
    // Few rows: cut the columns, so that each thread reads its own part of the weights. Many rows: cut those.
    int64_t panels = (columns_ + kPanelWidth - 1) / kPanelWidth;
    int64_t row_tiles = (rows + best_rows - 1) / best_rows;
    // No two threads should pack the same columns, nor one thread twice.
    const int64_t threads = context.services().pool ? context.services().pool->threads() : 1;
    if (panels >= row_tiles || (!packed && panels >= threads)) {
      int64_t grain = std::max(PanelsOfPiece(rows, depth_), LeastOfPiece(context, panels));
      if (!packed) grain = std::max(grain, std::min(panels / threads, PanelsOnTheWay(depth_)));
      context.ParallelFor(panels, grain, [&](int64_t first, int64_t last) {
        int64_t column = first * kPanelWidth, count = std::min(columns_, last * kPanelWidth) - column;
        MultiplyPart(packed, a, rows, column, count, c, epilogue);
      });
    } else {
      int64_t grain =
          std::max<int64_t>({1, kPieceWork / WorkOf(best_rows, depth_, columns_), LeastOfPiece(context, row_tiles)});
      if (!packed) grain = std::max(grain, row_tiles / threads);
      context.ParallelFor(row_tiles, grain, [&](int64_t first, int64_t last) {
        int64_t row = first * best_rows, count = std::min(rows, last * best_rows) - row;
        GemmEpilogue part = epilogue;
        if (part.residual) part.residual += row * columns_;
        MultiplyPart(packed, a + row * depth_, count, 0, columns_, c + row * columns_, part);
      });
    }
  }

  // `count` columns from `first` on, which begins a panel.
  void MultiplyPart(const Tensor* packed, const float* a, int64_t rows, int64_t first, int64_t count, float* c,
                    const GemmEpilogue& epilogue) const {
    if (!packed) return MultiplyOnTheWay(a, rows, first, count, c, epilogue);
    const GemmEpilogue part = At(first, epilogue);
    if (!bf16_)
      return BestGemmKernels().plain(a, depth_, rows, depth_, packed->Data<float>() + depth_ * first, count, c + first,
                                     columns_, part);
    const uint16_t* panels = &packed->Data<BFloat16>()->bits + PackedBf16Size(depth_, first);
    BestBf16Kernels().plain(a, depth_, rows, depth_, panels, count, c + first, columns_, part,
                            ThreadScratch<std::byte>(ScratchUse::kBf16Rows, kBf16Scratch));
  }

  void MultiplyOnTheWay(const float* a, int64_t rows, int64_t first, int64_t count, float* c,
                        const GemmEpilogue& epilogue) const {
    const int64_t width = PanelsOnTheWay(depth_) * kPanelWidth;
    float* panels = ThreadScratch<float>(ScratchUse::kPanels, PackedSize(depth_, std::min(count, width)));
    for (const int64_t end = first + count; first < end; first += width) {
      count = std::min(width, end - first);
      matrix_.Pack(first, count, panels);
      BestGemmKernels().plain(a, depth_, rows, depth_, panels, count, c + first, columns_, At(first, epilogue));
    }
  }

  static GemmEpilogue At(int64_t column, GemmEpilogue epilogue) {
    if (epilogue.bias) epilogue.bias += column;
    if (epilogue.residual) epilogue.residual += column;
    return epilogue;
  }

  WeightCache::Later packed_;
  Matrix matrix_;
  int64_t depth_, columns_;
  Activation activation_;
  bool bf16_;
};

WeightCache::Later PackedWeight(const KernelRequest& request, const Matrix& matrix) {
  if (request.policy.precision == Precision::kBf16)
    return request.weights.GetLater(
        matrix.weight, matrix.form + " of bf16", DType::kBFloat16, PackedBf16Size(matrix.depth, matrix.columns),
        [=](Tensor& made) {
          PackBf16Matrix(matrix.weight.Data<float>(), matrix.depth, matrix.columns, matrix.row_stride,
                         matrix.column_stride, &made.MutableData<BFloat16>()->bits);
        },
        true);
  return request.weights.GetLater(matrix.weight, matrix.form, DType::kFloat, PackedSize(matrix.depth, matrix.columns),
                                  [=](Tensor& made) { matrix.Pack(0, matrix.columns, made.MutableData<float>()); });
}

}  // namespace

std::unique_ptr<Kernel> MakeMatMulKernel(const KernelRequest& request) {
  bool fused = request.node.op_type == "FusedMatMul" && request.node.domain == kInternalDomain;
  bool plain = request.node.op_type == "MatMul" && CanonicalDomain(request.node.domain).empty();
  if ((!fused && !plain) || request.inputs.size() < 2 || !request.inputs[0] || !request.inputs[1]) return nullptr;
  const std::optional<Tensor>& weight = request.inputs[1]->constant;
  if (!weight || weight->rank() != 2 || weight->dtype() != DType::kFloat || weight->size() == 0) return nullptr;
  if (request.inputs[0]->type.dtype != DType::kFloat || !request.inputs[0]->type.shape ||
      request.inputs[0]->type.shape->empty())
    return nullptr;
  bool transposed = fused && request.node.Int("transB", 0) != 0;
  Matrix matrix(*weight, transposed);
  WeightCache::Later packed = PackedWeight(request, matrix);
  return std::make_unique<PackedMatMul>(std::move(packed), std::move(matrix),
                                        fused ? ActivationOf(request.node) : Activation{},
                                        request.policy.precision == Precision::kBf16);
}

}  // namespace ferry
