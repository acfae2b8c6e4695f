// The panels of packed_gemm.h made where the matrix itself lies, and back again: for memory that has no room for both.
// As many bytes before and after, so whole panels only.
#pragma once

#include <stdint.h>

namespace ferry {

// `lines` of `channels` times `taps` numbers, a multiple of kPanelWidth: each line becomes a column of a panel, its
// taps one after the other, as a convolution wants them.
void LinesIntoPanels(float* matrix, int64_t lines, int64_t channels, int64_t taps);
void PanelsIntoLines(float* matrix, int64_t lines, int64_t channels, int64_t taps);

// `depth` rows of `columns` numbers, a multiple of kPanelWidth.
void RowsIntoPanels(float* matrix, int64_t depth, int64_t columns);
void PanelsIntoRows(float* matrix, int64_t depth, int64_t columns);

}  // namespace ferry
