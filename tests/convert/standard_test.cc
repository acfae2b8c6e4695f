// Operators of ONNX Runtime in the standard's words.
#include "convert/standard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/session.h"
#include "tests/support/graphs.h"
#include "tests/support/random_tensors.h"

namespace ferry {
namespace {

using ferry::testing::MakeInfo;
using ferry::testing::MakeModel;
using ferry::testing::MakeNode;
using ferry::testing::Random;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Node Contributed(Node node) {
  node.domain = "com.microsoft";
  return node;
}

Model WithMicrosoft(Model model) {
  model.opsets.push_back({"com.microsoft", 1, {}});
  return model;
}

void ExpectSame(const Model& a, const Model& b, const Tensor& x) {
  const std::vector<NamedValue> inputs{{"x", x}};
  const Value expected = Session::FromModel(a, {.threads = 1})->Run(inputs)[0],
              got = Session::FromModel(b, {.threads = 1})->Run(inputs)[0];
  ASSERT_EQ(expected.tensor().shape(), got.tensor().shape());
  for (int64_t i = 0; i < expected.tensor().size(); ++i)
    ASSERT_NEAR(expected.tensor().Data<float>()[i], got.tensor().Data<float>()[i], 1e-5) << i;
}

TEST(Standard, WritesWhatItHasWordsFor) {
  Random random(1);
  Model model = WithMicrosoft(MakeModel(
      {MakeInfo("x", DType::kFloat, {Dim::Named("n"), 6})},
      {Contributed(MakeNode("BiasGelu", {"x", "bias"}, {"g"})), Contributed(MakeNode("QuickGelu", {"g"}, {"y"}))},
      {MakeInfo("y", DType::kFloat, {Dim::Named("n"), 6})}, {MakeStored("bias", random.Floats({6}))}, 17));
  const StandardModel standard = ToStandard(model);
  EXPECT_EQ(standard.replaced, 2);
  EXPECT_THAT(standard.left, IsEmpty());
  EXPECT_EQ(standard.model.OpsetOf(""), 17);
  EXPECT_EQ(standard.model.OpsetOf("com.microsoft"), 0);
  for (const Node& node : standard.model.graph.nodes) EXPECT_TRUE(node.domain.empty()) << node.op_type;
  ExpectSame(model, standard.model, random.Floats({3, 6}));
}

TEST(Standard, WeightsOfFewBitsStaySmall) {
  Random random(2);
  for (int64_t bits : {4, 8})
    for (bool has_zeros : {false, true}) {
      constexpr int64_t kDepth = 96, kColumns = 5, kBlock = 32, kBlocks = 3;
      std::vector<std::string> inputs{"x", "b", "scales", has_zeros ? "zeros" : "", "", "bias"};
      Model model = WithMicrosoft(
          MakeModel({MakeInfo("x", DType::kFloat, {Dim::Named("n"), kDepth})},
                    {Contributed(MakeNode("MatMulNBits", inputs, {"y"},
                                          {{"K", kDepth}, {"N", kColumns}, {"bits", bits}, {"block_size", kBlock}}))},
                    {MakeInfo("y", DType::kFloat, {Dim::Named("n"), kColumns})},
                    {MakeStored("b", random.Numbers<uint8_t>({kColumns, kBlocks, kBlock * bits / 8})),
                     MakeStored("scales", random.Floats({kColumns, kBlocks})),
                     MakeStored("zeros", random.Numbers<uint8_t>({kColumns, (kBlocks * bits + 7) / 8})),
                     MakeStored("bias", random.Floats({kColumns}))},
                    17));
      const StandardModel standard = ToStandard(model);
      EXPECT_THAT(standard.left, IsEmpty());
      EXPECT_EQ(standard.model.OpsetOf(""), 21) << "blocks came with opset 21";
      size_t bytes = 0;
      for (const StoredTensor& weight : standard.model.graph.initializers) bytes += weight.tensor.bytes();
      EXPECT_LE(bytes, static_cast<size_t>(kColumns * kDepth * bits / 8 + kColumns * kBlocks * 5 + 64));
      const Tensor x = random.Floats({4, kDepth});
      const std::vector<NamedValue> given{{"x", x}};
      const Value expected = Session::FromModel(model, {.threads = 1})->Run(given)[0],
                  got = Session::FromModel(standard.model, {.threads = 1})->Run(given)[0];
      EXPECT_TRUE(Identical(expected, got)) << bits << " bits: both are one packed product";
    }
}

TEST(Standard, NamesWhatIsLeft) {
  Model model = WithMicrosoft(MakeModel(
      {MakeInfo("x", DType::kFloat, {1, 1, 8}), MakeInfo("l", DType::kInt32, {1}), MakeInfo("t", DType::kInt32, {})},
      {Contributed(MakeNode("GroupQueryAttention", {"x", "x", "x", "", "", "l", "t"}, {"y", "k", "v"},
                            {{"num_heads", int64_t{1}}, {"kv_num_heads", int64_t{1}}}))},
      {MakeInfo("y", DType::kFloat, {1, 1, 8})}, {}, 20));
  const StandardModel standard = ToStandard(model);
  EXPECT_EQ(standard.replaced, 0);
  EXPECT_THAT(standard.left, ElementsAre("com.microsoft.GroupQueryAttention ×1"));
  EXPECT_EQ(standard.model.OpsetOf("com.microsoft"), 1);
}

}  // namespace
}  // namespace ferry
