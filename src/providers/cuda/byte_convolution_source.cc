// The kernel of byte_convolution.h.
#include "providers/cuda/byte_convolution.h"

namespace ferry::cuda {

const char kAfterBytesSource[] = R"(
struct AfterBytes {
  int32 x_zero, y_zero, low, high, is_float, has_other, other_is_signed, made_is_second, sum_low, sum_high;
  float first_factor, second_factor, added;
};
// 1.5 · 2²³ leaves no room for a fraction: adding it rounds, halves to even, and the last bits are the whole number. That is
// several times as fast as a conversion. NaN becomes the least.
#define WHOLE 12582912.0f
__device__ inline float Limited(float value, float least, float most) { return fminf(fmaxf(value, least), most); }
__device__ inline int Nearest(float value, float least, float most) {
  return __float_as_int(Limited(value, least, most) + WHOLE) - 0x4b400000;
}
__device__ inline int LevelOf(float value, const AfterBytes& after) {
  return Nearest(value, float(after.low - after.y_zero), float(after.high - after.y_zero)) + after.y_zero;
}
__device__ inline int SumOfLevels(float first, float second, const AfterBytes& after) {
  const float value = fmaf(first, after.first_factor, fmaf(second, after.second_factor, after.added));
  return Nearest(value, float(after.sum_low), float(after.sum_high));
}
)";

// Rows are pixels, columns are features; the depth is taps × channels, in chunks of 16 bytes. A stage holds DEPTH bytes
// of every row and column; warps that share a tile take turns along the depth.
const char kByteConvolutionSource[] = R"(
#define THREADS (32 * WARPS_M * WARPS_N * WARPS_K)
#define CHUNKS (DEPTH / 16)
#define ROW_TILES (ROWS / WARPS_M / 16)
#define COLUMN_TILES (COLUMNS / WARPS_N / 8)
#define STAGE_BYTES ((ROWS + COLUMNS) * DEPTH)
// Which 16 rows of a tile a warp's sums are: wgmma gives four warps 64 rows that follow each other.
#if WARPGROUPS
#define ROW_BLOCK(warp_m, m) (((warp_m) / 4 * ROW_TILES + (m)) * 4 + (warp_m) % 4)
#else
#define ROW_BLOCK(warp_m, m) ((warp_m) * ROW_TILES + (m))
#endif
struct Windows {
  int64 image_bytes;
  int32 rows, features, channels, pixel_bytes, tap_bytes, chunks;
  int32 height, width, made_height, made_width, kernel_y, kernel_x, stride_y, stride_x, dilation_y, dilation_x;
  int32 top, left;
  uint32 fill;
};
__device__ inline int PlaceOf(int row, int chunk) {
  return row * DEPTH + (CHUNKS == 4 ? chunk ^ (row >> 1 & 3) : chunk ^ (row & 7)) * 16;
}
__device__ inline uint32 SharedAddress(const void* p) { return uint32(__cvta_generic_to_shared(p)); }
// Windows that overlap are read through the first cache where NEAR_CACHE is set.
__device__ inline void CopyNear(uint8* to, const void* from, int there) {
#if NEAR_CACHE
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(to)), "l"(from), "r"(there));
#else
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(to)), "l"(from), "r"(there));
#endif
}
template <int BYTES> __device__ inline void CopyAsync(uint8* to, const void* from, int there = BYTES) {
  if (BYTES == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(to)), "l"(from), "r"(there));
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(SharedAddress(to)), "l"(from), "n"(BYTES), "r"(there));
}
#if WARPGROUPS
// Rows of DEPTH bytes whose chunks lie as PlaceOf says: that is one of the layouts that wgmma reads.
__device__ inline uint64 DescriptionOf(const uint8* p) {
  return uint64((SharedAddress(p) & 0x3ffff) >> 4) | uint64(1) << 16 | uint64(DEPTH * 8 / 16) << 32 |
         uint64(DEPTH == 128 ? 1 : 2) << 62;
}
__device__ inline void WaitForSums(int (&sums)[ROW_TILES][COLUMN_TILES][4]) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
  for (int m = 0; m < ROW_TILES; ++m)
