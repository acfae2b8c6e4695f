// The inner loops of gemm.cc, included once per instruction set with FERRY_SIMD_NAMESPACE, FERRY_SIMD_TARGET (an
// attribute) and FERRY_SIMD_BYTES (of one vector) defined. Written with the compiler's vector types.

namespace ferry {
namespace FERRY_SIMD_NAMESPACE {

template <class T>
struct Simd {
  static constexpr int64_t kLanes = FERRY_SIMD_BYTES / sizeof(T);
  typedef T Vector __attribute__((vector_size(FERRY_SIMD_BYTES)));
  typedef T Unaligned __attribute__((vector_size(FERRY_SIMD_BYTES), aligned(alignof(T)), may_alias));
};

#define FERRY_LOAD(pointer) (*reinterpret_cast<const typename Simd<T>::Unaligned*>(pointer))
#define FERRY_STORE(pointer) (*reinterpret_cast<typename Simd<T>::Unaligned*>(pointer))

// A tile of 6 rows by two vectors over packed panels: twelve sums stay in registers.
template <class T>
FERRY_SIMD_TARGET void Tile(int64_t depths, const T* a, const T* b, T* c, int64_t c_row, bool add) {
  constexpr int64_t kLanes = Simd<T>::kLanes;
  typename Simd<T>::Vector s00{}, s01{}, s10{}, s11{}, s20{}, s21{}, s30{}, s31{}, s40{}, s41{}, s50{}, s51{};
  for (int64_t i = 0; i < depths; ++i, a += kGemmRows, b += 2 * kLanes) {
    const typename Simd<T>::Vector b0 = FERRY_LOAD(b), b1 = FERRY_LOAD(b + kLanes);
    s00 += a[0] * b0;
    s01 += a[0] * b1;
    s10 += a[1] * b0;
    s11 += a[1] * b1;
    s20 += a[2] * b0;
    s21 += a[2] * b1;
    s30 += a[3] * b0;
    s31 += a[3] * b1;
    s40 += a[4] * b0;
    s41 += a[4] * b1;
    s50 += a[5] * b0;
    s51 += a[5] * b1;
  }
#define FERRY_FINISH_ROW(row, low, high) \
  {                                      \
    T* to = c + (row)*c_row;             \
    if (add) {                           \
      low += FERRY_LOAD(to);             \
      high += FERRY_LOAD(to + kLanes);   \
    }                                    \
    FERRY_STORE(to) = low;               \
    FERRY_STORE(to + kLanes) = high;     \
  }
  FERRY_FINISH_ROW(0, s00, s01)
  FERRY_FINISH_ROW(1, s10, s11)
  FERRY_FINISH_ROW(2, s20, s21)
  FERRY_FINISH_ROW(3, s30, s31)
  FERRY_FINISH_ROW(4, s40, s41)
  FERRY_FINISH_ROW(5, s50, s51)
#undef FERRY_FINISH_ROW
}

// c[0..n) += Σ a[i] · b[i][0..n) over a few rows of B at a time, so that C is loaded and stored once for eight of them.
template <class T>
FERRY_SIMD_TARGET void AddRows(int64_t depths, const T* a, const T* b, int64_t b_row, T* c, int64_t n) {
  constexpr int64_t kLanes = Simd<T>::kLanes;
  int64_t i = 0;
  for (; i + 8 <= depths; i += 8, a += 8, b += 8 * b_row) {
    int64_t j = 0;
    for (; j + kLanes <= n; j += kLanes) {
      const T* row = b + j;
      typename Simd<T>::Vector even = FERRY_LOAD(c + j), odd{};
      even += a[0] * FERRY_LOAD(row);
      odd += a[1] * FERRY_LOAD(row + b_row);
      even += a[2] * FERRY_LOAD(row + 2 * b_row);
      odd += a[3] * FERRY_LOAD(row + 3 * b_row);
      even += a[4] * FERRY_LOAD(row + 4 * b_row);
      odd += a[5] * FERRY_LOAD(row + 5 * b_row);
      even += a[6] * FERRY_LOAD(row + 6 * b_row);
      odd += a[7] * FERRY_LOAD(row + 7 * b_row);
      FERRY_STORE(c + j) = even + odd;
    }
    for (; j < n; ++j) {
      T sum = c[j];
      for (int64_t r = 0; r < 8; ++r) sum += a[r] * b[r * b_row + j];
      c[j] = sum;
    }
  }
  for (; i < depths; ++i, ++a, b += b_row) {
    int64_t j = 0;
    for (; j + kLanes <= n; j += kLanes) FERRY_STORE(c + j) = FERRY_LOAD(c + j) + a[0] * FERRY_LOAD(b + j);
    for (; j < n; ++j) c[j] += a[0] * b[j];
  }
}

// Σ a[i] · b[i] with four running vectors.
template <class T>
FERRY_SIMD_TARGET T Dot(int64_t depths, const T* a, const T* b) {
  constexpr int64_t kLanes = Simd<T>::kLanes;
  typename Simd<T>::Vector s0{}, s1{}, s2{}, s3{};
  int64_t i = 0;
  for (; i + 4 * kLanes <= depths; i += 4 * kLanes) {
    s0 += FERRY_LOAD(a + i) * FERRY_LOAD(b + i);
    s1 += FERRY_LOAD(a + i + kLanes) * FERRY_LOAD(b + i + kLanes);
    s2 += FERRY_LOAD(a + i + 2 * kLanes) * FERRY_LOAD(b + i + 2 * kLanes);
    s3 += FERRY_LOAD(a + i + 3 * kLanes) * FERRY_LOAD(b + i + 3 * kLanes);
  }
  for (; i + kLanes <= depths; i += kLanes) s0 += FERRY_LOAD(a + i) * FERRY_LOAD(b + i);
  s0 += s1 + (s2 + s3);
  T sum{0};
  for (int64_t lane = 0; lane < kLanes; ++lane) sum += s0[lane];
  for (; i < depths; ++i) sum += a[i] * b[i];
  return sum;
}

#undef FERRY_LOAD
#undef FERRY_STORE

template <class T>
constexpr GemmLoops<T> kLoops = {2 * Simd<T>::kLanes, Tile<T>, AddRows<T>, Dot<T>};

}  // namespace FERRY_SIMD_NAMESPACE
}  // namespace ferry
