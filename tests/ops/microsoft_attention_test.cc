// Attention with caches: lengths, positions and caches that do not fit.
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/nodes.h"
#include "tests/support/random_tensors.h"

namespace ferry {
namespace {

using testing::Elements;
using testing::ErrorOf;
using testing::OneNode;
using testing::RunNode;

Tensor Filled(float value, Shape shape) {
  auto count = static_cast<size_t>(shape.ElementCount());
  return Tensor::FromVector(std::vector<float>(count, value), std::move(shape));
}
Tensor Ints(std::vector<int32_t> values) { return Tensor::FromVector(values); }

// One new token behind a past of two, two heads of queries to one of keys.
struct GroupQuery {
  std::vector<int32_t> lengths{2};
  int32_t total = 3;
  Shape past{1, 1, 2, 4};
  Value cosines, sines, positions, bias, sink, key_scale, value_scale;
  std::vector<Attribute> more;

  std::vector<Value> Run() const {
    std::vector<Attribute> attributes{{"num_heads", int64_t{2}}, {"kv_num_heads", int64_t{1}}};
    attributes.insert(attributes.end(), more.begin(), more.end());
    Node node = OneNode("GroupQueryAttention", 14, std::move(attributes), "com.microsoft", 3);
    return RunNode(
        node, {Filled(1, {1, 1, 8}), Filled(1, {1, 1, 4}), Filled(5, {1, 1, 4}), Filled(1, past), Filled(2, past),
               Ints(lengths), Tensor::Scalar(total), cosines, sines, positions, bias, sink, key_scale, value_scale});
  }
  std::string Error() const {
    return ErrorOf([&] { Run(); });
  }
};

TEST(GroupQueryAttention, AppendsToTheCache) {
  std::vector<Value> results = GroupQuery{}.Run();
  // All keys are alike: the mean of 2, 2 and 5.
  EXPECT_EQ(Elements<float>(results[0]), std::vector<float>(8, 3));
  EXPECT_EQ(results[2].tensor().shape(), (Shape{1, 1, 3, 4}));
  EXPECT_EQ(Elements<float>(results[2])[8], 5);
}

TEST(GroupQueryAttention, KeepsTheRoomOfALargerCache) {
  std::vector<Value> results = GroupQuery{.past = {1, 1, 6, 4}}.Run();
  EXPECT_EQ(results[1].tensor().shape(), (Shape{1, 1, 6, 4}));
  EXPECT_EQ(Elements<float>(results[2])[8], 5);
  EXPECT_EQ(Elements<float>(results[2])[12], 0);
}

TEST(GroupQueryAttention, RefusesLengthsThatDoNotFit) {
  EXPECT_NE((GroupQuery{.lengths = {-1}}.Error().find("seqlens_k has -1")), std::string::npos);
  EXPECT_NE((GroupQuery{.lengths = {std::numeric_limits<int32_t>::min()}}.Error().find("seqlens_k")),
            std::string::npos);
  EXPECT_NE((GroupQuery{.lengths = {std::numeric_limits<int32_t>::max()}}.Error().find("seqlens_k")),
            std::string::npos);
  EXPECT_NE((GroupQuery{.lengths = {3}}.Error().find("seqlens_k")), std::string::npos);
  EXPECT_NE((GroupQuery{.lengths = {2, 2}}.Error().find("one number")), std::string::npos);
  EXPECT_NE((GroupQuery{.total = 0}.Error().find("positive")), std::string::npos);
  EXPECT_NE((GroupQuery{.total = -5}.Error().find("positive")), std::string::npos);
  // The cache has room for what total says, but the past has fewer rows.
  EXPECT_NE((GroupQuery{.lengths = {4}, .total = 5}.Error().find("room for 2")), std::string::npos);
  EXPECT_NE((GroupQuery{.past = {1, 2, 2, 4}}.Error().find("past_key")), std::string::npos);
  EXPECT_NE((GroupQuery{.past = {1, 1, 2, 5}}.Error().find("past_key")), std::string::npos);
}

TEST(GroupQueryAttention, RefusesOtherInputsThatDoNotFit) {
  GroupQuery query;
  query.more = {{"do_rotary", int64_t{1}}};
  EXPECT_NE(query.Error().find("cos_cache"), std::string::npos);
  query.cosines = query.sines = Filled(1, {2, 2});
  EXPECT_NE(query.Error().find("position 2"), std::string::npos);
  query.cosines = query.sines = Filled(1, {8, 3});
  EXPECT_NE(query.Error().find("angles"), std::string::npos);
  query.cosines = query.sines = Filled(1, {8, 2});
  query.positions = Tensor::FromVector(std::vector<int64_t>{-1}, {1, 1});
  EXPECT_NE(query.Error().find("position -1"), std::string::npos);
  query = {};
  query.bias = Filled(0, {1, 2, 1, 2});
  EXPECT_NE(query.Error().find("attention_bias"), std::string::npos);
  query = {};
  query.sink = Filled(0, {3});
  EXPECT_NE(query.Error().find("head_sink"), std::string::npos);
  query = {};
  query.more = {{"kv_cache_bit_width", int64_t{8}}};
  EXPECT_NE(query.Error().find("kv_cache_bit_width"), std::string::npos);
  query.more = {{"k_quant_type", std::string("PER_TENSOR")},
                {"v_quant_type", std::string("PER_TENSOR")},
                {"kv_cache_bit_width", int64_t{8}}};
  EXPECT_NE(query.Error().find("cache must be int8"), std::string::npos);
  query.more = {{"sliding_window_cache", int64_t{1}}, {"local_window_size", int64_t{4}}};
  EXPECT_NE(query.Error().find("window of 4"), std::string::npos);
}

// A prompt at once and token by token: two ways through the keys, with whatever may be asked of the scores.
TEST(GroupQueryAttention, PromptLikeTokens) {
  testing::Random random(9);
  for (int trial = 0; trial < 24; ++trial) {
    const int64_t kv_heads = random.Int(1, 2), group = random.Int(1, 3), size = 8 * random.Int(1, 3);
    const int64_t heads = kv_heads * group, length = random.Int(5, 150);
    std::vector<Attribute> attributes{{"num_heads", heads}, {"kv_num_heads", kv_heads}};
    if (random.Bool()) attributes.emplace_back("local_window_size", random.Int(1, 20));
    if (random.Bool()) attributes.emplace_back("softcap", 1.5f);
    if (random.Bool()) attributes.emplace_back("smooth_softmax", int64_t{1});
    if (random.Bool()) attributes.emplace_back("scale", 0.7f);
    Node node = OneNode("GroupQueryAttention", 7, attributes, "com.microsoft", 3);
    const Tensor q = random.Floats({1, length, heads * size}), k = random.Floats({1, length, kv_heads * size}),
                 v = random.Floats({1, length, kv_heads * size});
    const auto total = static_cast<int32_t>(length);
    std::vector<Value> whole = RunNode(node, {q, k, v, Value(), Value(), Ints({total - 1}), Tensor::Scalar(total)});
    Value key = Tensor::Zeros(DType::kFloat, {1, kv_heads, length, size}), value = key;
    auto row = [](const Tensor& of, int64_t at) {
      const int64_t width = of.dim(2);
      const float* from = of.Data<float>() + at * width;
      return Tensor::FromVector(std::vector<float>(from, from + width), {1, 1, width});
    };
    for (int32_t at = 0; at < total; ++at) {
      std::vector<Value> step = RunNode(
          node, {row(q, at), row(k, at), row(v, at), key, value, Ints({at}), Tensor::Scalar(std::max(2, at + 1))});
      const std::vector<float> got = Elements<float>(step[0]), expected = Elements<float>(row(whole[0].tensor(), at));
      for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 2e-5) << trial << ": " << at;
      key = step[1];
      value = step[2];
    }
    EXPECT_EQ(Elements<float>(key), Elements<float>(whole[1]));
  }
}

TEST(GroupQueryAttention, RefusesHeadsThatDoNotFit) {
  auto error = [](int64_t heads, int64_t kv_heads) {
    Node node =
        OneNode("GroupQueryAttention", 7, {{"num_heads", heads}, {"kv_num_heads", kv_heads}}, "com.microsoft", 3);
    return ErrorOf([&] {
      RunNode(node, {Filled(1, {1, 1, 8}), Filled(1, {1, 1, 4}), Filled(1, {1, 1, 4}), Value(), Value(), Ints({0}),
                     Tensor::Scalar(int32_t{1})});
    });
  };
  EXPECT_EQ(error(2, 1), "no error");
  for (int64_t heads : {int64_t{0}, int64_t{-2}, int64_t{3}, std::numeric_limits<int64_t>::max()})
    EXPECT_NE(error(heads, 1), "no error") << heads;
  EXPECT_NE(error(2, 0), "no error");
  EXPECT_NE(error(2, 4), "no error");
}

TEST(SparseAttention, RefusesBlocksThatDoNotFit) {
  auto error = [](std::vector<int32_t> rows, std::vector<int32_t> columns, int32_t length) {
    Node node = OneNode("SparseAttention", 9,
                        {{"num_heads", int64_t{1}}, {"kv_num_heads", int64_t{1}}, {"sparse_block_size", int64_t{2}}},
                        "com.microsoft", 3);
    auto table = [](const std::vector<int32_t>& values) {
      return Tensor::FromVector(values, Shape{1, static_cast<int64_t>(values.size())});
    };
    return ErrorOf([&] {
      RunNode(node, {Filled(1, {1, 1, 4}), Filled(1, {1, 1, 4}), Filled(1, {1, 1, 4}), Filled(1, {1, 1, 4, 4}),
                     Filled(1, {1, 1, 4, 4}), table(rows), table(columns), Tensor::Scalar(int32_t{4}), Ints({length})});
    });
  };
  EXPECT_EQ(error({0, 1, 3}, {0, 0, 1}, 4), "no error");
  EXPECT_NE(error({0, 1, 4}, {0, 0, 1}, 4).find("block_row_indices"), std::string::npos);
  EXPECT_NE(error({0, 2, 1}, {0, 0, 1}, 4).find("block_row_indices"), std::string::npos);
  EXPECT_NE(error({0, 1, 3}, {0, -1, 1}, 4).find("block_col_indices"), std::string::npos);
  EXPECT_NE(error({0, 1, 3}, {0, 0, 2}, 4).find("block_col_indices"), std::string::npos);
  EXPECT_NE(error({0, 1, 3}, {0, 0, 1}, 5).find("key_total_sequence_lengths"), std::string::npos);
  EXPECT_NE(error({0, 1, 3}, {0, 0, 1}, -1).find("key_total_sequence_lengths"), std::string::npos);
}

TEST(DecoderMaskedMultiHeadAttention, RefusesBeamsThatDoNotFit) {
  auto error = [](int32_t past, int32_t beam) {
    Node node = OneNode("DecoderMaskedMultiHeadAttention", 10,
                        {{"num_heads", int64_t{1}}, {"past_present_share_buffer", int64_t{1}}}, "com.microsoft", 3);
    Value cache = Filled(1, {2, 1, 4, 2}), rows = Filled(1, {2, 1, 2});
    return ErrorOf([&] {
      RunNode(node, {rows, rows, rows, Value(), Value(), cache, cache, Ints({past}), Ints({2}),
                     Tensor::FromVector(std::vector<int32_t>(8, beam), Shape{1, 2, 4})});
    });
  };
  EXPECT_EQ(error(2, 1), "no error");
  EXPECT_NE(error(2, 2).find("beam 2"), std::string::npos);
  EXPECT_NE(error(2, -1).find("beam -1"), std::string::npos);
  EXPECT_NE(error(4, 0).find("past_sequence_length"), std::string::npos);
  EXPECT_NE(error(-1, 0).find("past_sequence_length"), std::string::npos);
}

TEST(MultiHeadAttention, MasksByLength) {
  Node node = OneNode("MultiHeadAttention", 5, {{"num_heads", int64_t{1}}}, "com.microsoft");
  Tensor values = Tensor::FromVector(std::vector<float>{1, 2, 30}, {1, 3, 1});
  std::vector<Value> y = RunNode(node, {Filled(1, {1, 1, 1}), Filled(1, {1, 3, 1}), values, Value(), Ints({2})});
  EXPECT_NEAR(Elements<float>(y[0])[0], 1.5f, 1e-6f);
  EXPECT_NE(ErrorOf([&] {
              RunNode(node, {Filled(1, {1, 1, 1}), Filled(1, {1, 3, 1}), values, Value(), Ints({2, 1, 1})});
            }),
            "no error");
}

}  // namespace
}  // namespace ferry