#pragma unroll
    for (int n = 0; n < COLUMN_TILES; ++n)
#pragma unroll
      for (int j = 0; j < 4; ++j) asm volatile("" : "+r"(sums[m][n][j])::"memory");
}
#else
__device__ inline void LoadFour(uint32 (&to)[4], const uint8* from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(SharedAddress(from)));
}
__device__ inline void MultiplyAdd(int (&d)[4], const uint32 (&a)[4], uint32 b0, uint32 b1) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32." X_KIND ".s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

// What a thread loads: always the same chunk of a stage's rows. Which taps of a row lie on the image is worked out once;
// where there are more than 32 of them, each time.
struct Loader {
  static constexpr int kStep = THREADS / CHUNKS;  // a multiple of 8: chunks of all its rows lie alike
  static constexpr int kRows = (ROWS + kStep - 1) / kStep, kColumns = (COLUMNS + kStep - 1) / kStep;
  const uint8* windows[kRows];  // where they begin, be it outside of the image
#if PLAIN
  uint32 rows_there;
#elif MANY_TAPS
  int tops[kRows], lefts[kRows];
#else
  uint32 taps_inside[kRows];
#endif
  const uint8* image;
  const int8 *weights, *filter;
  int row, column, place, at, channel, tap, tap_y, tap_x;

  __device__ Loader(const uint8* x, const int8* w, const Windows& how) {
    const int chunk = threadIdx.x % CHUNKS;
    row = threadIdx.x / CHUNKS, column = blockIdx.x * COLUMNS + row;
    image = x, filter = w, weights = w + (int64(column) * how.chunks + chunk) * 16;
    place = PlaceOf(row, chunk), at = chunk, channel = chunk * 16, tap = 0, tap_y = 0, tap_x = 0;
#if PLAIN
    rows_there = 0;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int pixel = blockIdx.y * ROWS + row + i * kStep;
      windows[i] = x + int64(pixel) * how.pixel_bytes;
      rows_there |= uint32(pixel < how.rows && row + i * kStep < ROWS) << i;
    }
#else
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int pixel = blockIdx.y * ROWS + row + i * kStep;
      const int line = pixel / how.made_width, n = line / how.made_height;
      const int top = (line - n * how.made_height) * how.stride_y - how.top;
      const int left = (pixel - line * how.made_width) * how.stride_x - how.left;
      windows[i] = x + n * how.image_bytes + (int64(top) * how.width + left) * how.pixel_bytes;
      const bool there = pixel < how.rows && row + i * kStep < ROWS;
#if MANY_TAPS
      tops[i] = there ? top : -(1 << 30), lefts[i] = left;
#else
      uint32 across = 0, inside = 0;
      for (int j = 0; j < how.kernel_x; ++j) {
        const int at_x = left + j * how.dilation_x;
        across |= uint32(at_x >= 0 && at_x < how.width) << j;
      }
      for (int j = 0; j < how.kernel_y; ++j) {
        const int at_y = top + j * how.dilation_y;
        if (at_y >= 0 && at_y < how.height) inside |= across << (j * how.kernel_x);
      }
      taps_inside[i] = there ? inside : 0;
#endif
    }
    Settle(how);
