#include "providers/cpu/image_chains.h"

#include <gtest/gtest.h>

#include <memory>

#include "engine/profile.h"
#include "engine/session.h"
#include "ops/support/fused.h"
#include "tests/support/graphs.h"

namespace ferry {
namespace {

using ::ferry::testing::MakeInfo;
using ::ferry::testing::MakeModel;
using ::ferry::testing::MakeNode;

Tensor Values(Shape shape, int step) {
  Tensor tensor(DType::kFloat, std::move(shape));
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.MutableData<float>()[i] = static_cast<float>(i * step % 1009) / 504.5f - 1.0f;
  return tensor;
}

Node InternalNode(std::string op, std::vector<std::string> inputs, std::vector<std::string> outputs) {
  Node node = MakeNode(std::move(op), std::move(inputs), std::move(outputs));
  node.domain = kInternalDomain;
  return node;
}

class FindingChains : public ::testing::Test {
 protected:
  void Know(const std::string& name, SymbolicShape shape) { known_[name].type = Type::Tensor(DType::kFloat, shape); }
  void KnowConstant(const std::string& name, Shape shape) {
    known_[name] = FactsOf(Tensor::Zeros(DType::kFloat, shape));
  }

  std::vector<ImageChain> Find(std::vector<std::string> results) const {
    std::vector<const Node*> nodes;
    for (const Node& node : nodes_) nodes.push_back(&node);
    return FindImageChains(
        nodes,
        [&](const std::string& name) {
          auto it = known_.find(name);
          return it == known_.end() ? nullptr : &it->second;
        },
        results);
  }

