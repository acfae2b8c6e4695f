// A second provider with memory of its own: what it takes, what is copied for it, and what stays on the host.
#include "tests/providers/island.h"

#include <gtest/gtest.h>

#include "engine/program.h"
#include "engine/runtime.h"
#include "engine/session.h"
#include "ops/infer_graph.h"
#include "tests/support/graphs.h"

namespace ferry {
namespace {

using ::ferry::testing::IslandMemory;
using ::ferry::testing::IslandProvider;
using ::ferry::testing::MakeInfo;
using ::ferry::testing::MakeModel;
using ::ferry::testing::MakeNode;

const IslandProvider& Island() {
  static const IslandProvider island([](std::string_view op) { return op == "Relu" || op == "Add" || op == "MatMul"; });
  return island;
}

SessionOptions OnTheIsland() {
  SessionOptions options{.provider = "island,cpu"};
  options.runtime = std::make_shared<Runtime>(1, std::vector<const Provider*>{&Island()});
  options.optimize = false;
  return options;
}

Tensor Numbers(Shape shape) {
  Tensor tensor(DType::kFloat, std::move(shape));
  for (int64_t i = 0; i < tensor.size(); ++i) tensor.MutableData<float>()[i] = static_cast<float>(i % 7) - 3.0f;
  return tensor;
}

// Relu on the island, Exp on the host, then two products on the island with one weight.
Model ThereAndBack() {
  return MakeModel(
      {MakeInfo("x", DType::kFloat, {Dim::Named("n"), 4})},
      {MakeNode("Relu", {"x"}, {"a"}), MakeNode("Exp", {"a"}, {"b"}), MakeNode("MatMul", {"b", "w"}, {"c"}),
       MakeNode("MatMul", {"c", "w"}, {"d"}), MakeNode("Add", {"d", "a"}, {"y"})},
      {MakeInfo("y")}, {MakeStored("w", Numbers({4, 4}))});
}

class PlannedModel {
 public:
  PlannedModel(const Model& model, int64_t rows, MemorySpace& input_space = HostMemory()) : model_(model) {
    FactsByName known;
    known["x"].type = Type::Tensor(DType::kFloat, {Dim(rows), Dim(4)});
    facts_ = InferGraph(model_.graph, known);
    program_ = BuildProgram({model_.graph, facts_, {"x"}, {"y"}, compilers_, weights_, {&input_space}});
  }
  const Plan& plan() const { return program_->plan(); }
  Tensor Run(const Tensor& x) const { return program_->Run(std::vector<Value>{x}, {})[0].tensor(); }

