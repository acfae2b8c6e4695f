// Products with weights of 4 or 8 bits, in blocks along the depth that have a scale and maybe a zero point each. They
// stay as they are in memory: a single row takes as long as reading them; for many rows a few columns at a time become
// floats, or bytes where rows are bytes too.
#pragma once

#include <stdint.h>

namespace ferry {

inline constexpr int64_t kNbitsPanel = 16;  // columns that lie side by side

// Columns beyond the last one have scales of 0.
struct NbitsMatrix {
  int64_t depth = 0, columns = 0, bits = 4;
  int64_t block = 32, blocks = 1;  // a block is a multiple of 16; the last one goes on beyond the depth
  // [panel][group][16]: a word has 32 / bits depths of one column, the first one lowest.
  const uint32_t* words = nullptr;
  const float* scales = nullptr;  // [panel][block][16]
  const int8_t* zeros = nullptr;  // [panel][block][16], each 2^(bits - 1) lower; null: all of them 0

  int64_t panels() const { return (columns + kNbitsPanel - 1) / kNbitsPanel; }
  int64_t padded() const { return blocks * block; }
  int64_t panel_words() const { return padded() * bits / 32 * kNbitsPanel; }
};

// From rows of the transposed matrix, each `row_bytes` long, low bits first.
void PackNbitsRows(const uint8_t* rows, int64_t row_bytes, const NbitsMatrix& matrix, uint32_t* words);
// From any place: number(column, depth) gives 0 to 2^bits - 1.
template <class Number>
void PackNbits(const NbitsMatrix& matrix, const Number& number, uint32_t* words) {
  const int64_t per_word = 32 / matrix.bits;
  for (int64_t panel = 0; panel < matrix.panels(); ++panel)
    for (int64_t k = 0; k < matrix.padded(); k += per_word)
      for (int64_t n = panel * kNbitsPanel; n < (panel + 1) * kNbitsPanel; ++n) {
        uint32_t word = 0;
        for (int64_t j = 0; j < per_word && n < matrix.columns && k + j < matrix.depth; ++j)
          word |= static_cast<uint32_t>(number(n, k + j)) << (j * matrix.bits);
        *words++ = word;
      }
}
// [columns, blocks] or, where `value` says so, from anywhere to [panel][block][16].
template <class T, class Value>
void PackNbitsBlocks(const NbitsMatrix& matrix, const Value& value, T* to) {
  for (int64_t panel = 0; panel < matrix.panels(); ++panel)
    for (int64_t at = 0; at < matrix.blocks; ++at)
      for (int64_t n = panel * kNbitsPanel; n < (panel + 1) * kNbitsPanel; ++n)
        *to++ = n < matrix.columns ? value(n, at) : T{0};
}

// A part of the result: `panels` panels from `first` on, of which `columns` columns are there.
struct NbitsPart {
  int64_t first = 0, panels = 0, columns = 0;
  const float* bias = nullptr;  // of the first column on; may be null
};

struct NbitsKernels {
  // One row: `a` is padded with zeros to matrix.padded(), `sums` has one for each block of it.
  void (*row)(const NbitsMatrix& matrix, const NbitsPart& part, const float* a, const float* sums, float* y);
  // Depths [first, first + count) of a panel as floats, [count][16], as packed_gemm.h takes it; `first` begins a block.
  void (*widen)(const NbitsMatrix& matrix, int64_t panel, int64_t first, int64_t count, float* to);
};
const NbitsKernels& BestNbitsKernels();

// Rows as bytes: each block of a row has a scale that makes its largest number 127.
struct NbitsRows {
  int64_t count = 0;
  const int8_t* numbers = nullptr;  // [count][padded], in the order in which kernels take them
  const float* scales = nullptr;    // [count][blocks]
  const int32_t* sums = nullptr;    // [count][blocks]
};

// With exact sums of a block's products in 32 bits.
struct NbitsByteKernels {
  void (*quantize)(const NbitsMatrix& matrix, const float* a, int8_t* numbers, float* scales, int32_t* sums);
  // `scratch` has matrix.padded() · 32 bytes. Any number of panels.
  void (*multiply)(const NbitsMatrix& matrix, const NbitsPart& part, const NbitsRows& rows, float* y, int64_t y_stride,
                   uint8_t* scratch);
  bool takes_8_bits;  // weights of 8 bits too
};
// Null where this processor has no instructions for it: floats are as fast there.
const NbitsByteKernels* BestNbitsByteKernels();
// Those with AVX2 alone; null on other processors.
const NbitsByteKernels* Avx2NbitsByteKernels();

}  // namespace ferry
