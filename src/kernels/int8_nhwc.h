// Inner loops over channels-last images of bytes.
#pragma once

#include "kernels/int8_gemm.h"

namespace ferry {

// Pixels whose every output channel reads the input channel of the same number.
struct Int8Depthwise {
  const uint8_t* const* taps = nullptr;  // 2 · pairs pointers for each pixel, to the first channel
  // 3×3 taps whose last two columns are the first two of the next pixel, except at the end of a line of pixels.
  bool slides = false;
  int64_t pixels = 0, line = 0, pairs = 0, channels = 0;
  const int16_t* weights = nullptr;  // [2 · pairs, channels]
  uint8_t flip = 0;                  // of the input, as Int8Kernels::prepare has it
  Int8Output out;                    // rows are pixels
};

// y = nearest(a · a_factor + (b · b_factor + added)), halves to even, between low and high; the bytes that a flip makes
// unsigned count from -128 on. Each multiply-and-add is rounded once, in this order, as other runtimes do.
struct Int8Sum {
  const uint8_t* a = nullptr;
  const uint8_t* b = nullptr;
  uint8_t* y = nullptr;
  uint8_t a_flip = 0, b_flip = 0, y_flip = 0;
  float a_factor = 0, b_factor = 0, added = 0;
  int32_t low = 0, high = 255;
};

struct Int8NhwcKernels {
  void (*depthwise)(const Int8Depthwise& conv);
  void (*add)(const Int8Sum& sum, int64_t count);
  // to[c] = the largest of pixels[i][c] over i < count, counted as flip says.
  void (*largest)(const uint8_t* const* pixels, int64_t count, int64_t channels, uint8_t flip, uint8_t* to);
  // sums[c] += x[i · channels + c] ^ flip over i < count
  void (*add_rows)(const uint8_t* x, int64_t count, int64_t channels, uint8_t flip, int32_t* sums);
};

const Int8NhwcKernels& BestInt8NhwcKernels();

}  // namespace ferry