#endif
  }
  __device__ void Settle(const Windows& how) {
    while (channel >= how.tap_bytes) {
      channel -= how.tap_bytes, ++tap;
      if (++tap_x == how.kernel_x) tap_x = 0, ++tap_y;
    }
  }
  __device__ bool IsInside(int i, const Windows& how) const {
#if PLAIN
    return rows_there >> i & 1;
#elif MANY_TAPS
    const int y = tops[i] + tap_y * how.dilation_y, x = lefts[i] + tap_x * how.dilation_x;
    return y >= 0 && y < how.height && x >= 0 && x < how.width;
#else
    return taps_inside[i] >> tap & 1;
#endif
  }
  __device__ void Load(uint8* stage, const Windows& how) {
    const bool some = at < how.chunks;
#if PLAIN
    const int moved = channel;
#else
    const int64 moved = (int64(tap_y * how.dilation_y) * how.width + tap_x * how.dilation_x) * how.pixel_bytes + channel;
#endif
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      if (ROWS % kStep != 0 && row + i * kStep >= ROWS) break;
      const bool inside = some && IsInside(i, how);
      uint8* to = stage + place + i * (kStep * DEPTH);
      const uint8* from = inside ? windows[i] + moved : image;
#if PLAIN
      CopyNear(to, from, inside ? 16 : 0);
      continue;
#elif PIECE == 16
      if (how.fill == 0) {
        CopyNear(to, from, inside ? 16 : 0);
        continue;
      }
#endif
#pragma unroll
      for (int piece = 0; piece < 16; piece += PIECE) {
        if (inside && (PIECE == 16 || channel + piece < how.channels)) {
          CopyAsync<PIECE>(to + piece, from + piece);
        } else {
#pragma unroll
          for (int word = 0; word < PIECE; word += 4) *reinterpret_cast<uint32*>(to + piece + word) = how.fill;
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      if (COLUMNS % kStep != 0 && row + i * kStep >= COLUMNS) break;
      const bool there = some && column + i * kStep < how.features;
      CopyAsync<16>(stage + ROWS * DEPTH + place + i * (kStep * DEPTH),
                    there ? weights + int64(i * kStep) * how.chunks * 16 : filter, there ? 16 : 0);
    }
    at += CHUNKS, channel += DEPTH, weights += DEPTH;
#if !PLAIN
    Settle(how);
#endif
  }
};

// What is the same for a whole column. Factors may be scaled so that 256 becomes 1, which rounds nothing.
struct Columns {
  float *factor, *shift;
  int* moved;  // where sums begin
  __device__ explicit Columns(uint8* shared) {
    factor = reinterpret_cast<float*>(shared);
    shift = factor + COLUMNS;
    moved = reinterpret_cast<int*>(shift + COLUMNS);
  }
  __device__ float Value(int sum, int column) const { return fmaf(float(sum), factor[column], shift[column]); }
};
#if FROM_ZERO
#define SCALE 0.00390625f
#else
#define SCALE 1.0f
#endif

// Neighbours of a row that a thread finishes at once, and their bytes of the other operand.
#define TOGETHER (WARPS_K > 1 ? 4 : 16)
#define FINISHED (ROWS * COLUMNS / TOGETHER)
struct Place {
  int row, column, inner_row, inner_column;
  __device__ explicit Place(int i) {
    inner_row = i / (COLUMNS / TOGETHER), inner_column = i % (COLUMNS / TOGETHER) * TOGETHER;
    row = blockIdx.y * ROWS + inner_row, column = blockIdx.x * COLUMNS + inner_column;
  }
  __device__ bool inside(const Windows& how) const { return row < how.rows && column < how.features; }
  __device__ int64 at(const Windows& how) const { return int64(row) * how.features + column; }
};
#define OTHER_PITCH (COLUMNS + 16)
__device__ inline void LoadOthers(uint8* others, const uint8* other, const Windows& how) {
  const bool whole = how.features % TOGETHER == 0;
  for (int i = threadIdx.x; i < FINISHED; i += THREADS) {
    const Place place(i);
    uint8* to = others + place.inner_row * OTHER_PITCH + place.inner_column;
    if (!place.inside(how)) continue;
    if (whole)
      CopyAsync<TOGETHER>(to, other + place.at(how));
    else
      for (int j = 0; j < TOGETHER && place.column + j < how.features; ++j) to[j] = other[place.at(how) + j];
  }
}

