// Products with a constant matrix: packed once, shared by all shapes, rows cut among threads.
#include <algorithm>

#include "engine/cpu/cuts.h"
#include "engine/cpu/kernels.h"
#include "engine/weight_cache.h"
#include "kernels/packed_gemm.h"
#include "ops/support/fused.h"

namespace ferry {
namespace {

class PackedMatMul final : public Kernel {
 public:
  PackedMatMul(std::shared_ptr<const Tensor> packed, int64_t depth, int64_t columns, Activation activation)
      : packed_(std::move(packed)), depth_(depth), columns_(columns), activation_(activation) {}

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
    const GemmKernels& kernels = BestGemmKernels();
    const float* packed = packed_->Data<float>();
    // Few rows: cut the columns, so that each thread reads its own part of the weights. Many rows: cut those.
    int64_t panels = (columns_ + kPanelWidth - 1) / kPanelWidth;
    int64_t row_tiles = (rows + kernels.best_rows - 1) / kernels.best_rows;
    if (panels >= row_tiles) {
      context.ParallelFor(panels, PanelsOfPiece(rows, depth_), [&](int64_t first, int64_t last) {
        int64_t column = first * kPanelWidth, count = std::min(columns_, last * kPanelWidth) - column;
        GemmEpilogue part = epilogue;
        if (part.bias) part.bias += column;
        if (part.residual) part.residual += column;
        kernels.plain(a, depth_, rows, depth_, packed + depth_ * column, count, c + column, columns_, part);
      });
    } else {
      int64_t grain = std::max<int64_t>(1, kPieceWork / WorkOf(kernels.best_rows, depth_, columns_));
      context.ParallelFor(row_tiles, grain, [&](int64_t first, int64_t last) {
        int64_t row = first * kernels.best_rows, count = std::min(rows, last * kernels.best_rows) - row;
        GemmEpilogue part = epilogue;
        if (part.residual) part.residual += row * columns_;
        kernels.plain(a + row * depth_, depth_, count, depth_, packed, columns_, c + row * columns_, columns_, part);
      });
    }
  }

  std::shared_ptr<const Tensor> packed_;
  int64_t depth_, columns_;
  Activation activation_;
};

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
  auto pack = [from = *weight, depth, columns, transposed](Tensor& made) {
    PackMatrix(from.Data<float>(), depth, columns, transposed ? 1 : columns, transposed ? depth : 1,
               made.MutableData<float>());
  };
  auto packed = request.weights.GetTensor(*weight, transposed ? "panels of transpose" : "panels", DType::kFloat,
                                          PackedSize(depth, columns), pack);
  return std::make_unique<PackedMatMul>(std::move(packed), depth, columns,
                                        fused ? ActivationOf(request.node) : Activation{});
}

}  // namespace ferry
