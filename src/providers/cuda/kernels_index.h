// Kernels that find, choose and place elements: running sums, the best of a line, gathering and scattering one by one.
// Tensors lie on the device; shapes were checked by whoever calls.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "providers/cuda/launch.h"
#include "tensor/tensor.h"

namespace ferry::cuda {

// A tensor as [outer, count, inner] around an axis: outer · inner lines of elements that lie `inner` apart.
struct LineShape {
  int64_t outer = 1, count = 1, inner = 1;

  LineShape(const Shape& shape, size_t axis)
      : outer(shape.CountBetween(0, axis)), count(shape[axis]), inner(shape.CountBetween(axis + 1, shape.rank())) {}
  int64_t lines() const { return outer * inner; }
};

// Sums (or products) of all elements up to each one; y may be x.
struct Running {
  bool is_product = false, exclusive = false, reverse = false;
};
bool CanCumulate(DType type);
void Cumulate(const Device& device, const Running& how, const LineShape& line, const Tensor& x, Tensor& y);

// The place of the largest or smallest element; NaN is better than any number.
struct BestElement {
  bool is_largest = true, takes_last = false;
};
void FindBest(const Device& device, const BestElement& how, const LineShape& line, const Tensor& x, Tensor& places);

// The best `count` elements of each line in order, and where they are; of equals the first.
bool CanOrder(DType type);
void FindTop(const Device& device, bool largest, int64_t count, const LineShape& line, const Tensor& x, Tensor& values,
             Tensor& places);

enum class Scatter : uint8_t { kPlace, kAdd, kMultiply, kLargest, kSmallest };
std::optional<Scatter> ScatterNamed(const std::string& reduction);
bool CanScatter(Scatter how, DType type);
// x[…, indices[i], …] along one axis for every i of `indices`; an index outside makes the next Synchronize throw.
void GatherElements(const Device& device, const Tensor& x, size_t axis, const Tensor& indices, Tensor& y);
void ScatterElements(const Device& device, Scatter how, size_t axis, const Tensor& indices, const Tensor& updates,
                     Tensor& y);
// Parts that begin where a tuple of indices says, after `batch_axes` axes that both sides share.
void GatherParts(const Device& device, const Tensor& x, size_t batch_axes, const Tensor& indices, Tensor& y);
void ScatterParts(const Device& device, Scatter how, const Tensor& indices, const Tensor& updates, Tensor& y);

// Coordinates of the elements that are not 0, [rank, how many]; `make` is told how many before they are written.
void FindNonZero(const Device& device, const Tensor& x, FunctionRef<Tensor&(int64_t)> make);

// y[…, d, …] is values[1] where d is the index, else values[0]; y is [outer, depth, inner].
void FillOneHot(const Device& device, const LineShape& line, const Tensor& indices, const Tensor& values, Tensor& y);
// Elements above (below) the diagonal that lies k columns to the right; others become 0.
void TakeTriangle(const Device& device, bool upper, int64_t k, const Tensor& x, Tensor& y);
// The same element everywhere.
void Fill(const Device& device, uint64_t bits, Tensor& y);
// start + i · delta, in double or in 64 bits.
void FillRange(const Device& device, double start, double delta, int64_t whole_start, int64_t whole_delta, Tensor& y);

}  // namespace ferry::cuda
