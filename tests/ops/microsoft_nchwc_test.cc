// com.microsoft.nchwc: filters in blocks of channels mean what the standard's mean.
#include <gtest/gtest.h>

#include "ops/support/nchwc.h"
#include "tests/support/nodes.h"
#include "tests/support/random_tensors.h"

namespace ferry {
namespace {

using testing::Elements;
using testing::ErrorOf;
using testing::OneNode;
using testing::Random;
using testing::RunNode;

constexpr const char* kDomain = "com.microsoft.nchwc";

// Where the number of output o, input i, tap t of `plain` goes.
Tensor InBlocks(const Tensor& plain, int64_t block, bool inputs_too) {
  Tensor blocked(DType::kFloat, plain.shape());
  const int64_t inputs = plain.dim(1), taps = plain.dim(2) * plain.dim(3);
  for (int64_t o = 0; o < plain.dim(0); ++o)
    for (int64_t i = 0; i < inputs; ++i)
      for (int64_t t = 0; t < taps; ++t) {
        int64_t place = inputs_too
                            ? (((o / block * (inputs / block) + i / block) * taps + t) * block + i % block) * block
                            : ((o / block * inputs + i) * taps + t) * block;
        blocked.MutableData<float>()[place + o % block] = plain.Data<float>()[(o * inputs + i) * taps + t];
      }
  return blocked;
}

void ExpectConv(Random& random, int64_t outputs, int64_t inputs, int64_t group, bool inputs_too) {
  const Tensor x = random.Floats({2, inputs * group, 5, 6}), w = random.Floats({outputs, inputs, 3, 2}),
               bias = random.Floats({outputs}), sum = random.Floats({2, outputs, 5, 5});
  std::vector<Attribute> attributes{{"group", group}, {"pads", std::vector<int64_t>{1, 0, 1, 0}}};
  Value expected = RunNode(OneNode("Conv", 3, attributes, "", 1), {x, w, bias})[0];
  expected = RunNode(OneNode("Add", 2, {}, "", 1), {expected, sum})[0];
  expected = RunNode(OneNode("Relu", 1, {}, "", 1), {expected})[0];
  attributes.emplace_back("activation", std::string("Relu"));
  const Value got =
      RunNode(OneNode("Conv", 4, attributes, kDomain, 1), {x, InBlocks(w, NchwcBlock(), inputs_too), bias, sum})[0];
  EXPECT_EQ(Elements<float>(got), Elements<float>(expected)) << outputs << " of " << inputs << " × " << group;
}

TEST(Nchwc, ConvolvesLikeTheStandard) {
  Random random(2);
  const int64_t block = NchwcBlock();
  ExpectConv(random, 2 * block, 3, 1, false);
  ExpectConv(random, block, 2 * block, 1, true);
  ExpectConv(random, 2 * block, 1, 2 * block, false);
  ExpectConv(random, 2 * block, block, 2, true);
}

TEST(Nchwc, FillsUpBlocksAndCutsThemOff) {
  Random random(3);
  const int64_t block = NchwcBlock();
  const Tensor x = random.Floats({1, block + 4, 2, 3});
  const Value inside = RunNode(OneNode("ReorderInput", 1, {}, kDomain, 1), {x})[0];
  EXPECT_EQ(inside.tensor().shape(), (Shape{1, 2 * block, 2, 3}));
  EXPECT_EQ(Elements<float>(inside).back(), 0.0f);
  const Value back = RunNode(OneNode("ReorderOutput", 1, {{"channels", block + 4}}, kDomain, 1), {inside.tensor()})[0];
  EXPECT_EQ(Elements<float>(back), Elements<float>(x));
  auto error = [&](int64_t channels) {
    return ErrorOf([&] { RunNode(OneNode("ReorderOutput", 1, {{"channels", channels}}, kDomain, 1), {x}); });
  };
  EXPECT_NE(error(0).find("channels"), std::string::npos);
  EXPECT_NE(error(4 * block).find("are wanted"), std::string::npos);
}

TEST(Nchwc, RefusesFiltersThatAreNoBlocks) {
  Random random(4);
  const std::string error = ErrorOf([&] {
    RunNode(OneNode("Conv", 2, {}, kDomain, 1), {random.Floats({1, 3, 4, 4}), random.Floats({5, 3, 1, 1})});
  });
  EXPECT_NE(error.find("blocks of"), std::string::npos) << error;
}

TEST(Nchwc, PoolsAndUpsamples) {
  Random random(5);
  const Tensor x = random.Floats({1, NchwcBlock(), 4, 4});
  const std::vector<Attribute> window{{"kernel_shape", std::vector<int64_t>{2, 2}},
                                      {"strides", std::vector<int64_t>{2, 2}}};
  for (const char* pool : {"MaxPool", "AveragePool"})
    EXPECT_EQ(Elements<float>(RunNode(OneNode(pool, 1, window, kDomain, 1), {x})[0]),
              Elements<float>(RunNode(OneNode(pool, 1, window, "", 1), {x})[0]));
  const Value larger =
      RunNode(OneNode("Upsample", 1, {{"scales", std::vector<int64_t>{1, 1, 2, 2}}}, kDomain, 1), {x})[0];
  EXPECT_EQ(larger.tensor().shape(), (Shape{1, NchwcBlock(), 8, 8}));
  EXPECT_EQ(Elements<float>(larger)[3], Elements<float>(x)[1]);
}

}  // namespace
}  // namespace ferry
