#include "kernels/gemm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/panel_gemm.h"
#include "tests/kernels/isas.h"
#include "tests/support/random_numbers.h"

namespace ferry {
namespace {

using testing::RandomNumbers;

template <class T>
std::vector<T> RandomValues(RandomNumbers& random, int64_t count) {
  std::vector<T> values(static_cast<size_t>(count));
  for (T& value : values)
    value = std::is_integral_v<T> ? static_cast<T>(random.Int(0, INT64_MAX - 1)) : static_cast<T>(random.Real());
  return values;
}

// A product with everything random: sizes, transposed operands, gaps between rows, several matrices at once.
template <class T>
struct Product {
  int64_t m, n, k, batches;
  std::vector<T> a, b, c;
  std::vector<GemmBatch> offsets;
  GemmArgs<T> args;

  explicit Product(RandomNumbers& random)
      : m(random.Int(0, 40)), n(random.Int(0, 90)), k(random.Int(0, 300)), batches(random.Int(1, 3)) {
    if (random.Int(0, 3) == 0) m = random.Int(1, 4);
    bool a_transposed = random.Bool(), b_transposed = random.Bool();
    int64_t gap = random.Int(0, 3);
    args = {.m = m, .n = n, .k = k};
    args.a_row = a_transposed ? 1 : k + gap;
    args.a_col = a_transposed ? m + gap : 1;
    args.b_row = b_transposed ? 1 : n + gap;
    args.b_col = b_transposed ? k + gap : 1;
    args.c_row = n + gap;
    args.c_batch = m * args.c_row;
    args.accumulate = random.Bool();
    int64_t a_size = (m + gap) * (k + gap), b_size = (k + gap) * (n + gap);
    a = RandomValues<T>(random, a_size * batches);
    b = RandomValues<T>(random, b_size * batches);
    c = RandomValues<T>(random, args.c_batch * batches);
    // The second operand is shared by all matrices now and then.
    bool shares = random.Bool();
    for (int64_t i = 0; i < batches; ++i) offsets.push_back({i * a_size, shares ? 0 : i * b_size});
    if (batches > 1) args.batches = offsets;
    args.a = a.data();
    args.b = b.data();
  }

  std::vector<T> Run(ThreadPool* pool) {
    std::vector<T> out = c;
    args.c = out.data();
    Gemm(args, pool);
    return out;
  }

