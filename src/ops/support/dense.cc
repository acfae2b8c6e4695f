#include "ops/support/dense.h"

#include "ops/support/indices.h"
#include "ops/support/movement.h"

namespace ferry {

Tensor DenseTensor(const StoredSparseTensor& sparse) {
  // Straight from a file a tensor may lie at any address; Clone aligns it.
  Tensor values = sparse.values.Get().Clone(), indices = sparse.indices.Get().Clone();
  Require(values.rank() == 1, "values of a sparse tensor must have rank 1, have shape ", values.shape());
  Shape shape(sparse.dims);
  std::vector<int64_t> places;
  if (indices.rank() == 1) {
    places = ToInt64Vector(indices);
    for (int64_t place : places)
      Require(place >= 0 && place < shape.ElementCount(), "index ", place, " of a sparse tensor is outside shape ",
              shape);
  } else {
    Require(indices.rank() == 2 && indices.dim(1) == static_cast<int64_t>(shape.rank()),
            "indices of a sparse tensor have shape ", indices.shape(), ", which does not fit shape ", shape);
    places = TupleOffsets(indices, shape, 0);
  }
  Require(places.size() == static_cast<size_t>(values.size()), "a sparse tensor has ", values.size(), " values and ",
          places.size(), " indices");
  Tensor from = Movable(values);
  Tensor to = Tensor::Zeros(from.dtype(), shape);
  for (size_t i = 0; i < places.size(); ++i) CopyRun(from, static_cast<int64_t>(i), to, places[i], 1);
  return IsPacked(values.dtype()) ? Tensor::Pack(values.dtype(), to) : to;
}

}  // namespace ferry
