// The weights of BlockedMatMul: a matrix that DequantizeLinear would make floats of, with a scale for each block of
// depths of a column. 4 or 8 bits, signed or not.
#pragma once

#include "graph/model.h"
#include "tensor/tensor.h"

namespace ferry {

// Attributes: transposed (weights [columns, depth], not [depth, columns]) and block. Inputs: rows, weights, scales,
// zero points, bias; the last two may be omitted.
struct BlockedWeights {
  BlockedWeights(const Node& node, const Tensor& w, const Tensor& scale_of_blocks, const Tensor* zero_of_blocks);

  // As unsigned numbers; zero points lie lower by half of the range.
  uint32_t Number(int64_t column, int64_t depth_at) const;
  float Scale(int64_t column, int64_t block_at) const;
  int8_t Zero(int64_t column, int64_t block_at) const;
  // Whether any zero point is not in the middle of the range.
  bool HasZeros() const { return zeros.defined() || !is_signed; }

  Tensor numbers, scales, zeros;
  int64_t depth = 0, columns = 0, block = 0, blocks = 0, bits = 0;
  bool transposed = false, is_signed = false;

 private:
  int64_t Place(int64_t column, int64_t at, int64_t along) const {
    return transposed ? column * along + at : at * columns + column;
  }
};

// Whether the weights and scales of a DequantizeLinear are of this kind.
bool AreBlocked(DType type);

}  // namespace ferry
