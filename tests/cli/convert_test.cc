// ferry convert --standard.
#include "onnx/reader.h"
#include "onnx/writer.h"
#include "tests/cli/run_ferry.h"
#include "tests/support/graphs.h"
#include "tests/support/random_tensors.h"

namespace ferry {
namespace {

TEST(Convert, WritesOperatorsInTheStandards) {
  testing::Random random(1);
  Node gelu = testing::MakeNode("BiasGelu", {"x", "bias"}, {"g"}),
       tokens = testing::MakeNode("CDist", {"g", "g"}, {"y"});
  gelu.domain = tokens.domain = "com.microsoft";
  Model model = testing::MakeModel({testing::MakeInfo("x", DType::kFloat, {Dim::Named("n"), 6})}, {gelu, tokens},
                                   {testing::MakeInfo("y", DType::kFloat, {Dim::Named("n"), Dim::Named("n")})},
                                   {MakeStored("bias", random.Floats({6}))}, 20);
  model.opsets.push_back({"com.microsoft", 1, {}});
  const std::string folder = ScratchFolder(), in = folder + "/in.onnx", out = folder + "/out.onnx";
  WriteModel(model, in);
  const Said said = Ferry({"convert", in, "--standard", "-o", out, "--dim", "n=3", "--json"});
  ASSERT_EQ(said.status, 0) << said.err;
  EXPECT_EQ(said.json().At("replaced").AsInt() + static_cast<int64_t>(said.json().At("left").AsArray().size()), 2);
  EXPECT_LE(said.json().At("largest_difference").AsDouble(), 1e-4);
  EXPECT_EQ(Ferry({"check", out}).status, 0);
  for (const Node& node : ReadModel(out).graph.nodes) EXPECT_NE(node.op_type, "BiasGelu");
  const Said text = Ferry({"convert", in, "--standard", "-o", out});
  EXPECT_NE(text.out.find("same outputs on made-up inputs"), std::string::npos) << text.out;
}

// Rows that may become bytes (accuracy_level 4) are no reason to refuse.
TEST(Convert, WeightsOfFewBitsAreProvedOnFloats) {
  testing::Random random(2);
  Node product = testing::MakeNode("MatMulNBits", {"x", "b", "scales"}, {"y"},
                                   {{"K", int64_t{64}},
                                    {"N", int64_t{48}},
                                    {"bits", int64_t{4}},
                                    {"block_size", int64_t{32}},
                                    {"accuracy_level", int64_t{4}}});
  product.domain = "com.microsoft";
  Model model = testing::MakeModel(
      {testing::MakeInfo("x", DType::kFloat, {5, 64})}, {product}, {testing::MakeInfo("y", DType::kFloat, {5, 48})},
      {MakeStored("b", random.Numbers<uint8_t>({48, 2, 16})), MakeStored("scales", random.Floats({48, 2}))}, 20);
  model.opsets.push_back({"com.microsoft", 1, {}});
  const std::string folder = ScratchFolder(), in = folder + "/in.onnx", out = folder + "/out.onnx";
  WriteModel(model, in);
  const Said said = Ferry({"convert", in, "--standard", "-o", out});
  EXPECT_EQ(said.status, 0) << said.err;
}

TEST(Convert, WantsToKnowWhat) {
  const Said said = Ferry({"convert", SimpleNet("torch.onnx"), "-o", ScratchFolder() + "/out.onnx"});
  EXPECT_EQ(said.status, 2);
  EXPECT_NE(said.err.find("--opset N or --standard"), std::string::npos) << said.err;
}

}  // namespace
}  // namespace ferry
