// Shapes with names in them and the values of small integer tensors, carried through the operators that move them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/infer_graph.h"
#include "tensor/alignment.h"
#include "tests/support/nodes.h"

namespace ferry {
namespace {

using testing::InferNode;
using testing::MakeInfo;
using testing::MakeModel;
using testing::MakeNode;
using testing::OneNode;
using Ints = std::vector<int64_t>;

ValueFacts Shaped(SymbolicShape shape, DType dtype = DType::kFloat) { return {Type::Tensor(dtype, std::move(shape))}; }
ValueFacts Known(Ints values) { return FactsOf(Tensor::FromVector<int64_t>(values)); }
ValueFacts KnownScalar(int64_t value) { return FactsOf(Tensor::Scalar(value)); }
ValueFacts List(SymbolicShape elements) {
  ValueFacts facts{Type::Tensor(DType::kInt64, {Dim(static_cast<int64_t>(elements.size()))})};
  facts.elements = std::move(elements);
  return facts;
}
Dim N(const char* name) { return Dim::Named(name); }
std::string Inferred(const Node& node, const std::vector<ValueFacts>& inputs) {
  return ToText(InferNode(node, inputs)[0].type);
}
std::string InferredElements(const Node& node, const std::vector<ValueFacts>& inputs) {
  auto facts = InferNode(node, inputs);
  return facts[0].elements ? ToText(*facts[0].elements) : "unknown";
}

TEST(InferMovement, CarriesAShapeIntoAReshape) {
  // x[batch, seq, 64] → [batch, seq, 8, 8] by way of Shape, Gather, Unsqueeze, Concat.
  Model model = MakeModel(
      {MakeInfo("x", DType::kFloat, {N("batch"), N("seq"), 64})},
      {MakeNode("Shape", {"x"}, {"shape"}), MakeNode("Gather", {"shape", "zero"}, {"b"}),
       MakeNode("Unsqueeze", {"b", "axes"}, {"b1"}), MakeNode("Slice", {"shape", "one", "two"}, {"s1"}),
       MakeNode("Concat", {"b1", "s1", "heads"}, {"wanted"}, {{"axis", int64_t{0}}}),
       MakeNode("Reshape", {"x", "wanted"}, {"y"}), MakeNode("Transpose", {"y"}, {"z"}, {{"perm", Ints{0, 2, 1, 3}}})},
      {MakeInfo("z")},
      {MakeStored("zero", Tensor::Scalar(int64_t{0})), MakeStored("axes", Tensor::FromVector<int64_t>({0})),
       MakeStored("one", Tensor::FromVector<int64_t>({1})), MakeStored("two", Tensor::FromVector<int64_t>({2})),
       MakeStored("heads", Tensor::FromVector<int64_t>({8, -1}))});
  GraphFacts facts = InferGraph(model.graph, {});
  EXPECT_EQ(ToText(facts.Find("y")->type), "float[batch, seq, 8, 8]");
  EXPECT_EQ(ToText(facts.Find("z")->type), "float[batch, 8, seq, 8]");
}

// Weights as they lie in a file are not copied until a node computes with them; what is found is the same.
TEST(InferMovement, KnowsWeightsAtOddAddresses) {
  const Tensor aligned = Tensor::FromVector(std::vector<float>(2000, 2.5f), {40, 50});
  std::vector<std::byte> memory(aligned.bytes() + 1);
  std::copy_n(aligned.raw(), aligned.bytes(), memory.begin() + 1);
  const Tensor odd = Tensor::Borrow(DType::kFloat, {40, 50}, memory.data() + 1);
  Model model = MakeModel({MakeInfo("x", DType::kFloat, {N("batch"), 40})},
                          {MakeNode("MatMul", {"x", "w"}, {"y"}), MakeNode("Identity", {"w"}, {"same"}),
                           MakeNode("Neg", {"same"}, {"computed"}), MakeNode("Shape", {"w"}, {"shape"})},
                          {MakeInfo("y")}, {MakeStored("w", odd)});
  GraphFacts facts = InferGraph(model.graph, {});
  EXPECT_EQ(facts.Find("w")->constant->raw(), odd.raw());
  EXPECT_EQ(ToText(facts.Find("y")->type), "float[batch, 50]");
  EXPECT_EQ(ToText(*facts.Find("shape")->elements), "[40, 50]");
  ASSERT_TRUE(facts.Find("same")->constant && facts.Find("computed")->constant);
  EXPECT_TRUE(Identical(*facts.Find("same")->constant, aligned));
  EXPECT_TRUE(IsReadable(*facts.Find("same")->constant));
  EXPECT_EQ(facts.Find("computed")->constant->Data<float>()[1999], -2.5f);
}

TEST(InferMovement, ReshapeCancelsNames) {
  Node reshape = OneNode("Reshape", 2);
  EXPECT_EQ(Inferred(reshape, {Shaped({N("b"), 3, 4}), List({N("b"), -1})}), "float[b, 12]");
  EXPECT_EQ(Inferred(reshape, {Shaped({N("b"), 3, 4}), Known({-1, 4})}), "float[?, 4]");
  EXPECT_EQ(Inferred(reshape, {Shaped({N("b"), 3}), Known({0, 3, 1})}), "float[b, 3, 1]");
  EXPECT_EQ(Inferred(reshape, {Shaped({2, 3}), List({Dim(), 3})}), "float[2, 3]");
  EXPECT_EQ(Inferred(reshape, {Shaped({2, 3}), Shaped({3}, DType::kInt64)}), "float[?, ?, ?]");
  EXPECT_EQ(Inferred(reshape, {Shaped({2, 3}), Shaped({int64_t{1} << 50}, DType::kInt64)}), "float[…]");
}

TEST(InferMovement, SliceKeepsWhatItDoesNotCut) {
  Node slice = OneNode("Slice", 4);
  EXPECT_EQ(Inferred(slice, {Shaped({N("n"), 9}), Known({0, -3}), Known({INT64_MAX, 100}), Known({0, 1})}),
            "float[n, 3]");
  EXPECT_EQ(Inferred(slice, {Shaped({N("n")}), Known({1}), Known({INT64_MAX}), Known({0})}), "float[?]");
  EXPECT_EQ(Inferred(slice, {Shaped({N("n"), 9}), List({0}), List({N("n")}), Known({0})}), "float[n, 9]");
  EXPECT_EQ(Inferred(slice, {Shaped({N("n"), 9}), Shaped({1}, DType::kInt64), Shaped({1}, DType::kInt64), Known({1})}),
            "float[n, ?]");
  EXPECT_EQ(InferredElements(slice, {List({N("a"), 2, N("c")}), Known({-1}), Known({INT64_MAX}), Known({0})}), "[c]");
}

TEST(InferMovement, ElementsThroughTheRest) {
  ValueFacts list = List({N("a"), 2, N("c")});
  EXPECT_EQ(InferredElements(OneNode("Split", 2, {}, "", 2), {list, Known({1, 2})}), "[a]");
  EXPECT_EQ(InferredElements(OneNode("Squeeze", 2), {List({N("a")}), Known({0})}), "[a]");
  EXPECT_EQ(InferredElements(OneNode("Tile", 2), {List({N("a"), 2}), Known({2})}), "[a, 2, a, 2]");
  EXPECT_EQ(InferredElements(OneNode("Expand", 2), {List({N("a")}), Known({3})}), "[a, a, a]");
  EXPECT_EQ(InferredElements(OneNode("Identity", 1), {list}), "[a, 2, c]");
  EXPECT_EQ(InferredElements(OneNode("Size", 1), {Shaped({N("a")})}), "[a]");
  EXPECT_EQ(
      InferredElements(OneNode("Shape", 1, {{"start", int64_t{-2}}, {"end", int64_t{-1}}}), {Shaped({N("a"), 7, 5})}),
      "[7]");
}

TEST(InferMovement, SizesFromValues) {
  EXPECT_EQ(Inferred(OneNode("ConstantOfShape", 1), {List({N("a"), 2})}), "float[a, 2]");
  EXPECT_EQ(Inferred(OneNode("Expand", 2), {Shaped({1, 3}), List({N("a"), 1})}), "float[a, 3]");
  EXPECT_EQ(Inferred(OneNode("Range", 3), {KnownScalar(0), List({N("a")}), KnownScalar(1)}), "int64[a]");
  EXPECT_EQ(Inferred(OneNode("Range", 3), {KnownScalar(5), KnownScalar(0), KnownScalar(-2)}), "int64[3]");
  EXPECT_EQ(Inferred(OneNode("Pad", 2), {Shaped({N("a"), 4}), Known({0, 1, 0, -2})}), "float[a, 3]");
  EXPECT_EQ(Inferred(OneNode("TopK", 2, {}, "", 2), {Shaped({N("a"), 4}), Known({3})}), "float[a, 3]");
  EXPECT_EQ(Inferred(OneNode("OneHot", 3), {Shaped({N("a")}, DType::kInt64), KnownScalar(6), Shaped({2})}),
            "float[a, 6]");
  EXPECT_EQ(Inferred(OneNode("GatherND", 2), {Shaped({N("a"), 4, 5}), Shaped({N("k"), 2}, DType::kInt64)}),
            "float[k, 5]");
  EXPECT_EQ(Inferred(OneNode("Concat", 2, {{"axis", int64_t{0}}}), {Shaped({N("a"), 4}), Shaped({2, Dim()})}),
            "float[a + 2, 4]");
  // A sum has one name, whatever the order of its parts.
  EXPECT_EQ(Inferred(OneNode("Concat", 4, {{"axis", int64_t{0}}}),
                     {Shaped({1, 4}), Shaped({N("a"), 4}), Shaped({2, 4}), Shaped({0, 4})}),
            "float[a + 3, 4]");
  EXPECT_EQ(Inferred(OneNode("Concat", 2, {{"axis", int64_t{0}}}), {Shaped({N("a"), 4}), Shaped({N("b"), 4})}),
            "float[?, 4]");
  EXPECT_EQ(Inferred(OneNode("NonZero", 1), {Shaped({N("a"), 4})}), "int64[2, ?]");
  EXPECT_EQ(Inferred(OneNode("Flatten", 1), {Shaped({N("a"), 4, 5})}), "float[a, 20]");
  EXPECT_EQ(Inferred(OneNode("Compress", 2, {{"axis", int64_t{0}}}),
                     {Shaped({3, 4}), FactsOf(Tensor::FromVector<bool>({true, false, true}))}),
            "float[2, 4]");
}

}  // namespace
}  // namespace ferry
