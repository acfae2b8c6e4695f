#include "ops/support/blocked_matmul.h"

#include "base/error.h"

namespace ferry {
namespace {

// Element `at` of a tensor of bytes or nibbles, as an unsigned number whose middle stands for 0 where it is signed.
uint32_t Unsigned(const Tensor& tensor, int64_t at) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(tensor.raw());
  switch (tensor.dtype()) {
    case DType::kUInt8: return bytes[at];
    case DType::kInt8: return bytes[at] ^ 0x80u;
    case DType::kUInt4: return bytes[at / 2] >> (at % 2 * 4) & 15u;
    default: return (bytes[at / 2] >> (at % 2 * 4) & 15u) ^ 8u;
  }
}

}  // namespace

bool AreBlocked(DType type) {
  return type == DType::kInt4 || type == DType::kUInt4 || type == DType::kInt8 || type == DType::kUInt8;
}

BlockedWeights::BlockedWeights(const Node& node, const Tensor& w, const Tensor& scale_of_blocks,
                               const Tensor* zero_of_blocks)
    : numbers(w), scales(scale_of_blocks), transposed(node.Int("transposed", 0) != 0) {
  Require(AreBlocked(w.dtype()) && w.rank() == 2 && w.size() > 0, "weights of ", w.dtype(), w.shape(),
          " are not a matrix of 4 or 8 bits");
  is_signed = w.dtype() == DType::kInt4 || w.dtype() == DType::kInt8;
  bits = w.dtype() == DType::kInt4 || w.dtype() == DType::kUInt4 ? 4 : 8;
  depth = w.dim(transposed ? 1 : 0);
  columns = w.dim(transposed ? 0 : 1);
  block = node.Int("block", 0);
  Require(block > 0 && block % 16 == 0 && block <= (1 << 20), "blocks of ", block, " are not a multiple of 16");
  blocks = (depth + block - 1) / block;
  const Shape wanted = transposed ? Shape{columns, blocks} : Shape{blocks, columns};
  Require(scales.dtype() == DType::kFloat && scales.shape() == wanted, "scales ", scales.dtype(), scales.shape(),
          " should be float", wanted);
  if (!zero_of_blocks) return;
  zeros = *zero_of_blocks;
  Require(zeros.dtype() == w.dtype() && zeros.shape() == wanted, "zero points ", zeros.dtype(), zeros.shape(),
          " should be ", w.dtype(), wanted);
}

uint32_t BlockedWeights::Number(int64_t column, int64_t depth_at) const {
  return Unsigned(numbers, Place(column, depth_at, depth));
}

float BlockedWeights::Scale(int64_t column, int64_t block_at) const {
  return scales.Data<float>()[Place(column, block_at, blocks)];
}

int8_t BlockedWeights::Zero(int64_t column, int64_t block_at) const {
  const int middle = 1 << (bits - 1);
  if (!zeros.defined()) return static_cast<int8_t>(is_signed ? 0 : -middle);
  return static_cast<int8_t>(static_cast<int>(Unsigned(zeros, Place(column, block_at, blocks))) - middle);
}

}  // namespace ferry
