#include "kernels/nbits_gemm.h"

#include <cstring>

namespace ferry {

void PackNbitsRows(const uint8_t* rows, int64_t row_bytes, const NbitsMatrix& matrix, uint32_t* words) {
  const int64_t groups = matrix.panel_words() / kNbitsPanel;
  for (int64_t panel = 0; panel < matrix.panels(); ++panel, words += matrix.panel_words())
    for (int64_t n = 0; n < kNbitsPanel; ++n) {
      const int64_t column = panel * kNbitsPanel + n;
      const uint8_t* from = rows + column * row_bytes;
      for (int64_t group = 0; group < groups; ++group) {
        uint32_t word = 0;
        if (column < matrix.columns) std::memcpy(&word, from + group * 4, sizeof word);
        words[group * kNbitsPanel + n] = word;
      }
    }
}

}  // namespace ferry
