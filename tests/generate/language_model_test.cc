// Decoders with caches of every kind, held against the same model that reads everything again.
#include "generate/language_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "base/process.h"
#include "tests/support/graphs.h"
#include "tests/support/random_tensors.h"

namespace ferry {
namespace {

using testing::MakeInfo;
using testing::MakeModel;
using testing::MakeNode;
using Ids = std::vector<TokenId>;

constexpr int64_t kVocabulary = 32, kWidth = 16, kSize = 8;

Attribute IntAttribute(const std::string& name, int64_t value) {
  Attribute attribute;
  attribute.name = name;
  attribute.type = AttributeType::kInt;
  attribute.held = value;
  return attribute;
}

struct GroupQueryNames {
  std::string ids = "input_ids", past = "past_key_values.0.", present = "present.0.";
  DType whole = DType::kInt64;
};

// A layer of GroupQueryAttention as onnxruntime-genai writes it.
Model GroupQueryModel(int64_t window, const GroupQueryNames& names = {}) {
  testing::Random random(3);
  Tensor cosines(DType::kFloat, {window, kSize / 2}), sines(DType::kFloat, {window, kSize / 2});
  for (int64_t i = 0; i < cosines.size(); ++i) {
    const double angle = static_cast<double>(i / (kSize / 2)) * std::pow(100.0, -static_cast<double>(i % 4) / 4);
    cosines.MutableData<float>()[i] = static_cast<float>(std::cos(angle));
    sines.MutableData<float>()[i] = static_cast<float>(std::sin(angle));
  }
  std::vector<StoredTensor> weights = {MakeStored("embedding", random.Floats({kVocabulary, kWidth})),
                                       MakeStored("q", random.Floats({kWidth, 2 * kSize})),
                                       MakeStored("k", random.Floats({kWidth, kSize})),
                                       MakeStored("v", random.Floats({kWidth, kSize})),
                                       MakeStored("out", random.Floats({kWidth, kVocabulary})),
                                       MakeStored("cos", cosines),
                                       MakeStored("sin", sines),
                                       MakeStored("axes", Tensor::FromVector<int64_t>({1})),
                                       MakeStored("one", Tensor::Scalar<int32_t>(1)),
                                       MakeStored("second", Tensor::Scalar<int64_t>(1))};
  const auto to_int32 = IntAttribute("to", static_cast<int64_t>(DType::kInt32));
  Node attention =
      MakeNode("GroupQueryAttention",
               {"xq", "xk", "xv", names.past + "key", names.past + "value", "last", "total", "cos", "sin"},
               {"y", names.present + "key", names.present + "value"},
               {IntAttribute("num_heads", 2), IntAttribute("kv_num_heads", 1), IntAttribute("do_rotary", 1)});
  attention.domain = "com.microsoft";
  std::vector<Node> nodes = {
      MakeNode("Gather", {"embedding", names.ids}, {"x"}),
      MakeNode("MatMul", {"x", "q"}, {"xq"}),
      MakeNode("MatMul", {"x", "k"}, {"xk"}),
      MakeNode("MatMul", {"x", "v"}, {"xv"}),
      MakeNode("Cast", {"attention_mask"}, {"mask32"}, {to_int32}),
      MakeNode("ReduceSum", {"mask32", "axes"}, {"sum"}, {IntAttribute("keepdims", 0)}),
      MakeNode("Sub", {"sum", "one"}, {"last"}),
      MakeNode("Shape", {"attention_mask"}, {"shape"}),
      MakeNode("Gather", {"shape", "second"}, {"total64"}),
      MakeNode("Cast", {"total64"}, {"total"}, {to_int32}),
      attention,
      MakeNode("Add", {"x", "y"}, {"z"}),
      MakeNode("MatMul", {"z", "out"}, {"logits"}),
  };
  const Dim batch = Dim::Named("batch"), sequence = Dim::Named("sequence"), past = Dim::Named("past");
  Model model = MakeModel(
      {MakeInfo(names.ids, names.whole, {batch, sequence}),
       MakeInfo("attention_mask", names.whole, {batch, Dim::Named("total")}),
       MakeInfo(names.past + "key", DType::kFloat, {batch, 1, past, kSize}),
       MakeInfo(names.past + "value", DType::kFloat, {batch, 1, past, kSize})},
      nodes, {MakeInfo("logits"), MakeInfo(names.present + "key"), MakeInfo(names.present + "value")}, weights);
  model.opsets.push_back({"com.microsoft", 1, {}});
  return model;
}

SessionOptions OneThread() {
  SessionOptions options;
  options.threads = 1;
  return options;
}

Ids Numbers(size_t count) {
  Ids ids;
  for (size_t i = 0; i < count; ++i) ids.push_back(static_cast<TokenId>((i * 7 + i / 5) % kVocabulary));
  return ids;
}

void ExpectClose(const std::vector<float>& a, const std::vector<float>& b, float tolerance = 1e-4f) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << i;
}

// What a text read at once gives must be what it gives token by token, in any parts.
void ExpectSameInParts(const LanguageModel& model, const Ids& ids) {
  Decoding whole(model, 4096), single(model, 4096), parts(model, 4096);
  const std::vector<float> expected = whole.Read(ids);
  std::vector<float> last;
  for (TokenId id : ids) last = single.Read(Ids{id});
  ExpectClose(last, expected);
  const std::span<const TokenId> all = ids;
  parts.Read(all.first(3));
  parts.Read(all.subspan(3, 4));
  ExpectClose(parts.Read(all.subspan(7)), expected);
  EXPECT_EQ(parts.length(), static_cast<int64_t>(ids.size()));
}

TEST(LanguageModelTest, CachesAreReadAndWritten) {
  const LanguageModel model("tests/data/generate/model.onnx", OneThread());
  EXPECT_TRUE(model.has_cache());
  EXPECT_FALSE(model.shares_cache());
  EXPECT_FALSE(model.window());
  ExpectSameInParts(model, Numbers(20));
}

TEST(LanguageModelTest, WithoutACacheEverythingIsReadAgain) {
  const LanguageModel model("tests/data/generate/cacheless.onnx", OneThread());
  EXPECT_FALSE(model.has_cache());
  ExpectSameInParts(model, Numbers(12));
}

TEST(LanguageModelTest, GroupQueryAttentionSharesItsCache) {
  const LanguageModel model(GroupQueryModel(4096), OneThread());
  EXPECT_TRUE(model.shares_cache());
  EXPECT_EQ(model.window(), 4096);
  ExpectSameInParts(model, Numbers(20));
  ExpectSameInParts(model, Numbers(600));  // grows over its first room, and its prompt goes in parts
}

// A layer as Optimum writes it: keys and values appended by Concat, heads that are repeated, a mask that is added,
// sizes read from the past's shape.
Model AppendingModel(int64_t sharing = 1, bool is_masked_by_where = false) {
  testing::Random random(9);
  const int64_t heads = 2, all = heads * sharing;
  auto ints = [](const std::string& name, std::vector<int64_t> values) {
    Attribute attribute;
    attribute.name = name;
    attribute.type = AttributeType::kInts;
    attribute.held = std::move(values);
    return attribute;
  };
  const Attribute to_heads = ints("perm", {0, 2, 1, 3}), flip = ints("perm", {0, 1, 3, 2});
  std::vector<StoredTensor> stored = {
      MakeStored("embedding", random.Floats({kVocabulary, all * kSize})),
      MakeStored("places", random.Floats({4096, all * kSize})),
      MakeStored("q", random.Floats({all * kSize, all * kSize})),
      MakeStored("k", random.Floats({all * kSize, heads * kSize})),
      MakeStored("v", random.Floats({all * kSize, heads * kSize})),
      MakeStored("out", random.Floats({all * kSize, kVocabulary})),
      MakeStored("to_all", Tensor::FromVector<int64_t>({0, 0, all, kSize})),
      MakeStored("to_few", Tensor::FromVector<int64_t>({0, 0, heads, kSize})),
      MakeStored("to_rows", Tensor::FromVector<int64_t>({0, 0, all * kSize})),
      MakeStored("merged", Tensor::FromVector<int64_t>({0, all, -1, kSize})),
      MakeStored("repeats", Tensor::FromVector<int64_t>({1, 1, sharing, 1, 1})),
      MakeStored("zero", Tensor::Scalar<int64_t>(0)),
      MakeStored("one", Tensor::Scalar<int64_t>(1)),
      MakeStored("two", Tensor::Scalar<int64_t>(2)),
      MakeStored("three", Tensor::FromVector<int64_t>({2})),
      MakeStored("first", Tensor::FromVector<int64_t>({0})),
      MakeStored("second", Tensor::FromVector<int64_t>({1})),
      MakeStored("scale", Tensor::Scalar<float>(0.3f)),
      MakeStored("nothing", Tensor::Scalar<float>(0)),
      MakeStored("never", Tensor::Scalar<float>(-1e9f)),
  };
  std::vector<Node> nodes = {
      MakeNode("Gather", {"embedding", "input_ids"}, {"words"}),
      // Positions from the past's own shape.
      MakeNode("Shape", {"past_key_values.0.key"}, {"past_shape"}),
      MakeNode("Gather", {"past_shape", "two"}, {"before"}),
      MakeNode("Shape", {"input_ids"}, {"ids_shape"}),
      MakeNode("Gather", {"ids_shape", "one"}, {"count"}),
      MakeNode("Add", {"before", "count"}, {"total"}),
      MakeNode("Range", {"before", "total", "one"}, {"positions"}),
      MakeNode("Range", {"zero", "total", "one"}, {"keys"}),
      MakeNode("Gather", {"places", "positions"}, {"place"}),
      MakeNode("Add", {"words", "place"}, {"x"}),
      MakeNode("Unsqueeze", {"positions", "second"}, {"column"}),
      MakeNode("LessOrEqual", {"keys", "column"}, {"sees"}),
      MakeNode("Where", {"sees", "nothing", "never"}, {"mask"}),
      MakeNode("MatMul", {"x", "q"}, {"q_rows"}),
      MakeNode("MatMul", {"x", "k"}, {"k_rows"}),
      MakeNode("MatMul", {"x", "v"}, {"v_rows"}),
      MakeNode("Reshape", {"q_rows", "to_all"}, {"q_split"}),
      MakeNode("Reshape", {"k_rows", "to_few"}, {"k_split"}),
      MakeNode("Reshape", {"v_rows", "to_few"}, {"v_split"}),
      MakeNode("Transpose", {"q_split"}, {"q_heads"}, {to_heads}),
      MakeNode("Transpose", {"k_split"}, {"k_heads"}, {to_heads}),
      MakeNode("Transpose", {"v_split"}, {"v_heads"}, {to_heads}),
      MakeNode("Concat", {"past_key_values.0.key", "k_heads"}, {"present.0.key"}, {IntAttribute("axis", 2)}),
      MakeNode("Concat", {"past_key_values.0.value", "v_heads"}, {"present.0.value"}, {IntAttribute("axis", -2)}),
  };
  std::string keys = "present.0.key", values = "present.0.value";
  if (sharing > 1)
    for (std::string* each : {&keys, &values}) {
      const std::string name = *each;
      nodes.push_back(MakeNode("Unsqueeze", {name, "three"}, {name + "_apart"}));
      nodes.push_back(MakeNode("Tile", {name + "_apart", "repeats"}, {name + "_many"}));
      nodes.push_back(MakeNode("Reshape", {name + "_many", "merged"}, {name + "_all"}));
      *each = name + "_all";
    }
  nodes.push_back(MakeNode("Transpose", {keys}, {"k_turned"}, {flip}));
  nodes.push_back(MakeNode("Mul", {"q_heads", "scale"}, {"q_scaled"}));
  nodes.push_back(MakeNode("MatMul", {"q_scaled", "k_turned"}, {"products"}));
  nodes.push_back(is_masked_by_where ? MakeNode("Where", {"sees", "products", "never"}, {"scores"})
                                     : MakeNode("Add", {"products", "mask"}, {"scores"}));
  nodes.push_back(MakeNode("Softmax", {"scores"}, {"shares"}, {IntAttribute("axis", -1)}));
  nodes.push_back(MakeNode("MatMul", {"shares", values}, {"mixed"}));
  nodes.push_back(MakeNode("Transpose", {"mixed"}, {"mixed_rows"}, {to_heads}));
  nodes.push_back(MakeNode("Reshape", {"mixed_rows", "to_rows"}, {"y"}));
  nodes.push_back(MakeNode("Add", {"x", "y"}, {"z"}));
  nodes.push_back(MakeNode("MatMul", {"z", "out"}, {"logits"}));
  const Dim batch = Dim::Named("batch"), past = Dim::Named("past");
  return MakeModel({MakeInfo("input_ids", DType::kInt64, {batch, Dim::Named("sequence")}),
                    MakeInfo("past_key_values.0.key", DType::kFloat, {batch, heads, past, kSize}),
                    MakeInfo("past_key_values.0.value", DType::kFloat, {batch, heads, past, kSize})},
                   nodes, {MakeInfo("logits"), MakeInfo("present.0.key"), MakeInfo("present.0.value")}, stored);
}

TEST(LanguageModelTest, CachesThatConcatAppendsToGrowInPlace) {
  const LanguageModel model(AppendingModel(), OneThread());
  EXPECT_TRUE(model.appends_in_place());
  EXPECT_FALSE(model.shares_cache());
  ExpectSameInParts(model, Numbers(20));
  ExpectSameInParts(model, Numbers(600));  // grows over its first room, and its prompt goes in parts
}

// The present is made behind the past, and no step makes anything as long as the cache but the row of scores.
TEST(LanguageModelTest, AppendingCopiesNothing) {
  constexpr int64_t kPast = 500, kHeads = 2;
  const LanguageModel model(AppendingModel(), OneThread());
  testing::Random random(11);
  const Tensor room[2] = {random.Floats({kPast + 1, kHeads, kSize}), random.Floats({kPast + 1, kHeads, kSize})};
  auto rows = [&](int i, int64_t count) { return room[i].Rows(0, count).Reshaped({1, count, kHeads, kSize}); };
  const Tensor before[2] = {room[0].Clone(), room[1].Clone()};
  std::vector<std::string> large;
  RunOptions options;
  options.homes = {Tensor(), rows(0, kPast + 1), rows(1, kPast + 1)};
  options.watch = [&](const std::string& name, const Value& value) {
    if (value.is_tensor() && value.tensor().size() >= kPast * kSize) large.push_back(name);
  };
  const std::vector<NamedValue> inputs = {{"input_ids", Tensor::FromVector<int64_t>({3}, {1, 1})},
                                          {"past_key_values.0.key", rows(0, kPast)},
                                          {"past_key_values.0.value", rows(1, kPast)}};
  const std::vector<std::string> outputs = {"logits", "present.0.key", "present.0.value"};
  const std::vector<Value> results = model.session().Run(inputs, outputs, options);
  EXPECT_THAT(large, ::testing::UnorderedElementsAre("present.0.key", "present.0.value"));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(results[static_cast<size_t>(i) + 1].tensor().raw(), room[i].raw());
    EXPECT_EQ(std::memcmp(room[i].raw(), before[i].raw(), before[i].bytes() / (kPast + 1) * kPast), 0);
    EXPECT_NE(std::memcmp(room[i].raw(), before[i].raw(), before[i].bytes()), 0);
  }
}

