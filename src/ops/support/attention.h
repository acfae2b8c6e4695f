// What the attention operators share: where heads lie, and the softmax with its rounding.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace ferry {

// Queries, keys or values of several heads: [batch, heads, length, size], or [batch, length, heads · size].
struct HeadLayout {
  int64_t batch = 0, heads = 0, length = 0, size = 0;
  bool is_packed = false;  // the second form

  // `heads` is only needed for the packed form.
  HeadLayout(const Shape& shape, int64_t packed_heads, const char* what);
  int64_t row() const { return is_packed ? heads * size : size; }  // elements from one position to the next
  int64_t Offset(int64_t image, int64_t head) const {
    return is_packed ? (image * length * heads + head) * size : (image * heads + head) * length * size;
  }
};

// A softmax type from a node's softmax_precision attribute; `otherwise` when it is absent.
DType SoftmaxType(int64_t number, DType otherwise);

// Replaces a row of scores by probabilities, computed as `type` would. A row of −∞ alone becomes zeros.
template <class T>
void SoftmaxRow(DType type, T* row, int64_t count);

}  // namespace ferry
