#include "kernels/gemm.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "base/check_run.h"
#include "base/scratch.h"
#include "kernels/packed_gemm.h"
#include "kernels/panel_gemm.h"

namespace ferry {
namespace {

template <class T>
const PanelLoops<T>& Loops() {
  const PanelKernels& best = BestPanelKernels();
  if constexpr (std::is_same_v<T, float>)
    return best.floats;
  else if constexpr (std::is_same_v<T, double>)
    return best.doubles;
  else if constexpr (std::is_same_v<T, uint32_t>)
    return best.words32;
  else
    return best.words64;
}

enum class GemmScratch { kBlocks, kCopiedRows, kPanels, kCount };

// A block of A and a block of B stay in the second-level cache, a panel of B in the first.
constexpr int64_t kDepthBlock = 256;
constexpr int64_t kRowBlock = 16 * kPanelRows;
constexpr int64_t kTaskRows = 4 * kRowBlock;
constexpr int64_t kTaskColumns = 256;
constexpr int64_t kLargestTile = kPanelRows * 2 * 64;  // elements of the register tile, any type

int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }
int64_t CeilDivide(int64_t a, int64_t b) { return a / b + (a % b != 0); }

void RunParallel(ThreadPool* pool, int64_t count, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) {
  if (count <= 0) return;
  if (pool)
    pool->ParallelFor(count, grain, body);
  else
    RunPieces(count, grain, body);
}

template <class T>
void SetZero(T* c, int64_t rows, int64_t columns, int64_t c_row) {
  for (int64_t i = 0; i < rows; ++i) std::fill_n(c + i * c_row, columns, T{0});
}

// The register tile at an edge goes through a buffer, so that every element sees the same arithmetic wherever it lies.
template <class T>
void EdgeTile(const PanelLoops<T>& loops, int64_t depths, const T* a, const T* b, T* c, int64_t c_row, int64_t rows,
              int64_t columns, bool add) {
  alignas(64) T buffer[kLargestTile];
  loops.tile(depths, a, b, buffer, loops.columns, false);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      T value = buffer[i * loops.columns + j];
      c[i * c_row + j] = add ? c[i * c_row + j] + value : value;
    }
}

template <class T>
class Blocks {
 public:
  explicit Blocks(const PanelGemmArgs<T>& args) : args_(args), loops_(Loops<T>()) {
    task_columns_ = kTaskColumns;
    // Small products are cut finer so that there is work for several threads.
    while (task_columns_ > 2 * loops_.columns && TaskCount() < 8) task_columns_ /= 2;
    depth_block_ = std::min<int64_t>(args.k, kDepthBlock);
    row_block_ = std::min(RoundUp(args.m, kPanelRows), kRowBlock);
    column_block_ = std::min(RoundUp(args.n, loops_.columns), task_columns_);
  }

  int64_t TaskCount() const {
    return args_.batches * CeilDivide(args_.m, kTaskRows) * CeilDivide(args_.n, task_columns_);
  }

  void Run(int64_t begin, int64_t end) const {
    T* a_panels = ThreadScratch<T>(GemmScratch::kBlocks, (row_block_ + column_block_) * depth_block_);
    T* b_panels = a_panels + row_block_ * depth_block_;
    int64_t column_tasks = CeilDivide(args_.n, task_columns_), row_tasks = CeilDivide(args_.m, kTaskRows);
    for (int64_t task = begin; task < end; ++task) {
      int64_t column = task % column_tasks * task_columns_;
      int64_t row = task / column_tasks % row_tasks * kTaskRows;
      int64_t batch = task / column_tasks / row_tasks;
      RunTask(batch, row, std::min(args_.m - row, kTaskRows), column, std::min(args_.n - column, task_columns_),
              a_panels, b_panels);
    }
  }

 private:
  void RunTask(int64_t batch, int64_t row, int64_t rows, int64_t column, int64_t columns, T* a_panels,
               T* b_panels) const {
    for (int64_t depth = 0; depth < args_.k; depth += depth_block_) {
      int64_t depths = std::min(depth_block_, args_.k - depth);
      CheckRun();
      PackAll(*args_.b, batch, depth, depths, column, columns, loops_.columns, b_panels);
      for (int64_t i = 0; i < rows; i += row_block_) {
        int64_t block_rows = std::min(row_block_, rows - i);
        PackAll(*args_.a, batch, depth, depths, row + i, block_rows, kPanelRows, a_panels);
        T* c = args_.c + batch * args_.c_batch + (row + i) * args_.c_row + column;
        Multiply(depths, a_panels, block_rows, b_panels, columns, c, args_.accumulate || depth > 0);
      }
    }
  }

