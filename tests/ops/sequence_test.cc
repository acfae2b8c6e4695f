#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

Value List(Ints values) { return Tensor::FromVector<int64_t>(values); }
Value At(int64_t position) { return Tensor::Scalar(position); }

Value Lists(std::vector<Ints> lists) {
  Sequence sequence;
  for (const Ints& list : lists) sequence.elements.push_back(List(list));
  return sequence;
}

std::vector<Ints> Held(const Value& value) {
  std::vector<Ints> lists;
  for (const Value& element : value.sequence().elements) lists.push_back(Elements<int64_t>(element));
  return lists;
}

TEST(Sequence, PositionsCountFromBothEnds) {
  Value two = Lists({{1}, {2}});
  EXPECT_EQ(Held(RunNode(OneNode("SequenceInsert", 3), {two, List({3}), At(2)})[0]),
            (std::vector<Ints>{{1}, {2}, {3}}));
  EXPECT_EQ(Held(RunNode(OneNode("SequenceInsert", 3), {two, List({3}), At(-2)})[0]),
            (std::vector<Ints>{{3}, {1}, {2}}));
  EXPECT_EQ(Held(RunNode(OneNode("SequenceErase", 2), {two, At(-2)})[0]), (std::vector<Ints>{{2}}));
  EXPECT_EQ(Held(RunNode(OneNode("SequenceErase", 1), {two})[0]), (std::vector<Ints>{{1}}));
  EXPECT_THAT(ErrorOf([&] {
                RunNode(OneNode("SequenceAt", 2), {two, At(2)});
              }),
              HasSubstr("position 2 is out of range for a sequence of 2"));
  EXPECT_THAT(ErrorOf([&] {
                RunNode(OneNode("SequenceInsert", 3), {two, List({3}), At(3)});
              }),
              HasSubstr("position 3"));
  EXPECT_THAT(ErrorOf([&] { RunNode(OneNode("SequenceErase", 1), {Lists({})}); }), HasSubstr("empty sequence"));
  EXPECT_THAT(ErrorOf([&] {
                RunNode(OneNode("SequenceInsert", 2), {two, Tensor::Scalar(1.0f)});
              }),
              HasSubstr("the new tensor is float"));
  EXPECT_THAT(ErrorOf([&] { RunNode(OneNode("SequenceLength", 1), {List({1})}); }), HasSubstr("expected a sequence"));
}

TEST(Sequence, SplitsAndJoins) {
  EXPECT_EQ(Held(RunNode(OneNode("SplitToSequence", 2), {List({1, 2, 3}), At(2)})[0]),
            (std::vector<Ints>{{1, 2}, {3}}));
  EXPECT_EQ(Held(RunNode(OneNode("SplitToSequence", 2), {List({1, 2, 3}), List({0, 3})})[0]),
            (std::vector<Ints>{{}, {1, 2, 3}}));
  EXPECT_THAT(ErrorOf([] { RunNode(OneNode("SplitToSequence", 2), {List({1}), At(0)}); }), HasSubstr("positive"));
  Node stack = OneNode("ConcatFromSequence", 1, {{"axis", int64_t{1}}, {"new_axis", int64_t{1}}});
  Value stacked = RunNode(stack, {Lists({{1, 2}, {3, 4}})})[0];
  EXPECT_EQ(Elements<int64_t>(stacked), (Ints{1, 3, 2, 4}));
  EXPECT_THAT(ErrorOf([&] { RunNode(stack, {Lists({{1, 2}, {3}})}); }), HasSubstr("does not go beside"));
  EXPECT_THAT(ErrorOf([&] { RunNode(stack, {Lists({})}); }), HasSubstr("nothing to stack"));
}

TEST(Sequence, InfersElementTypes) {
  ValueFacts matrix{Type::Tensor(DType::kFloat, {Dim::Named("n"), 3})}, other{Type::Tensor(DType::kFloat, {2, 3})};
  auto facts = InferNode(OneNode("SequenceConstruct", 2), {matrix, other});
  EXPECT_EQ(ToText(*facts[0].type.element), "float[?, 3]");
  EXPECT_EQ(ToText(InferNode(OneNode("SequenceAt", 2), {facts[0], {}})[0].type), "float[?, 3]");
}

TEST(Optional, HoldsNothingOrSomething) {
  Node empty = OneNode("Optional", 0, {{"type", Type::Tensor(DType::kFloat)}});
  Value nothing = RunNode(empty, {})[0];
  EXPECT_TRUE(nothing.is_nothing());
  EXPECT_EQ(OnnxTypeName(InferNode(empty, {})[0].type), "optional(tensor(float))");
  EXPECT_FALSE(Elements<bool>(RunNode(OneNode("OptionalHasElement", 1), {nothing})[0])[0]);
  EXPECT_FALSE(Elements<bool>(RunNode(OneNode("OptionalHasElement", 0), {})[0])[0]);
  EXPECT_TRUE(Elements<bool>(RunNode(OneNode("OptionalHasElement", 1), {Lists({})})[0])[0]);
  EXPECT_THAT(ErrorOf([&] { RunNode(OneNode("OptionalGetElement", 1), {nothing}); }), HasSubstr("holds nothing"));
}