TEST(LanguageModelTest, CachesThatOthersReadStayAsTheyAre) {
  for (int64_t sharing : {1, 2}) {
    const LanguageModel copied(AppendingModel(sharing, sharing == 1), OneThread());
    EXPECT_FALSE(copied.appends_in_place());
    ExpectSameInParts(copied, Numbers(20));
  }
  Model read = AppendingModel();
  read.graph.nodes.push_back(MakeNode("ReduceSum", {"present.0.key"}, {"sum"}));
  read.graph.outputs.push_back(MakeInfo("sum"));
  const LanguageModel other(std::move(read), OneThread());
  EXPECT_FALSE(other.appends_in_place());
  ExpectSameInParts(other, Numbers(20));
}

// Keys and values pass through `change` on their way into the cache, and no mask is as long as the text.
Model AppendingOtherRows(const Node& change) {
  Model model = AppendingModel();
  for (const char* heads : {"k_heads", "v_heads"}) {
    Node node = change;
    for (std::string& input : node.inputs)
      if (input == "heads") input = heads;
    node.outputs = {std::string(heads) + "_changed"};
    for (Node& other : model.graph.nodes) {
      if (other.op_type == "Concat" && other.inputs[1] == heads) other.inputs[1] = node.outputs[0];
      if (other.op_type == "Softmax") other.inputs[0] = "products";
    }
    std::erase_if(model.graph.nodes, [](const Node& other) { return other.outputs[0] == "scores"; });
    const auto place = std::find_if(model.graph.nodes.begin(), model.graph.nodes.end(),
                                    [](const Node& other) { return other.op_type == "Concat"; });
    model.graph.nodes.insert(place, node);
  }
  return model;
}