  std::vector<Node> nodes_;
  FactsByName known_;
};

TEST_F(FindingChains, TakesLargeBatchesApartUntilWeightsOutweighImages) {
  for (const char* name : {"x", "a", "b"}) Know(name, {8, 64, 64, 96});  // 12 MB
  Know("small", {8, 1, 1, 512});
  KnowConstant("w", {96, 96, 1, 1});
  KnowConstant("large", {512, 96, 3, 3});
  nodes_ = {InternalNode("NhwcConv", {"x", "w"}, {"a"}), MakeNode("Add", {"a", "x"}, {"b"}),
            InternalNode("NhwcConv", {"b", "large"}, {"small"})};
  std::vector<ImageChain> chains = Find({"small"});
  ASSERT_EQ(chains.size(), 1u);
  EXPECT_EQ(chains[0].first, 0u);
  EXPECT_EQ(chains[0].last, 2u);
  EXPECT_EQ(chains[0].images, 1);
  EXPECT_EQ(chains[0].inputs, std::vector<std::string>({"x"}));
  EXPECT_EQ(chains[0].outputs, std::vector<std::string>({"b"}));
  EXPECT_EQ(ToText(*chains[0].facts["a"].type.shape), "[1, 64, 64, 96]");
}

TEST_F(FindingChains, TakesAsManyImagesAsFitAndDivideTheBatch) {
  for (const char* name : {"x", "a"}) Know(name, {30, 64, 64, 32});  // 0.5 MB an image, 1 MB with the result
  nodes_ = {MakeNode("Relu", {"x"}, {"a"})};
  std::vector<ImageChain> chains = Find({"a"});
  ASSERT_EQ(chains.size(), 1u);
  EXPECT_EQ(chains[0].images, 6);
}

TEST_F(FindingChains, TakesWhateverTreatsElementsAlone) {
  for (const char* name : {"x", "a", "b"}) Know(name, {8, 64, 64, 96});
  for (const char* op : {"Tanh", "LeakyRelu", "Gelu", "Round"}) {
    nodes_ = {MakeNode(op, {"x"}, {"a"}), MakeNode("Sub", {"a", "x"}, {"b"})};
    std::vector<ImageChain> chains = Find({"b"});
    ASSERT_EQ(chains.size(), 1u) << op;
    EXPECT_EQ(chains[0].last, 2u) << op;
  }
  nodes_ = {MakeNode("Softmax", {"x"}, {"a"})};
  EXPECT_TRUE(Find({"a"}).empty());
}

TEST_F(FindingChains, LeavesWhatIsSmallOrMixesImagesOrIsUnknown) {
  Know("x", {8, 8, 8, 8});
  Know("y", {8, 8, 8, 8});
  nodes_ = {MakeNode("Relu", {"x"}, {"y"})};
  EXPECT_TRUE(Find({"y"}).empty());

  Know("x", {8, 8, 512, 96});
  Know("y", {8, 8, 512, 96});
  EXPECT_EQ(Find({"y"}).size(), 1u);
  Know("x", {Dim::Named("batch"), 8, 512, 96});
  EXPECT_TRUE(Find({"y"}).empty());
  Know("x", {8, 8, 512, 96});

  // These eight are not the batch's.
  Know("plane", {8, 512, 96});
  nodes_ = {MakeNode("Add", {"x", "plane"}, {"y"})};
  EXPECT_TRUE(Find({"y"}).empty());
  KnowConstant("each", {8, 1, 1, 96});
  nodes_ = {MakeNode("Add", {"x", "each"}, {"y"})};
  EXPECT_TRUE(Find({"y"}).empty());

  Know("y", {8, 8, 512, 96});
  KnowConstant("images", {8, 8, 512, 96});
  KnowConstant("w", {96, 96, 1, 1});
  nodes_ = {InternalNode("NhwcConv", {"images", "w"}, {"y"})};
  EXPECT_TRUE(Find({"y"}).empty());

  Node concat = MakeNode("Concat", {"x", "x"}, {"y"});
  for (int64_t axis : {0, -4, 1}) {
    concat.Set("axis", axis);
    Know("y", axis == 1 ? SymbolicShape{8, 16, 512, 96} : SymbolicShape{16, 8, 512, 96});
    nodes_ = {concat};
    EXPECT_EQ(Find({"y"}).size(), axis == 1 ? 1u : 0u) << axis;
  }
}

// A block as MobileNet has them, with a value that two results need.
Model MakeBlock() {
  std::vector<StoredTensor> weights = {
      MakeStored("w0", Values({32, 3, 3, 3}, 7)), MakeStored("w1", Values({96, 32, 1, 1}, 11)),
      MakeStored("w2", Values({96, 1, 3, 3}, 13)), MakeStored("w3", Values({32, 96, 1, 1}, 17))};
  Attribute pads, group;
  pads.name = "pads", pads.held = std::vector<int64_t>{1, 1, 1, 1};
  group.name = "group", group.held = int64_t{96};
  std::vector<Node> nodes = {MakeNode("Conv", {"x", "w0"}, {"c0"}, {pads}),
                             MakeNode("Relu", {"c0"}, {"a0"}),
                             MakeNode("Conv", {"a0", "w1"}, {"c1"}),
                             MakeNode("Relu", {"c1"}, {"a1"}),
                             MakeNode("Conv", {"a1", "w2"}, {"c2"}, {pads, group}),
                             MakeNode("Relu", {"c2"}, {"a2"}),
                             MakeNode("Conv", {"a2", "w3"}, {"c3"}),
                             MakeNode("Add", {"c3", "a0"}, {"y"}),
                             MakeNode("GlobalAveragePool", {"y"}, {"mean"})};
  return MakeModel({MakeInfo("x", DType::kFloat, {Dim::Named("batch"), 3, 96, 96})}, nodes,
                   {MakeInfo("y"), MakeInfo("mean")}, weights);
}

size_t StepsOf(const Session& session, const Tensor& x) {
  Profile profile;
  std::vector<NamedValue> inputs{{"x", x}};
  session.Run(inputs, {}, {.profile = &profile});
  return profile.size();
}

TEST(ImageChains, BatchesGiveTheBitsOfSingleImagesOnAnyNumberOfThreads) {
  Model model = MakeBlock();
  Tensor x = Values({6, 3, 96, 96}, 5);
  auto single = Session::FromModel(model, {.threads = 1});
  EXPECT_GT(StepsOf(*single, x), 2 * StepsOf(*single, x.Rows(0, 1))) << "the batch was not taken apart";
  for (int threads : {1, 2, 4}) {
    auto session = Session::FromModel(model, {.threads = threads});
    for (int repeat = 0; repeat < 2; ++repeat) {
      std::vector<Value> together = session->Run(std::vector<NamedValue>{{"x", x}});
      for (int64_t image = 0; image < x.dim(0); ++image) {
        std::vector<Value> alone = single->Run(std::vector<NamedValue>{{"x", x.Rows(image, 1)}});
        for (size_t i = 0; i < alone.size(); ++i)
          ASSERT_TRUE(Identical(together[i].tensor().Rows(image, 1), alone[i].tensor()))
              << "result " << i << " of image " << image << " on " << threads << " threads";
      }
    }
  }
}

}  // namespace
}  // namespace ferry
