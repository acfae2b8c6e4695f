// Other libraries on the same shapes, one thread. Each answers with an empty function when it is not there.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace ferry::bench {

using Work = std::function<void()>;

// C[m, n] = A[m, k] · B[k, n]
Work OpenBlasGemm(int64_t m, int64_t n, int64_t k);
Work OneDnnGemm(int64_t m, int64_t n, int64_t k);

struct ConvShape {
  int64_t channels, features, size, kernel, stride = 1, groups = 1;

  int64_t pad() const { return kernel / 2; }
  int64_t output() const { return (size + 2 * pad() - kernel) / stride + 1; }
  double flops() const {
    return 2.0 * static_cast<double>(output() * output() * features * (channels / groups) * kernel * kernel);
  }
};
Work OneDnnConv(const ConvShape& shape);

}  // namespace ferry::bench
