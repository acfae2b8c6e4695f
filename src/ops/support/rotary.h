// Turning pairs of numbers by angles whose cosines and sines are given.
#pragma once

#include <cstdint>

namespace ferry {

// One row of `count` numbers, an even number of them; `width` cosines and sines, one for each number or for each pair.
struct RotaryRow {
  const float* x;
  const float* cosines;
  const float* sines;
  int64_t count, width;
  bool interleaved;  // a pair lies side by side; otherwise in the two halves
  float* y;          // may be x
};

// (a, b) → (a·cos − b·sin, b·cos + a·sin)
void RotateRow(const RotaryRow& row);

}  // namespace ferry
