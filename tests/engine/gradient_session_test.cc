#include <gtest/gtest.h>

#include "engine/session.h"
#include "ops/operator.h"
#include "tests/support/nodes.h"

namespace ferry {
namespace {

using testing::Elements;
using testing::MakeInfo;
using testing::MakeModel;
using testing::MakeNode;

// d = a·(a + b) with its derivatives, written for an old opset: the model is upgraded, then the gradient written out.
TEST(GradientSession, DifferentiatesAModelOfAnOldOpset) {
  Node gradient = MakeNode("Gradient", {"a", "b"}, {"dd_da", "dd_db"},
                           {{"xs", std::vector<std::string>{"a", "b"}}, {"y", std::string("d")}});
  gradient.domain = kTrainingDomain;
  Model model = MakeModel(
      {MakeInfo("a", DType::kFloat, {}), MakeInfo("b", DType::kFloat, {})},
      {MakeNode("Add", {"a", "b"}, {"c"}), MakeNode("Mul", {"c", "a"}, {"d"}), gradient},
      {MakeInfo("d", DType::kFloat, {}), MakeInfo("dd_da", DType::kFloat, {}), MakeInfo("dd_db", DType::kFloat, {})},
      {}, 12);
  model.opsets.push_back({std::string(kTrainingDomain), 1, {}});
  auto session = Session::FromModel(std::move(model), {.threads = 1});
  std::vector<NamedValue> inputs{{"a", Tensor::Scalar(1.0f)}, {"b", Tensor::Scalar(2.0f)}};
  auto out = session->Run(inputs);
  EXPECT_EQ(Elements<float>(out[0]), (std::vector<float>{3}));
  EXPECT_EQ(Elements<float>(out[1]), (std::vector<float>{4}));
  EXPECT_EQ(Elements<float>(out[2]), (std::vector<float>{1}));
}

}  // namespace
}  // namespace ferry