TEST(LanguageModelTest, CachesMayGrowByMoreOrFewerRowsThanThereAreTokens) {
  const Node changes[] = {MakeNode("Concat", {"heads", "heads", "heads"}, {""}, {IntAttribute("axis", 2)}),
                          MakeNode("ReduceMean", {"heads", "three"}, {""}, {IntAttribute("keepdims", 1)})};
  for (const Node& change : changes) {
    Model read = AppendingOtherRows(change);
    read.graph.nodes.push_back(MakeNode("ReduceSum", {"present.0.key"}, {"sum"}));
    read.graph.outputs.push_back(MakeInfo("sum"));
    const LanguageModel model(AppendingOtherRows(change), OneThread()), copied(std::move(read), OneThread());
    EXPECT_TRUE(model.appends_in_place());
    EXPECT_FALSE(copied.appends_in_place());
    Decoding a(model, 4096), b(copied, 4096);
    for (size_t count : {250, 1, 5, 1, 400, 1}) {
      const std::vector<float> scores = a.Read(Numbers(count));
      ExpectClose(scores, b.Read(Numbers(count)));
    }
  }
}

TEST(LanguageModelTest, ASharedCacheMayNotOutgrowItsRoom) {
  Model model = GroupQueryModel(4096);
  for (Node& node : model.graph.nodes)
    if (node.outputs[0] == "total64") node.outputs[0] = "seen";
  const auto cast = std::find_if(model.graph.nodes.begin(), model.graph.nodes.end(),
                                 [](const Node& node) { return node.outputs[0] == "total"; });
  model.graph.nodes.insert(cast, MakeNode("Mul", {"seen", "nine"}, {"total64"}));
  model.graph.initializers.push_back(MakeStored("nine", Tensor::Scalar<int64_t>(9)));
  const LanguageModel outgrowing(std::move(model), OneThread());
  EXPECT_TRUE(outgrowing.shares_cache());
  Decoding decoding(outgrowing, 4096);
  decoding.Read(Numbers(250));
  EXPECT_THROW(decoding.Read(Numbers(10)), Error);
}

