#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "torch/archive.h"
#include "torch/export.h"
#include "torch/pt2_graph.h"
#include "torch/symbolic.h"

namespace ferry::torch {
namespace {

using testing::HasSubstr;

TEST(Symbolic, ReadsBothNotations) {
  EXPECT_EQ(ParseDimExpression("Symbol('s77', positive=True, integer=True)").symbol, "s77");
  EXPECT_EQ(ParseDimExpression("Mul(Integer(2), Symbol('s0', integer=True))").symbol, "2*s0");
  EXPECT_EQ(ParseDimExpression("Mul(Integer(2), Add(Symbol('s0', integer=True), Integer(-1)))").symbol, "2*(s0 + -1)");
  EXPECT_EQ(ParseDimExpression("Pow(Symbol('s0', integer=True), Integer(2))").symbol, "s0**2");
  EXPECT_EQ(ParseDimExpression("Min(Integer(32), Symbol('s0', integer=True))").symbol, "Min(32, s0)");
  EXPECT_EQ(ParseDimExpression("2*s0").symbol, "2*s0");
  EXPECT_EQ(ParseDimExpression("Integer(5)").value, 5);
  EXPECT_EQ(ParseDimExpression("7").value, 7);
}

TEST(Symbolic, RefusesNonsense) {
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "Mul(";
  for (std::string text : {std::string(), std::string("Symbol("), std::string("Symbol('s0'"),
                           std::string("Symbol('s0') x"), "Symbol(" + deep, std::string(20'000, 'x')})
    EXPECT_THROW(ParseDimExpression(text), Error) << text.substr(0, 20);
}

SharedBytes Share(std::vector<float> values) {
  auto keep = std::make_shared<std::vector<float>>(std::move(values));
  return {std::as_bytes(std::span<const float>(*keep)), keep};
}

TEST(Storage, ContiguousTensorsAreNotCopied) {
  SharedBytes storage = Share({1, 2, 3, 4, 5, 6});
  Tensor tensor = TensorFromStorage(storage, DType::kFloat, 2, {2, 2}, {2, 1});
  EXPECT_EQ(tensor.raw(), storage.bytes.data() + 8);
}

TEST(Storage, OtherStridesAreLaidOutAnew) {
  SharedBytes storage = Share({1, 2, 3, 4, 5, 6});
  EXPECT_TRUE(Identical(TensorFromStorage(storage, DType::kFloat, 0, {3, 2}, {1, 3}),
                        Tensor::FromVector<float>({1, 4, 2, 5, 3, 6}, {3, 2})));
  EXPECT_TRUE(Identical(TensorFromStorage(storage, DType::kFloat, 1, {2, 2}, {0, 1}),
                        Tensor::FromVector<float>({2, 3, 2, 3}, {2, 2})));
}

TEST(Storage, RefusesWhatReachesOutside) {
  SharedBytes storage = Share({1, 2, 3, 4, 5, 6});
  EXPECT_THROW(TensorFromStorage(storage, DType::kFloat, 0, {7}, {1}), Error);
  EXPECT_THROW(TensorFromStorage(storage, DType::kFloat, 5, {2}, {1}), Error);
  EXPECT_THROW(TensorFromStorage(storage, DType::kFloat, -1, {2}, {1}), Error);
  EXPECT_THROW(TensorFromStorage(storage, DType::kFloat, 0, {2}, {-1}), Error);
  EXPECT_THROW(TensorFromStorage(storage, DType::kFloat, 0, {2, 3}, {INT64_MAX, INT64_MAX}), Error);
  EXPECT_THROW(TensorFromStorage(storage, DType::kFloat, 0, {1 << 30, 1 << 30}, {0, 0}), Error);
  EXPECT_THROW(TensorFromStorage(storage, DType::kFloat, INT64_MAX, {1}, {1}), Error);
}

constexpr const char* kProgram = R"({
  "graph_module": {
    "graph": {
      "inputs": [{"as_tensor": {"name": "x"}}],
      "outputs": [{"as_tensor": {"name": "relu"}}],
      "nodes": [{"target": "torch.ops.aten.relu.default",
                 "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "x"}}}],
                 "outputs": [{"as_tensor": {"name": "relu"}}],
                 "metadata": {"nn_module_stack": "a,b,c"}}],
      "tensor_values": {
        "x": {"dtype": 7, "sizes": [{"as_expr": {"expr_str": "s0"}}, {"as_int": 3}], "requires_grad": false,
              "strides": [{"as_int": 3}, {"as_int": 1}], "storage_offset": {"as_int": 0}, "layout": 7}},
      "sym_int_values": {}
    },
    "signature": SIGNATURE
  },
  "schema_version": {"major": 8, "minor": 1},
  "range_constraints": {"s0": {"min_val": 2, "max_val": null}}
})";

std::string WithSignature(const std::string& signature) {
  std::string text = kProgram;
  return text.replace(text.find("SIGNATURE"), 9, signature);
}

const char* const kNewSignature =
    R"({"input_specs": [{"user_input": {"arg": {"as_tensor": {"name": "x"}}}}],
        "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "relu"}}}}]})";

TEST(Pt2Graph, ReadsProgramsOfNewAndOldSchemas) {
  for (std::string signature :
       {std::string(kNewSignature), std::string(R"({"inputs_to_parameters": {}, "user_inputs": ["x"]})")}) {
    ExportedProgram program = ParseProgram(Json::Parse(WithSignature(signature)));
    ASSERT_EQ(program.inputs.size(), 1u);
    EXPECT_EQ(program.inputs[0].kind, InputSpec::Kind::kUser);
    EXPECT_EQ(program.graph.nodes[0].target, "aten.relu.default");
    EXPECT_EQ(program.graph.tensors.at("x").sizes[0].symbol, "s0");
    EXPECT_EQ(program.ranges.at("s0").lowest, 2);
  }
}

// wav2vec2 draws random numbers that only its training reads.
TEST(Pt2Graph, WhatNobodyReadsNeedsNoExport) {
  ExportedProgram program = ParseProgram(Json::Parse(WithSignature(kNewSignature)));
  ProgramNode unread = program.graph.nodes[0];
  unread.target = "aten.has_no_export.default";
  unread.outputs = {Argument{TensorName{"nothing"}}};
  program.graph.nodes.push_back(unread);
  EXPECT_EQ(ExportProgram(program).model.graph.nodes.size(), 1u);
  // In place it writes to x, which may be read.
  program.graph.nodes.back().target = "aten.has_no_export_.default";
  EXPECT_THROW(ExportProgram(program), Error);
}

TEST(Pt2Graph, SaysWhereItIsWrong) {
  std::string text = WithSignature(kNewSignature);
  size_t at = text.find("as_tensor\": {\"name\": \"x\"}}}],\n                 \"outputs");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 9, "as_wonder");
  try {
    ParseProgram(Json::Parse(text));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("as_wonder"));
    EXPECT_THAT(error.message(), HasSubstr("aten.relu.default"));
  }
}

TEST(Pt2Graph, RefusesStridesWithoutSizes) {
  std::string text = WithSignature(kNewSignature), strides = "\"strides\": [";
  size_t at = text.find(strides);
  ASSERT_NE(at, std::string::npos);
  text.insert(at + strides.size(), "{\"as_int\": 1}, ");
  EXPECT_THROW(ParseProgram(Json::Parse(text)), Error);
}

TEST(Pt2Graph, RefusesUnknownSchemas) {
  std::string text = WithSignature(kNewSignature);
  text.replace(text.find("\"major\": 8"), 10, "\"major\": 9");
  EXPECT_THROW(ParseProgram(Json::Parse(text)), Error);
}

}  // namespace
}  // namespace ferry::torch
