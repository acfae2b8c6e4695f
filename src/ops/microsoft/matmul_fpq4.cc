// A times a matrix of 4 bits in ONNX Runtime's own layout: column by column, blocks of a float scale, a zero point
// where blk_quant_type is 1, and units of 32 numbers, whose first half lies in the low bits of 16 bytes.
#include <cstring>

#include "ops/operator.h"
#include "ops/support/bit_matrix.h"

namespace ferry {
namespace {

struct BlobLayout {
  int64_t block = 32;
  bool has_zero = false;

  explicit BlobLayout(int64_t kind) {
    Require(kind == 0 || kind == 1 || kind == 2 || kind == 4, "blk_quant_type must be 0, 1, 2 or 4, is ", kind);
    has_zero = kind == 1;
    if (kind >= 2) block = 32 * kind;
  }
  int64_t bytes() const { return block / 2 + 4 + (has_zero ? 1 : 0); }

  void Load(const uint8_t* blob, int64_t depth, float* out) const {
    for (int64_t k = 0; k < depth; k += block, blob += bytes()) {
      float scale;
      std::memcpy(&scale, blob, sizeof scale);
      int zero = has_zero ? blob[4] : 8;
      const uint8_t* data = blob + (has_zero ? 5 : 4);
      for (int64_t i = 0; i < std::min(block, depth - k); ++i) {
        uint8_t byte = data[i / 32 * 16 + i % 16];
        out[k + i] = static_cast<float>((i % 32 < 16 ? byte & 15 : byte >> 4) - zero) * scale;
      }
    }
  }
};

void ComputeMatMulFpQ4(OpContext& context) {
  const Tensor &a = context.Input(0), &b = context.Input(1);
  BlobLayout layout(context.node().Int("blk_quant_type", 1));
  std::vector<int64_t> sizes = ToInt64Vector(context.Input(2));
  Require(sizes.size() == 2 && sizes[0] > 0 && sizes[1] > 0, "B_shape must be two positive numbers");
  int64_t depth = sizes[0], columns = sizes[1];
  Require(a.dtype() == DType::kFloat && a.rank() >= 1 && a.shape().back() == depth, "A ", a.shape(), " must have ",
          depth, " columns of floats");
  int64_t column_bytes = CheckedProduct((depth - 1) / layout.block + 1, layout.bytes());
  Require(b.dtype() == DType::kUInt8 && b.size() == CheckedProduct(columns, column_bytes), "B must have ", columns,
          " · ", column_bytes, " bytes, has shape ", b.shape());
  Shape shape = a.shape();
  shape.back() = columns;
  Tensor& y = context.Output(0, DType::kFloat, shape);
  auto load = [&](int64_t column, float* out) { layout.Load(b.Data<uint8_t>() + column * column_bytes, depth, out); };
  MultiplyByRows(context, a.Data<float>(), a.size() / depth, columns, depth, load, nullptr, y.MutableData<float>());
}

void InferMatMulFpQ4(InferContext& context) {
  const SymbolicShape* a = context.InputShape(0);
  if (!a || a->empty()) return context.SetOutput(0, DType::kFloat);
  SymbolicShape shape = *a;
  auto sizes = context.InputInts(2);
  shape.back() = sizes && sizes->size() == 2 && (*sizes)[1] > 0 ? Dim((*sizes)[1]) : Dim();
  context.SetOutput(0, DType::kFloat, std::move(shape));
}

}  // namespace

FERRY_OPERATOR_IN(microsoft, MatMulFpQ4, {.compute = ComputeMatMulFpQ4, .infer = InferMatMulFpQ4});

}  // namespace ferry
