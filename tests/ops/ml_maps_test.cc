#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/nodes.h"

namespace ferry {
namespace {

using testing::Elements;
using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::InferNode;
using testing::OneNode;
using testing::RunNode;
using Ints = std::vector<int64_t>;
using Strings = std::vector<std::string>;

Node Ml(std::string op, std::vector<Attribute> attributes = {}, size_t inputs = 1, size_t outputs = 1) {
  return OneNode(std::move(op), inputs, std::move(attributes), kMlDomain, outputs);
}
template <class T>
Value Vector(std::vector<T> values) {
  return Tensor::FromVector<T>(values);
}
Value Floats(std::vector<float> values, Shape shape) { return Tensor::FromVector<float>(values, std::move(shape)); }

TEST(LabelEncoder, LastOfRepeatedKeysWinsAndNanMatchesNan) {
  Node node = Ml("LabelEncoder", {{"keys_floats", std::vector<float>{1, NAN, 1}},
                                  {"values_strings", Strings{"a", "nan", "b"}},
                                  {"default_string", std::string("none")}});
  auto out = RunNode(node, {Floats({1, -NAN, 2, 0}, {2, 2})});
  EXPECT_EQ(Elements<std::string>(out[0]), (Strings{"b", "nan", "none", "none"}));
  EXPECT_EQ(out[0].tensor().shape(), (Shape{2, 2}));
}

TEST(LabelEncoder, TensorAttributesDefaultByTheirType) {
  auto keys = std::make_shared<StoredTensor>(MakeStored("k", Tensor::FromVector<int32_t>({7})));
  auto values = std::make_shared<StoredTensor>(MakeStored("v", Tensor::FromVector<int16_t>({3})));
  Node node = Ml("LabelEncoder", {{"keys_tensor", keys}, {"values_tensor", values}});
  EXPECT_EQ(Elements<int16_t>(RunNode(node, {Vector<int32_t>({7, 8})})[0]), (std::vector<int16_t>{3, -1}));
  auto facts = InferNode(node, {ValueFacts{Type::Tensor(DType::kInt32, {Dim::Named("n")})}});
  EXPECT_EQ(ToText(facts[0].type), "int16[n]");
}

TEST(LabelEncoder, RefusesWhatDoesNotFit) {
  Node two = Ml("LabelEncoder", {{"keys_int64s", Ints{1}}, {"keys_strings", Strings{"a"}}, {"values_int64s", Ints{1}}});
  EXPECT_THAT(ErrorOf([&] { RunNode(two, {Vector<int64_t>({1})}); }),
              HasSubstr("exactly one of the attributes 'keys_*'"));
  Node lengths = Ml("LabelEncoder", {{"keys_int64s", Ints{1, 2}}, {"values_int64s", Ints{1}}});
  EXPECT_THAT(ErrorOf([&] { RunNode(lengths, {Vector<int64_t>({1})}); }), HasSubstr("2 keys and 1 values"));
  Node ints = Ml("LabelEncoder", {{"keys_int64s", Ints{1}}, {"values_int64s", Ints{1}}});
  EXPECT_THAT(ErrorOf([&] { RunNode(ints, {Vector<float>({1})}); }), HasSubstr("keys are of type int64"));
}

TEST(CategoryMapper, MapsBothWays) {
  Node node = Ml("CategoryMapper", {{"cats_int64s", Ints{1, 2}}, {"cats_strings", Strings{"x", "y"}}});
  EXPECT_EQ(Elements<int64_t>(RunNode(node, {Vector<std::string>({"y", "?"})})[0]), (Ints{2, -1}));
  EXPECT_EQ(Elements<std::string>(RunNode(node, {Vector<int64_t>({1, 9})})[0]), (Strings{"x", "_Unused"}));
}

TEST(OneHotEncoder, CastsNumbersAndRefusesUnknownOnesWhenAsked) {
  Node node = Ml("OneHotEncoder", {{"cats_int64s", Ints{3, 5}}});
  auto out = RunNode(node, {Floats({5.9f, 3, NAN, 1e30f}, {4})});
  EXPECT_EQ(Elements<float>(out[0]), (std::vector<float>{0, 1, 1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(out[0].tensor().shape(), (Shape{4, 2}));
  node.Set("zeros", int64_t{0});
  EXPECT_THAT(ErrorOf([&] { RunNode(node, {Vector<int64_t>({4})}); }), HasSubstr("none of the categories"));
}

TEST(CastMap, OrdersByKeyAndSpreadsSparsely) {
  Map map{Tensor::FromVector<int64_t>({4, 1}), Tensor::FromVector<float>({2.5f, 1})};
  EXPECT_EQ(Elements<float>(RunNode(Ml("CastMap"), {map})[0]), (std::vector<float>{1, 2.5}));
  Node sparse = Ml(
      "CastMap", {{"map_form", std::string("SPARSE")}, {"max_map", int64_t{5}}, {"cast_to", std::string("TO_STRING")}});
  EXPECT_EQ(Elements<std::string>(RunNode(sparse, {map})[0]), (Strings{"", "1", "", "", "2.5"}));
  sparse.Set("max_map", int64_t{4});
  EXPECT_THAT(ErrorOf([&] { RunNode(sparse, {map}); }), HasSubstr("key 4 is outside"));
}

TEST(CastMap, ReadsNumbersFromStrings) {
  Node node = Ml("CastMap", {{"cast_to", std::string("TO_INT64")}});
  Map good{Tensor::FromVector<int64_t>({0}), Tensor::FromVector<std::string>({"-12"})};
  EXPECT_EQ(Elements<int64_t>(RunNode(node, {good})[0]), (Ints{-12}));
  Map bad{Tensor::FromVector<int64_t>({0}), Tensor::FromVector<std::string>({"12x"})};
  EXPECT_THAT(ErrorOf([&] { RunNode(node, {bad}); }), HasSubstr("'12x' is not a number"));
}

TEST(DictVectorizer, FillsAbsentKeysWithZero) {
  Node node = Ml("DictVectorizer", {{"string_vocabulary", Strings{"a", "c", "b", "z"}}});
  Map map{Tensor::FromVector<std::string>({"a", "c"}), Tensor::FromVector<int64_t>({4, 8})};
  auto out = RunNode(node, {map});
  EXPECT_EQ(Elements<int64_t>(out[0]), (Ints{4, 8, 0, 0}));
  Map unknown{Tensor::FromVector<std::string>({"q"}), Tensor::FromVector<int64_t>({4})};
  EXPECT_THAT(ErrorOf([&] { RunNode(node, {unknown}); }), HasSubstr("'q' is not in the vocabulary"));
  auto facts = InferNode(node, {ValueFacts{Type::MapOf(DType::kString, Type::Tensor(DType::kInt64))}});
  EXPECT_EQ(ToText(facts[0].type), "int64[1, 4]");
}

TEST(ZipMap, MakesOneMapPerRow) {
  Node node = Ml("ZipMap", {{"classlabels_strings", Strings{"no", "yes"}}});
  auto out = RunNode(node, {Floats({0.25f, 0.75f, 1, 0}, {2, 2})});
  const Sequence& maps = out[0].sequence();
  ASSERT_EQ(maps.elements.size(), 2u);
  EXPECT_EQ(Elements<float>(maps.elements[1].map().values), (std::vector<float>{1, 0}));
  EXPECT_EQ(Elements<std::string>(maps.elements[0].map().keys), (Strings{"no", "yes"}));
  EXPECT_THAT(ErrorOf([&] { RunNode(node, {Floats({1, 2, 3}, {1, 3})}); }), HasSubstr("3 columns for 2 keys"));
}

TEST(ArrayFeatureExtractor, TreatsAVectorAsOneRow) {
  auto out =
      RunNode(Ml("ArrayFeatureExtractor", {}, 2), {Vector<std::string>({"a", "b", "c"}), Vector<int64_t>({2, 0})});
  EXPECT_EQ(out[0].tensor().shape(), (Shape{1, 2}));
  EXPECT_EQ(Elements<std::string>(out[0]), (Strings{"c", "a"}));
  EXPECT_THAT(ErrorOf([&] {
                RunNode(Ml("ArrayFeatureExtractor", {}, 2), {Vector<float>({1}), Vector<int64_t>({1})});
              }),
              HasSubstr("index 1 is outside"));
}

}  // namespace
}  // namespace ferry
