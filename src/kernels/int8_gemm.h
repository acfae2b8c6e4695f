// Products of 8-bit integers with exact 32-bit sums. Rows of A are bytes made ready beforehand, B is packed 8-bit
// weights; what is made of the sums happens while they are in registers.
#pragma once

#include <stdint.h>

namespace ferry {

// Columns of a panel of B; the last panel is padded with zeros.
inline constexpr int64_t kInt8PanelWidth = 16;
// Signed bytes become unsigned by this, their zero points move by 128.
inline constexpr uint8_t kSignFlip = 0x80;

// What becomes of the sums. Arrays over columns are readable up to a panel beyond their end.
struct Int8Output {
  enum class Kind { kSums, kFloats, kBytes };
  Kind kind = Kind::kSums;
  void* c = nullptr;  // int32_t, float or bytes
  int64_t stride = 0;
  const int32_t* offset = nullptr;  // per column, added to the sums
  // row_term[i] · column_term[n] is added too, unless null.
  const int32_t* row_term = nullptr;
  const int32_t* column_term = nullptr;
  // Floats: sum · factor + shift; bytes: its nearest integer (halves to even) + zero, between low and high.
  const float* factor = nullptr;
  const float* shift = nullptr;  // null: none
  int32_t zero = 0, low = 0, high = 255;
};

struct Int8Product {
  const void* a = nullptr;  // `rows` of PaddedDepth(depth) ready elements
  int64_t rows = 0, depth = 0;
  const void* packed = nullptr;  // int8_t, or int16_t for multiply_shorts
  int64_t columns = 0;
  Int8Output out;
  // Rows are signed bytes: only where takes_signed.
  bool is_signed = false;
  // Room to widen rows that are faster so. They need not be.
  void* scratch = nullptr;
};

// Rows of A where they are: each is `count` runs of `length` bytes, the first one at at[row], each `stride` after the
// one before. Nothing is made ready; `length` is a multiple of Int8Kernels::depth_unit.
struct Int8Runs {
  const uint8_t* const* at = nullptr;
  int64_t count = 1, length = 0, stride = 0;
};

struct Int8Kernels {
  int64_t depth_unit;      // depths that lie side by side
  int64_t depth_multiple;  // the depth is padded to with zeros
  int64_t element_bytes;   // of a ready element of A
  int64_t scratch_bytes;   // for every ready element, of Int8Product::scratch
  int64_t tile_rows;       // rows at full speed: cut work into multiples of it
  // Products whose rows have their zero point near 128 are faster when it lies near 0, which `prepare` with kSignFlip
  // for unsigned bytes, and without for signed ones, makes of it.
  bool takes_signed;
  // Makes bytes ready. Signed ones are given with kSignFlip and count from -128 on, unsigned ones with 0.
  void (*prepare)(const uint8_t* from, uint8_t flip, int64_t count, void* to);
  void (*fill)(uint8_t value, int64_t count, void* to);
  void (*multiply)(const Int8Product& product);
  // The same for 16-bit integers on both sides, packed in the order of PackedShortsIndex; sums of products wrap, a
  // number of A and one of B must not when they are added. Null where bytes are multiplied so much faster that nobody
  // should want it.
  void (*multiply_shorts)(const Int8Product& product);
  // The same for unsigned bytes that lie apart (product.a is not used); null where bytes must be made ready.
  void (*multiply_runs)(const Int8Product& product, const Int8Runs& runs);
  // The smallest and largest of the numbers and 0; NaN is passed over.
  void (*range)(const float* x, int64_t count, float* low, float* high);
  // y = saturate(round(x / scale) + zero) ^ flip, halves to even; NaN becomes 0 ^ flip.
  void (*quantize)(const float* x, int64_t count, float scale, float zero, uint8_t flip, uint8_t* y);
  // y = ((x ^ flip) - zero) · scale
  void (*dequantize)(const uint8_t* x, int64_t count, float scale, int32_t zero, uint8_t flip, float* y);
};

const Int8Kernels& BestInt8Kernels();

int64_t PaddedDepth(int64_t depth);
// Bytes that the packed form of a [depth × columns] matrix takes, and where element (k, n) of it lies.
int64_t PackedInt8Size(int64_t depth, int64_t columns);
int64_t PackedInt8Index(int64_t depth, int64_t k, int64_t n);
inline constexpr int64_t kShortsUnit = 2;
int64_t PackedShortsIndex(int64_t depth, int64_t k, int64_t n);
// Columns up to the end of their panel.
inline int64_t PaddedColumns(int64_t columns) {
  return (columns + kInt8PanelWidth - 1) / kInt8PanelWidth * kInt8PanelWidth;
}

}  // namespace ferry
