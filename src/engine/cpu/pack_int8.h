// 8-bit weights as the kernels for products want them (kernels/int8_gemm.h).
#pragma once

#include <vector>

#include "base/function_ref.h"
#include "kernels/int8_gemm.h"
#include "tensor/tensor.h"

namespace ferry {

// Weights of one or several groups: w(group, n, k) without zero points.
struct Int8Weights {
  int64_t groups = 1, depth = 0, columns = 0;  // columns of a group
  Tensor panels;                               // of every group
  std::vector<int32_t> sums;                   // of every column of every group

  const int8_t* GroupPanels(int64_t group) const {
    return panels.Data<int8_t>() + group * PackedInt8Size(depth, columns);
  }
};

// From a [depth × columns] matrix; every byte is changed by `flip`.
Int8Weights PackInt8Rows(const uint8_t* rows, int64_t depth, int64_t columns, uint8_t flip);

// line(group, n) gives a column's weights side by side; they are read before it is called again.
Int8Weights PackInt8Lines(int64_t groups, int64_t depth, int64_t columns,
                          FunctionRef<const int8_t*(int64_t, int64_t)> line);

}  // namespace ferry
