// Random numbers that are the same on every machine.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

namespace ferry::testing {

class RandomNumbers {
 public:
  explicit RandomNumbers(uint32_t seed) : engine_(seed) {}

  int64_t Int(int64_t low, int64_t high) {  // both included
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  bool Bool() { return (engine_() & 1) != 0; }
  double Real() { return static_cast<double>(engine_() % 20001) / 10000.0 - 1.0; }  // −1 … 1

  template <class T>
  T Pick(std::initializer_list<T> values) {
    return *(values.begin() + Int(0, static_cast<int64_t>(values.size()) - 1));
  }

  // One in `one_in` times something large, else something small: most of the time goes into many small shapes.
  int64_t Size(int64_t usual, int64_t rare, int64_t one_in = 10) {
    return Int(0, one_in - 1) == 0 ? Int(1, rare) : Int(1, usual);
  }

  std::vector<float> Vector(int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = static_cast<float>(Real());
    return values;
  }

 protected:
  std::mt19937 engine_;
};

}  // namespace ferry::testing
