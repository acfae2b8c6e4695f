// What `ferry build` writes: the contract of the header, memory that is shared, refusals that name the node.
#include "convert/c/build_c.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "tests/support/graphs.h"

namespace ferry {
namespace {

using ::ferry::testing::MakeInfo;
using ::ferry::testing::MakeModel;
using ::ferry::testing::MakeNode;
using ::testing::HasSubstr;
using ::testing::Not;

Model Chain() {
  return MakeModel({MakeInfo("x", DType::kFloat, {Dim::Named("n"), 4})},
                   {MakeNode("Exp", {"x"}, {"a"}), MakeNode("Sin", {"a"}, {"b"}), MakeNode("Softmax", {"b"}, {"c"}),
                    MakeNode("Tanh", {"c"}, {"y"})},
                   {MakeInfo("y", DType::kFloat, {Dim::Named("n"), 4})});
}

CBuild Build(const Model& model, std::map<std::string, int64_t> dimensions = {}) {
  CBuildRequest request{.model = model, .name = "net"};
  request.dimensions = std::move(dimensions);
  return BuildC(request);
}

TEST(BuildC, HeaderHoldsTheContract) {
  const CBuild built = Build(Chain(), {{"n", 3}});
  EXPECT_THAT(built.header, HasSubstr("void net_run(const float x[12], float y[12]);"));
  EXPECT_THAT(built.header, HasSubstr("void net_run_in(void *arena, const float x[12], float y[12]);"));
  EXPECT_THAT(built.header, HasSubstr(Cat("#define NET_ARENA_BYTES ", built.arena_bytes)));
  EXPECT_THAT(built.header, HasSubstr("#define NET_WEIGHT_BYTES 0"));
  EXPECT_THAT(built.header, HasSubstr("extern \"C\""));
  EXPECT_THAT(built.source, Not(HasSubstr("malloc")));
}

TEST(BuildC, ElementwiseStepsShareTheMemoryOfTheResult) {
  EXPECT_EQ(Build(Chain(), {{"n", 3}}).arena_bytes, 0u);  // all of it happens where the caller wants the result
}

TEST(BuildC, StepsThatAreAlikeShareOneFunction) {
  const Model model =
      MakeModel({MakeInfo("x", DType::kFloat, {8})}, {MakeNode("Exp", {"x"}, {"a"}), MakeNode("Exp", {"a"}, {"y"})},
                {MakeInfo("y", DType::kFloat, {8})});
  const CBuild built = Build(model);
  ASSERT_EQ(built.steps.size(), 2u);
  EXPECT_EQ(built.steps[0].function, built.steps[1].function);
}

TEST(BuildC, RefusesByNodeAndReason) {
  Model model = MakeModel({MakeInfo("x", DType::kFloat, {8})}, {MakeNode("NonZero", {"x"}, {"y"})},
                          {MakeInfo("y", DType::kInt64, {1, Dim::Named("found")})});
  model.graph.nodes[0].name = "seek";
  try {
    Build(model);
    FAIL() << "it was built";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(error.message(), HasSubstr("node 'seek' (NonZero)"));
    EXPECT_THAT(error.message(), HasSubstr("depends on data"));
  }
}

TEST(BuildC, RefusesADimensionThatNoInputHas) { EXPECT_THROW(Build(Chain(), {{"m", 3}}), Error); }

TEST(BuildC, InputsThatDecideShapesAreTakenFromTheRecording) {
  const Model model = MakeModel({MakeInfo("x", DType::kFloat, {2, 6}), MakeInfo("shape", DType::kInt64, {2})},
                                {MakeNode("Reshape", {"x", "shape"}, {"a"}), MakeNode("Exp", {"a"}, {"y"})},
                                {MakeInfo("y", DType::kFloat, {Dim(), Dim()})});
  CBuildRequest request{.model = model, .name = "net"};
  EXPECT_THROW(BuildC(request), Error);
  request.recorded["shape"] = Tensor::FromVector<int64_t>({3, 4});
  const CBuild built = BuildC(request);
  ASSERT_EQ(built.inputs.size(), 2u);
  EXPECT_FALSE(built.inputs[0].is_fixed);
  EXPECT_TRUE(built.inputs[1].is_fixed);
  EXPECT_EQ(built.outputs[0].shape, (Shape{3, 4}));
}

TEST(BuildC, LargeWeightsGoToAFileThatTheAssemblerTakesIn) {
  const Model model =
      MakeModel({MakeInfo("x", DType::kFloat, {1, 64})}, {MakeNode("MatMul", {"x", "w"}, {"y"})},
                {MakeInfo("y", DType::kFloat, {1, 128})}, {MakeStored("w", Tensor::Zeros(DType::kFloat, {64, 128}))});
  CBuildRequest request{.model = model, .name = "net"};
  EXPECT_TRUE(BuildC(request).weights.empty());
  request.weights_file = true;
  const CBuild built = BuildC(request);
  EXPECT_EQ(built.weights.size(), 64u * 128 * 4);
  EXPECT_EQ(built.weight_bytes, 64u * 128 * 4);
  EXPECT_THAT(built.source, HasSubstr(".incbin"));
  EXPECT_LT(built.source.size(), 40000u);
  EXPECT_THAT(built.cmake, HasSubstr("NET_BIN"));
}

// y grows by one element in every turn.
TEST(BuildC, LoopsWhoseShapesChangeAreWrittenOut) {
  auto body = std::make_shared<Graph>();
  body->inputs = {MakeInfo("i", DType::kInt64, {}), MakeInfo("go", DType::kBool, {}), MakeInfo("y_in")};
  body->nodes = {MakeNode("Identity", {"go"}, {"go_out"}),
                 MakeNode("Concat", {"y_in", "x"}, {"y_out"}, {Attribute("axis", int64_t{0})})};
  body->outputs = {MakeInfo("go_out", DType::kBool, {}), MakeInfo("y_out")};
  const Model model = MakeModel({MakeInfo("x", DType::kFloat, {1}), MakeInfo("turns", DType::kInt64, {})},
                                {MakeNode("Loop", {"turns", "", "x"}, {"y"}, {Attribute("body", body)})},
                                {MakeInfo("y", DType::kFloat, {Dim()})});
  CBuildRequest request{.model = model, .name = "net"};
  EXPECT_THROW(BuildC(request), Error);
  request.fixed["turns"] = Tensor::Scalar<int64_t>(3);
  EXPECT_EQ(BuildC(request).outputs[0].shape, (Shape{4}));
}

TEST(BuildC, NamesAreIdentifiers) {
  EXPECT_EQ(CName("my-net.v2"), "my_net_v2");
  EXPECT_EQ(CName("3d"), "n3d");
}

}  // namespace
}  // namespace ferry