TEST(LanguageModelTest, APairOfACacheIsSaidOnce) {
  LanguageModelNames names;
  names.caches = {{"past_key_values.0.key", "present.0.key"},
                  {"past_key_values.0.value", "present.0.value"},
                  {"past_key_values.0.key", "present.0.key"}};
  try {
    const LanguageModel model(AppendingModel(), OneThread(), names);
    FAIL() << "a repeated pair was taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), ::testing::HasSubstr("'past_key_values.0.key'"));
  }
}

TEST(LanguageModelTest, OtherNamesAndInt32) {
  GroupQueryNames names{"ids", "past_", "present_", DType::kInt32};
  const LanguageModel genai(GroupQueryModel(64, names), OneThread());
  EXPECT_TRUE(genai.shares_cache());
  ExpectSameInParts(genai, Numbers(12));

  names = {"text", "state_", "next_", DType::kInt64};
  try {
    const LanguageModel unknown(GroupQueryModel(64, names), OneThread());
    FAIL() << "names that tell nothing were understood";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), ::testing::HasSubstr("input_ids"));
  }
  LanguageModelNames said{{{"input_ids", "text"}}, {{"state_key", "next_key"}, {"state_value", "next_value"}}};
  const LanguageModel named(GroupQueryModel(64, names), OneThread(), said);
  ExpectSameInParts(named, Numbers(12));
  said.roles["input_ids"] = "tekst";
  EXPECT_THROW(LanguageModel(GroupQueryModel(64, names), OneThread(), said), Error);
  said = {{{"inputs", "text"}}, {}};
  EXPECT_THROW(LanguageModel(GroupQueryModel(64, names), OneThread(), said), Error);
}

