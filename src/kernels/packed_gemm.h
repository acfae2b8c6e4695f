// C = activation(A · B + bias + residual) with B packed beforehand. A may be gathered: every row of A is a list of
// pieces ("taps") of equal length, which makes a convolution over channels-last images the same loop as a product.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/activation.h"

namespace ferry {

// Columns of B are packed in panels this wide, the last one padded: a cache line of each row, so that a tile's part of
// a panel fills all sets of the first-level cache.
inline constexpr int64_t kPanelWidth = 16;

struct GemmEpilogue {
  const float* bias = nullptr;      // per column
  const float* residual = nullptr;  // same layout as C, with its own row stride; may be C unless activate_first
  int64_t residual_stride = 0;
  Activation activation;
  bool activate_first = false;  // activation before the residual is added, not after
};

// A[rows × taps·depth] given by pointers: rows[t * row_count + i] is tap t of row i.
struct GatheredGemm {
  const float* const* rows = nullptr;
  int64_t row_count = 0;
  int64_t taps = 1;
  int64_t depth = 0;  // elements of one tap
  const float* packed = nullptr;
  int64_t columns = 0;
  float* c = nullptr;
  int64_t c_stride = 0;
  GemmEpilogue epilogue;
  int64_t offset = 0;            // added to every pointer: one group of a convolution's channels
  const float* zeros = nullptr;  // what rows of padding point at, which tiles that see nothing else leave out
};

// Floats that the packed form of a [depth × columns] matrix takes (taps included in depth).
int64_t PackedSize(int64_t depth, int64_t columns);
// b[k * row_stride + n * column_stride]. Here and below, what is packed may begin at any byte, as weights in a file do.
void PackMatrix(const float* b, int64_t depth, int64_t columns, int64_t row_stride, int64_t column_stride,
                float* packed);
// One panel out of at most kPanelWidth columns that lie along memory, `line_stride` apart; what is missing becomes
// zero. `following` numbers more of each will be read next.
void TurnIntoPanel(const float* lines, int64_t line_stride, int64_t filled, int64_t depth, float* panel,
                   int64_t following = 0);
// Where element (k, n) of it lies.
int64_t PackedIndex(int64_t depth, int64_t k, int64_t n);

// The kernels of one instruction set.
struct GemmKernels {
  const char* isa;
  int64_t best_rows;    // rows of a tile at full speed: cut work into multiples of it
  int64_t best_panels;  // columns of the widest tile of several rows, in panels: the same
  void (*gathered)(const GatheredGemm&);
  // Rows [row_begin, row_end) of a plain product: A row-major with its own stride.
  void (*plain)(const float* a, int64_t a_stride, int64_t rows, int64_t depth, const float* packed, int64_t columns,
                float* c, int64_t c_stride, const GemmEpilogue& epilogue);
};

const GemmKernels& BestGemmKernels();

}  // namespace ferry
