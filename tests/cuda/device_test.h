// Tests that need a GPU skip where there is none, and hold what the device computes against the operators on the CPU.
#pragma once

#include <cmath>

#include "gtest/gtest.h"
#include "providers/cuda/device.h"
#include "tests/support/nodes.h"
#include "tests/support/random_tensors.h"

namespace ferry::cuda {

inline Tensor CastTo(const Tensor& tensor, DType type) {
  if (tensor.dtype() == type) return tensor;
  Node cast = testing::OneNode("Cast", 1, {Attribute("to", static_cast<int64_t>(type))});
  return testing::RunNode(cast, {tensor})[0].tensor();
}

// Between -1 and 1 for floats, small numbers for integers, both for bools.
inline Tensor RandomTensor(DType type, const Shape& shape, uint64_t seed) {
  Tensor floats = testing::Random(seed).Floats(shape);
  if (IsInteger(type))
    for (int64_t i = 0; i < floats.size(); ++i)
      floats.MutableData<float>()[i] = std::floor(std::abs(floats.Data<float>()[i]) * 100);
  if (type == DType::kBool)
    for (int64_t i = 0; i < floats.size(); ++i) floats.MutableData<float>()[i] = floats.Data<float>()[i] > 0;
  return CastTo(floats, type);
}

inline Tensor Reference(const Node& node, const std::vector<Tensor>& inputs) {
  return testing::RunNode(node, {inputs.begin(), inputs.end()})[0].tensor();
}

inline double ToleranceOf(DType type) {
  return type == DType::kFloat16 ? 2e-3 : type == DType::kBFloat16 ? 2e-2 : type == DType::kDouble ? 1e-12 : 2e-6;
}

inline void ExpectClose(const Tensor& actual, const Tensor& expected, const std::string& what, double tolerance = 0) {
  ASSERT_EQ(actual.dtype(), expected.dtype()) << what;
  ASSERT_EQ(actual.shape(), expected.shape()) << what;
  if (tolerance == 0) tolerance = ToleranceOf(expected.dtype());
  Tensor a = CastTo(actual, DType::kDouble), b = CastTo(expected, DType::kDouble);
  double worst = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    const double x = a.Data<double>()[i], y = b.Data<double>()[i];
    if ((std::isnan(x) && std::isnan(y)) || x == y) continue;
    const double error = std::abs(x - y) / (1 + std::abs(y));
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  EXPECT_LE(worst, tolerance) << what;
}

class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (FindDevices().empty()) GTEST_SKIP() << "there is no NVIDIA GPU";
  }
  const Device& device() { return Device::Get(); }
  // Runs what is in the tensor's memory through the pool once more, so that nothing left there can pass for an answer.
  Tensor Poisoned(DType type, const Shape& shape) {
    Tensor tensor(type, shape, device().memory());
    if (tensor.bytes() > 0)
      device().Use().MemsetD8Async(reinterpret_cast<DeviceAddress>(tensor.address()), 0xab, tensor.bytes(),
                                   device().stream());
    return tensor;
  }
};

}  // namespace ferry::cuda
