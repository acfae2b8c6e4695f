// Products with a constant matrix: packed once, shared by all shapes, rows cut among threads.
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

class PackedMatMul final : public Kernel {
 public:
  PackedMatMul(std::shared_ptr<const Tensor> packed, int64_t depth, int64_t columns, Activation activation, bool bf16)
      : packed_(std::move(packed)), depth_(depth), columns_(columns), activation_(activation), bf16_(bf16) {}

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
    const int64_t best_rows = bf16_ ? BestBf16Kernels().best_rows : BestGemmKernels().best_rows;
    // Few rows: cut the columns, so that each thread reads its own part of the weights. Many rows: cut those.
    int64_t panels = (columns_ + kPanelWidth - 1) / kPanelWidth;
    int64_t row_tiles = (rows + best_rows - 1) / best_rows;
    if (panels >= row_tiles) {
      int64_t grain = std::max(PanelsOfPiece(rows, depth_), LeastOfPiece(context, panels));
      context.ParallelFor(panels, grain, [&](int64_t first, int64_t last) {
        int64_t column = first * kPanelWidth, count = std::min(columns_, last * kPanelWidth) - column;
        GemmEpilogue part = epilogue;
        if (part.bias) part.bias += column;
        if (part.residual) part.residual += column;
        MultiplyPart(a, rows, column, count, c + column, part);
      });
    } else {
      int64_t grain =
          std::max<int64_t>({1, kPieceWork / WorkOf(best_rows, depth_, columns_), LeastOfPiece(context, row_tiles)});
      context.ParallelFor(row_tiles, grain, [&](int64_t first, int64_t last) {
        int64_t row = first * best_rows, count = std::min(rows, last * best_rows) - row;
        GemmEpilogue part = epilogue;
        if (part.residual) part.residual += row * columns_;
        MultiplyPart(a + row * depth_, count, 0, columns_, c + row * columns_, part);
      });
    }
  }

  // `count` columns from `first` on, which begins a panel.
  void MultiplyPart(const float* a, int64_t rows, int64_t first, int64_t count, float* c,
                    const GemmEpilogue& epilogue) const {
    if (!bf16_)
      return BestGemmKernels().plain(a, depth_, rows, depth_, packed_->Data<float>() + depth_ * first, count, c,
                                     columns_, epilogue);
    const uint16_t* packed = &packed_->Data<BFloat16>()->bits + PackedBf16Size(depth_, first);
    BestBf16Kernels().plain(a, depth_, rows, depth_, packed, count, c, columns_, epilogue,
                            ThreadScratch<std::byte>(ScratchUse::kBf16Rows, kBf16Scratch));
  }

  std::shared_ptr<const Tensor> packed_;
  int64_t depth_, columns_;
  Activation activation_;
  bool bf16_;
};

std::shared_ptr<const Tensor> PackedWeight(const KernelRequest& request, const Tensor& weight, bool transposed) {
  int64_t depth = weight.dim(transposed ? 1 : 0), columns = weight.dim(transposed ? 0 : 1);
  int64_t row_stride = transposed ? 1 : columns, column_stride = transposed ? depth : 1;
  std::string form = transposed ? "panels of transpose" : "panels";
  if (request.policy.precision == Precision::kBf16)
    return request.weights.GetTensor(weight, form + " of bf16", DType::kBFloat16, PackedBf16Size(depth, columns),
                                     [=](Tensor& made) {
                                       PackBf16Matrix(weight.Data<float>(), depth, columns, row_stride, column_stride,
                                                      &made.MutableData<BFloat16>()->bits);
                                     });
  return request.weights.GetTensor(weight, form, DType::kFloat, PackedSize(depth, columns), [=](Tensor& made) {
    PackMatrix(weight.Data<float>(), depth, columns, row_stride, column_stride, made.MutableData<float>());
  });
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
  int64_t depth = weight->dim(transposed ? 1 : 0), columns = weight->dim(transposed ? 0 : 1);
  return std::make_unique<PackedMatMul>(PackedWeight(request, *weight, transposed), depth, columns,
                                        fused ? ActivationOf(request.node) : Activation{},
                                        request.policy.precision == Precision::kBf16);
}

}  // namespace ferry
