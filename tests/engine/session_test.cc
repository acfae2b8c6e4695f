#include "engine/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "onnx/writer.h"
#include "tests/support/graphs.h"
#include "tests/support/temporary_folder.h"

namespace ferry {
namespace {

using ::ferry::testing::MakeInfo;
using ::ferry::testing::MakeModel;
using ::ferry::testing::MakeNode;
using ::testing::HasSubstr;

Tensor Floats(std::vector<float> values, Shape shape) { return Tensor::FromVector<float>(values, std::move(shape)); }

std::vector<float> ToFloats(const Value& value) {
  auto span = value.tensor().Span<float>();
  return {span.begin(), span.end()};
}

// y = relu(x·w + b), with a view and an in-place step on the way.
Model TwoLayer() {
  return MakeModel(
      {MakeInfo("x", DType::kFloat, {Dim::Named("batch"), 2})},
      {MakeNode("MatMul", {"x", "w"}, {"m"}), MakeNode("Add", {"m", "b"}, {"a"}), MakeNode("Relu", {"a"}, {"r"}),
       MakeNode("Flatten", {"r"}, {"f"}), MakeNode("Neg", {"f"}, {"n"}), MakeNode("Neg", {"n"}, {"y"})},
      {MakeInfo("y")},
      {MakeStored("w", Floats({1, 2, 3, 4, 5, 6}, {2, 3})), MakeStored("b", Floats({0, -10, 1}, {3}))});
}

std::string MessageOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

TEST(Session, RunsAtAnyBatchSize) {
  auto session = Session::FromModel(TwoLayer(), {.threads = 1});
  for (int repeat = 0; repeat < 3; ++repeat) {
    auto one = session->Run(std::vector<NamedValue>{{"x", Floats({1, 1}, {1, 2})}});
    EXPECT_EQ(ToFloats(one[0]), (std::vector<float>{5, 0, 10}));
    auto two = session->Run(std::vector<NamedValue>{{"x", Floats({1, 1, 2, 2}, {2, 2})}});
    EXPECT_EQ(ToFloats(two[0]), (std::vector<float>{5, 0, 10, 10, 4, 19}));
  }
}

TEST(Session, GivesIntermediateValuesByName) {
  auto session = Session::FromModel(TwoLayer(), {.threads = 1});
  std::vector<std::string> wanted{"a", "y", "f"};
  auto values = session->Run(std::vector<NamedValue>{{"x", Floats({1, 1}, {1, 2})}}, wanted);
  EXPECT_EQ(ToFloats(values[0]), (std::vector<float>{5, -3, 10}));
  EXPECT_EQ(ToFloats(values[1]), (std::vector<float>{5, 0, 10}));
  EXPECT_EQ(ToFloats(values[2]), (std::vector<float>{5, 0, 10}));
}

TEST(Session, ShowsValuesAsTheyAreMade) {
  auto session = Session::FromModel(
      MakeModel({MakeInfo("x", DType::kFloat, {2, 3})},
                {MakeNode("Neg", {"x"}, {"a"}), MakeNode("Abs", {"a"}, {"b"}), MakeNode("Add", {"a", "b"}, {"y"})},
                {MakeInfo("y")}),
      {.threads = 1, .optimize = false});
  std::vector<std::pair<std::string, float>> seen;
  RunOptions options;
  options.watch = [&](const std::string& name, const Value& value) {
    seen.emplace_back(name, value.tensor().Data<float>()[1]);
  };
  session->Run(std::vector<NamedValue>{{"x", Tensor::FromVector<float>({1, 2, 3, 4, 5, 6}, {2, 3})}}, {}, options);
  EXPECT_EQ(seen, (std::vector<std::pair<std::string, float>>{{"a", -2}, {"b", 2}, {"y", 0}}));
}

TEST(Session, ResultsOfEarlierRunsStay) {
  auto session = Session::FromModel(TwoLayer(), {.threads = 1});
  auto first = session->Run(std::vector<NamedValue>{{"x", Floats({1, 1}, {1, 2})}});
  session->Run(std::vector<NamedValue>{{"x", Floats({9, 9}, {1, 2})}});
  EXPECT_EQ(ToFloats(first[0]), (std::vector<float>{5, 0, 10}));
}

// Large results lie where an earlier one was that nobody holds any more, and never in one that somebody does, be it as
// the next run's input.
TEST(Session, LargeResultsUseMemoryAgain) {
  constexpr int64_t kSize = 100000;
  auto session = Session::FromModel(
      MakeModel({MakeInfo("x", DType::kFloat, {kSize})}, {MakeNode("Neg", {"x"}, {"y"})}, {MakeInfo("y")}),
      {.threads = 1});
  auto run = [&](const Tensor& x) { return session->Run(std::vector<NamedValue>{{"x", x}})[0].tensor(); };
  auto all = [](float value) { return Tensor::FromVector(std::vector<float>(kSize, value)); };
  Tensor held = run(all(1));
  Tensor second = run(all(2));
  EXPECT_NE(second.raw(), held.raw());
  EXPECT_EQ(held.Data<float>()[kSize - 1], -1);
  Tensor third = run(second);
  EXPECT_NE(third.raw(), second.raw());
  EXPECT_EQ(third.Data<float>()[0], 2);
  const void* last = third.raw();
  third = Tensor();
  Tensor fourth = run(all(4));
  EXPECT_EQ(fourth.raw(), last);
  EXPECT_EQ(fourth.Data<float>()[kSize / 2], -4);
  EXPECT_EQ(held.Data<float>()[0], -1);
}

TEST(Session, SaysWhatIsWrongWithInputs) {
  auto session = Session::FromModel(TwoLayer(), {.threads = 1});
  auto run = [&](std::vector<NamedValue> inputs) { return MessageOf([&] { session->Run(inputs); }); };
  EXPECT_THAT(run({}), HasSubstr("input 'x' (float[batch, 2]) is missing"));
  EXPECT_THAT(run({{"x", Floats({1, 1}, {1, 2})}, {"xx", Floats({1}, {1})}}), HasSubstr("did you mean 'x'"));
  EXPECT_THAT(run({{"x", Floats({1, 1}, {2})}}), HasSubstr("has 1 dimensions where the model has 2"));
  EXPECT_THAT(run({{"x", Floats({1, 1, 1}, {1, 3})}}), HasSubstr("dimension 1 is fixed to 2"));
  EXPECT_THAT(run({{"x", Tensor::FromVector<int64_t>({1, 1}, {1, 2})}}), HasSubstr("the element type differs"));
  EXPECT_THAT(MessageOf([&] {
                std::vector<std::string> wanted{"z"};
                session->Run(std::vector<NamedValue>{{"x", Floats({1, 1}, {1, 2})}}, wanted);
              }),
              HasSubstr("no value 'z'"));
}

TEST(Session, AnOutputMayBeAnInputOrAWeight) {
  Model model = TwoLayer();
  model.graph.outputs.push_back(MakeInfo("x"));
  model.graph.outputs.push_back(MakeInfo("b"));
  auto session = Session::FromModel(std::move(model), {.threads = 1});
  auto values = session->Run(std::vector<NamedValue>{{"x", Floats({1, 1}, {1, 2})}});
  EXPECT_EQ(ToFloats(values[1]), (std::vector<float>{1, 1}));
  EXPECT_EQ(ToFloats(values[2]), (std::vector<float>{0, -10, 1}));
}

TEST(Session, RefusesCyclesAndUnknownOperators) {
  Model cycle =
      MakeModel({MakeInfo("x")}, {MakeNode("Add", {"x", "b"}, {"a"}), MakeNode("Relu", {"a"}, {"b"})}, {MakeInfo("b")});
  auto run = [](Model model) {
    return MessageOf([&] {
      Session::FromModel(std::move(model), {.threads = 1})->Run(std::vector<NamedValue>{{"x", Floats({1}, {1})}});
    });
  };
  EXPECT_THAT(run(cycle), HasSubstr("cycle"));
  Model unknown = MakeModel({MakeInfo("x")}, {MakeNode("Frobnicate", {"x"}, {"y"})}, {MakeInfo("y")});
  EXPECT_THAT(run(unknown), HasSubstr("Frobnicate"));
}

TEST(Session, RefusesNodesWithTooFewOrTooManyInputs) {
  auto refused = [](std::vector<std::string> inputs, const char* why) {
    Model model = MakeModel({MakeInfo("x")}, {MakeNode("Mul", std::move(inputs), {"y"})}, {MakeInfo("y")});
    try {
      Session::FromModel(model);
      ADD_FAILURE() << "expected: " << why;
    } catch (const Error& error) {
      EXPECT_NE(error.message().find(why), std::string::npos) << error.message();
      EXPECT_NE(error.message().find("Mul"), std::string::npos) << error.message();
    }
  };
  refused({}, "0 inputs, the operator has at least 2");
  refused({"x"}, "1 inputs, the operator has at least 2");
  refused({"x", "x", "x"}, "3 inputs, the operator has at most 2");
}

TEST(Session, ManyThreadsShareOneSession) {
  auto session = Session::FromModel(TwoLayer(), {.threads = 2});
  auto expected = session->Run(std::vector<NamedValue>{{"x", Floats({1, 1}, {1, 2})}});
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 1000; ++i) {
        // Two batch sizes, so that programs are looked up and frames are shared.
        bool two = (t + i) % 2;
        auto x = two ? Floats({1, 1, 1, 1}, {2, 2}) : Floats({1, 1}, {1, 2});
        auto y = session->Run(std::vector<NamedValue>{{"x", x}});
        if (!Identical(y[0].tensor().Rows(0, 1), expected[0].tensor())) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Session, SessionsOnOneFileShareItsWeights) {
  std::string path = testing::TemporaryPath("shared_weights.onnx");
  WriteModel(TwoLayer(), path);
  auto first = Session::Open(path, {.threads = 1}), second = Session::Open(path, {.threads = 2});
  EXPECT_EQ(&first->model(), &second->model());
  // A file that was written again is another model.
  Model changed = TwoLayer();
  changed.graph.initializers[1] = MakeStored("b", Floats({0, 0, 0, 0}, {4}).Reshaped({4}).Rows(0, 3));
  changed.doc = "changed";
  WriteModel(changed, path);
  EXPECT_NE(&Session::Open(path)->model(), &first->model());
  EXPECT_EQ(ToFloats(first->Run(std::vector<NamedValue>{{"x", Floats({1, 1}, {1, 2})}})[0]),
            (std::vector<float>{5, 0, 10}));
}

TEST(Session, BodiesSeeOuterValues) {
  auto branch = [](const char* op) {
    auto body = std::make_shared<Graph>();
    body->name = op;
    body->nodes = {MakeNode(op, {"x", "two"}, {"branch_out"})};
    body->outputs = {MakeInfo("branch_out")};
    return body;
  };
  Model model =
      MakeModel({MakeInfo("x", DType::kFloat, {Dim::Named("n")}), MakeInfo("flag", DType::kBool, {})},
                {MakeNode("If", {"flag"}, {"y"}, {{"then_branch", branch("Add")}, {"else_branch", branch("Mul")}})},
                {MakeInfo("y")}, {MakeStored("two", Floats({2}, {1}))});
  auto session = Session::FromModel(std::move(model), {.threads = 1});
  auto run = [&](bool flag) {
    return ToFloats(
        session->Run(std::vector<NamedValue>{{"x", Floats({1, 5}, {2})}, {"flag", Tensor::Scalar<bool>(flag)}})[0]);
  };
  EXPECT_EQ(run(true), (std::vector<float>{3, 7}));
  EXPECT_EQ(run(false), (std::vector<float>{2, 10}));
}

TEST(Session, InlinesFunctionsWithTheirAttributes) {
  Function function;
  function.name = "Leaky";
  function.domain = "local";
  function.inputs = {"in"};
  function.outputs = {"out"};
  function.attributes = {"slope"};
  function.opsets = {{"", 28, {}}};
  Node leaky = MakeNode("LeakyRelu", {"in"}, {"t"});
  Attribute alpha;
  alpha.name = "alpha";
  alpha.type = AttributeType::kFloat;
  alpha.ref_name = "slope";
  leaky.attributes = {alpha};
  function.nodes = {leaky, MakeNode("Neg", {"t"}, {"out"})};
  Node call = MakeNode("Leaky", {"x"}, {"y"}, {{"slope", 0.5f}});
  call.domain = "local";
  Model model = MakeModel({MakeInfo("x", DType::kFloat, {2})}, {call}, {MakeInfo("y")});
  model.opsets.push_back({"local", 1, {}});
  model.functions = {function};
  auto session = Session::FromModel(std::move(model), {.threads = 1});
  EXPECT_EQ(ToFloats(session->Run(std::vector<NamedValue>{{"x", Floats({-2, 4}, {2})}})[0]),
            (std::vector<float>{1, -4}));
}

// A pass that looks for the factors of 'y' would go round and round.
TEST(Session, ValuesAreGivenOnce) {
  Model model = MakeModel({MakeInfo("x", DType::kFloat, {2}), MakeInfo("y", DType::kFloat, {2})},
                          {MakeNode("Mul", {"y", "x"}, {"y"}), MakeNode("Sigmoid", {"y"}, {"z"})}, {MakeInfo("z")});
  try {
    Session::FromModel(std::move(model), {.threads = 1});
    FAIL() << "it was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidModel);
    EXPECT_NE(error.message().find("gives 'y', which exists already"), std::string::npos) << error.message();
  }
}

// What passes are sure of is not checked again: no file may say it.
TEST(Session, ModelsMayNotBringInternalOperators) {
  Node node = MakeNode("QuantizedConv", {"x"}, {"y"});
  node.domain = "ferry";
  Model model = MakeModel({MakeInfo("x", DType::kFloat, {2, 1})}, {node}, {MakeInfo("y")});
  try {
    auto session = Session::FromModel(std::move(model), {.threads = 1});
    session->Run(std::vector<NamedValue>{{"x", Floats({1, 2}, {2, 1})}});
    FAIL() << "it ran";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidModel);
    EXPECT_NE(error.message().find("a model can't bring them"), std::string::npos) << error.message();
  }
}

// Passes follow values to their makers, and would go in circles.
TEST(Session, ValuesMadeTwiceAreRefused) {
  Model model = MakeModel({MakeInfo("x", DType::kFloat, {2})},
                          {MakeNode("Sigmoid", {"x"}, {"h"}), MakeNode("Mul", {"h", "x"}, {"g"}),
                           MakeNode("Mul", {"h", "g"}, {"h"}), MakeNode("Neg", {"h"}, {"y"})},
                          {MakeInfo("y")});
  try {
    Session::FromModel(std::move(model), {.threads = 1})->Run(std::vector<NamedValue>{{"x", Floats({1, 2}, {2})}});
    FAIL() << "it ran";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("gives 'h', which exists already"), std::string::npos) << error.message();
  }
}

TEST(Session, ProductsOfNoRowsOfBytes) {
  auto weight = MakeStored("w", Tensor::Zeros(DType::kInt8, {9, 6}));
  Model model = MakeModel({MakeInfo("x", DType::kUInt8, {Dim::Named("n"), 9})},
                          {MakeNode("MatMulInteger", {"x", "w"}, {"y"})}, {MakeInfo("y", DType::kInt32)}, {weight});
  auto session = Session::FromModel(std::move(model), {.threads = 1});
  for (int64_t rows : {0, 2}) {
    Tensor x = Tensor::Zeros(DType::kUInt8, {rows, 9});
    EXPECT_EQ(session->Run(std::vector<NamedValue>{{"x", x}})[0].tensor().shape(), Shape({rows, 6}));
  }
}

}  // namespace
}  // namespace ferry
