#include "passes/fuse_shuffle.h"

#include "tests/passes/optimized.h"

namespace ferry {
namespace {

using namespace testing;  // NOLINT

// Two branches of `channels` that are joined, shuffled in two groups and, where asked, cut into halves again.
Model Shuffled(Random& random, int64_t channels, bool cut, std::vector<std::string> outputs) {
  std::vector<Node> nodes{MakeNode("Conv", {"x", "w1"}, {"a"}),
                          MakeNode("Conv", {"x", "w2"}, {"b"}),
                          MakeNode("Concat", {"a", "b"}, {"joined"}, {{"axis", int64_t{1}}}),
                          MakeNode("Reshape", {"joined", "groups"}, {"split"}),
                          MakeNode("Transpose", {"split"}, {"turned"}, {Perm({0, 2, 1, 3, 4})}),
                          MakeNode("Reshape", {"turned", "whole"}, {"mixed"})};
  std::vector<StoredTensor> constants{MakeStored("w1", random.Numbers<float>({channels, 3, 1, 1})),
                                      MakeStored("w2", random.Numbers<float>({channels, 3, 1, 1})),
                                      MakeStored("w3", random.Numbers<float>({4, cut ? channels : 2 * channels, 1, 1})),
                                      Ints("groups", {2, 2, channels, 5, 4}),
                                      Ints("whole", {2, 2 * channels, 5, 4}),
                                      Ints("halves", {channels, channels})};
  if (cut) nodes.push_back(MakeNode("Split", {"mixed", "halves"}, {"left", "right"}, {{"axis", int64_t{1}}}));
  nodes.push_back(MakeNode("Conv", {cut ? "right" : "mixed", "w3"}, {"y"}));
  std::vector<ValueInfo> infos;
  for (const std::string& name : outputs) infos.push_back(MakeInfo(name));
  return MakeModel({MakeInfo("x", DType::kFloat, {Dim(2), Dim(3), Dim(5), Dim(4)})}, nodes, infos, constants);
}

TEST(FuseShuffle, JoinsShufflesAndCutsInOneStep) {
  Random random(3);
  for (int64_t channels : {2, 8, 26}) {
    Model model = Shuffled(random, channels, true, {"y", "left"});
    Graph graph = HoldAgainstOptimized(model, {random.Numbers<float>({2, 3, 5, 4})});
    EXPECT_EQ(Count(graph, "Concat") + Count(graph, "Split"), 0) << channels;
    EXPECT_EQ(Count(graph, "NhwcShuffle"), 1) << channels;
  }
}

TEST(FuseShuffle, WithoutACut) {
  Random random(5);
  for (int64_t channels : {1, 7, 16}) {
    Graph graph = HoldAgainstOptimized(Shuffled(random, channels, false, {"y"}), {random.Numbers<float>({2, 3, 5, 4})});
    EXPECT_EQ(Count(graph, "Concat"), 0) << channels;
  }
}

TEST(FuseShuffle, LeavesTheCutOfOddHalves) {
  Random random(7);
  Graph graph = HoldAgainstOptimized(Shuffled(random, 5, true, {"y", "left"}), {random.Numbers<float>({2, 3, 5, 4})});
  EXPECT_EQ(Count(graph, "Concat"), 0);
  EXPECT_EQ(Count(graph, "Split"), 1);
}

TEST(FuseShuffle, LeavesWhatOthersReadToo) {
  Random random(9);
  Graph joined =
      HoldAgainstOptimized(Shuffled(random, 4, true, {"y", "joined"}), {random.Numbers<float>({2, 3, 5, 4})});
  EXPECT_EQ(Count(joined, "Concat"), 1);
  Graph mixed = HoldAgainstOptimized(Shuffled(random, 4, true, {"y", "mixed"}), {random.Numbers<float>({2, 3, 5, 4})});
  EXPECT_EQ(Count(mixed, "Split"), 1);
}

// Whole numbers from -4 to 4.
template <class T>
Tensor SmallNumbers(Shape shape) {
  Tensor tensor(kDTypeOf<T>, shape);
  for (int64_t i = 0; i < tensor.size(); ++i) tensor.MutableData<T>()[i] = static_cast<T>((i * 7 + 3) % 9 - 4);
  return tensor;
}

TEST(FuseShuffle, LevelsOfEightBitsAreShuffled) {
  for (const int64_t groups : {2, 3}) {
    auto dequantize = [](const char* from, const char* zero, const char* to) {
      return MakeNode("DequantizeLinear", {from, "one", zero}, {to});
    };
    const Model model = MakeModel(
        {MakeInfo("x", DType::kFloat, {Dim(2), Dim(3), Dim(5), Dim(4)})},
        {MakeNode("QuantizeLinear", {"x", "one", "middle"}, {"xq"}), dequantize("xq", "middle", "xd"),
         dequantize("w", "", "wd"), MakeNode("Conv", {"xd", "wd"}, {"a"}),
         MakeNode("QuantizeLinear", {"a", "one", "middle"}, {"aq"}), MakeNode("Reshape", {"aq", "groups"}, {"split"}),
         MakeNode("Transpose", {"split"}, {"turned"}, {Perm({0, 2, 1, 3, 4})}),
         MakeNode("Reshape", {"turned", "whole"}, {"mixed"}), dequantize("mixed", "middle", "d"),
         dequantize("v", "", "vd"), MakeNode("Conv", {"d", "vd"}, {"y"})},
        {MakeInfo("y")},
        {MakeStored("w", SmallNumbers<int8_t>({6, 3, 1, 1})), MakeStored("v", SmallNumbers<int8_t>({4, 6, 1, 1})),
         Scalar("one", 1), MakeStored("middle", Tensor::Scalar(uint8_t{128})),
         Ints("groups", {2, groups, 6 / groups, 5, 4}), Ints("whole", {2, 6, 5, 4})});
    const Graph graph = HoldAgainstOptimized(model, {SmallNumbers<float>({2, 3, 5, 4})});
    EXPECT_EQ(Count(graph, "NhwcShuffle"), 1) << groups;
  }
}

}  // namespace
}  // namespace ferry
