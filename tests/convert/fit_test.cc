// Steps by stripes of rows: the arena becomes as small as asked, and the numbers of rows add up.
#include <gmock/gmock.h>

#include "base/error.h"
#include "convert/c/build_c.h"
#include "tests/support/graphs.h"

namespace ferry {
namespace {

using ::ferry::testing::MakeInfo;
using ::ferry::testing::MakeModel;
using ::ferry::testing::MakeNode;
using ::testing::HasSubstr;

StoredTensor Weights(const std::string& name, Shape shape) {
  Tensor tensor(DType::kFloat, shape);
  for (int64_t i = 0; i < tensor.size(); ++i) tensor.MutableData<float>()[i] = static_cast<float>(i % 7) - 3;
  return MakeStored(name, std::move(tensor));
}

// 32 x 32 pixels: 3 to 8 to 16 channels, a pool, 16 again with what came before added, then a mean.
Model Chain(int64_t batch = 1) {
  const Attribute pads("pads", std::vector<int64_t>{1, 1, 1, 1}), twice("strides", std::vector<int64_t>{2, 2}),
      two("kernel_shape", std::vector<int64_t>{2, 2});
  return MakeModel({MakeInfo("x", DType::kFloat, {batch, 3, 32, 32})},
                   {MakeNode("Conv", {"x", "w0"}, {"a"}, {pads}), MakeNode("Relu", {"a"}, {"b"}),
                    MakeNode("Conv", {"b", "w1"}, {"c"}, {pads}), MakeNode("MaxPool", {"c"}, {"d"}, {twice, two}),
                    MakeNode("Conv", {"d", "w2"}, {"e"}, {pads}), MakeNode("Add", {"d", "e"}, {"f"}),
                    MakeNode("GlobalAveragePool", {"f"}, {"y"})},
                   {MakeInfo("y", DType::kFloat, {batch, 16, 1, 1})},
                   {Weights("w0", {8, 3, 3, 3}), Weights("w1", {16, 8, 3, 3}), Weights("w2", {16, 16, 3, 3})});
}

CBuild Build(const Model& model, size_t most_bytes) {
  CBuildRequest request{.model = model, .name = "net"};
  request.most_arena_bytes = most_bytes;
  return BuildC(request);
}

int64_t MultiplyAdds(const CBuild& built) {
  int64_t sum = 0;
  for (const CStep& step : built.steps) sum += step.multiply_adds;
  return sum;
}

TEST(Fit, LeavesWhatFitsAsItIs) {
  const CBuild free = Build(Chain(), 0), loose = Build(Chain(), free.arena_bytes);
  EXPECT_TRUE(loose.stripes.empty());
  EXPECT_EQ(loose.source, free.source);
}

TEST(Fit, StripesFitAndSayWhatTheyCost) {
  const CBuild free = Build(Chain(), 0);
  for (size_t percent : {80, 60, 40}) {
    const size_t most = free.arena_bytes * percent / 100;
    const CBuild built = Build(Chain(), most);
    EXPECT_LE(built.arena_bytes, most);
    ASSERT_FALSE(built.stripes.empty());
    int64_t more = 0;
    for (const CStripes& run : built.stripes) more += run.more_multiply_adds;
    EXPECT_EQ(MultiplyAdds(built), MultiplyAdds(free) + more);
    EXPECT_GE(more, 0);
    EXPECT_EQ(built.weight_bytes, free.weight_bytes);  // tables are not repeated
  }
}

TEST(Fit, WhatCannotBeReachedIsSaid) {
  try {
    Build(Chain(), 100);
    FAIL() << "it fits";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kLimit);
    EXPECT_THAT(error.message(), HasSubstr("more than 100; by stripes of rows it comes down to "));
    const size_t at = error.message().find("comes down to ") + 14;
    const size_t least = std::stoul(error.message().substr(at));
    EXPECT_LE(Build(Chain(), least).arena_bytes, least);  // it is true
  }
}

TEST(Fit, BatchesAreNotSplit) {
  const size_t whole = Build(Chain(2), 0).arena_bytes;
  EXPECT_THROW(Build(Chain(2), whole / 2), Error);
}

}  // namespace
}  // namespace ferry
