// A cache that is bound as past and as present grows where it lies, and nowhere else.
#include <gtest/gtest.h>

#include <limits>

#include "engine/session.h"
#include "tests/support/graphs.h"
#include "tests/support/random_tensors.h"

namespace ferry {
namespace {

using testing::MakeInfo;
using testing::MakeModel;
using testing::MakeNode;
using testing::Random;

constexpr int64_t kRoom = 12, kSize = 8, kHeads = 4, kKvHeads = 2;

// One layer with a cache of kRoom rows, always bound in full.
Model Decoder(bool reads_past_twice) {
  Node attention = MakeNode("GroupQueryAttention", {"q", "k", "v", "past_key", "past_value", "lengths", "total"},
                            {"y", "key", "value"}, {{"num_heads", kHeads}, {"kv_num_heads", kKvHeads}});
  attention.domain = "com.microsoft";
  const SymbolicShape cache{Dim(1), Dim(kKvHeads), Dim::Named("room"), Dim(kSize)};
  std::vector<Node> nodes{attention};
  std::vector<ValueInfo> outputs{MakeInfo("y"), MakeInfo("key"), MakeInfo("value")};
  if (reads_past_twice) {
    nodes.push_back(MakeNode("Neg", {"past_key"}, {"negated"}));
    outputs.push_back(MakeInfo("negated"));
  }
  Model model = MakeModel({MakeInfo("q", DType::kFloat, {Dim(1), Dim::Named("length"), Dim(kHeads * kSize)}),
                           MakeInfo("k", DType::kFloat, {Dim(1), Dim::Named("length"), Dim(kKvHeads * kSize)}),
                           MakeInfo("v", DType::kFloat, {Dim(1), Dim::Named("length"), Dim(kKvHeads * kSize)}),
                           MakeInfo("past_key", DType::kFloat, cache), MakeInfo("past_value", DType::kFloat, cache),
                           MakeInfo("lengths", DType::kInt32, {Dim(1)})},
                          nodes, outputs, {MakeStored("total", Tensor::Scalar(static_cast<int32_t>(kRoom)))});
  model.opsets.push_back({"com.microsoft", 1, {}});
  return model;
}

struct Caches {
  Tensor key = Tensor::Zeros(DType::kFloat, {1, kKvHeads, kRoom, kSize}), value = key.Clone();
};

std::vector<Value> Step(const Session& session, Random& random, int32_t last, const Caches& caches, bool shares) {
  std::vector<NamedValue> inputs{{"q", random.Floats({1, 1, kHeads * kSize})},
                                 {"k", random.Floats({1, 1, kKvHeads * kSize})},
                                 {"v", random.Floats({1, 1, kKvHeads * kSize})},
                                 {"past_key", caches.key},
                                 {"past_value", caches.value},
                                 {"lengths", Tensor::FromVector(std::vector<int32_t>{last})}};
  RunOptions options;
  if (shares)
    options.place_result = [&](size_t result, DType, const Shape&) {
      return result == 1 ? caches.key : result == 2 ? caches.value : Tensor();
    };
  return session.Run(inputs, {}, options);
}

TEST(SharedCaches, GrowWhereTheyLie) {
  auto session = Session::FromModel(Decoder(false), {.threads = 2});
  Random apart(3), together(3);
  Caches separate, shared;
  // What lies behind the last row is the caller's.
  const float mark = 77;
  shared.key.MutableData<float>()[(kRoom - 1) * kSize] = mark;
  for (int32_t last = 0; last < kRoom - 1; ++last) {
    std::vector<Value> expected = Step(*session, apart, last, separate, false);
    std::vector<Value> got = Step(*session, together, last, shared, true);
    EXPECT_TRUE(Identical(expected[0], got[0])) << last;
    EXPECT_EQ(got[1].tensor().raw(), shared.key.raw());
    separate.key = expected[1].tensor();
    separate.value = expected[2].tensor();
    const float* row = shared.value.Data<float>() + last * kSize;
    EXPECT_EQ(std::vector<float>(row, row + kSize),
              std::vector<float>(separate.value.Data<float>() + last * kSize,
                                 separate.value.Data<float>() + (last + 1) * kSize));
  }
  EXPECT_EQ(shared.key.Data<float>()[(kRoom - 1) * kSize], mark);
}

// Whoever else reads the past must see it as it was.
TEST(SharedCaches, AreCopiedWhereAnotherReadsThePast) {
  auto session = Session::FromModel(Decoder(true), {.threads = 1});
  Random random(4);
  Caches shared;
  std::vector<Value> got = Step(*session, random, 0, shared, true);
  for (float x : got[3].tensor().Span<float>()) EXPECT_EQ(x, 0.0f);
  EXPECT_EQ(got[1].tensor().raw(), shared.key.raw());  // copied there at the end
  EXPECT_NE(shared.key.Data<float>()[0], 0.0f);
}

TEST(SharedCaches, LengthsThatDoNotFitAreRefused) {
  auto session = Session::FromModel(Decoder(false), {.threads = 1});
  Random random(5);
  Caches shared;
  for (int32_t last : {-1, static_cast<int32_t>(kRoom), std::numeric_limits<int32_t>::min()})
    EXPECT_THROW(Step(*session, random, last, shared, true), Error) << last;
}

}  // namespace
}  // namespace ferry
