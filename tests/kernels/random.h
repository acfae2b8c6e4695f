// Random numbers that are the same on every machine, and the instruction sets that this one can run.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/isa.h"

namespace ferry::testing {

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}

  int64_t Int(int64_t low, int64_t high) {  // both included
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  bool Bool() { return (engine_() & 1) != 0; }
  double Real() { return static_cast<double>(engine_() % 20001) / 10000.0 - 1.0; }  // −1 … 1

  // One in `one_in` times something large, else something small: most of the time goes into many small shapes.
  int64_t Size(int64_t usual, int64_t rare, int64_t one_in = 10) {
    return Int(0, one_in - 1) == 0 ? Int(1, rare) : Int(1, usual);
  }

  std::vector<float> Floats(int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = static_cast<float>(Real());
    return values;
  }

 private:
  std::mt19937_64 engine_;
};

inline std::vector<Isa> RunnableIsas() {
  std::vector<Isa> isas;
  for (Isa isa : {Isa::kBaseline, Isa::kSse4, Isa::kAvx2, Isa::kAvx512, Isa::kNeon})
    if (CanRun(isa)) isas.push_back(isa);
  return isas;
}

}  // namespace ferry::testing
