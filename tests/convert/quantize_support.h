// What tests of quantising share: small networks, data for them, and looks at what was written.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>

#include "convert/quantize/quantize.h"
#include "engine/check_inference.h"
#include "engine/session.h"
#include "tensor/npz.h"
#include "tests/support/graphs.h"

namespace ferry::quantize {

using ::ferry::testing::MakeInfo;
using ::ferry::testing::MakeModel;
using ::ferry::testing::MakeNode;
using ::testing::Contains;
using ::testing::HasSubstr;

inline Tensor Noise(Shape shape, uint32_t seed, float size = 1) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, size);
  Tensor tensor(DType::kFloat, std::move(shape));
  for (int64_t i = 0; i < tensor.size(); ++i) tensor.MutableData<float>()[i] = normal(engine);
  return tensor;
}

// Columns that go together, as they do in networks.
inline Tensor Correlated(int64_t rows, int64_t columns) {
  const Tensor few = Noise({rows, 8}, 11), mix = Noise({8, columns}, 12);
  Tensor all = Noise({rows, columns}, 13, 0.3f);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      for (int64_t k = 0; k < 8; ++k)
        all.MutableData<float>()[r * columns + c] += few.Data<float>()[r * 8 + k] * mix.Data<float>()[k * columns + c];
  return all;
}

inline int64_t Count(const Model& model, std::string_view op) {
  int64_t count = 0;
  for (const Node& node : model.graph.nodes) count += node.op_type == op;
  return count;
}

// The values whose codes this node reads.
inline std::string Decoded(const Model& model, const Node& reader) {
  std::vector<std::string> values;
  for (const std::string& input : reader.inputs)
    for (const Node& decode : model.graph.nodes)
      for (const Node& code : model.graph.nodes)
        if (decode.op_type == "DequantizeLinear" && decode.outputs[0] == input && code.op_type == "QuantizeLinear" &&
            code.outputs[0] == decode.inputs[0])
          values.push_back(code.inputs[0]);
  return Join(values, " ");
}

inline void ExpectValid(const Model& model) {
  for (const Problem& problem : CheckFully(model)) EXPECT_NE(problem.severity, Severity::kError) << problem.message;
}

class Quantize : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              (std::string("ferry_quantize_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Data(const NamedTensors& arrays, const char* name = "data.npz") {
    const std::string path = (folder_ / name).string();
    WriteNpz(path, arrays);
    return path;
  }

  QuantizeOptions With(const std::string& data, QuantizeForm form = QuantizeForm::kInt8,
                       Reader reader = Reader::kCpu) const {
    QuantizeOptions options;
    options.form = form;
    options.conventions = Conventions::For(reader);
    if (!data.empty()) options.data = {data};
    options.bits = form == QuantizeForm::kWeights ? 4 : 8;
    return options;
  }

  std::filesystem::path folder_;
};

// Two convolutions with a residual sum between them, and a classifier.
inline Model ConvNet(int64_t opset = 17) {
  const Attribute pads("pads", std::vector<int64_t>{1, 1, 1, 1});
  return MakeModel({MakeInfo("x", DType::kFloat, {Dim::Named("n"), 3, 8, 8})},
                   {MakeNode("Conv", {"x", "w1", "b1"}, {"c1"}, {pads}), MakeNode("Relu", {"c1"}, {"r1"}),
                    MakeNode("Conv", {"r1", "w2"}, {"c2"}, {pads}), MakeNode("Add", {"r1", "c2"}, {"s"}),
                    MakeNode("Relu", {"s"}, {"r2"}), MakeNode("Conv", {"r2", "w3", "b1"}, {"c3"}, {pads}),
                    MakeNode("GlobalAveragePool", {"c3"}, {"p"}), MakeNode("Flatten", {"p"}, {"f"}),
                    MakeNode("Gemm", {"f", "w4", "b4"}, {"y"}, {Attribute("transB", int64_t{1})})},
                   {MakeInfo("y", DType::kFloat, {Dim::Named("n"), 5})},
                   {MakeStored("w1", Noise({8, 3, 3, 3}, 1, 0.3f)), MakeStored("b1", Noise({8}, 2, 0.1f)),
                    MakeStored("w2", Noise({8, 8, 3, 3}, 3, 0.15f)), MakeStored("w3", Noise({8, 8, 3, 3}, 4, 0.15f)),
                    MakeStored("w4", Noise({5, 8}, 5)), MakeStored("b4", Noise({5}, 6))},
                   opset);
}

inline std::string MessageOf(const Model& model, const QuantizeOptions& options) {
  try {
    QuantizeModel(model, options);
  } catch (const Error& error) {
    return error.message();
  }
  return {};
}

}  // namespace ferry::quantize
