// Random tensors that are the same on every machine.
#pragma once

#include "tensor/tensor.h"
#include "tests/support/random_numbers.h"

namespace ferry::testing {

class Random : public RandomNumbers {
 public:
  using RandomNumbers::RandomNumbers;

  template <class T>
  Tensor Numbers(Shape shape) {
    Tensor tensor(kDTypeOf<T>, std::move(shape));
    T* to = tensor.MutableData<T>();
    for (int64_t i = 0; i < tensor.size(); ++i)
      to[i] = std::is_integral_v<T> ? static_cast<T>(engine_()) : static_cast<T>(Real());
    return tensor;
  }
  Tensor Floats(Shape shape) { return Numbers<float>(std::move(shape)); }
};

}  // namespace ferry::testing
