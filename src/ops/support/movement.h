// Moving elements without looking at them: one strided copy for every operator that rearranges data. It works on
// element widths (strings apart), so that no operator is compiled once per element type.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/function_ref.h"
#include "ops/context.h"

namespace ferry {

// One axis of a copy; strides are in elements and may be zero (repeat) or negative (walk backwards).
struct CopyAxis {
  int64_t size;
  int64_t from_stride;
  int64_t to_stride;
};

// to[to_offset + Σ i·to_stride] = from[from_offset + Σ i·from_stride] over all i. Both tensors have the same element
// width, at least a byte, and the places written do not overlap the places read. The caller vouches for the bounds.
void CopyStrided(const OpContext& context, const Tensor& from, int64_t from_offset, Tensor& to, int64_t to_offset,
                 std::vector<CopyAxis> axes);

// `count` elements that lie one after the other.
void CopyRun(const Tensor& from, int64_t from_offset, Tensor& to, int64_t to_offset, int64_t count);

// Writes element `index` of `value` to every place that the sizes and strides reach.
void FillStrided(const OpContext& context, const Tensor& value, int64_t index, Tensor& to, int64_t to_offset,
                 std::span<const int64_t> sizes, std::span<const int64_t> strides);
void FillAll(const OpContext& context, const Tensor& value, int64_t index, Tensor& to);

// A tensor that can be moved: 4- and 2-bit elements spread to a byte each, every other type as it is.
Tensor Movable(const Tensor& tensor);
// Makes output i and has `fill` write it in movable form; 4- and 2-bit elements are packed afterwards.
void WriteMoved(OpContext& context, size_t i, DType dtype, const Shape& shape, FunctionRef<void(Tensor&)> fill);
// A movable tensor with one element: zero, false or the empty string.
Tensor MovableZero(DType dtype);

// The copy axes of a box of `sizes` inside both tensors, each walked by its own strides.
std::vector<CopyAxis> BoxAxes(std::span<const int64_t> sizes, std::span<const int64_t> from_strides,
                              std::span<const int64_t> to_strides);

}  // namespace ferry
