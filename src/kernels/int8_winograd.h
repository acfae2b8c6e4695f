// Winograd's algorithm for 3×3 convolutions of bytes with stride 1, without any rounding: tiles of the image become
// 16-bit integers, the products of every position are 32-bit sums, and what the transforms multiplied them by is
// divided out exactly. Sums wrap: only what is left in the end must fit.
#pragma once

#include "kernels/int8_gemm.h"

namespace ferry {

// Channels and features come in multiples of this.
inline constexpr int64_t kInt8WinogradChannels = 16;

// One row of tiles, each of `outputs` × `outputs` results, made of points = (outputs + 2)² positions.
struct Int8WinogradTiles {
  int64_t tiles = 0, channels = 0;
  const uint8_t* const* pixels = nullptr;  // [outputs + 2, outputs · tiles + 2], to the first channel
  uint8_t flip = 0;                        // as Int8Kernels::prepare has it
  int16_t* to = nullptr;                   // [points, …, tiles, channels]
  int64_t point_stride = 0;
};

struct Int8WinogradSums {
  int64_t tiles = 0, features = 0;
  const int32_t* from = nullptr;  // [points, …, tiles, features]
  int64_t point_stride = 0;
  int64_t rows = 0, columns = 0;  // results that are wanted: of rows and columns that exist
  int64_t line = 0;               // results from one row to the next
  Int8Output out;                 // a row of it is a result
};

struct Int8WinogradKernels {
  int64_t outputs;
  // Sums must be smaller than this in magnitude.
  int64_t limit;
  // The weights of `count` filters of one channel, times a constant: w[3, 3, count] to [points, …, count]. There are as
  // many as channels could be.
  void (*filter)(const int8_t* w, int64_t count, int16_t* to, int64_t point_stride);
  void (*input)(const Int8WinogradTiles& row);
  void (*output)(const Int8WinogradSums& row);
};

// Tiles of 2×2 and of 4×4.
struct Int8WinogradTable {
  Int8WinogradKernels of_2, of_4;
};
const Int8WinogradTable& BestInt8WinogradTable();

}  // namespace ferry
