// Square blocks of elements turned over in vector registers. GCC's and Clang's vector types make one source serve every
// processor; the shuffles become its unpack or zip instructions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace ferry {

inline constexpr size_t kBlockBytes = 16;

// to[r·to_stride + c] = from[c·from_stride + r] for a square of kBlockBytes / sizeof(T) elements a side; strides are in
// elements, neither side needs to be aligned.
template <class T>
class BlockTranspose {
 public:
  static constexpr size_t kSide = kBlockBytes / sizeof(T);
  typedef T Vector __attribute__((vector_size(kBlockBytes)));

  // The elements of the lower or upper halves of two vectors in turns.
  static Vector ZipLower(Vector a, Vector b) { return Interleave(a, b, 0, std::make_index_sequence<kSide>()); }
  static Vector ZipUpper(Vector a, Vector b) { return Interleave(a, b, kSide / 2, std::make_index_sequence<kSide>()); }

  static void Run(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride) {
    constexpr auto kWidth = static_cast<int64_t>(sizeof(T));
    Vector rows[kSide], turned[kSide];
    for (size_t i = 0; i < kSide; ++i)
      std::memcpy(&rows[i], from + static_cast<int64_t>(i) * from_stride * kWidth, kBlockBytes);
    // Interleaving the upper half with the lower half, as often as it takes to double 1 to kSide, transposes.
    for (size_t step = 1; step < kSide; step *= 2) {
      for (size_t i = 0; i < kSide / 2; ++i) {
        turned[2 * i] = ZipLower(rows[i], rows[i + kSide / 2]);
        turned[2 * i + 1] = ZipUpper(rows[i], rows[i + kSide / 2]);
      }
      for (size_t i = 0; i < kSide; ++i) rows[i] = turned[i];
    }
    for (size_t i = 0; i < kSide; ++i)
      std::memcpy(to + static_cast<int64_t>(i) * to_stride * kWidth, &rows[i], kBlockBytes);
  }

 private:
  template <size_t... kLane>
  static Vector Interleave(Vector a, Vector b, size_t first, std::index_sequence<kLane...>) {
    if (first == 0) return __builtin_shufflevector(a, b, (kLane / 2 + kLane % 2 * kSide)...);
    return __builtin_shufflevector(a, b, (kSide / 2 + kLane / 2 + kLane % 2 * kSide)...);
  }
};

}  // namespace ferry