 private:
  const Model model_;
  GraphFacts facts_;
  const Provider* const providers_[2] = {&Island(), &CpuProvider()};
  const CompilerList compilers_{providers_, {}};
  WeightCache weights_;
  std::unique_ptr<Program> program_;
};

std::vector<std::string> StepsOf(const Plan& plan) {
  std::vector<std::string> steps;
  for (const StepPlan& step : plan.steps)
    steps.push_back(Cat(step.node->op_type, " ",
                        step.outputs[0] < 0 ? "" : plan.slots[static_cast<size_t>(step.outputs[0])].name, " in ",
                        step.space->name()));
  return steps;
}

TEST(Island, CopiesAreInsertedOnlyWhereValuesChangeSides) {
  const PlannedModel planned(ThereAndBack(), 3);
  EXPECT_EQ(StepsOf(planned.plan()),
            (std::vector<std::string>{"Copy x in island", "Relu a in island", "Copy a in host", "Exp b in host",
                                      "Copy b in island", "MatMul c in island", "MatMul d in island", "Add y in island",
                                      "Copy y in host"}));
  const Tensor x = Numbers({3, 4});
  const Value expected =
      Session::FromModel(ThereAndBack(), {.threads = 1, .optimize = false})->Run(std::vector{NamedValue("x", x)})[0];
  EXPECT_TRUE(Identical(planned.Run(x), expected.tensor()));
  EXPECT_TRUE(Identical(planned.Run(x), expected.tensor()));  // in the same frame
}

TEST(Island, EachMemoryHasAnArenaOfItsOwn) {
  const PlannedModel planned(ThereAndBack(), 3);
  ASSERT_EQ(planned.plan().arenas.size(), 2u);
  for (const ArenaPlan& arena : planned.plan().arenas) EXPECT_GT(arena.bytes, 0u);
  for (const Slot& slot : planned.plan().slots)
    if (slot.place == Slot::Place::kArena) EXPECT_EQ(slot.space, planned.plan().arenas[slot.arena].space) << slot.name;
}

TEST(Island, WeightsAreThereOnceForAllShapes) {
  const size_t before = testing::IslandBytesInUse();
  auto session = Session::FromModel(ThereAndBack(), OnTheIsland());
  session->Run(std::vector{NamedValue("x", Numbers({1, 4}))});
  const size_t one = testing::IslandBytesInUse() - before;
  session->Run(std::vector{NamedValue("x", Numbers({2, 4}))});
  const size_t weight = 4 * 4 * sizeof(float);
  EXPECT_LT(testing::IslandBytesInUse() - before, 2 * one + weight);
  session.reset();
  EXPECT_EQ(testing::IslandBytesInUse(), before);
}

TEST(Island, InputsMayLieThereAlready) {
  const PlannedModel planned(ThereAndBack(), 3, IslandMemory());
  EXPECT_EQ(StepsOf(planned.plan()).front(), "Relu a in island");
  const Tensor x = Numbers({3, 4});
  EXPECT_TRUE(Identical(planned.Run(x.In(IslandMemory())), PlannedModel(ThereAndBack(), 3).Run(x)));

  auto session = Session::FromModel(ThereAndBack(), OnTheIsland());
  const Value there = session->Run(std::vector{NamedValue("x", x.In(IslandMemory()))})[0];
  const Value here = session->Run(std::vector{NamedValue("x", x)})[0];
  EXPECT_TRUE(Identical(there, here));
}

TEST(Island, BodiesAndContainersWork) {
  auto body = std::make_shared<Graph>();
  body->name = "body";
  body->inputs = {MakeInfo("i", DType::kInt64, {}), MakeInfo("go", DType::kBool, {}), MakeInfo("sum", DType::kFloat)};
  body->nodes = {MakeNode("Add", {"sum", "relu"}, {"next"}), MakeNode("Identity", {"go"}, {"still"}),
                 MakeNode("Identity", {"next"}, {"seen"})};
  body->outputs = {MakeInfo("still", DType::kBool), MakeInfo("next"), MakeInfo("seen")};
  const Model model =
      MakeModel({MakeInfo("x", DType::kFloat, {2, 2})},
                {MakeNode("Relu", {"x"}, {"relu"}),
                 MakeNode("Loop", {"count", "", "x"}, {"last", "all"}, {Attribute("body", body)}),
                 MakeNode("SequenceConstruct", {"relu", "last"}, {"pair"}),
                 MakeNode("SequenceAt", {"pair", "one"}, {"picked"}), MakeNode("Add", {"picked", "x"}, {"y"})},
                {MakeInfo("y"), MakeInfo("all")},
                {MakeStored("count", Tensor::Scalar<int64_t>(3)), MakeStored("one", Tensor::Scalar<int64_t>(1))});
  const std::vector<NamedValue> inputs = {{"x", Numbers({2, 2})}};
  const std::vector<Value> expected = Session::FromModel(model, {.threads = 1})->Run(inputs);
  const std::vector<Value> actual = Session::FromModel(model, OnTheIsland())->Run(inputs);
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(Identical(actual[i], expected[i]));
}

TEST(Island, WatchedValuesAreShownOnTheHost) {
  std::map<std::string, Tensor> seen;
  RunOptions options;
  options.watch = [&](const std::string& name, const Value& value) { seen[name] = value.tensor().Clone(); };
  Session::FromModel(ThereAndBack(), OnTheIsland())->Run(std::vector{NamedValue("x", Numbers({3, 4}))}, {}, options);
  for (const char* name : {"a", "b", "c", "d", "y"}) {
    ASSERT_TRUE(seen.count(name)) << name;
    EXPECT_TRUE(seen[name].on_host()) << name;
  }
}

TEST(Island, HostAccessIsAnErrorThatNamesThePlace) {
  Tensor there = Numbers({2}).In(IslandMemory());
  for (auto access :
       {+[](Tensor& t) { t.Data<float>(); }, +[](Tensor& t) { t.raw(); },
        +[](Tensor& t) {
          t.Reshaped({1, 2}).mutable_raw();
        },
        +[](Tensor& t) { t.Rows(0, 1).Data<float>(); }, +[](Tensor& t) { t.ViewedAs(DType::kInt32).Data<int32_t>(); },
        +[](Tensor& t) { t.Clone().raw(); }}) {
    try {
      access(there);
      ADD_FAILURE() << "the host read it";
    } catch (const Error& error) {
      EXPECT_NE(error.message().find("'island'"), std::string::npos) << error.message();
    }
  }
  EXPECT_TRUE(Identical(there.In(HostMemory()), Numbers({2})));
}

TEST(Providers, AreNamedWhereOneIsMissing) {
  EXPECT_EQ(FindProviders("cpu").size(), 1u);
  EXPECT_EQ(FindProviders("cpu,cpu").size(), 1u);
  for (const char* names : {"gpu", "", "cpu,gpu", ",cpu"}) {
    try {
      FindProviders(names);
      ADD_FAILURE() << names;
    } catch (const Error& error) {
      EXPECT_NE(error.message().find("there is: cpu"), std::string::npos) << error.message();
    }
  }
}

}  // namespace
}  // namespace ferry
