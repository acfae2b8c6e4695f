// Programs that serve every size of an axis: what they give must be what a program for that size alone gives.
#include <gtest/gtest.h>

#include "engine/session.h"
#include "tests/support/graphs.h"
#include "tests/support/random_tensors.h"

namespace ferry {
namespace {

using testing::MakeInfo;
using testing::MakeModel;
using testing::MakeNode;

// A cache that grows by what is new, and a look at all of it.
Model CacheModel() {
  Attribute axis;
  axis.name = "axis";
  axis.type = AttributeType::kInt;
  axis.held = int64_t{1};
  Attribute permutation;
  permutation.name = "perm";
  permutation.type = AttributeType::kInts;
  permutation.held = std::vector<int64_t>{0, 2, 1};
  return MakeModel(
      {MakeInfo("x", DType::kFloat, {2, Dim::Named("sequence"), 8}),
       MakeInfo("past", DType::kFloat, {2, Dim::Named("past"), 8})},
      {MakeNode("Concat", {"past", "x"}, {"present"}, {axis}),
       MakeNode("Transpose", {"present"}, {"keys"}, {permutation}), MakeNode("MatMul", {"x", "keys"}, {"scores"}),
       MakeNode("Softmax", {"scores"}, {"weights"}), MakeNode("MatMul", {"weights", "present"}, {"y"})},
      {MakeInfo("y"), MakeInfo("present")});
}

TEST(OpenAxes, GiveWhatFixedOnesGive) {
  testing::Random random(5);
  SessionOptions options;
  options.threads = 1;
  const auto fixed = Session::FromModel(CacheModel(), options);
  options.open_axes = {{"past", {1}}};
  options.max_programs = 1;
  const auto open = Session::FromModel(CacheModel(), options);
  for (int64_t sequence : {1, 3})
    for (int64_t past : {0, 1, 2, 7, 64, 5}) {
      const std::vector<NamedValue> inputs = {{"x", random.Floats({2, sequence, 8})},
                                              {"past", random.Floats({2, past, 8})}};
      const std::vector<Value> expected = fixed->Run(inputs), given = open->Run(inputs);
      ASSERT_EQ(given.size(), 2u);
      EXPECT_EQ(given[0].tensor().shape(), expected[0].tensor().shape());
      EXPECT_TRUE(Identical(given[1], expected[1])) << past;
      for (int64_t i = 0; i < expected[0].tensor().size(); ++i)
        EXPECT_NEAR(given[0].tensor().Data<float>()[i], expected[0].tensor().Data<float>()[i], 1e-5f);
    }
}

// The next run's input may be the last run's output, and stays as it is.
TEST(OpenAxes, ResultsAreInputsOfTheNextRun) {
  testing::Random random(6);
  SessionOptions options;
  options.threads = 1;
  options.open_axes = {{"past", {1}}};
  const auto session = Session::FromModel(CacheModel(), options);
  Tensor cache(DType::kFloat, {2, 0, 8});
  for (int64_t step = 1; step <= 20; ++step) {
    const Tensor before = cache.Clone();
    const std::vector<NamedValue> inputs = {{"x", random.Floats({2, 1, 8})}, {"past", cache}};
    const std::vector<Value> given = session->Run(inputs);
    EXPECT_TRUE(Identical(before, inputs[1].second.tensor()));
    cache = given[1].tensor();
    ASSERT_EQ(cache.dim(1), step);
  }
}

}  // namespace
}  // namespace ferry