  static void PackAll(const PanelSource<T>& source, int64_t batch, int64_t depth, int64_t depths, int64_t line,
                      int64_t lines, int64_t width, T* out) {
    for (int64_t j = 0; j < lines; j += width, out += width * depths)
      source.Pack(batch, depth, depths, line + j, std::min(width, lines - j), width, out);
  }

  void Multiply(int64_t depths, const T* a_panels, int64_t rows, const T* b_panels, int64_t columns, T* c,
                bool add) const {
    for (int64_t j = 0; j < columns; j += loops_.columns) {
      const T* b = b_panels + j * depths;
      for (int64_t i = 0; i < rows; i += kPanelRows) {
        const T* a = a_panels + i * depths;
        T* to = c + i * args_.c_row + j;
        if (i + kPanelRows <= rows && j + loops_.columns <= columns)
          loops_.tile(depths, a, b, to, args_.c_row, add);
        else
          EdgeTile(loops_, depths, a, b, to, args_.c_row, std::min(kPanelRows, rows - i),
                   std::min(loops_.columns, columns - j), add);
      }
    }
  }

  const PanelGemmArgs<T>& args_;
  const PanelLoops<T>& loops_;
  int64_t task_columns_, depth_block_, row_block_, column_block_;
};

// Rows of a packed product that are worth a task, and elements of the largest matrix that is packed while running.
constexpr int64_t kPackedRows = 192, kMostPacked = int64_t{1} << 20;

// Few rows of A: B is read once, in order, straight from where it lies.
constexpr int64_t kFewRows = 4;
constexpr int64_t kLongDot = 1 << 14;  // multiply-adds that take much longer than a look whether the run goes on

template <class T>
void FewRowsTimesRows(const GemmArgs<T>& args, const T* a_rows, const T* b, T* c, ThreadPool* pool) {
  const PanelLoops<T>& loops = Loops<T>();
  constexpr int64_t kColumns = 512;
  constexpr int64_t kDepths = 64;  // rows of B that all rows of A use while they are in cache
  RunParallel(pool, CeilDivide(args.n, kColumns), 1, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      int64_t column = piece * kColumns, columns = std::min(kColumns, args.n - column);
      if (!args.accumulate) SetZero(c + column, args.m, columns, args.c_row);
      CheckRun();
      for (int64_t depth = 0; depth < args.k; depth += kDepths) {
        int64_t depths = std::min(kDepths, args.k - depth);
        for (int64_t i = 0; i < args.m; ++i)
          loops.add_rows(depths, a_rows + i * args.k + depth, b + depth * args.b_row + column, args.b_row,
                         c + i * args.c_row + column, columns);
      }
    }
  });
}

template <class T>
void FewRowsTimesColumns(const GemmArgs<T>& args, const T* a_rows, const T* b, T* c, ThreadPool* pool) {
  const PanelLoops<T>& loops = Loops<T>();
  int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(args.k, 1));
  RunParallel(pool, args.n, grain, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      if (args.m * args.k >= kLongDot) CheckRun();
      for (int64_t i = 0; i < args.m; ++i) {
        T& to = c[i * args.c_row + j];
        T sum = loops.dot(args.k, a_rows + i * args.k, b + j * args.b_col);
        to = args.accumulate ? to + sum : sum;
      }
    }
  });
}

template <class T>
void FewRows(const GemmArgs<T>& args, ThreadPool* pool) {
  bool rows_are_dense = args.a_col == 1 && (args.a_row == args.k || args.m == 1);
  T* copied = rows_are_dense ? nullptr : ThreadScratch<T>(GemmScratch::kCopiedRows, args.m * args.k);
  size_t batches = std::max<size_t>(args.batches.size(), 1);
  for (size_t batch = 0; batch < batches; ++batch) {
    GemmBatch offset = args.batches.empty() ? GemmBatch{} : args.batches[batch];
    const T* a = args.a + offset.a;
    if (!rows_are_dense) {
      for (int64_t i = 0; i < args.m; ++i)
        for (int64_t p = 0; p < args.k; ++p) copied[i * args.k + p] = a[i * args.a_row + p * args.a_col];
      a = copied;
    }
    T* c = args.c + static_cast<int64_t>(batch) * args.c_batch;
    if (args.b_col == 1)
      FewRowsTimesRows(args, a, args.b + offset.b, c, pool);
    else
      FewRowsTimesColumns(args, a, args.b + offset.b, c, pool);
  }
}

