// Models as people find them, which other runtimes take though the standard does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/session.h"
#include "tests/support/graphs.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;
using testing::MakeInfo;
using testing::MakeModel;
using testing::MakeNode;

std::vector<float> Answer(const Model& model, bool optimize, std::vector<float> x) {
  auto session = Session::FromModel(CopyDeep(model), {.threads = 1, .optimize = optimize});
  Shape shape{1, static_cast<int64_t>(x.size())};
  auto results = session->Run(std::vector<NamedValue>{{"x", Tensor::FromVector<float>(x, shape)}});
  auto span = results[0].tensor().Span<float>();
  return {span.begin(), span.end()};
}

std::string Refusal(Model model) {
  try {
    auto session = Session::FromModel(std::move(model), {.threads = 1});
    session->Run(std::vector<NamedValue>{{"x", Tensor::FromVector<float>({1}, {1, 1})}});
  } catch (const Error& error) {
    return error.message();
  }
  return "none";
}

TEST(FoundModels, NodesOutOfOrderAreSorted) {
  Model model = MakeModel({MakeInfo("x")},
                          {MakeNode("Add", {"a", "s"}, {"y"}), MakeNode("Shape", {"a"}, {"k"}),
                           MakeNode("Cast", {"k"}, {"s"}, {{"to", int64_t{1}}}), MakeNode("Neg", {"x"}, {"a"})},
                          {MakeInfo("y")});
  for (bool optimize : {false, true}) EXPECT_EQ(Answer(model, optimize, {1, 2}), (std::vector<float>{0, 0}));
  // An old form is upgraded with what its inputs are in mind.
  Model old = MakeModel({MakeInfo("x")},
                        {MakeNode("Squeeze", {"u"}, {"y"}, {{"axes", std::vector<int64_t>{0}}}),
                         MakeNode("Unsqueeze", {"x"}, {"u"}, {{"axes", std::vector<int64_t>{0}}})},
                        {MakeInfo("y")}, {}, 11);
  EXPECT_EQ(Answer(old, true, {1, 2}), (std::vector<float>{1, 2}));
}

TEST(FoundModels, WhatCannotBeSortedIsNamedAsItIs) {
  EXPECT_THAT(Refusal(MakeModel(
                  {MakeInfo("x")},
                  {MakeNode("Add", {"x", "b"}, {"a"}), MakeNode("Neg", {"a"}, {"b"}), MakeNode("Abs", {"b"}, {"y"})},
                  {MakeInfo("y")})),
              HasSubstr("'Add_a' (Add), node 'Neg_b' (Neg)"));
  EXPECT_THAT(Refusal(MakeModel({MakeInfo("x")}, {MakeNode("Add", {"x", "gone"}, {"y"})}, {MakeInfo("y")})),
              HasSubstr("'gone'"));
}

TEST(FoundModels, ADomainThatIsNotImportedIsTakenAtItsNewest) {
  Model model = MakeModel({MakeInfo("x")}, {MakeNode("Scaler", {"x"}, {"y"}, {{"scale", std::vector<float>{3}}})},
                          {MakeInfo("y")});
  model.graph.nodes[0].domain = "ai.onnx.ml";
  EXPECT_EQ(Answer(model, true, {1, 2}), (std::vector<float>{3, 6}));
  model.opsets.clear();
  EXPECT_THAT(Refusal(model), HasSubstr("imports no opset"));
}

TEST(FoundModels, ExperimentalImageScalerRuns) {
  Model model = MakeModel({MakeInfo("x")},
                          {MakeNode("Reshape", {"x", "s"}, {"i"}),
                           MakeNode("ImageScaler", {"i"}, {"y"}, {{"bias", std::vector<float>{1, 2, 3}}})},
                          {MakeInfo("y")}, {MakeStored("s", Tensor::FromVector<int64_t>({1, 3, 1, 1}))}, 8);
  EXPECT_EQ(Answer(model, true, {10, 20, 30}), (std::vector<float>{11, 22, 33}));
}

}  // namespace
}  // namespace ferry
