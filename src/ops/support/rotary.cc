#include "ops/support/rotary.h"

namespace ferry {
namespace {

// Without branches and in steps that fill vectors, so that compilers use them.
constexpr int64_t kStep = 8;

void RotateHalves(const float* __restrict x, const float* __restrict cosines, const float* __restrict sines,
                  int64_t half, int64_t second, float* __restrict y) {
  auto rotate = [&](int64_t i) {
    const float a = x[i], b = x[half + i];
    y[i] = a * cosines[i] - b * sines[i];
    y[half + i] = b * cosines[second + i] + a * sines[second + i];
  };
  int64_t i = 0;
  for (; i + kStep <= half; i += kStep)
    for (int64_t j = 0; j < kStep; ++j) rotate(i + j);
  for (; i < half; ++i) rotate(i);
}

}  // namespace

void RotateRow(const RotaryRow& row) {
  const int64_t half = row.count / 2;
  const bool whole = row.width == row.count;
  if (!row.interleaved) return RotateHalves(row.x, row.cosines, row.sines, half, whole ? half : 0, row.y);
  for (int64_t i = 0; i < half; ++i) {
    const int64_t first = whole ? 2 * i : i, second = whole ? first + 1 : i;
    const float a = row.x[2 * i], b = row.x[2 * i + 1];
    row.y[2 * i] = a * row.cosines[first] - b * row.sines[first];
    row.y[2 * i + 1] = b * row.cosines[second] + a * row.sines[second];
  }
}

}  // namespace ferry