// From a sum's value to its byte. Where the least is 0, values are scaled so that an instruction's own limits, 0 and 1, do
// half of the work: FROM_ZERO for the sum, SUM_FROM_ZERO for the sum with the other operand. Rounding halves to even
// allows an even number to be added in the same step.
struct Ends {
  float least, most, whole;
#if OTHER
  float sum_most, sum_least, sum_whole, back, first_factor, second_factor, added, other_base;
  uint32 flip;
#endif
  __device__ explicit Ends(const AfterBytes& after) {
    least = float(after.low - after.y_zero), most = float(after.high - after.y_zero) * SCALE;
#if OTHER
    whole = WHOLE * SCALE, back = whole - float(after.y_zero) * SCALE;
    const float scale = SUM_FROM_ZERO ? 0.00390625f : 1.0f;
    sum_least = float(after.sum_low), sum_most = float(after.sum_high) * scale, sum_whole = WHOLE * scale;
    first_factor = after.first_factor * scale, second_factor = after.second_factor * scale, added = after.added * scale;
    other_base = after.other_is_signed ? 8388736.0f : 8388608.0f, flip = after.other_is_signed ? 0x80808080u : 0u;
#else
    whole = (WHOLE + float(after.y_zero - ODD_ZERO)) * SCALE;
#endif
  }
  // The last byte of what it returns; `others` has byte `which` of the other operand.
  __device__ uint32 Code(float value, uint32 others, int which) const {
#if FROM_ZERO
    const float rounded = fminf(__saturatef(value), most) + whole;
#else
    const float rounded = Limited(value, least, most) + whole;
#endif
#if OTHER == 0
    return __float_as_uint(rounded) + ODD_ZERO;
#else
    const float made = FROM_ZERO ? (rounded - back) * 256.0f : rounded - back;
    const float other = __uint_as_float(__byte_perm(others ^ flip, 0x4b000000u, 0x7440 + which)) - other_base;
    const float first = OTHER == 1 ? made : other, second = OTHER == 1 ? other : made;
    const float sum = fmaf(first, first_factor, fmaf(second, second_factor, added));
#if SUM_FROM_ZERO
    return __float_as_uint(fminf(__saturatef(sum), sum_most) + sum_whole);
#else
    return __float_as_uint(Limited(sum, sum_least, sum_most) + sum_whole);
#endif
#endif
  }
};

