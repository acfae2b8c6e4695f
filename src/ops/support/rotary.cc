#include "ops/support/rotary.h"

#include "kernels/row_kernels.h"

namespace ferry {

void RotateRow(const RotaryRow& row) {
  const int64_t half = row.count / 2;
  const bool whole = row.width == row.count;
  if (!row.interleaved) return BestRowKernels().rotate({row.x, row.cosines, row.sines, row.y, half, whole ? half : 0});
  for (int64_t i = 0; i < half; ++i) {
    const int64_t first = whole ? 2 * i : i, second = whole ? first + 1 : i;
    const float a = row.x[2 * i], b = row.x[2 * i + 1];
    row.y[2 * i] = a * row.cosines[first] - b * row.sines[first];
    row.y[2 * i + 1] = b * row.cosines[second] + a * row.sines[second];
  }
}

}  // namespace ferry
