// A times a matrix of 4-bit codes of bitsandbytes: positions in a table of 16 numbers (FP4 or NF4), times the largest
// number of their block. The high half of a byte comes first; blocks go on across rows.
#include "ops/operator.h"
#include "ops/support/bit_matrix.h"

namespace ferry {
namespace {

constexpr float kFp4[16] = {0.0f,  5.208333333e-03f,  0.66666667f,  1.0f,  0.33333333f,  0.5f,  0.16666667f,  0.25f,
                            -0.0f, -5.208333333e-03f, -0.66666667f, -1.0f, -0.33333333f, -0.5f, -0.16666667f, -0.25f};
constexpr float kNf4[16] = {-1.0f,
                            -0.6961928009986877f,
                            -0.5250730514526367f,
                            -0.39491748809814453f,
                            -0.28444138169288635f,
                            -0.18477343022823334f,
                            -0.09105003625154495f,
                            0.0f,
                            0.07958029955625534f,
                            0.16093020141124725f,
                            0.24611230194568634f,
                            0.33791524171829224f,
                            0.44070982933044434f,
                            0.5626170039176941f,
                            0.7229568362236023f,
                            1.0f};

void ComputeMatMulBnb4(OpContext& context) {
  const Node& node = context.node();
  const Tensor &a = context.Input(0), &b = context.Input(1), &largest = context.Input(2);
  int64_t rows = node.Int("N", 0), depth = node.Int("K", 0), block = node.Int("block_size", 0);
  int64_t kind = node.Int("quant_type", -1);
  constexpr int64_t kMost = int64_t{1} << 31;
  Require(rows > 0 && depth > 0 && rows < kMost && depth < kMost, "N and K must be positive, are ", rows, " and ",
          depth);
  RequireBlockSize(block);
  Require(kind == 0 || kind == 1, "quant_type must be 0 (FP4) or 1 (NF4), is ", kind);
  Require(node.Int("transB", 1) == 1, "only transB 1 is supported");
  int64_t count = CheckedProduct(rows, depth);
  Require(a.dtype() == DType::kFloat && a.rank() >= 1 && a.shape().back() == depth, "A ", a.shape(),
          " must have K = ", depth, " columns of floats");
  Require(b.size() >= (count + 1) / 2 && b.dtype() == DType::kUInt8, "B must have ", (count + 1) / 2,
          " bytes, has shape ", b.shape());
  Require(largest.size() >= (count + block - 1) / block && largest.dtype() == DType::kFloat, "absmax must have ",
          (count + block - 1) / block, " floats, has shape ", largest.shape());
  Shape shape = a.shape();
  shape.back() = rows;
  Tensor& y = context.Output(0, DType::kFloat, shape);
  const uint8_t* codes = b.Data<uint8_t>();
  const float *scales = largest.Data<float>(), *table = kind == 0 ? kFp4 : kNf4;
  auto load = [&](int64_t row, float* out) {
    for (int64_t k = 0, at = row * depth; k < depth; ++k, ++at)
      out[k] = table[codes[at / 2] >> (at % 2 == 0 ? 4 : 0) & 15] * scales[at / block];
  };
  MultiplyByRows(context, a.Data<float>(), a.size() / depth, rows, depth, load, nullptr, y.MutableData<float>());
}

void InferMatMulBnb4(InferContext& context) {
  const SymbolicShape* a = context.InputShape(0);
  DType type = context.InputDType(0);
  if (!a || a->empty()) return context.SetOutput(0, type);
  SymbolicShape shape = *a;
  int64_t rows = context.node().Int("N", 0);
  shape.back() = rows > 0 ? Dim(rows) : Dim();
  context.SetOutput(0, type, std::move(shape));
}

}  // namespace

FERRY_OPERATOR_IN(microsoft, MatMulBnb4, {.compute = ComputeMatMulBnb4, .infer = InferMatMulBnb4});

}  // namespace ferry
