#include "kernels/panels_in_place.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/packed_gemm.h"

namespace ferry {
namespace {

// One row of a panel.
struct Unit {
  float numbers[kPanelWidth];
};

// Turns a matrix of units by following each cycle of places once.
void Transpose(float* matrix, int64_t rows, int64_t columns) {
  if (rows == 1 || columns == 1) return;
  auto* units = reinterpret_cast<Unit*>(matrix);
  const int64_t last = rows * columns - 1;
  std::vector<bool> is_done(static_cast<size_t>(last + 1));
  for (int64_t start = 1; start < last; ++start) {
    if (is_done[static_cast<size_t>(start)]) continue;
    Unit carried = units[start];
    int64_t at = start;
    do {
      const int64_t to = at % columns * rows + at / columns;
      std::swap(carried, units[to]);
      is_done[static_cast<size_t>(to)] = true;
      at = to;
    } while (at != start);
  }
}

}  // namespace

void LinesIntoPanels(float* matrix, int64_t lines, int64_t channels, int64_t taps) {
  const int64_t line = channels * taps, size = line * kPanelWidth;
  std::vector<float> panel(static_cast<size_t>(size));
  for (int64_t first = 0; first < lines; first += kPanelWidth, matrix += size) {
    TurnIntoPanel(matrix, line, kPanelWidth, line, panel.data());
    for (int64_t tap = 0; tap < taps; ++tap)
      for (int64_t c = 0; c < channels; ++c)
        std::copy_n(panel.data() + (c * taps + tap) * kPanelWidth, kPanelWidth,
                    matrix + (tap * channels + c) * kPanelWidth);
  }
}

void PanelsIntoLines(float* matrix, int64_t lines, int64_t channels, int64_t taps) {
  const int64_t line = channels * taps, size = line * kPanelWidth;
  std::vector<float> panel(static_cast<size_t>(size));
  for (int64_t first = 0; first < lines; first += kPanelWidth, matrix += size) {
    std::copy_n(matrix, size, panel.data());
    for (int64_t n = 0; n < kPanelWidth; ++n)
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t tap = 0; tap < taps; ++tap)
          matrix[n * line + c * taps + tap] = panel[static_cast<size_t>((tap * channels + c) * kPanelWidth + n)];
  }
}

void RowsIntoPanels(float* matrix, int64_t depth, int64_t columns) { Transpose(matrix, depth, columns / kPanelWidth); }

void PanelsIntoRows(float* matrix, int64_t depth, int64_t columns) { Transpose(matrix, columns / kPanelWidth, depth); }

}  // namespace ferry