// A merged model: which branch, and a cache of float16 whose first dimension holds keys and values.
Model MergedModel() {
  const Dim batch = Dim::Named("batch");
  return MakeModel({MakeInfo("input_ids", DType::kInt64, {batch, Dim::Named("sequence")}),
                    MakeInfo("past_0", DType::kFloat16, {2, batch, 3, Dim::Named("past"), 4}),
                    MakeInfo("use_cache_branch", DType::kBool, {1})},
                   {MakeNode("Where", {"use_cache_branch", "later", "first"}, {"logits"}),
                    MakeNode("Concat", {"past_0", "fresh"}, {"present_0"}, {IntAttribute("axis", 3)}),
                    MakeNode("Identity", {"input_ids"}, {"unused"})},
                   {MakeInfo("logits"), MakeInfo("present_0", DType::kFloat16)},
                   {MakeStored("first", Tensor::FromVector<float>({1, 0}, {1, 1, 2})),
                    MakeStored("later", Tensor::FromVector<float>({0, 1}, {1, 1, 2})),
                    MakeStored("fresh", Tensor::Zeros(DType::kFloat16, {2, 1, 3, 1, 4}))});
}

TEST(LanguageModelTest, MergedModelsAreToldTheirBranch) {
  const LanguageModel model(MergedModel(), OneThread());
  Decoding decoding(model, 100);
  EXPECT_EQ(decoding.Read(Ids{1}), (std::vector<float>{1, 0}));
  EXPECT_EQ(decoding.Read(Ids{1}), (std::vector<float>{0, 1}));
}