#if WARPS_K > 1
// Sums of several warps.
__device__ inline void Finish(uint8* shared, int (&sums)[ROW_TILES][COLUMN_TILES][4], int warp_m, int warp_n, int warp_k,
                              const Columns& columns, const uint8* others, void* y, const Windows& how,
                              const AfterBytes& after) {
  constexpr int kPitch = COLUMNS + 4;
  int* slabs = reinterpret_cast<int*>(shared);
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < ROW_TILES; ++m)
#pragma unroll
    for (int n = 0; n < COLUMN_TILES; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = ROW_BLOCK(warp_m, m) * 16 + half * 8 + lane / 4;
        const int column = (warp_n * COLUMN_TILES + n) * 8 + lane % 4 * 2;
        *reinterpret_cast<int2*>(slabs + (warp_k * ROWS + row) * kPitch + column) =
            make_int2(sums[m][n][half * 2], sums[m][n][half * 2 + 1]);
      }
  __syncthreads();
  const Ends ends(after);
  const bool whole = how.features % 4 == 0;
  for (int i = threadIdx.x; i < FINISHED; i += THREADS) {
    const Place place(i);
    if (!place.inside(how)) continue;
    int total[4] = {};
#pragma unroll
    for (int k = 0; k < WARPS_K; ++k) {
      const int4 part = *reinterpret_cast<const int4*>(slabs + (k * ROWS + place.inner_row) * kPitch + place.inner_column);
      total[0] += part.x, total[1] += part.y, total[2] += part.z, total[3] += part.w;
    }
    const int64 at = place.at(how);
    const int count = how.features - place.column < 4 ? how.features - place.column : 4;
    if (after.is_float) {
      for (int j = 0; j < count; ++j) static_cast<float*>(y)[at + j] = columns.Value(total[j], place.inner_column + j);
      continue;
    }
    uint32 codes[4], beside = 0;
    if (OTHER) beside = *reinterpret_cast<const uint32*>(others + place.inner_row * OTHER_PITCH + place.inner_column);
#pragma unroll
    for (int j = 0; j < 4; ++j) codes[j] = ends.Code(columns.Value(total[j], place.inner_column + j), beside, j);
    const uint32 four = __byte_perm(__byte_perm(codes[0], codes[1], 0x0040), __byte_perm(codes[2], codes[3], 0x0040), 0x5410);
    if (whole) *reinterpret_cast<uint32*>(static_cast<uint8*>(y) + at) = four;
    else for (int j = 0; j < count; ++j) static_cast<uint8*>(y)[at + j] = uint8(four >> (8 * j));
  }
}
#else
// Bytes go through shared memory, so that rows are written 16 at a time.
__device__ inline void Finish(uint8* shared, int (&sums)[ROW_TILES][COLUMN_TILES][4], int warp_m, int warp_n, int,
                              const Columns& columns, const uint8* others, void* y, const Windows& how,
                              const AfterBytes& after) {
  constexpr int kPitch = COLUMNS + 16;
  const int lane = threadIdx.x % 32;
  const Ends ends(after);
#pragma unroll
  for (int n = 0; n < COLUMN_TILES; ++n) {
    const int inner_column = (warp_n * COLUMN_TILES + n) * 8 + lane % 4 * 2;
    const int column = blockIdx.x * COLUMNS + inner_column;
    const float2 factor = *reinterpret_cast<const float2*>(columns.factor + inner_column);
    const float2 shift = *reinterpret_cast<const float2*>(columns.shift + inner_column);
#pragma unroll
    for (int m = 0; m < ROW_TILES; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int inner_row = ROW_BLOCK(warp_m, m) * 16 + half * 8 + lane / 4;
        const float left = fmaf(float(sums[m][n][half * 2]), factor.x, shift.x);
        const float right = fmaf(float(sums[m][n][half * 2 + 1]), factor.y, shift.y);
        if (!after.is_float) {
          uint32 beside = 0;
          if (OTHER) beside = *reinterpret_cast<const uint16*>(others + inner_row * OTHER_PITCH + inner_column);
          *reinterpret_cast<uint16*>(shared + inner_row * kPitch + inner_column) =
              uint16(__byte_perm(ends.Code(left, beside, 0), ends.Code(right, beside, 1), 0x0040));
          continue;
        }
        const int row = blockIdx.y * ROWS + inner_row;
        float* to = static_cast<float*>(y) + int64(row) * how.features + column;
        if (row < how.rows && column < how.features) to[0] = left;
        if (row < how.rows && column + 1 < how.features) to[1] = right;
      }
  }
  if (after.is_float) return;
  __syncthreads();
  const bool whole = how.features % 16 == 0;
  for (int i = threadIdx.x; i < FINISHED; i += THREADS) {
    const Place place(i);
    if (!place.inside(how)) continue;
    const uint8* from = shared + place.inner_row * kPitch + place.inner_column;
    uint8* to = static_cast<uint8*>(y) + place.at(how);
    if (whole) *reinterpret_cast<int4*>(to) = *reinterpret_cast<const int4*>(from);
    else for (int j = 0; j < 16 && place.column + j < how.features; ++j) to[j] = from[j];
  }
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
ByteConvolution(const uint8* x, const int8* w, const int* w_sums, const float* factor, const int* bias, const float* shift,
                const uint8* other, void* y, const Windows how, const AfterBytes after) {
  extern __shared__ __align__(1024) uint8 memory[];
  uint8 *others = memory + COLUMN_BYTES, *shared = others + OTHER_BYTES;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int warp_k = warp % WARPS_K, warp_m = warp / WARPS_K % WARPS_M, warp_n = warp / WARPS_K / WARPS_M;
  Loader loader(x, w, how);
  const Columns columns(memory);
  const int stages = (how.chunks + CHUNKS - 1) / CHUNKS;
#pragma unroll
  for (int s = 0; s < AHEAD; ++s) {
    if (s < stages) loader.Load(shared + s * STAGE_BYTES, how);
    if (OTHER && s == AHEAD - 1) LoadOthers(others, other, how);
    asm volatile("cp.async.commit_group;");
  }
  for (int i = threadIdx.x; i < COLUMNS; i += THREADS) {
    const int column = blockIdx.x * COLUMNS + i;
    const bool there = column < how.features;
    columns.factor[i] = there ? factor[column] * SCALE : 0.0f;
    columns.shift[i] = there && shift ? shift[column] * SCALE : 0.0f;
    columns.moved[i] = there ? int(uint32(bias ? bias[column] : 0) - uint32(after.x_zero) * uint32(w_sums[column])) : 0;
  }
  __syncthreads();
  int sums[ROW_TILES][COLUMN_TILES][4];
#pragma unroll
  for (int n = 0; n < COLUMN_TILES; ++n) {
    const int2 begin = *reinterpret_cast<const int2*>(columns.moved + (warp_n * COLUMN_TILES + n) * 8 + lane % 4 * 2);
#pragma unroll
    for (int m = 0; m < ROW_TILES; ++m)
#pragma unroll
      for (int j = 0; j < 4; ++j) sums[m][n][j] = warp_k > 0 ? 0 : j % 2 ? begin.y : begin.x;
  }
#if WARPGROUPS
  // A stage is multiplied while the next one is waited for, and is loaded again two steps later.
  for (int s = 0; s < stages; ++s) {
    asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 1));
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    const uint8 *left = shared + s % STAGES * STAGE_BYTES, *right = left + ROWS * DEPTH;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < DEPTH / 32; ++k)
#pragma unroll
      for (int m = 0; m < ROW_TILES; ++m)
        MultiplyGroup(sums[m], DescriptionOf(left + (warp_m / 4 * ROW_TILES + m) * 64 * DEPTH) + k * 2,
                      DescriptionOf(right + warp_n * (COLUMNS / WARPS_N) * DEPTH) + k * 2);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    const int next = s + AHEAD;
    if (next < stages) loader.Load(shared + next % STAGES * STAGE_BYTES, how);
    asm volatile("cp.async.commit_group;");
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
  }
  WaitForSums(sums);
