// Contributed operators of many kinds: meaning that no recorded case has, and inputs that do not fit.
#include <gtest/gtest.h>

#include "ops/infer_graph.h"
#include "ops/support/compose.h"
#include "tests/support/nodes.h"

namespace ferry {
namespace {

using testing::Elements;
using testing::ErrorOf;
using testing::MakeInfo;
using testing::MakeNode;
using testing::OneNode;
using testing::RunNode;

Tensor Floats(std::vector<float> values, Shape shape) { return Tensor::FromVector(values, std::move(shape)); }
Tensor Texts(std::vector<std::string> values) { return Tensor::FromVector(values); }

TEST(Composed, InfersWhatItsPartsGive) {
  ValueFacts a{.type = Type::Tensor(DType::kFloat, {Dim::Named("batch"), 3, 4})},
      b{.type = Type::Tensor(DType::kFloat, {5, 4})};
  Node node = OneNode("FusedMatMul", 2, {{"transB", int64_t{1}}, {"alpha", 0.5f}}, "com.microsoft");
  std::vector<ValueFacts> facts = testing::InferNode(node, {a, b});
  EXPECT_EQ(ToText(facts[0].type), "float[batch, 3, 5]");
  // Without a rank there is nothing to turn yet.
  facts = testing::InferNode(node, {a, ValueFacts{.type = Type::Tensor(DType::kFloat)}});
  EXPECT_FALSE(facts[0].type.known());
}

TEST(Composed, ErrorsNameTheNode) {
  Node node = OneNode("FusedConv", 2, {{"activation", std::string("Softer")}}, "com.microsoft");
  std::string error = ErrorOf([&] { RunNode(node, {Floats({1}, {1, 1, 1}), Floats({1}, {1, 1, 1})}); });
  EXPECT_NE(error.find("FusedConv"), std::string::npos);
  EXPECT_NE(error.find("Softer"), std::string::npos);
}

TEST(FusedConv, NeedsTheNumbersOfItsActivation) {
  Node node = OneNode("FusedConv", 2, {{"activation", std::string("Clip")}}, "com.microsoft");
  EXPECT_NE(ErrorOf([&] {
              RunNode(node, {Floats({1}, {1, 1, 1}), Floats({1}, {1, 1, 1})});
            }).find("activation_params"),
            std::string::npos);
}

TEST(MurmurHash3, IsTheKnownOne) {
  auto hash = [](const std::string& text, int64_t seed) {
    Node node = OneNode("MurmurHash3", 1, {{"seed", seed}}, "com.microsoft");
    return Elements<uint32_t>(RunNode(node, {Texts({text})})[0])[0];
  };
  EXPECT_EQ(hash("", 0), 0u);
  EXPECT_EQ(hash("", 1), 0x514E28B7u);
  EXPECT_EQ(hash("test", 0), 0xba6bd213u);
  EXPECT_EQ(hash("Hello, world!", 0x9747b28c), 0x24884CBAu);
}

TEST(Tokenizer, CutsAndFills) {
  auto tokens = [](std::vector<Attribute> attributes, std::vector<std::string> texts) {
    attributes.emplace_back("mark", int64_t{0});
    attributes.emplace_back("pad_value", std::string("_"));
    Node node = OneNode("Tokenizer", 1, std::move(attributes), "com.microsoft");
    return Elements<std::string>(RunNode(node, {Texts(std::move(texts))})[0]);
  };
  std::vector<std::string> separators{";", " "};
  EXPECT_EQ(tokens({{"separators", separators}, {"mincharnum", int64_t{1}}}, {"a;b c", "d"}),
            (std::vector<std::string>{"a", "b", "c", "d", "_", "_"}));
  EXPECT_EQ(tokens({{"tokenexp", std::string("a*")}, {"mincharnum", int64_t{1}}}, {"baab"}),
            (std::vector<std::string>{"aa"}));
  auto error = [&](std::vector<Attribute> attributes, std::string text) {
    return ErrorOf([&] { tokens(std::move(attributes), {std::move(text)}); });
  };
  EXPECT_NE(error({{"mincharnum", int64_t{1}}}, "a").find("separators or tokenexp"), std::string::npos);
  EXPECT_NE(error({{"tokenexp", std::string("(")}, {"mincharnum", int64_t{1}}}, "a").find("regular expression"),
            std::string::npos);
  EXPECT_NE(error({{"separators", separators}, {"mincharnum", int64_t{0}}}, "a").find("mincharnum"), std::string::npos);
  EXPECT_NE(error({{"separators", separators}, {"mincharnum", int64_t{1}}}, "\xff").find("UTF-8"), std::string::npos);
}

TEST(NGramRepeatBlock, RefusesTokensWithoutAScore) {
  Node node = OneNode("NGramRepeatBlock", 2, {{"ngram_size", int64_t{1}}}, "com.microsoft");
  auto error = [&](int64_t token) {
    return ErrorOf([&] {
      RunNode(node, {Tensor::FromVector(std::vector<int64_t>{token}, {1, 1}), Floats({0, 0}, {1, 2})});
    });
  };
  EXPECT_EQ(error(1), "no error");
  EXPECT_NE(error(2).find("token 2"), std::string::npos);
  EXPECT_NE(error(-1).find("token -1"), std::string::npos);
}

TEST(MRotaryEmbedding, NeedsSectionsThatAddUp) {
  auto error = [](std::vector<int64_t> section) {
    Node node = OneNode("MRotaryEmbedding", 4, {{"mrope_section", std::move(section)}, {"num_heads", int64_t{1}}},
                        "com.microsoft");
    Value cache = Floats(std::vector<float>(8, 1), {4, 2});
    return ErrorOf([&] {
      RunNode(node, {Floats({1, 2, 3, 4}, {1, 1, 4}), Tensor::FromVector(std::vector<int64_t>{0, 1, 2}, {3, 1, 1}),
                     cache, cache});
    });
  };
  EXPECT_EQ(error({1, 1, 0}), "no error");
  EXPECT_NE(error({1, 1}).find("3 numbers"), std::string::npos);
  EXPECT_NE(error({1, 0, 0}).find("adds up"), std::string::npos);
  EXPECT_NE(error({3, -1, 0}).find("mrope_section"), std::string::npos);
}

TEST(WordConvEmbedding, RefusesWordsWithoutLetters) {
  Node node = OneNode("WordConvEmbedding", 4, {}, "com.microsoft");
  std::vector<Value> inputs = {Tensor(DType::kInt32, {2, 3, 0}), Floats({1, 1}, {1, 1, 1, 2}), Floats({0}, {1}),
                               Floats({1, 2, 3, 4}, {2, 2})};
  EXPECT_NE(ErrorOf([&] { RunNode(node, inputs); }).find("has no elements"), std::string::npos);
}

TEST(CropAndResize, RefusesImagesThatAreNotThere) {
  Node node = OneNode("CropAndResize", 4, {}, "com.microsoft");
  auto error = [&](int32_t image, int32_t height) {
    return ErrorOf([&] {
      RunNode(node,
              {Floats({1, 2, 3, 4}, {1, 1, 2, 2}), Floats({0, 0, 1, 1}, {1, 4}),
               Tensor::FromVector(std::vector<int32_t>{image}), Tensor::FromVector(std::vector<int32_t>{height, 2})});
    });
  };
  EXPECT_EQ(error(0, 2), "no error");
  EXPECT_NE(error(1, 2).find("batch_indices"), std::string::npos);
  EXPECT_NE(error(-1, 2).find("batch_indices"), std::string::npos);
  EXPECT_NE(error(0, -2).find("crop_size"), std::string::npos);
}

// Sequences of a batch do not know of each other: a short one ends as it does alone.
TEST(AttnLSTM, ShortSequencesEndEarly) {
  auto run = [](int64_t batch, int64_t steps, std::vector<int32_t> lengths, std::vector<float> x) {
    Node node = OneNode("AttnLSTM", 12, {{"hidden_size", int64_t{1}}}, "com.microsoft", 3);
    Value memory = Floats(std::vector<float>(static_cast<size_t>(2 * batch), 0.5f), {batch, 2, 1});
    return RunNode(node, {Floats(std::move(x), {steps, batch, 1}), Floats({1, 2, 3, 4, 5, 6, 7, 8}, {1, 4, 2}),
                          Floats({1, -1, 1, -1}, {1, 4, 1}), Value(), Tensor::FromVector(lengths), Value(), Value(),
                          Value(), Floats({1}, {1, 1, 1}), Floats({1}, {1, 1, 1}), Floats({1}, {1, 1}), memory});
  };
  std::vector<Value> both = run(2, 2, {2, 1}, {0.1f, 0.2f, 0.3f, 0.4f}), alone = run(1, 1, {1}, {0.2f});
  EXPECT_EQ(Elements<float>(both[1])[1], Elements<float>(alone[1])[0]);
  EXPECT_EQ(Elements<float>(both[2])[1], Elements<float>(alone[2])[0]);
  EXPECT_EQ(Elements<float>(both[0])[3], 0);
  EXPECT_NE(ErrorOf([&] { run(1, 1, {2}, {0.2f}); }).find("sequence_lens"), std::string::npos);
  EXPECT_NE(ErrorOf([&] { run(1, 1, {0}, {0.2f}); }).find("sequence_lens"), std::string::npos);
}

// A decoder of one layer that always finds token 1 the most likely.
Node SearchNode(std::string op, size_t inputs, int64_t eos, size_t outputs = 1) {
  auto body = std::make_shared<Graph>();
  body->inputs = {MakeInfo("input_ids", DType::kInt32, {Dim(), Dim()}),
                  MakeInfo("position_ids", DType::kInt32, {Dim(), Dim()}),
                  MakeInfo("attention_mask", DType::kInt32, {Dim(), Dim()}),
                  MakeInfo("past_0", DType::kFloat, {2, Dim(), 1, Dim(), 1})};
  body->outputs = {MakeInfo("logits"), MakeInfo("present_0")};
  body->initializers = {MakeStored("table", Floats({0, 5, 1, 0, 5, 1, 0, 5, 1}, {3, 3}))};
  body->nodes = {MakeNode("Gather", {"table", "input_ids"}, {"logits"}),
                 MakeNode("Identity", {"past_0"}, {"present_0"})};
  return OneNode(std::move(op), inputs,
                 {{"decoder", body}, {"eos_token_id", eos}, {"pad_token_id", int64_t{0}}, {"model_type", int64_t{0}}},
                 "com.microsoft", outputs);
}

TEST(GreedySearch, GoesOnUntilTheEnd) {
  Value ids = Tensor::FromVector(std::vector<int32_t>{2}, {1, 1}), most = Tensor::FromVector(std::vector<int32_t>{4});
  EXPECT_EQ(Elements<int32_t>(RunNode(SearchNode("GreedySearch", 2, 2), {ids, most})[0]),
            (std::vector<int32_t>{2, 1, 1, 1}));
  EXPECT_EQ(Elements<int32_t>(RunNode(SearchNode("GreedySearch", 2, 1), {ids, most})[0]),
            (std::vector<int32_t>{2, 0, 0, 0}));
}

TEST(GreedySearch, RefusesLengthsThatDoNotFit) {
  Value ids = Tensor::FromVector(std::vector<int32_t>{2}, {1, 1});
  for (int32_t most : {1, 0, -3, 1 << 30})
    EXPECT_NE(ErrorOf([&] {
                RunNode(SearchNode("GreedySearch", 2, 1), {ids, Tensor::FromVector(std::vector<int32_t>{most})});
              }).find("max_length"),
              std::string::npos)
        << most;
}

TEST(BeamSearch, RefusesBeamsThatDoNotFit) {
  auto error = [](int32_t beams, int32_t returned) {
    auto number = [](int32_t value) { return Tensor::FromVector(std::vector<int32_t>{value}); };
    return ErrorOf([&] {
      RunNode(SearchNode("BeamSearch", 5, 2), {Tensor::FromVector(std::vector<int32_t>{2}, {1, 1}), number(4),
                                               number(0), number(beams), number(returned)});
    });
  };
  EXPECT_EQ(error(1, 1), "no error");
  EXPECT_NE(error(0, 1).find("num_beams"), std::string::npos);
  EXPECT_NE(error(1 << 20, 1).find("num_beams"), std::string::npos);
  EXPECT_NE(error(1, 2).find("num_return_sequences"), std::string::npos);
  EXPECT_NE(error(1, 0).find("num_return_sequences"), std::string::npos);
}

}  // namespace
}  // namespace ferry
