// What callers give may be other than what a model led to expect: other values for inputs with defaults, other sizes
// for dimensions of one name. What was made fast for the expected is not used then.
#include <gtest/gtest.h>

#include "engine/session.h"
#include "tests/support/graphs.h"
#include "tests/support/random_tensors.h"

namespace ferry {
namespace {

using testing::MakeInfo;
using testing::MakeModel;
using testing::MakeNode;

void ExpectAsWritten(const Model& model, const std::vector<NamedValue>& inputs, const SessionOptions& options,
                     const Shape& shape) {
  const auto fast = Session::FromModel(CopyDeep(model), options);
  const auto plain = Session::FromModel(CopyDeep(model), {.threads = 1, .optimize = false});
  const Tensor given = fast->Run(inputs)[0].tensor(), expected = plain->Run(inputs)[0].tensor();
  EXPECT_EQ(given.shape(), shape);
  ASSERT_EQ(expected.shape(), shape);
  for (int64_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(given.Data<float>()[i], expected.Data<float>()[i], 1e-5f);
}

// A product with something added to it, which only kernels for equal shapes may do in one step.
TEST(GivenInputs, OtherValuesForDefaultsGiveOtherShapes) {
  testing::Random random(3);
  const Model model =
      MakeModel({MakeInfo("x", DType::kFloat, {24}), MakeInfo("a", DType::kFloat, {1, 6, 3}),
                 MakeInfo("s", DType::kInt64, {3}), MakeInfo("w", DType::kFloat, {3, 4})},
                {MakeNode("Reshape", {"x", "s"}, {"r"}), MakeNode("MatMul", {"a", "w"}, {"p"}),
                 MakeNode("Add", {"p", "r"}, {"y"})},
                {MakeInfo("y")},
                {MakeStored("s", Tensor::FromVector<int64_t>({1, 6, 4})), MakeStored("w", random.Floats({3, 4}))});
  std::vector<NamedValue> inputs = {{"x", random.Floats({24})}, {"a", random.Floats({1, 6, 3})}};
  ExpectAsWritten(model, inputs, {.threads = 1}, {1, 6, 4});
  inputs.emplace_back("w", random.Floats({3, 4}));
  ExpectAsWritten(model, inputs, {.threads = 1}, {1, 6, 4});
  inputs.emplace_back("s", Tensor::FromVector<int64_t>({6, 1, 4}));
  ExpectAsWritten(model, inputs, {.threads = 1}, {6, 6, 4});
}

TEST(GivenInputs, DimensionsOfOneNameMayDiffer) {
  testing::Random random(4);
  const Dim n = Dim::Named("N"), m = Dim::Named("M");
  const Model model = MakeModel({MakeInfo("x", DType::kFloat, {n, m, 3}), MakeInfo("r", DType::kFloat, {n, m, 4})},
                                {MakeNode("MatMul", {"x", "w"}, {"p"}), MakeNode("Add", {"p", "r"}, {"y"})},
                                {MakeInfo("y")}, {MakeStored("w", random.Floats({3, 4}))});
  const std::vector<NamedValue> differ = {{"x", random.Floats({6, 1, 3})}, {"r", random.Floats({1, 6, 4})}};
  ExpectAsWritten(model, differ, {.threads = 1}, {6, 6, 4});
  SessionOptions open{.threads = 1};
  open.open_axes = {{"x", {0, 1}}, {"r", {0, 1}}};
  ExpectAsWritten(model, differ, open, {6, 6, 4});
  // One session for both: programs of open axes serve many sizes.
  const auto session = Session::FromModel(CopyDeep(model), open);
  const std::vector<NamedValue> same = {{"x", random.Floats({2, 5, 3})}, {"r", random.Floats({2, 5, 4})}};
  EXPECT_EQ(session->Run(same)[0].tensor().shape(), Shape({2, 5, 4}));
  EXPECT_EQ(session->Run(differ)[0].tensor().shape(), Shape({6, 6, 4}));
}

}  // namespace
}  // namespace ferry
