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

TEST(Convert, WantsToKnowWhat) {
  const Said said = Ferry({"convert", SimpleNet("torch.onnx"), "-o", ScratchFolder() + "/out.onnx"});
  EXPECT_EQ(said.status, 2);
  EXPECT_NE(said.err.find("--opset N or --standard"), std::string::npos) << said.err;
}

}  // namespace
}  // namespace ferry
