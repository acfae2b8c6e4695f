#include "kernels/panel_gemm.h"

#include "kernels/simd/unroll-inl.h"

namespace ferry::FERRY_ISA {
namespace {

template <class T>
constexpr bool IsInteger() {
  return T(1) / T(2) == T(0);
}

template <class T>
struct Vectors {
  using Tag = hn::ScalableTag<T>;
  using Vector = hn::Vec<Tag>;
  static constexpr int64_t kLanes = HWY_LANES(T);

  static HWY_INLINE Vector Zero() { return hn::Zero(Tag()); }
  static HWY_INLINE Vector Set(T value) { return hn::Set(Tag(), value); }
  static HWY_INLINE Vector Load(const T* from) { return hn::LoadU(Tag(), from); }
  static HWY_INLINE void Store(Vector x, T* to) { hn::StoreU(x, Tag(), to); }
  static HWY_INLINE Vector Add(Vector a, Vector b) { return hn::Add(a, b); }
  static HWY_INLINE Vector MulAdd(Vector a, Vector b, Vector sum) {
    if constexpr (IsInteger<T>())
      return hn::Add(hn::Mul(a, b), sum);
    else
      return hn::MulAdd(a, b, sum);
  }
  // Rounded as in a vector; of a plain loop the compiler decides.
  static HWY_INLINE T MulAddOne(T a, T b, T sum) {
    const hn::CappedTag<T, 1> d;
    if constexpr (IsInteger<T>())
      return a * b + sum;
    else
      return hn::GetLane(hn::MulAdd(hn::Set(d, a), hn::Set(d, b), hn::Set(d, sum)));
  }
};

// Where Highway has no vectors of a type; its own ones of a single integer would overflow.
template <class T>
struct Singles {
  using Vector = T;
  static constexpr int64_t kLanes = 1;

  static HWY_INLINE T Zero() { return T(0); }
  static HWY_INLINE T Set(T value) { return value; }
  static HWY_INLINE T Load(const T* from) { return *from; }
  static HWY_INLINE void Store(T x, T* to) { *to = x; }
  static HWY_INLINE T Add(T a, T b) { return a + b; }
  static HWY_INLINE T MulAdd(T a, T b, T sum) { return a * b + sum; }
  static HWY_INLINE T MulAddOne(T a, T b, T sum) { return a * b + sum; }
};

#if HWY_TARGET == HWY_SCALAR
template <class T>
using Best = Singles<T>;
#else
template <class T>
using Best = Vectors<T>;
#endif
#if HWY_HAVE_FLOAT64
using Doubles = Best<double>;
#else
using Doubles = Singles<double>;
#endif

// A tile of kPanelRows rows by two vectors over packed panels: its sums stay in registers.
template <class Simd, class T>
void Tile(int64_t depths, const T* a, const T* b, T* c, int64_t c_row, bool add) {
  constexpr int kRows = static_cast<int>(ferry::kPanelRows), kLanes = static_cast<int>(Simd::kLanes);
  typename Simd::Vector sums[kRows][2];
  Unroll<0, kRows>([&]<int i>() FERRY_INLINE { sums[i][0] = sums[i][1] = Simd::Zero(); });
  for (int64_t k = 0; k < depths; ++k, a += kRows, b += 2 * kLanes) {
    const typename Simd::Vector b0 = Simd::Load(b), b1 = Simd::Load(b + kLanes);
    Unroll<0, kRows>([&]<int i>() FERRY_INLINE {
      const typename Simd::Vector element = Simd::Set(a[i]);
      sums[i][0] = Simd::MulAdd(element, b0, sums[i][0]);
      sums[i][1] = Simd::MulAdd(element, b1, sums[i][1]);
    });
  }
  Unroll<0, kRows>([&]<int i>() FERRY_INLINE {
    Unroll<0, 2>([&]<int v>() FERRY_INLINE {
      T* to = c + i * c_row + v * kLanes;
      Simd::Store(add ? Simd::Add(sums[i][v], Simd::Load(to)) : sums[i][v], to);
    });
  });
}

// Eight rows of B at a time, so that C is loaded and stored once for all of them.
template <class Simd, class T>
void AddRows(int64_t depths, const T* a, const T* b, int64_t b_row, T* c, int64_t n) {
  constexpr int kTogether = 8;
  int64_t i = 0;
  for (; i + kTogether <= depths; i += kTogether, a += kTogether, b += kTogether * b_row) {
    int64_t j = 0;
    for (; j + Simd::kLanes <= n; j += Simd::kLanes) {
      typename Simd::Vector even = Simd::Load(c + j), odd = Simd::Zero();
      Unroll<0, kTogether / 2>([&]<int pair>() FERRY_INLINE {
        const T* row = b + 2 * pair * b_row + j;
        even = Simd::MulAdd(Simd::Set(a[2 * pair]), Simd::Load(row), even);
        odd = Simd::MulAdd(Simd::Set(a[2 * pair + 1]), Simd::Load(row + b_row), odd);
      });
      Simd::Store(Simd::Add(even, odd), c + j);
    }
    for (; j < n; ++j) {
      T sum = c[j];
      for (int r = 0; r < kTogether; ++r) sum = Simd::MulAddOne(a[r], b[r * b_row + j], sum);
      c[j] = sum;
    }
  }
  for (; i < depths; ++i, ++a, b += b_row) {
    const typename Simd::Vector element = Simd::Set(a[0]);
    int64_t j = 0;
    for (; j + Simd::kLanes <= n; j += Simd::kLanes)
      Simd::Store(Simd::MulAdd(element, Simd::Load(b + j), Simd::Load(c + j)), c + j);
    for (; j < n; ++j) c[j] = Simd::MulAddOne(a[0], b[j], c[j]);
  }
}

// With four running vectors, so that additions need not wait for each other.
template <class Simd, class T>
T Dot(int64_t depths, const T* a, const T* b) {
  constexpr int64_t kLanes = Simd::kLanes;
  typename Simd::Vector sums[4] = {Simd::Zero(), Simd::Zero(), Simd::Zero(), Simd::Zero()};
  int64_t i = 0;
  for (; i + 4 * kLanes <= depths; i += 4 * kLanes)
    Unroll<0, 4>([&]<int v>() FERRY_INLINE {
      sums[v] = Simd::MulAdd(Simd::Load(a + i + v * kLanes), Simd::Load(b + i + v * kLanes), sums[v]);
    });
  for (; i + kLanes <= depths; i += kLanes) sums[0] = Simd::MulAdd(Simd::Load(a + i), Simd::Load(b + i), sums[0]);
  T lanes[kLanes];
  Simd::Store(Simd::Add(sums[0], Simd::Add(sums[1], Simd::Add(sums[2], sums[3]))), lanes);
  T sum(0);
  for (int64_t lane = 0; lane < kLanes; ++lane) sum += lanes[lane];
  for (; i < depths; ++i) sum = Simd::MulAddOne(a[i], b[i], sum);
  return sum;
}

template <class Simd, class T>
constexpr PanelLoops<T> LoopsOf() {
  return {2 * Simd::kLanes, Tile<Simd, T>, AddRows<Simd, T>, Dot<Simd, T>};
}

}  // namespace

extern const PanelKernels kPanelKernels;
const PanelKernels kPanelKernels = {LoopsOf<Best<float>, float>(), LoopsOf<Doubles, double>(),
                                    LoopsOf<Best<uint32_t>, uint32_t>(), LoopsOf<Best<uint64_t>, uint64_t>()};

}  // namespace ferry::FERRY_ISA
