// A times a matrix of 2, 4 or 8 bits in blocks along its depth. accuracy_level is a hint of what may be lost; nothing
// is lost here.
#include "ops/operator.h"
#include "ops/support/bit_matrix.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

int64_t SizeAttribute(const Node& node, const char* name) {
  int64_t size = node.Int(name, 0);
  Require(size > 0 && size < (int64_t{1} << 31), "attribute '", name, "' must be positive, is ", size);
  return size;
}

void ReadZeroPoints(const Tensor& zeros, BitMatrix& matrix, Tensor& held) {
  if (zeros.dtype() == DType::kUInt8) {
    matrix.zero_row_bytes = (matrix.blocks * matrix.bits + 7) / 8;
    Require(zeros.size() == matrix.rows * matrix.zero_row_bytes, "zero_points must have ",
            matrix.rows * matrix.zero_row_bytes, " bytes, has shape ", zeros.shape());
    matrix.zeros = zeros.Data<uint8_t>();
  } else {
    Require(zeros.size() == matrix.rows * matrix.blocks, "zero_points must have ", matrix.rows * matrix.blocks,
            " numbers, has shape ", zeros.shape());
    held = WidenToFloat(zeros);
    matrix.float_zeros = held.Data<float>();
  }
}

void ComputeMatMulNBits(OpContext& context) {
  const Node& node = context.node();
  const Tensor &a = context.Input(0), &b = context.Input(1), &scales = context.Input(2);
  BitMatrix matrix;
  matrix.rows = SizeAttribute(node, "N");
  matrix.depth = SizeAttribute(node, "K");
  matrix.bits = node.Int("bits", 4);
  matrix.block = node.Int("block_size", 0);
  RequireBits(matrix.bits);
  RequireBlockSize(matrix.block);
  Require(node.Int("weight_prepacked", 0) == 0, "weights packed for a CUDA device cannot be read here");
  matrix.blocks = (matrix.depth + matrix.block - 1) / matrix.block;
  matrix.row_bytes = matrix.blocks * matrix.block * matrix.bits / 8;
  Require(a.rank() >= 1 && a.shape().back() == matrix.depth, "A ", a.shape(), " must have K = ", matrix.depth,
          " columns");
  Require(b.dtype() == DType::kUInt8 && b.size() == CheckedProduct(matrix.rows, matrix.row_bytes), "B must have ",
          matrix.rows, " · ", matrix.row_bytes, " bytes for N = ", matrix.rows, ", K = ", matrix.depth, ", ",
          matrix.bits, " bits and blocks of ", matrix.block, ", has shape ", b.shape());
  Require(scales.size() == matrix.rows * matrix.blocks, "scales must have ", matrix.rows, " · ", matrix.blocks,
          " numbers, has shape ", scales.shape());
  matrix.data = b.Data<uint8_t>();
  Tensor wide_scales = WidenToFloat(scales), wide_zeros, wide_bias, wide_a = WidenToFloat(a);
  Require(wide_a.dtype() == DType::kFloat && wide_scales.dtype() == DType::kFloat, "double is not supported");
  matrix.scales = wide_scales.Data<float>();
  if (const Tensor* zeros = context.OptionalInput(3)) ReadZeroPoints(*zeros, matrix, wide_zeros);
  if (const Tensor* groups = context.OptionalInput(4)) {
    matrix.groups = ToInt64Vector(*groups);
    Require(static_cast<int64_t>(matrix.groups.size()) >= matrix.depth, "g_idx must have ", matrix.depth,
            " numbers, has shape ", groups->shape());
    for (int64_t at : matrix.groups)
      Require(at >= 0 && at < matrix.blocks, "g_idx has block ", at, ", there are ", matrix.blocks);
  }
  if (const Tensor* bias = context.OptionalInput(5)) {
    Require(bias->size() == matrix.rows, "bias must have ", matrix.rows, " numbers, has shape ", bias->shape());
    wide_bias = WidenToFloat(*bias);
  }
  Shape shape = a.shape();
  shape.back() = matrix.rows;
  Tensor& y = context.Output(0, a.dtype(), shape);
  Tensor wide_y = a.dtype() == DType::kFloat ? y : Tensor(DType::kFloat, shape);
  MultiplyByRows(context, wide_a.Data<float>(), a.size() / matrix.depth, matrix,
                 wide_bias.defined() ? wide_bias.Data<float>() : nullptr, wide_y.MutableData<float>());
  NarrowInto(wide_y, y);
}

void InferMatMulNBits(InferContext& context) {
  DType type = context.InputDType(0);
  const SymbolicShape* a = context.InputShape(0);
  if (!a || a->empty()) return context.SetOutput(0, type);
  SymbolicShape shape = *a;
  shape.back() = Dim(SizeAttribute(context.node(), "N"));
  context.SetOutput(0, type, std::move(shape));
}

}  // namespace

FERRY_OPERATOR_IN(microsoft, MatMulNBits, {.compute = ComputeMatMulNBits, .infer = InferMatMulNBits});

}  // namespace ferry