GemmEpilogue EpilogueOf(const GemmArgs<float>& args, const float* c) {
  GemmEpilogue epilogue;
  if (args.accumulate) epilogue.residual = c, epilogue.residual_stride = args.c_row;
  return epilogue;
}

// Products of floats with the second operand packed on the way. Results do not depend on how rows are cut.
class PackedProducts {
 public:
  PackedProducts(const GemmArgs<float>& args, ThreadPool* pool)
      : args_(args), pool_(pool), batches_(std::max<int64_t>(static_cast<int64_t>(args.batches.size()), 1)) {
    // One product is cut finer so that there is work for several threads.
    if (batches_ == 1) rows_ = std::min(rows_, RoundUp(CeilDivide(args.m, 8), kernels_.best_rows));
    cuts_ = CeilDivide(args.m, rows_);
    int64_t work = std::max<int64_t>(1, std::min(args.m, rows_) * args.n * args.k);
    grain_ = std::max<int64_t>(1, (int64_t{1} << 19) / work);
  }

  void Run() const { batches_ == 1 ? RunOne() : RunMany(); }

 private:
  GemmBatch BatchAt(int64_t batch) const {
    return args_.batches.empty() ? GemmBatch{} : args_.batches[static_cast<size_t>(batch)];
  }

  void Pack(int64_t batch, int64_t column, int64_t columns, float* packed) const {
    PackMatrix(args_.b + BatchAt(batch).b + column * args_.b_col, args_.k, columns, args_.b_row, args_.b_col,
               packed + column * args_.k);
  }

  void Multiply(int64_t batch, int64_t cut, const float* packed) const {
    int64_t row = cut * rows_;
    float* c = args_.c + batch * args_.c_batch + row * args_.c_row;
    kernels_.plain(args_.a + BatchAt(batch).a + row * args_.a_row, args_.a_row, std::min(rows_, args_.m - row), args_.k,
                   packed, args_.n, c, args_.c_row, EpilogueOf(args_, c));
  }

  void RunOne() const {
    float* packed = ThreadScratch<float>(GemmScratch::kPanels, PackedSize(args_.k, args_.n));
    int64_t panels = std::max<int64_t>(1, 32768 / (args_.k * kPanelWidth));
    RunParallel(pool_, CeilDivide(args_.n, kPanelWidth), panels, [&](int64_t begin, int64_t end) {
      int64_t column = begin * kPanelWidth;
      Pack(0, column, std::min(end * kPanelWidth, args_.n) - column, packed);
    });
    RunParallel(pool_, cuts_, grain_, [&](int64_t begin, int64_t end) {
      for (int64_t cut = begin; cut < end; ++cut) {
        CheckRun();
        Multiply(0, cut, packed);
      }
    });
  }

  void RunMany() const {
    RunParallel(pool_, batches_, std::max<int64_t>(1, grain_ / cuts_), [&](int64_t begin, int64_t end) {
      float* packed = ThreadScratch<float>(GemmScratch::kPanels, PackedSize(args_.k, args_.n));
      for (int64_t batch = begin; batch < end; ++batch) {
        bool again = batch > begin && BatchAt(batch).b == BatchAt(batch - 1).b;
        CheckRun();
        if (!again) Pack(batch, 0, args_.n, packed);
        for (int64_t cut = 0; cut < cuts_; ++cut) Multiply(batch, cut, packed);
      }
    });
  }

  const GemmArgs<float>& args_;
  ThreadPool* const pool_;
  const GemmKernels& kernels_ = BestGemmKernels();
  const int64_t batches_;
  int64_t rows_ = kPackedRows, cuts_, grain_;
};

// Packing pays when every element of B is used by several rows; memory for it should stay small.
bool PacksWell(const GemmArgs<float>& args) {
  return args.a_col == 1 && args.k > 0 && args.n > 0 && args.m > kFewRows && args.k <= kMostPacked / args.n;
}

}  // namespace

template <class T>
void PanelGemm(const PanelGemmArgs<T>& args, ThreadPool* pool) {
  if (args.m == 0 || args.n == 0 || args.batches == 0) return;
  if (args.k == 0) {
    for (int64_t batch = 0; batch < args.batches && !args.accumulate; ++batch)
      SetZero(args.c + batch * args.c_batch, args.m, args.n, args.c_row);
    return;
  }
  Blocks<T> blocks(args);
  // A task of a few thousand operations is not worth a thread of its own.
  int64_t work = std::min(args.m, kTaskRows) * std::min(args.n, kTaskColumns) * args.k;
  int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(work, 1));
  RunParallel(pool, blocks.TaskCount(), grain, [&](int64_t begin, int64_t end) { blocks.Run(begin, end); });
}

