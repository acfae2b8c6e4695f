// Quantized graphs as exporters write them, node by node.
#pragma once

#include "tests/passes/optimized.h"

namespace ferry::testing {

class QdqBuilder {
 public:
  explicit QdqBuilder(uint32_t seed) : random(seed) {}

  std::string Name(const char* hint) { return hint + std::to_string(count_++); }

  std::string Constant(const Tensor& tensor) {
    std::string name = Name("c");
    constants.push_back(MakeStored(name, tensor));
    return name;
  }
  std::string Add(const char* op, std::vector<std::string> inputs, std::vector<Attribute> attributes = {}) {
    std::string name = Name(op);
    nodes.push_back(MakeNode(op, std::move(inputs), {name}, std::move(attributes)));
    return name;
  }
  Tensor Byte(DType type, int32_t value) {
    Tensor tensor(type, {});
    *reinterpret_cast<uint8_t*>(tensor.mutable_raw()) = static_cast<uint8_t>(value);
    return tensor;
  }

  std::string Quantize(const std::string& value, float scale, DType type, int32_t zero) {
    return Add("QuantizeLinear", {value, Constant(Tensor::Scalar(scale)), Constant(Byte(type, zero))});
  }
  std::string Dequantize(const std::string& value, float scale, DType type, int32_t zero) {
    return Add("DequantizeLinear", {value, Constant(Tensor::Scalar(scale)), Constant(Byte(type, zero))});
  }
  // Both: a value as it is after being quantized.
  std::string Pair(const std::string& value, float scale, DType type, int32_t zero) {
    return Dequantize(Quantize(value, scale, type, zero), scale, type, zero);
  }
  // Quantized weights with a scale for every place along `axis`, or one for all.
  std::string Weight(const Shape& shape, int64_t axis, bool per_channel, DType type, float largest) {
    Tensor bytes(type, shape);
    for (int64_t i = 0; i < bytes.size(); ++i)
      reinterpret_cast<uint8_t*>(bytes.mutable_raw())[i] =
          static_cast<uint8_t>(random.Int(-127, 127) + (type == DType::kUInt8 ? 128 : 0));
    int64_t count = per_channel ? shape[static_cast<size_t>(axis)] : 1;
    std::vector<float> scales;
    for (int64_t i = 0; i < count; ++i) scales.push_back(largest * (0.5f + static_cast<float>(random.Int(0, 9)) / 20));
    Tensor scale = per_channel ? Tensor::FromVector(scales) : Tensor::Scalar(scales[0]);
    Tensor zero(type, per_channel ? Shape{count} : Shape{});
    for (int64_t i = 0; i < count; ++i)
      reinterpret_cast<uint8_t*>(zero.mutable_raw())[i] = type == DType::kUInt8 ? 128 : 0;
    Attribute attribute("axis", axis);
    return Add("DequantizeLinear", {Constant(bytes), Constant(scale), Constant(zero)}, {attribute});
  }

  Model Finish(std::vector<ValueInfo> inputs, std::vector<ValueInfo> outputs) {
    return MakeModel(std::move(inputs), nodes, std::move(outputs), constants);
  }

  Random random;
  std::vector<Node> nodes;
  std::vector<StoredTensor> constants;

 private:
  int count_ = 0;
};

// Every element within one step of the last scale.
inline void ExpectWithinOneStep(const Tensor& got, const Tensor& expected, float step, const std::string& what) {
  ASSERT_TRUE(got.shape() == expected.shape()) << what;
  int64_t off = 0;
  for (int64_t i = 0; i < got.size(); ++i) {
    float difference = std::abs(got.Data<float>()[i] - expected.Data<float>()[i]);
    ASSERT_LE(difference, step * 1.001f) << what << " at " << i;
    off += difference > step / 2;
  }
  // Only what lies between two steps may fall to either side.
  EXPECT_LE(off, 1 + got.size() / 50) << what;
}

}  // namespace ferry::testing
