// Matrix products C[m, n] = A[m, k] · B[k, n], blocked for the caches and vectorised for the processor at hand. Weights
// are read where they lie: scratch memory is a few megabytes per thread whatever the sizes. The way the work is cut
// depends on the sizes alone, so results are the same bits for any number of threads.
//
// T is float, double, uint32_t or uint64_t; signed integers go through the unsigned type, where overflow wraps.
#pragma once

#include <cstdint>
#include <span>

#include "base/thread_pool.h"

namespace ferry {

// Where one product of a batch finds its operands, in elements from the start of A and B.
struct GemmBatch {
  int64_t a = 0, b = 0;
};

template <class T>
struct GemmArgs {
  int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;
  int64_t a_row = 0, a_col = 1;  // strides in elements; 1 along rows or along columns is fastest
  const T* b = nullptr;
  int64_t b_row = 0, b_col = 1;
  T* c = nullptr;
  int64_t c_row = 0;
  int64_t c_batch = 0;                      // from one product's result to the next
  bool accumulate = false;                  // add to what C holds instead of overwriting it
  std::span<const GemmBatch> batches = {};  // empty: one product
};

// `pool` may be null: everything on the calling thread.
template <class T>
void Gemm(const GemmArgs<T>& args, ThreadPool* pool);

// to[0, n) += scale · from[0, n)
template <class T>
void AddScaled(int64_t n, T scale, const T* from, T* to);

// One operand as the inner loops want it: `lines` are the rows of A or the columns of B. Whoever implements it decides
// where elements come from: strided memory, narrower types, the windows of a convolution.
template <class T>
class PanelSource {
 public:
  virtual ~PanelSource() = default;
  // Writes out[i * width + j] = element (line + j, depth + i) for i < depths, j < lines; zero for lines <= j < width.
  virtual void Pack(int64_t batch, int64_t depth, int64_t depths, int64_t line, int64_t lines, int64_t width,
                    T* out) const = 0;
};

template <class T>
struct PanelGemmArgs {
  int64_t m = 0, n = 0, k = 0;
  int64_t batches = 1;
  const PanelSource<T>* a = nullptr;  // lines are rows
  const PanelSource<T>* b = nullptr;  // lines are columns
  T* c = nullptr;
  int64_t c_row = 0;
  int64_t c_batch = 0;
  bool accumulate = false;
};

template <class T>
void PanelGemm(const PanelGemmArgs<T>& args, ThreadPool* pool);

// A product whose second operand comes from a source, and whose first one is read where it lies, row by row (a_col is
// 1). B and the batches' places in it are not used; k is 1 to kDeepestColumns.
inline constexpr int64_t kDeepestColumns = 16384;
void GemmOfColumns(const GemmArgs<float>& args, const PanelSource<float>& b, ThreadPool* pool);

// Strided memory as a PanelSource. `convert` turns a stored element into T and may know the line (zero points).
template <class T, class Stored, class Convert>
class StridedSource final : public PanelSource<T> {
 public:
  StridedSource(const Stored* data, int64_t line_stride, int64_t depth_stride, std::span<const int64_t> offsets,
                Convert convert)
      : data_(data), line_stride_(line_stride), depth_stride_(depth_stride), offsets_(offsets), convert_(convert) {}

  void Pack(int64_t batch, int64_t depth, int64_t depths, int64_t line, int64_t lines, int64_t width,
            T* out) const override {
    const Stored* from = data_ + (offsets_.empty() ? 0 : offsets_[static_cast<size_t>(batch)]) + line * line_stride_ +
                         depth * depth_stride_;
    if (line_stride_ == 1) {
      for (int64_t i = 0; i < depths; ++i, from += depth_stride_, out += width) {
        for (int64_t j = 0; j < lines; ++j) out[j] = convert_(from[j], batch, line + j);
        for (int64_t j = lines; j < width; ++j) out[j] = T{0};
      }
      return;
    }
    for (int64_t j = 0; j < lines; ++j, from += line_stride_)
      for (int64_t i = 0; i < depths; ++i) out[i * width + j] = convert_(from[i * depth_stride_], batch, line + j);
    for (int64_t j = lines; j < width; ++j)
      for (int64_t i = 0; i < depths; ++i) out[i * width + j] = T{0};
  }

 private:
  const Stored* data_;
  int64_t line_stride_, depth_stride_;
  std::span<const int64_t> offsets_;  // per batch; empty: none
  Convert convert_;
};

}  // namespace ferry
