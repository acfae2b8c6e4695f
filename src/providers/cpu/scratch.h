// What the kernels of this provider use a thread's working memory for.
#pragma once

#include "base/scratch.h"

namespace ferry {

// Every use that may overlap with another on the same thread has a place of its own.
enum class ScratchUse {
  kRowPointers,
  kPaddedImage,
  kWinograd,
  kWidenedRows,
  kWidenedWeights,
  kBf16Rows,
  kPanels,
  kScaledRows,
  kLstmState,
  kTotals,
  kNbitsRows,
  kCount
};

}  // namespace ferry