Value Text(Strings values) { return Tensor::FromVector<std::string>(values); }

TEST(StringSplit, SplitsAsPythonDoes) {
  auto split = [](Strings texts, std::vector<Attribute> attributes) {
    auto out = RunNode(OneNode("StringSplit", 1, std::move(attributes), "", 2), {Text(texts)});
    return std::pair(Elements<std::string>(out[0]), Elements<int64_t>(out[1]));
  };
  EXPECT_EQ(split({" a  b c "}, {}).first, (Strings{"a", "b", "c"}));
  EXPECT_EQ(split({" a  b c "}, {{"maxsplit", int64_t{1}}}).first, (Strings{"a", "b c "}));
  EXPECT_EQ(split({" a  b c "}, {{"maxsplit", int64_t{0}}}).first, (Strings{"a  b c "}));
  EXPECT_EQ(split({"a\u3000b", "  "}, {}).second, (Ints{2, 0}));
  EXPECT_EQ(split({"a--b", ""}, {{"delimiter", std::string("-")}}).first, (Strings{"a", "", "b", "", "", ""}));
  EXPECT_EQ(split({"aaa"}, {{"delimiter", std::string("aa")}}).first, (Strings{"", "a"}));
}

TEST(StringNormalizer, ComparesWithoutCaseUnlessAsked) {
  auto normalize = [](std::vector<Attribute> attributes) {
    return Elements<std::string>(
        RunNode(OneNode("StringNormalizer", 1, std::move(attributes)), {Text({"Über", "DIE", "Straße"})})[0]);
  };
  Attribute stop{"stopwords", Strings{"ÜBER"}};
  EXPECT_EQ(normalize({stop}), (Strings{"DIE", "Straße"}));
  EXPECT_EQ(normalize({stop, {"is_case_sensitive", int64_t{1}}}), (Strings{"Über", "DIE", "Straße"}));
  EXPECT_EQ(normalize({{"case_change_action", std::string("LOWER")}}), (Strings{"über", "die", "straße"}));
  EXPECT_EQ(normalize({{"stopwords", Strings{"die", "über", "straße"}}}), (Strings{""}));
  EXPECT_THAT(ErrorOf([&] {
                normalize({{"case_change_action", std::string("TITLE")}});
              }),
              HasSubstr("not one of NONE"));
}

TEST(RegexFullMatch, RefusesBadPatternsAndSurvivesHeavyOnes) {
  auto match = [](std::string pattern, std::string text) -> bool {
    return Elements<bool>(
        RunNode(OneNode("RegexFullMatch", 1, {{"pattern", std::move(pattern)}}), {Text({std::move(text)})})[0])[0];
  };
  EXPECT_TRUE(match("(a+)+b", std::string(50, 'a') + "b"));
  EXPECT_FALSE(match("(a+)+b", std::string(5000, 'a')));
  EXPECT_FALSE(match("a", "ab"));
  EXPECT_THAT(ErrorOf([&] { match("(", ""); }), HasSubstr("not a regular expression"));
}

TEST(TfIdfVectorizer, WeighsEachNGramByItsPlaceInThePool) {
  auto vectorize = [](std::string mode, std::vector<float> weights) {
    Node node = OneNode("TfIdfVectorizer", 1,
                        {{"mode", std::move(mode)},
                         {"min_gram_length", int64_t{1}},
                         {"max_gram_length", int64_t{2}},
                         {"max_skip_count", int64_t{0}},
                         {"ngram_counts", Ints{0, 2}},
                         {"ngram_indexes", Ints{2, 1, 0}},
                         {"pool_strings", Strings{"a", "b", "a", "b"}},
                         {"weights", std::move(weights)}});
    return Elements<float>(RunNode(node, {Text({"a", "b", "a", "b", "c"})})[0]);
  };
  EXPECT_EQ(vectorize("TF", {1, 2, 3}), (std::vector<float>{2, 2, 2}));
  EXPECT_EQ(vectorize("TFIDF", {1, 10, 100}), (std::vector<float>{200, 20, 2}));
  EXPECT_EQ(vectorize("IDF", {1, 10, 100}), (std::vector<float>{100, 10, 1}));
  EXPECT_THAT(ErrorOf([&] { vectorize("TF", {1}); }), HasSubstr("weights has 1"));
}

}  // namespace
}  // namespace ferry