#else
  for (int s = 0; s < stages; ++s) {
    asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 1));
    __syncthreads();
    const int next = s + AHEAD;
    if (next < stages) loader.Load(shared + next % STAGES * STAGE_BYTES, how);
    asm volatile("cp.async.commit_group;");
    const uint8 *left = shared + s % STAGES * STAGE_BYTES, *right = left + ROWS * DEPTH;
#pragma unroll
    for (int k = 0; k < DEPTH / 32 / WARPS_K; ++k) {
      const int step = k * WARPS_K + warp_k;
      uint32 a[ROW_TILES][4], b[COLUMN_TILES / 2][4];
#pragma unroll
      for (int m = 0; m < ROW_TILES; ++m)
        LoadFour(a[m], left + PlaceOf((warp_m * ROW_TILES + m) * 16 + lane % 16, step * 2 + lane / 16));
#pragma unroll
      for (int n = 0; n < COLUMN_TILES / 2; ++n)
        LoadFour(b[n], right + PlaceOf((warp_n * COLUMN_TILES + n * 2) * 8 + lane % 8 + lane / 16 * 8,
                                       step * 2 + lane / 8 % 2));
#pragma unroll
      for (int m = 0; m < ROW_TILES; ++m)
#pragma unroll
        for (int n = 0; n < COLUMN_TILES; ++n)
          MultiplyAdd(sums[m][n], a[m], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
    }
  }
#endif
  asm volatile("cp.async.wait_all;");
  __syncthreads();
  Finish(shared, sums, warp_m, warp_n, warp_k, columns, others, y, how, after);
}
)";

}  // namespace ferry::cuda