Attribute GraphAttribute(const std::string& name, Graph graph) {
  Attribute attribute;
  attribute.name = name;
  attribute.type = AttributeType::kGraph;
  attribute.held = std::make_shared<Graph>(std::move(graph));
  return attribute;
}

// As Optimum merges a decoder with a cache and one without: one If, whose branches see the model's inputs. The branch
// without a cache does not look at the past at all.
Model IfModel() {
  testing::Random random(5);
  auto branch = [](const std::string& side, bool has_past) {
    Graph graph;
    graph.name = side;
    graph.nodes = {
        has_past ? MakeNode("Concat", {"past_key_values.0.key", "x"}, {side + "_present"}, {IntAttribute("axis", 2)})
                 : MakeNode("Identity", {"x"}, {side + "_present"}),
        MakeNode("ReduceMean", {side + "_present", "axes"}, {side + "_mean"}, {IntAttribute("keepdims", 0)}),
        MakeNode("Gather", {"places", "position_ids"}, {side + "_place"}),
        MakeNode("Add", {side + "_mean", side + "_place"}, {side + "_h"}),
        MakeNode("MatMul", {side + "_h", "out"}, {side + "_logits"})};
    graph.outputs = {MakeInfo(side + "_logits"), MakeInfo(side + "_present")};
    return graph;
  };
  const Dim batch = Dim::Named("batch"), sequence = Dim::Named("sequence");
  return MakeModel(
      {MakeInfo("input_ids", DType::kInt64, {batch, sequence}),
       MakeInfo("position_ids", DType::kInt64, {batch, sequence}),
       MakeInfo("attention_mask", DType::kInt64, {batch, Dim::Named("total")}),
       MakeInfo("past_key_values.0.key", DType::kFloat, {batch, 1, Dim::Named("past"), kWidth}),
       MakeInfo("use_cache_branch", DType::kBool, {1}), MakeInfo("num_logits_to_keep", DType::kInt64, {})},
      {MakeNode("Gather", {"embedding", "input_ids"}, {"words"}), MakeNode("Unsqueeze", {"words", "second"}, {"x"}),
       MakeNode("If", {"use_cache_branch"}, {"scores", "present.0.key"},
                {GraphAttribute("then_branch", branch("with", true)),
                 GraphAttribute("else_branch", branch("without", false))}),
       MakeNode("Neg", {"num_logits_to_keep"}, {"negative"}), MakeNode("Unsqueeze", {"negative", "first"}, {"begin"}),
       MakeNode("Slice", {"scores", "begin", "end", "second"}, {"logits"})},
      {MakeInfo("logits"), MakeInfo("present.0.key")},
      {MakeStored("embedding", random.Floats({kVocabulary, kWidth})),
       MakeStored("places", random.Floats({900, kWidth})), MakeStored("out", random.Floats({kWidth, kVocabulary})),
       MakeStored("axes", Tensor::FromVector<int64_t>({1, 2})), MakeStored("first", Tensor::FromVector<int64_t>({0})),
       MakeStored("second", Tensor::FromVector<int64_t>({1})),
       MakeStored("end", Tensor::FromVector<int64_t>({1 << 30}))});
}

