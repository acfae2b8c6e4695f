// Products over gathered rows, as every convolution uses them, on every instruction set against plain loops.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/packed_gemm.h"
#include "tests/kernels/isas.h"
#include "tests/support/random_numbers.h"

namespace ferry {
namespace {

using testing::RandomNumbers;

// Rows made of pieces from anywhere in one buffer; gaps between the rows of C and of the residual.
struct Case {
  int64_t rows, taps, depth, columns, offset, c_stride, residual_stride;
  std::vector<float> pool, b, packed, bias, residual, c;
  std::vector<const float*> pointers;
  GatheredGemm gemm;
  bool in_place = false;

  explicit Case(RandomNumbers& random)
      : rows(random.Size(20, 70)),
        taps(random.Size(9, 30)),
        depth(random.Size(20, 200)),
        columns(random.Size(40, 130)),
        offset(random.Int(0, 5)),
        c_stride(columns + random.Int(0, 3)),
        residual_stride(columns + random.Int(0, 3)),
        pool(random.Vector(offset + depth + 64)),
        b(random.Vector(taps * depth * columns)),
        packed(static_cast<size_t>(PackedSize(taps * depth, columns))),
        bias(random.Vector(columns)),
        residual(random.Vector(rows * residual_stride)),
        c(random.Vector(rows * c_stride)) {
    bool transposed = random.Bool();
    int64_t k = taps * depth;
    if (transposed) {
      std::vector<float> turned(b.size());
      for (int64_t i = 0; i < k; ++i)
        for (int64_t n = 0; n < columns; ++n)
          turned[static_cast<size_t>(n * k + i)] = b[static_cast<size_t>(i * columns + n)];
      PackMatrix(turned.data(), k, columns, 1, k, packed.data());
    } else {
      PackMatrix(b.data(), k, columns, columns, 1, packed.data());
    }
    for (int64_t i = 0; i < taps * rows; ++i) pointers.push_back(pool.data() + random.Int(0, 63));
    gemm = {pointers.data(), rows, taps, depth, packed.data(), columns};
    gemm.offset = offset;
    gemm.c_stride = c_stride;
    GemmEpilogue& epilogue = gemm.epilogue;
    if (random.Bool()) epilogue.bias = bias.data();
    epilogue.activation = {random.Bool() ? ActivationKind::kRelu : ActivationKind::kClip, -0.5f, 0.75f};
    if (random.Int(0, 2) == 0) epilogue.activation = {};
    if (random.Bool()) {
      in_place = random.Bool();
      epilogue.residual = residual.data();
      epilogue.residual_stride = in_place ? c_stride : residual_stride;
      epilogue.activate_first = !in_place && random.Bool();
    }
  }

  double Limit(double x) const {
    const Activation& activation = gemm.epilogue.activation;
    if (activation.kind == ActivationKind::kRelu) return std::max(x, 0.0);
    if (activation.kind == ActivationKind::kClip) return std::min(std::max(x, -0.5), 0.75);
    return x;
  }

  std::vector<double> Plain() const {
    const GemmEpilogue& epilogue = gemm.epilogue;
    std::vector<double> out(c.begin(), c.end()), sums(static_cast<size_t>(columns));
    for (int64_t i = 0; i < rows; ++i) {
      sums.assign(sums.size(), 0.0);
      for (int64_t tap = 0; tap < taps; ++tap)
        for (int64_t k = 0; k < depth; ++k) {
          double a = pointers[static_cast<size_t>(tap * rows + i)][offset + k];
          const float* row = b.data() + (tap * depth + k) * columns;
          for (size_t n = 0; n < sums.size(); ++n) sums[n] += a * static_cast<double>(row[n]);
        }
      for (int64_t n = 0; n < columns; ++n) {
        double& to = out[static_cast<size_t>(i * c_stride + n)];
        double x = sums[static_cast<size_t>(n)] + (epilogue.bias ? static_cast<double>(epilogue.bias[n]) : 0.0);
        double other = 0;
        if (epilogue.residual)
          other = in_place ? to : static_cast<double>(epilogue.residual[i * epilogue.residual_stride + n]);
        to = epilogue.activate_first ? Limit(x) + other : Limit(x + other);
      }
    }
    return out;
  }

  std::vector<float> Run(const GemmKernels& kernels) {
    std::vector<float> out = c;
    gemm.c = out.data();
    if (in_place) gemm.epilogue.residual = out.data();
    kernels.gathered(gemm);
    return out;
  }
};

TEST(GatheredGemm, EveryInstructionSetAgreesWithPlainLoops) {
  RandomNumbers random(101);
  for (int round = 0; round < 1500; ++round) {
    Case one(random);
    if (one.rows * one.taps * one.depth * one.columns > 300000) continue;
    std::vector<double> plain = one.Plain();
    double tolerance = 2e-7 * static_cast<double>(one.taps * one.depth) + 1e-6;
    for (Isa isa : testing::RunnableIsas()) {
      std::vector<float> fast = one.Run(GemmKernelsOf(isa));
      for (size_t i = 0; i < plain.size(); ++i)
        ASSERT_NEAR(fast[i], plain[i], tolerance) << GemmKernelsOf(isa).isa << " " << one.rows << " rows, " << one.taps
                                                  << "×" << one.depth << " deep, " << one.columns << " columns";
    }
  }
}

}  // namespace
}  // namespace ferry
