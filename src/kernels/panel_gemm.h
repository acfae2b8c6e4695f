// The inner loops of products in any type whose operands are not packed beforehand (kernels/gemm.h).
#pragma once

#include <stdint.h>

namespace ferry {

inline constexpr int64_t kPanelRows = 6;  // of the register tile

template <class T>
struct PanelLoops {
  int64_t columns;  // of the register tile
  // C[kPanelRows, columns] = A · B, or added to it, with a[i][kPanelRows] and b[i][columns] for every depth i.
  void (*tile)(int64_t depths, const T* a, const T* b, T* c, int64_t c_row, bool add);
  // c[0, n) += Σ a[i] · b[i][0, n)
  void (*add_rows)(int64_t depths, const T* a, const T* b, int64_t b_row, T* c, int64_t n);
  T (*dot)(int64_t depths, const T* a, const T* b);
};

// Of one instruction set.
struct PanelKernels {
  PanelLoops<float> floats;
  PanelLoops<double> doubles;
  PanelLoops<uint32_t> words32;
  PanelLoops<uint64_t> words64;
};

const PanelKernels& BestPanelKernels();

}  // namespace ferry
