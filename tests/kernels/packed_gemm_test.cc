#include "kernels/packed_gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace ferry {
namespace {

double Reference(ActivationKind kind, double x, double alpha, double beta) {
  switch (kind) {
    case ActivationKind::kNone: return x;
    case ActivationKind::kRelu: return std::max(x, 0.0);
    case ActivationKind::kClip: return std::min(std::max(x, alpha), beta);
    case ActivationKind::kLeakyRelu: return x < 0 ? alpha * x : x;
    case ActivationKind::kSigmoid: return 1 / (1 + std::exp(-x));
    case ActivationKind::kSilu: return x / (1 + std::exp(-alpha * x));
    case ActivationKind::kHardSigmoid: return std::min(std::max(alpha * x + beta, 0.0), 1.0);
    case ActivationKind::kHardSwish: return x * std::min(std::max(x / 6 + 0.5, 0.0), 1.0);
    case ActivationKind::kTanh: return std::tanh(x);
    case ActivationKind::kGelu: return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case ActivationKind::kGeluTanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  return 0;
}

TEST(PackedGemm, AgreesWithPlainLoopsOnRandomShapes) {
  std::mt19937 random(11);
  auto number = [&] { return static_cast<float>(random() % 2001) / 1000.0f - 1.0f; };
  for (int round = 0; round < 400; ++round) {
    int64_t rows = 1 + random() % 40, columns = 1 + random() % 80, depth = 1 + random() % (round % 10 ? 50 : 900);
    const int64_t stride = round % 4 ? depth : 1024;  // the latter puts all rows into one set of the first-level cache
    std::vector<float> a(rows * stride), b(depth * columns), bias(columns), residual(rows * columns), c(rows * columns);
    for (auto* values : {&a, &b, &bias, &residual})
      for (float& value : *values) value = number();
    std::vector<float> packed(PackedSize(depth, columns));
    PackMatrix(b.data(), depth, columns, columns, 1, packed.data());
    GemmEpilogue epilogue;
    if (random() % 2) epilogue.bias = bias.data();
    if (random() % 2) epilogue.residual = residual.data();
    epilogue.residual_stride = columns;
    epilogue.activate_first = random() % 2;
    epilogue.activation = {static_cast<ActivationKind>(random() % 11), 0.5f, 0.75f};
    if (epilogue.residual && !epilogue.activate_first && random() % 2) {
      c = residual;
      epilogue.residual = c.data();
    }
    BestGemmKernels().plain(a.data(), stride, rows, depth, packed.data(), columns, c.data(), columns, epilogue);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        double x = epilogue.bias ? bias[j] : 0;
        for (int64_t k = 0; k < depth; ++k) x += static_cast<double>(a[i * stride + k]) * b[k * columns + j];
        double extra = epilogue.residual ? residual[i * columns + j] : 0;
        auto act = [&](double v) { return Reference(epilogue.activation.kind, v, 0.5, 0.75); };
        double expected = epilogue.activate_first ? act(x) + extra : act(x + extra);
        ASSERT_NEAR(c[i * columns + j], expected, 2e-5 + 1e-6 * static_cast<double>(depth))
            << rows << "×" << depth << "×" << columns << " activation " << static_cast<int>(epilogue.activation.kind);
      }
  }
}

// Rows along memory, columns along memory, and neither: every element where PackedIndex says, zeros beside the columns.
TEST(PackMatrix, PutsEveryElementInItsPanel) {
  for (int64_t depth : {1, 3, 4, 31, 64, 67, 130})
    for (int64_t columns : {1, 3, 4, 15, 16, 17, 37, 64})
      for (auto [row_stride, column_stride] :
           {std::pair<int64_t, int64_t>{columns + 3, 1}, {1, depth + 5}, {2, 2 * depth + 1}}) {
        std::vector<float> b(static_cast<size_t>(depth * row_stride + columns * column_stride));
        for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i + 1);
        std::vector<float> expected(static_cast<size_t>(PackedSize(depth, columns)), 0.0f);
        for (int64_t k = 0; k < depth; ++k)
          for (int64_t n = 0; n < columns; ++n)
            expected[static_cast<size_t>(PackedIndex(depth, k, n))] =
                b[static_cast<size_t>(k * row_stride + n * column_stride)];
        std::vector<float> packed(expected.size(), -1.0f);
        PackMatrix(b.data(), depth, columns, row_stride, column_stride, packed.data());
        ASSERT_EQ(packed, expected) << depth << " × " << columns << ", strides " << row_stride << " and "
                                    << column_stride;
      }
}

}  // namespace
}  // namespace ferry