  std::vector<T> Plain() const {
    std::vector<T> out = c;
    for (int64_t batch = 0; batch < batches; ++batch)
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          using Sum = std::conditional_t<std::is_integral_v<T>, T, double>;
          T& to = out[static_cast<size_t>(batch * args.c_batch + i * args.c_row + j)];
          Sum sum = args.accumulate ? static_cast<Sum>(to) : Sum{0};
          for (int64_t p = 0; p < k; ++p) {
            T left = a[static_cast<size_t>(offsets[static_cast<size_t>(batch)].a + i * args.a_row + p * args.a_col)];
            T right = b[static_cast<size_t>(offsets[static_cast<size_t>(batch)].b + p * args.b_row + j * args.b_col)];
            sum += static_cast<Sum>(left) * static_cast<Sum>(right);
          }
          to = static_cast<T>(sum);
        }
    return out;
  }
};

template <class T>
void CompareWithPlainLoops(double tolerance) {
  RandomNumbers random(7);
  for (int round = 0; round < 60; ++round) {
    Product<T> product(random);
    std::vector<T> fast = product.Run(nullptr), plain = product.Plain();
    for (size_t i = 0; i < plain.size(); ++i) {
      if constexpr (std::is_integral_v<T>)
        ASSERT_EQ(fast[i], plain[i]) << product.m << "×" << product.k << "×" << product.n;
      else
        ASSERT_NEAR(fast[i], plain[i], tolerance) << product.m << "×" << product.k << "×" << product.n;
    }
  }
}

TEST(Gemm, FloatAgreesWithPlainLoops) { CompareWithPlainLoops<float>(2e-5); }
TEST(Gemm, DoubleAgreesWithPlainLoops) { CompareWithPlainLoops<double>(1e-12); }
TEST(Gemm, Words32WrapAsPlainLoopsDo) { CompareWithPlainLoops<uint32_t>(0); }
TEST(Gemm, Words64WrapAsPlainLoopsDo) { CompareWithPlainLoops<uint64_t>(0); }

// Columns of the second operand as a convolution makes them, whatever the threads.
TEST(GemmOfColumns, AgreesWithPlainLoops) {
  ThreadPool two(2), five(5);
  RandomNumbers random(13);
  for (int round = 0; round < 60; ++round) {
    Product<float> product(random);
    if (product.k == 0 || product.args.a_col != 1) continue;
    auto same = [](float value, int64_t, int64_t) { return value; };
    std::vector<int64_t> places;
    for (const GemmBatch& batch : product.offsets) places.push_back(batch.b);
    StridedSource<float, float, decltype(same)> columns(product.b.data(), product.args.b_col, product.args.b_row,
                                                        places, same);
    auto run = [&](ThreadPool* pool) {
      std::vector<float> out = product.c;
      product.args.c = out.data();
      GemmOfColumns(product.args, columns, pool);
      return out;
    };
    const std::vector<float> alone = run(nullptr), plain = product.Plain();
    for (size_t i = 0; i < plain.size(); ++i)
      ASSERT_NEAR(alone[i], plain[i], 2e-5) << product.m << "×" << product.k << "×" << product.n;
    EXPECT_EQ(alone, run(&two));
    EXPECT_EQ(alone, run(&five));
  }
}

TEST(Gemm, ThreadsDoNotChangeABit) {
  ThreadPool two(2), five(5);
  RandomNumbers random(11);
  for (int round = 0; round < 20; ++round) {
    Product<float> product(random);
    std::vector<float> alone = product.Run(nullptr);
    EXPECT_EQ(alone, product.Run(&two));
    EXPECT_EQ(alone, product.Run(&five));
  }
  // Large enough for several tasks along both sides.
  int64_t m = 500, n = 700, k = 300;
  std::vector<float> a = RandomValues<float>(random, m * k), b = RandomValues<float>(random, k * n);
  std::vector<float> alone(static_cast<size_t>(m * n)), together(alone.size());
  GemmArgs<float> args{.m = m, .n = n, .k = k, .a = a.data(), .a_row = k, .b = b.data(), .b_row = n, .c_row = n};
  args.c = alone.data();
  Gemm(args, nullptr);
  args.c = together.data();
  Gemm(args, &two);
  EXPECT_EQ(alone, together);
}

// The inner loops of every instruction set that can run here, also those that Gemm would not choose.
template <class T>
void CompareLoopsWithPlain(const PanelLoops<T>& loops, double tolerance) {
  RandomNumbers random(17);
  auto expect = [&](T actual, auto expected, const char* what) {
    if constexpr (std::is_integral_v<T>)
      EXPECT_EQ(actual, static_cast<T>(expected)) << what;
    else
      EXPECT_NEAR(actual, expected, tolerance) << what;
  };
  using Sum = std::conditional_t<std::is_integral_v<T>, T, double>;
  for (int64_t depths : {1, 2, 7, 8, 9, 33, 100}) {
    const int64_t columns = loops.columns, gap = 3;
    std::vector<T> a = RandomValues<T>(random, depths * kPanelRows), b = RandomValues<T>(random, depths * columns);
    for (bool add : {false, true}) {
      std::vector<T> c = RandomValues<T>(random, kPanelRows * (columns + gap)), before = c;
      loops.tile(depths, a.data(), b.data(), c.data(), columns + gap, add);
      for (int64_t i = 0; i < kPanelRows; ++i)
        for (int64_t j = 0; j < columns + gap; ++j) {
          const auto at = static_cast<size_t>(i * (columns + gap) + j);
          Sum sum = add || j >= columns ? static_cast<Sum>(before[at]) : Sum{0};
          for (int64_t k = 0; k < depths && j < columns; ++k)
            sum += static_cast<Sum>(a[static_cast<size_t>(k * kPanelRows + i)]) *
                   static_cast<Sum>(b[static_cast<size_t>(k * columns + j)]);
          expect(c[at], sum, "tile");
        }
    }
    const int64_t n = 2 * columns + 1;
    std::vector<T> rows = RandomValues<T>(random, depths * n), to = RandomValues<T>(random, n), before = to;
    loops.add_rows(depths, a.data(), rows.data(), n, to.data(), n);
    for (int64_t j = 0; j < n; ++j) {
      Sum sum = static_cast<Sum>(before[static_cast<size_t>(j)]);
      for (int64_t k = 0; k < depths; ++k)
        sum += static_cast<Sum>(a[static_cast<size_t>(k)]) * static_cast<Sum>(rows[static_cast<size_t>(k * n + j)]);
      expect(to[static_cast<size_t>(j)], sum, "add_rows");
    }
    Sum product{0};
    for (size_t k = 0; k < static_cast<size_t>(depths); ++k) product += static_cast<Sum>(a[k]) * static_cast<Sum>(b[k]);
    expect(loops.dot(depths, a.data(), b.data()), product, "dot");
  }
}

TEST(PanelKernels, EveryInstructionSetAgreesWithPlainLoops) {
  for (Isa isa : testing::RunnableIsas()) {
    SCOPED_TRACE(static_cast<int>(isa));
    CompareLoopsWithPlain(PanelKernelsOf(isa).floats, 2e-5);
    CompareLoopsWithPlain(PanelKernelsOf(isa).doubles, 1e-12);
    CompareLoopsWithPlain(PanelKernelsOf(isa).words32, 0);
    CompareLoopsWithPlain(PanelKernelsOf(isa).words64, 0);
  }
}

TEST(Gemm, NothingToAddUpGivesZerosOrLeavesC) {
  std::vector<float> c(6, 5.0f);
  GemmArgs<float> args{.m = 2, .n = 3, .k = 0, .a_row = 0, .b_row = 3, .c = c.data(), .c_row = 3, .accumulate = true};
  Gemm(args, nullptr);
  EXPECT_EQ(c, std::vector<float>(6, 5.0f));
  args.accumulate = false;
  Gemm(args, nullptr);
  EXPECT_EQ(c, std::vector<float>(6, 0.0f));
}

}  // namespace
}  // namespace ferry
