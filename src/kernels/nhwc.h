// Inner loops over channels-last images: what convolution networks need beside products. Pixels are given by pointers
// wherever padding may replace them by zeros.
#pragma once

#include <stdint.h>

#include "kernels/activation.h"

namespace ferry {

// One image in which every output channel reads the input channel of the same number, or, in a grouped convolution, the
// few channels of its group.
struct DepthwiseConv {
  const float* x = nullptr;         // [height, width, channels]
  const float* residual = nullptr;  // like y; may be the same memory
  const float* weights = nullptr;   // [kernel_height · kernel_width, channels]; grouped: see PackGrouped
  const float* bias = nullptr;
  const float* zeros = nullptr;  // as many as channels
  float* y = nullptr;            // [out_height, out_width, channels or features]
  int64_t channels = 0, height = 0, width = 0, out_width = 0;
  int64_t kernel_height = 0, kernel_width = 0, stride_y = 1, stride_x = 1, dilation_y = 1, dilation_x = 1;
  int64_t pad_top = 0, pad_left = 0;
  int64_t features = 0, group_channels = 1, group_features = 1;  // of a grouped one
  Activation activation;
};

// One position of Winograd's algorithm: transformed pixels of a group of tiles, a row each, by panels of weights.
struct WinogradProduct {
  // Blocks of kWinogradBlock channels, each row by row: one pointer reaches all rows, and none shares a cache set.
  const float* rows = nullptr;
  int64_t row_count = 0;  // at most WinogradKernels::most_rows
  int64_t channels = 0;
  const float* panels = nullptr;
  int64_t panel_count = 0;
  const char* ahead = nullptr;  // what to fetch meanwhile, and how many bytes (a line at least) for every four channels
  int64_t ahead_step = 0;
  float* to = nullptr;  // whole panels wide
  int64_t to_stride = 0;
};

inline constexpr int64_t kWinogradBlock = 16;

// What Winograd's algorithm makes of one tile of a 3×3 convolution with stride 1.
struct WinogradOutput {
  const float* products = nullptr;  // position p of the tile at products + p · stride
  int64_t stride = 0;
  int64_t offset = 0;  // the first channel, in all that follows
  int64_t channels = 0;
  const float* bias = nullptr;
  float* const* y = nullptr;               // pixels of the tile; null where it reaches beyond the image
  const float* const* residual = nullptr;  // null: none
  Activation activation;
};

inline constexpr int64_t kMostWinogradPositions = 36, kMostWinogradOutputs = 16;

struct WinogradKernels {
  int64_t outputs;    // of a tile along each axis: 2 or 4
  int64_t positions;  // (outputs + 2)²
  int64_t most_rows;  // of a group of tiles
  // pixels[(outputs + 2)²], position p at v + p · stride, blocks of kWinogradBlock channels `block_stride` apart; the
  // last one may be written as a whole.
  void (*input)(const float* const* pixels, int64_t channels, float* v, int64_t stride, int64_t block_stride);
  void (*multiply)(const WinogradProduct& product);
  void (*output)(const WinogradOutput& tile);
  // Filters of `channels` channels, each nine taps of kPanelWidth features; position p at to + p · stride.
  void (*filter)(const float* taps, int64_t channels, float* to, int64_t stride);
};

// The kernels of one instruction set.
struct NhwcKernels {
  // Output rows [first, last). `columns` is room for DepthwiseColumns(conv) pointers.
  void (*depthwise)(const DepthwiseConv& conv, int64_t first, int64_t last, const float** columns);
  int64_t depthwise_pixels;  // outputs that are made at once
  // The same for a grouped convolution with a kernel that is 3 wide, not dilated, with a stride of 1 or 2 along rows,
  // where GroupsFitLanes.
  void (*grouped)(const DepthwiseConv& conv, int64_t first, int64_t last, const float** columns);
  int64_t lanes;
  // The same for planes [channels, height, width] that become features of all channels, where PlanarFits; `lines` is
  // room for PlanarLines(conv) numbers.
  void (*planar)(const DepthwiseConv& conv, int64_t first, int64_t last, float* lines);
  int64_t widest_planar;  // kernel
  const WinogradKernels *winograd2, *winograd4;
  // to[c] = the largest, or `scale` times the sum, of pixels[i][c] over i < count. NaN wins.
  void (*largest)(const float* const* pixels, int64_t count, int64_t channels, float* to);
  void (*scaled_sum)(const float* const* pixels, int64_t count, int64_t channels, float scale, float* to);
  // to[c] = scale · Σ x[i · stride + c] over i < count.
  void (*scaled_row_sum)(const float* x, int64_t count, int64_t stride, int64_t channels, float scale, float* to);
  // to = activation(x · factor + offset), factor and offset per channel; offset may be null. Pixels of x lie `stride`
  // apart, those of the result side by side.
  void (*affine)(const float* x, int64_t stride, int64_t count, int64_t channels, const float* factor,
                 const float* offset, const Activation& activation, float* to);
  void (*activate)(const Activation& activation, float* x, int64_t count);
  // to[2i] = a[i], to[2i + 1] = b[i]
  void (*interleave)(const float* a, const float* b, int64_t count, float* to);
  void (*interleave3)(const float* a, const float* b, const float* c, int64_t count, float* to);
};

const NhwcKernels& BestNhwcKernels();

// Shorter vectors are not shared by groups, or never half full: it would only be code.
inline constexpr int64_t kLeastShared = 8, kLeastHalved = 16;

// Whether the features of a group fill vectors, or those of groups of as many channels vectors and half vectors.
bool GroupsFitLanes(const DepthwiseConv& conv, int64_t lanes);

// Weights [features, group_channels, kernel_height, kernel_width] as `grouped` and `planar` read them: for every vector
// of features, kernel row and channel a vector for each tap; the last may be half vectors.
void PackGrouped(const float* weights, const DepthwiseConv& conv, int64_t lanes, float* packed);

// A stride of 2 along rows, a kernel that is 3 or 7 wide and not dilated, features that fill vectors and half vectors.
bool PlanarFits(const DepthwiseConv& conv, const NhwcKernels& kernels);
int64_t PlanarLines(const DepthwiseConv& conv);

// Pointers that a row of a depthwise convolution needs.
int64_t DepthwiseColumns(const DepthwiseConv& conv);

}  // namespace ferry
