#include "tensor/sparse.h"

namespace ferry {

void CheckSparse(const SparseTensor& sparse) {
  const Shape& shape = sparse.shape;
  const Tensor& indices = sparse.indices;
  Require(sparse.values.rank() == 1, "the values of a sparse tensor have rank 1, got ", sparse.values.shape());
  Require(indices.dtype() == DType::kInt64, "indices are int64, got ", indices.dtype());
  bool linear = indices.rank() == 1;
  Require(linear || (indices.rank() == 2 && indices.dim(1) == static_cast<int64_t>(shape.rank())),
          "indices are [n] or [n, ", shape.rank(), "], got ", indices.shape());
  Require(indices.dim(0) == sparse.values.dim(0), "there are ", sparse.values.dim(0), " values and ", indices.dim(0),
          " indices");
  int64_t count = shape.ElementCount();
  std::span<const int64_t> positions = indices.Span<int64_t>();
  for (size_t i = 0; i < positions.size(); ++i) {
    int64_t limit = linear ? count : shape[i % shape.rank()];
    Require(positions[i] >= 0 && positions[i] < limit, "index ", positions[i], " is outside of ", shape);
  }
}

}  // namespace ferry
