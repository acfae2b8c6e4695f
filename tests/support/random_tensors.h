// Random tensors that are the same on every machine.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "tensor/tensor.h"

namespace ferry::testing {

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}

  int64_t Int(int64_t low, int64_t high) {  // both included
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  bool Bool() { return (engine_() & 1) != 0; }
  double Real() { return static_cast<double>(engine_() % 20001) / 10000.0 - 1.0; }  // −1 … 1

  template <class T>
  Tensor Numbers(Shape shape) {
    Tensor tensor(kDTypeOf<T>, std::move(shape));
    T* to = tensor.MutableData<T>();
    for (int64_t i = 0; i < tensor.size(); ++i)
      to[i] = std::is_integral_v<T> ? static_cast<T>(engine_()) : static_cast<T>(Real());
    return tensor;
  }
  Tensor Floats(Shape shape) { return Numbers<float>(std::move(shape)); }

 private:
  std::mt19937 engine_;
};

}  // namespace ferry::testing