TEST(LanguageModelTest, MergedModelsTakeOneBranchForThePromptAndOneForTheRest) {
  const LanguageModel model(IfModel(), OneThread());
  EXPECT_TRUE(model.has_cache());
  EXPECT_EQ(model.window(), 900);  // of a table that only branches use
  ExpectSameInParts(model, Numbers(40));
  Decoding whole(model, 900), single(model, 900);
  const Ids ids = Numbers(700);
  std::vector<float> last;
  for (TokenId id : ids) last = single.Read(Ids{id});
  ExpectClose(whole.Read(ids), last);
  EXPECT_EQ(last.size(), static_cast<size_t>(kVocabulary));
}

TEST(LanguageModelTest, AModelOfOneTokenReadsItsPromptTokenByToken) {
  Model narrow = GroupQueryModel(64);
  narrow.graph.inputs[0].type = Type::Tensor(DType::kInt64, {1, 1});
  const LanguageModel model(std::move(narrow), OneThread()), wide(GroupQueryModel(64), OneThread());
  Decoding one(model, 64), all(wide, 64);
  ExpectClose(one.Read(Numbers(9)), all.Read(Numbers(9)));
}

// Names as genai_config.json has them; those that the graph does not have are left alone.
TEST(LanguageModelTest, HintsAreTakenWhereTheyFit) {
  GroupQueryNames names;
  names.ids = "text";
  names.past = "state_0_";
  names.present = "next_0_";
  LanguageModelNames hints;
  hints.hinted_roles = {{"input_ids", "text"}, {"position_ids", "places"}, {"logits", "answer"}};
  hints.hinted_caches = {{"state_%d_key", "next_%d_key"}, {"state_%d_value", "next_%d_value"}, {"other", "more"}};
  const LanguageModel model(GroupQueryModel(64, names), OneThread(), hints);
  EXPECT_TRUE(model.shares_cache());
  ExpectSameInParts(model, Numbers(12));
}

TEST(LanguageModelTest, WhatIsNoDecoderIsRefusedByName) {
  auto message = [](Model model) -> std::string {
    try {
      const LanguageModel made(std::move(model), OneThread());
    } catch (const Error& error) {
      return error.message();
    }
    return "taken";
  };
  Model model = MergedModel();
  model.graph.inputs.push_back(MakeInfo("encoder_hidden_states"));
  EXPECT_THAT(message(model), ::testing::HasSubstr("'encoder_hidden_states'"));
  model = MergedModel();
  model.graph.inputs.push_back(MakeInfo("past_7", DType::kFloat, {1}));
  EXPECT_THAT(message(model), ::testing::HasSubstr("'past_7'"));
  model = MergedModel();
  model.graph.outputs[0].name = "answer";
  model.graph.nodes[0].outputs[0] = "answer";
  EXPECT_THAT(message(model), ::testing::HasSubstr("logits"));
}

TEST(LanguageModelTest, ATextThatIsFullTakesNoMore) {
  const LanguageModel model(GroupQueryModel(64), OneThread());
  Decoding decoding(model, 10);
  decoding.Read(Numbers(10));
  EXPECT_THROW(decoding.Read(Ids{1}), Error);
  EXPECT_THROW(decoding.Read(Ids{}), Error);
}

TEST(LanguageModelTest, MemoryStaysFlatOverTenThousandTokens) {
#if defined(FERRY_SANITIZE_ADDRESS) || defined(FERRY_SANITIZE_THREAD)
  GTEST_SKIP() << "the sanitizer keeps freed memory";
#endif
  const LanguageModel model(GroupQueryModel(10'240), OneThread());
  Decoding decoding(model, 10'240);
  decoding.Read(Numbers(5'200));  // the cache has all its room from here on
  for (int i = 0; i < 300; ++i) decoding.Read(Ids{i % 32});
  const int64_t before = PeakMemoryKilobytes();
  while (decoding.length() < 10'000) decoding.Read(Ids{static_cast<TokenId>(decoding.length() % 32)});
  EXPECT_LE(PeakMemoryKilobytes() - before, 1024);
}

}  // namespace
}  // namespace ferry
