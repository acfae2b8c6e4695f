// Rows of several matrices side by side in one kernel, and what a convolution does to them first: a factor, an offset
// and a limit for every column.
#pragma once

#include <limits>
#include <span>

#include "providers/cuda/launch.h"
#include "tensor/tensor.h"

namespace ferry::cuda {

// Row r of y is row r of every part; all have as many rows, and part i has `columns[i]` elements in each.
void JoinRows(const Device& device, std::span<const Tensor* const> parts, std::span<const int64_t> columns, Tensor& y);

struct ColumnScaling {
  const Tensor *factor = nullptr, *offset = nullptr;  // one number for each column of y; the offset may be null
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
};
// limit(x · factor + offset) of what JoinRows would make. Float32 and the small floats; sizes as CanJoinScaled says.
void JoinScaled(const Device& device, std::span<const Tensor* const> parts, std::span<const int64_t> columns,
                const ColumnScaling& scaling, Tensor& y);
bool CanJoinScaled(DType type, std::span<const int64_t> columns);

// JoinRows where parts may be float32 and y a smaller float, or the other way round; one small type in all.
void JoinMixed(const Device& device, std::span<const Tensor* const> parts, std::span<const int64_t> columns, Tensor& y);
bool CanJoinMixed(std::span<const DType> parts, DType made, std::span<const int64_t> columns);

std::vector<KernelSource> JoinSources();

}  // namespace ferry::cuda