template <class T>
void Gemm(const GemmArgs<T>& args, ThreadPool* pool) {
  if constexpr (std::is_same_v<T, float>)
    if (PacksWell(args)) return PackedProducts(args, pool).Run();
  bool b_is_dense = args.b_col == 1 || args.b_row == 1;
  if (args.m <= kFewRows && args.k > 0 && b_is_dense && args.batches.size() <= 1) return FewRows(args, pool);
  if (args.m <= kFewRows && args.k > 0 && b_is_dense) {
    // Many small products: one thread takes several whole ones.
    int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(args.m * args.n * args.k, 1));
    RunParallel(pool, static_cast<int64_t>(args.batches.size()), grain, [&](int64_t begin, int64_t end) {
      GemmArgs<T> some = args;
      some.batches = args.batches.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
      some.c += begin * args.c_batch;
      FewRows(some, nullptr);
    });
    return;
  }
  auto same = [](T value, int64_t, int64_t) { return value; };
  std::vector<int64_t> a_offsets, b_offsets;
  for (const GemmBatch& batch : args.batches) {
    a_offsets.push_back(batch.a);
    b_offsets.push_back(batch.b);
  }
  StridedSource<T, T, decltype(same)> a(args.a, args.a_row, args.a_col, a_offsets, same);
  StridedSource<T, T, decltype(same)> b(args.b, args.b_col, args.b_row, b_offsets, same);
  PanelGemm<T>({.m = args.m,
                .n = args.n,
                .k = args.k,
                .batches = std::max<int64_t>(static_cast<int64_t>(args.batches.size()), 1),
                .a = &a,
                .b = &b,
                .c = args.c,
                .c_row = args.c_row,
                .c_batch = args.c_batch,
                .accumulate = args.accumulate},
               pool);
}

void GemmOfColumns(const GemmArgs<float>& args, const PanelSource<float>& b, ThreadPool* pool) {
  constexpr int64_t kMostScratch = int64_t{1} << 18, kMostColumns = 256;  // elements: a megabyte per thread
  const auto batches = std::max<int64_t>(static_cast<int64_t>(args.batches.size()), 1);
  const GemmKernels& kernels = BestGemmKernels();
  int64_t columns = std::clamp(kMostScratch / args.k / kPanelWidth * kPanelWidth, kPanelWidth, kMostColumns);
  while (columns > 2 * kPanelWidth && batches * CeilDivide(args.n, columns) < 8)
    columns = RoundUp(columns / 2, kPanelWidth);
  const int64_t pieces = CeilDivide(args.n, columns);
  const int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, args.m * columns * args.k));
  RunParallel(pool, batches * pieces, grain, [&](int64_t begin, int64_t end) {
    float* packed = ThreadScratch<float>(GemmScratch::kPanels, PackedSize(args.k, columns));
    for (int64_t task = begin; task < end; ++task) {
      const int64_t batch = task / pieces, column = task % pieces * columns;
      const int64_t count = std::min(columns, args.n - column);
      CheckRun();
      for (int64_t j = 0; j < count; j += kPanelWidth)
        b.Pack(batch, 0, args.k, column + j, std::min(kPanelWidth, count - j), kPanelWidth, packed + j * args.k);
      const int64_t offset = args.batches.empty() ? 0 : args.batches[static_cast<size_t>(batch)].a;
      float* c = args.c + batch * args.c_batch + column;
      kernels.plain(args.a + offset, args.a_row, args.m, args.k, packed, count, c, args.c_row, EpilogueOf(args, c));
    }
  });
}

template <class T>
void AddScaled(int64_t n, T scale, const T* from, T* to) {
  Loops<T>().add_rows(1, &scale, from, 0, to, n);
}

template void AddScaled(int64_t, float, const float*, float*);
template void AddScaled(int64_t, double, const double*, double*);
template void Gemm(const GemmArgs<float>&, ThreadPool*);
template void Gemm(const GemmArgs<double>&, ThreadPool*);
template void Gemm(const GemmArgs<uint32_t>&, ThreadPool*);
template void Gemm(const GemmArgs<uint64_t>&, ThreadPool*);
template void PanelGemm(const PanelGemmArgs<float>&, ThreadPool*);
template void PanelGemm(const PanelGemmArgs<double>&, ThreadPool*);
template void PanelGemm(const PanelGemmArgs<uint32_t>&, ThreadPool*);
template void PanelGemm(const PanelGemmArgs<uint64_t>&, ThreadPool*);

}  // namespace ferry
