#include "passes/widen_floats.h"

#include <gtest/gtest.h>

#include <map>

#include "base/directory.h"
#include "base/error.h"
#include "measure/compare/side.h"
#include "measure/difference.h"
#include "measure/randomness.h"
#include "measure/test_case.h"
#include "onnx/reader.h"
#include "onnx/value_file.h"
#include "tests/support/graphs.h"

namespace ferry {
namespace {

using testing::MakeInfo;
using testing::MakeModel;
using testing::MakeNode;

DType TypeOfOutput(const Graph& graph, const std::string& name) {
  for (const Node& node : graph.nodes)
    for (const std::string& output : node.outputs)
      if (output == name) return node.op_type == "Cast" ? static_cast<DType>(node.Int("to", 0)) : DType::kUndefined;
  return DType::kUndefined;
}

TEST(WidenFloats, CastsBecomeCastsToDouble) {
  Graph graph = MakeModel({MakeInfo("x", DType::kInt32, {2})},
                          {MakeNode("Cast", {"x"}, {"h"}, {{"to", int64_t{10}}}),
                           MakeNode("Cast", {"h"}, {"i"}, {{"to", int64_t{7}}})},
                          {MakeInfo("h", DType::kFloat16), MakeInfo("i", DType::kInt64)})
                    .graph;
  EXPECT_TRUE(WidenFloats(graph).empty());
  EXPECT_EQ(TypeOfOutput(graph, "h"), DType::kDouble);
  EXPECT_EQ(TypeOfOutput(graph, "i"), DType::kInt64);
  EXPECT_EQ(graph.outputs[0].type.dtype, DType::kDouble);
}

TEST(WidenFloats, WhatHasNoDoubleKeepsItsTypeAndIsTold) {
  Graph graph = MakeModel({MakeInfo("x", DType::kFloat, {2})},
                          {MakeNode("QuantizeLinear", {"x", "scale"}, {"q"}),
                           MakeNode("DequantizeLinear", {"q", "scale"}, {"y"})},
                          {MakeInfo("y", DType::kFloat)}, {MakeStored("scale", Tensor::Scalar(0.5f))})
                    .graph;
  std::vector<std::string> kept = WidenFloats(graph);
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_NE(kept[0].find("DequantizeLinear"), std::string::npos);
  EXPECT_EQ(TypeOfOutput(graph, "y"), DType::kDouble);
}

// ONNX's own cases, widened: the same answers wherever the case is defined for double at all.
TEST(WidenFloats, OperatorCasesMeanTheSame) {
  std::map<std::string, std::string> wrong;
  int compared = 0;
  for (const TestCase& test_case : FindTestCases(std::string(FERRY_TEST_DATA) + "/onnx-node")) {
    Model model = ReadModel(test_case.folder + "/model.onnx");
    std::vector<NamedValue> inputs;
    bool has_floats = false;
    for (size_t i = 0; i < model.graph.inputs.size(); ++i) {
      std::string file = Cat(test_case.folder, "/test_data_set_0/input_", i, ".pb");
      if (!IsFile(file)) continue;
      inputs.emplace_back(model.graph.inputs[i].name, ReadValueFile(file, &model.graph.inputs[i].type));
      const Value& value = inputs.back().second;
      has_floats = has_floats || (value.is_tensor() && value.tensor().dtype() == DType::kFloat);
    }
    auto random = FindRandomValues(model);
    if (!has_floats || !random.empty()) continue;
    try {
      Side plain = Side::FromModel(std::move(model), {"plain", false, SessionOptions{.threads = 1}});
      Side widened = plain.With({"float64", true, plain.how().options});
      std::vector<Value> expected = plain.Run(inputs), actual = widened.Run(inputs);
      for (size_t i = 0; i < expected.size(); ++i) {
        bool coarse = expected[i].is_tensor() && expected[i].tensor().dtype() == DType::kBFloat16;
        Tolerance tolerance{.rtol = coarse ? 0x1p-8 : 1e-3, .atol = 1e-4};
        Difference difference = Compare(actual[i], WidenToDouble(expected[i]), tolerance);
        if (!difference.within()) wrong[test_case.name] = difference.Explain();
      }
      ++compared;
    } catch (const Error& error) {
      wrong[test_case.name] = error.message();
    }
  }
  EXPECT_GT(compared, 900);
  for (const auto& [name, why] : wrong) ADD_FAILURE() << name << ": " << why;
}

}  // namespace
}  // namespace ferry
