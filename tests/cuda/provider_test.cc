// Which nodes the provider takes, how chains are found, and whole graphs on the device against the CPU. Placement and
// fusion need no GPU.
#include "providers/cuda/provider.h"

#include <atomic>
#include <thread>

#include "engine/session.h"
#include "gmock/gmock.h"
#include "providers/cuda/fuse_chains.h"
#include "providers/cuda/operators.h"
#include "tests/cuda/device_test.h"
#include "tests/support/graphs.h"

namespace ferry::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MakeNode;
using testing::OneNode;

ValueFacts FactsFor(DType type, const Shape& shape) {
  ValueFacts facts;
  facts.type = Type::Tensor(type, ToSymbolic(shape));
  return facts;
}

// The name of the kernel that would run the node; empty when it is left to others.
std::string Placed(const Node& node, const std::vector<ValueFacts>& inputs) {
  std::vector<const ValueFacts*> in, out;
  for (const ValueFacts& facts : inputs) in.push_back(&facts);
  std::vector<ValueFacts> made = testing::InferNode(node, inputs);
  for (const ValueFacts& facts : made) out.push_back(&facts);
  const Operator* op = FindOperator(node.domain, node.op_type);
  WeightCache weights;
  KernelRequest request{node, *op, in, out, weights};
  const Settings no_device;
  std::optional<ChosenKernel> chosen = ChooseOperator({request, no_device});
  return chosen ? chosen->plan.name : "";
}

TEST(CudaPlacement, TakesWhatItHasKernelsFor) {
  const ValueFacts image = FactsFor(DType::kFloat, {2, 3, 8, 8}), matrix = FactsFor(DType::kFloat16, {64, 64}),
                   numbers = FactsFor(DType::kInt64, {100});
  EXPECT_EQ(Placed(OneNode("Relu", 1), {image}), "elementwise");
  EXPECT_EQ(Placed(OneNode("MatMul", 2), {matrix, matrix}), "cublasLt");
  EXPECT_EQ(Placed(OneNode("Softmax", 1), {matrix}), "softmax");
  EXPECT_EQ(Placed(OneNode("Transpose", 1, {Attribute("perm", std::vector<int64_t>{1, 0})}), {matrix}), "walk");
  EXPECT_EQ(Placed(OneNode("Gather", 2), {matrix, numbers}), "gather");
  EXPECT_EQ(Placed(OneNode("GlobalAveragePool", 1), {image}), "reduce");
  EXPECT_EQ(Placed(OneNode("MaxPool", 1, {Attribute("kernel_shape", std::vector<int64_t>{2, 2})}), {image}), "pool");
  Tensor pads(DType::kInt64, {8}), scales(DType::kFloat, {4});
  for (int64_t i = 0; i < 8; ++i) pads.MutableData<int64_t>()[i] = i % 4 / 2;
  for (int64_t i = 0; i < 4; ++i) scales.MutableData<float>()[i] = i < 2 ? 1.0f : 2.0f;
  ValueFacts padding = FactsOf(pads), scaling = FactsOf(scales), none = FactsOf(Tensor(DType::kFloat, {0}));
  EXPECT_EQ(Placed(OneNode("Pad", 2), {image, padding}), "walk");
  EXPECT_EQ(Placed(OneNode("Resize", 3, {Attribute("mode", std::string("linear"))}), {image, none, scaling}), "resize");
}

TEST(CudaPlacement, LeavesTheRestToOthers) {
  const ValueFacts whole = FactsFor(DType::kInt32, {64, 64}), few = FactsFor(DType::kInt64, {4}),
                   image = FactsFor(DType::kFloat, {2, 3, 8, 8});
  EXPECT_EQ(Placed(OneNode("MatMul", 2), {whole, whole}), "");
  EXPECT_EQ(Placed(OneNode("Add", 2), {few, few}), "");  // sizes of something
  EXPECT_EQ(Placed(OneNode("Div", 2), {whole, whole}), "");
  EXPECT_EQ(Placed(OneNode("Det", 1), {FactsFor(DType::kFloat, {3, 3})}), "");
  EXPECT_EQ(Placed(OneNode("MaxPool", 1, {Attribute("kernel_shape", std::vector<int64_t>{2, 2})}, "", 2), {image}), "");
}

class CudaChains : public ::testing::Test {
 protected:
  // Infers everything for x of [2, 3] and b of [3].
  std::vector<std::string> Fused(std::vector<Node> nodes, std::vector<std::string> outputs) {
    graph_.nodes = std::move(nodes);
    for (const char* name : {"x", "b"}) graph_.inputs.push_back({.name = name});
    for (const std::string& name : outputs) graph_.outputs.push_back({.name = name});
    FactsByName known{{"x", FactsFor(DType::kFloat, {2, 3})}, {"b", FactsFor(DType::kFloat, {3})}};
    facts_ = InferGraph(graph_, known);
    FuseChains(graph_, facts_);
    InferNew(graph_, facts_);
    std::vector<std::string> ops;
    for (const Node& node : graph_.nodes) ops.push_back(node.op_type);
    return ops;
  }

  Graph graph_;
  GraphFacts facts_;
};

TEST_F(CudaChains, FollowEachOtherToTheirEnd) {
  EXPECT_THAT(
      Fused({MakeNode("Add", {"x", "b"}, {"s"}), MakeNode("Sigmoid", {"s"}, {"g"}), MakeNode("Mul", {"s", "g"}, {"y"})},
            {"y"}),
      ElementsAre("ElementwiseChain"));
  EXPECT_THAT(graph_.nodes[0].inputs, ElementsAre("x", "b"));
  Tensor x = RandomTensor(DType::kFloat, {2, 3}, 1), b = RandomTensor(DType::kFloat, {3}, 2);
  Tensor sum = Reference(OneNode("Add", 2), {x, b});
  Tensor expected = Reference(OneNode("Mul", 2), {sum, Reference(OneNode("Sigmoid", 1), {sum})});
  EXPECT_TRUE(Identical(Reference(graph_.nodes[0], {x, b}), expected));
  EXPECT_EQ(ToText(facts_.Find("y")->type), ToText(FactsFor(DType::kFloat, {2, 3}).type));
}

TEST_F(CudaChains, EndWhereSomebodyElseReads) {
  EXPECT_THAT(Fused({MakeNode("Add", {"x", "b"}, {"s"}), MakeNode("Relu", {"s"}, {"r"}), MakeNode("Neg", {"r"}, {"y"})},
                    {"s", "y"}),
              ElementsAre("Add", "ElementwiseChain"));
}

TEST_F(CudaChains, EndWhereShapesGrow) {
  EXPECT_THAT(
      Fused({MakeNode("Exp", {"b"}, {"e"}), MakeNode("Add", {"x", "e"}, {"s"}), MakeNode("Relu", {"s"}, {"y"})}, {"y"}),
      ElementsAre("Exp", "ElementwiseChain"));
}

TEST_F(CudaChains, HoldNothingElse) {
  EXPECT_THAT(
      Fused({MakeNode("Relu", {"x"}, {"r"}), MakeNode("Softmax", {"r"}, {"m"}), MakeNode("Neg", {"m"}, {"y"})}, {"y"}),
      ElementsAre("Relu", "Softmax", "Neg"));
}

// A convolution, a product, a normalisation and chains between them; batches of any size.
Model SmallNetwork() {
  Tensor filter = RandomTensor(DType::kFloat, {16, 3, 3, 3}, 1), bias = RandomTensor(DType::kFloat, {16}, 2),
         weights = RandomTensor(DType::kFloat, {16, 24}, 3), scale = RandomTensor(DType::kFloat, {24}, 4);
  const std::vector<int64_t> pads{1, 1, 1, 1};
  return testing::MakeModel({testing::MakeInfo("x", DType::kFloat, {Dim::Named("batch"), Dim(3), Dim(16), Dim(16)})},
                            {MakeNode("Conv", {"x", "filter", "bias"}, {"c"}, {Attribute("pads", pads)}),
                             MakeNode("Relu", {"c"}, {"r"}), MakeNode("GlobalAveragePool", {"r"}, {"p"}),
                             MakeNode("Flatten", {"p"}, {"f"}), MakeNode("MatMul", {"f", "weights"}, {"m"}),
                             MakeNode("Gelu", {"m"}, {"g"}), MakeNode("LayerNormalization", {"g", "scale"}, {"n"}),
                             MakeNode("Tanh", {"n"}, {"t"}), MakeNode("Add", {"t", "m"}, {"y"})},
                            {testing::MakeInfo("y")},
                            {MakeStored("filter", filter), MakeStored("bias", bias), MakeStored("weights", weights),
                             MakeStored("scale", scale)});
}

Tensor RunOn(const Session& session, const Tensor& x) {
  const NamedValue inputs[] = {{"x", x}};
  return session.Run(inputs)[0].tensor();
}

class CudaSession : public DeviceTest {
 protected:
  std::shared_ptr<Session> Open(const std::string& provider, bool optimize = true) {
    SessionOptions options{.threads = 1, .provider = provider};
    options.optimize = optimize;
    return Session::FromModel(SmallNetwork(), options);
  }
};

TEST_F(CudaSession, AnswersAsTheCpu) {
  auto cpu = Open("cpu"), gpu = Open("cuda,cpu"), plain = Open("cuda,cpu", false);
  for (int64_t batch : {1, 3, 3, 32}) {
    Tensor x = RandomTensor(DType::kFloat, {batch, 3, 16, 16}, static_cast<uint64_t>(batch)), expected = RunOn(*cpu, x);
    ExpectClose(RunOn(*gpu, x), expected, "optimised", 2e-5);
    ExpectClose(RunOn(*plain, x), expected, "as written", 2e-5);
  }
}

TEST_F(CudaSession, ConvolvesInEveryWay) {
  struct Way {
    int64_t groups, kernel, pad;
  };
  for (const Way& way : {Way{1, 1, 0}, Way{2, 1, 0}, Way{2, 3, 1}, Way{8, 3, 1}, Way{1, 5, 2}}) {
    Tensor filter = RandomTensor(DType::kFloat, {8, 8 / way.groups, way.kernel, way.kernel}, 1);
    const std::vector<int64_t> pads(4, way.pad);
    Model model = testing::MakeModel(
        {testing::MakeInfo("x", DType::kFloat, {Dim(2), Dim(8), Dim(10), Dim(10)})},
        {MakeNode("Conv", {"x", "w"}, {"c"}, {Attribute("pads", pads), Attribute("group", way.groups)}),
         MakeNode("Add", {"c", "x"}, {"s"}), MakeNode("Sigmoid", {"s"}, {"y"})},
        {testing::MakeInfo("y")}, {MakeStored("w", filter)});
    Tensor x = RandomTensor(DType::kFloat, {2, 8, 10, 10}, 2);
    Tensor expected = RunOn(*Session::FromModel(model, {.threads = 1}), x);
    Tensor actual = RunOn(*Session::FromModel(model, {.threads = 1, .provider = "cuda,cpu"}), x);
    ExpectClose(actual, expected, Cat("groups ", way.groups, ", kernel ", way.kernel), 1e-5);
  }
}

// The first run does what is done once, the second is recorded, later ones replay; profiles run step by step.
TEST_F(CudaSession, ReplaysGiveTheAnswersOfTheFirstRun) {
  auto session = Open("cuda,cpu");
  const Tensor first = RandomTensor(DType::kFloat, {3, 3, 16, 16}, 1),
               second = RandomTensor(DType::kFloat, {3, 3, 16, 16}, 2);
  const Tensor expected = RunOn(*session, first), other = RunOn(*Open("cuda,cpu"), second);
  for (int run = 0; run < 4; ++run) {
    EXPECT_TRUE(Identical(RunOn(*session, second), other)) << run;
    EXPECT_TRUE(Identical(RunOn(*session, first), expected)) << run;
  }
}

// Addresses of inputs on the device are part of what is recorded.
TEST_F(CudaSession, TakesAndLeavesTensorsOnTheDevice) {
  auto session = Open("cuda,cpu");
  const Tensor x = RandomTensor(DType::kFloat, {2, 3, 16, 16}, 1), expected = RunOn(*session, x);
  Tensor there[] = {x.In(device().memory()), x.In(device().memory())}, result;
  RunOptions options;
  options.place_result = [&](size_t, DType type, const Shape& shape) {
    if (!result.defined()) result = Tensor(type, shape, device().memory());
    return result;
  };
  for (int run = 0; run < 8; ++run) {
    const NamedValue inputs[] = {{"x", there[run / 4]}};
    const Tensor made = session->Run(inputs, {}, options)[0].tensor();
    EXPECT_EQ(made.address(), result.address());
    EXPECT_TRUE(Identical(made.In(HostMemory()), expected)) << run;
  }
}

TEST_F(CudaSession, PrecisionsStayNearFloat32) {
  const Tensor x = RandomTensor(DType::kFloat, {4, 3, 16, 16}, 1), expected = RunOn(*Open("cpu"), x);
  for (auto [precision, tolerance] :
       {std::pair{Precision::kTf32, 5e-3}, {Precision::kFp16, 1e-2}, {Precision::kBf16, 8e-2}}) {
    SessionOptions options{.threads = 1, .provider = "cuda"};
    options.precision = precision;
    auto session = Session::FromModel(SmallNetwork(), options);
    for (int run = 0; run < 3; ++run) ExpectClose(RunOn(*session, x), expected, "a precision", tolerance);
  }
}

TEST_F(CudaSession, TheCpuTakesNodesOnlyWhereItIsListed) {
  Model model = testing::MakeModel({testing::MakeInfo("x", DType::kFloat, {Dim(3), Dim(3)})},
                                   {MakeNode("Det", {"x"}, {"y"})}, {testing::MakeInfo("y")});
  const Tensor x = RandomTensor(DType::kFloat, {3, 3}, 1);
  EXPECT_TRUE(Identical(RunOn(*Session::FromModel(model, {.threads = 1, .provider = "cuda,cpu"}), x),
                        RunOn(*Session::FromModel(model, {.threads = 1}), x)));
  try {
    RunOn(*Session::FromModel(model, {.threads = 1, .provider = "cuda"}), x);
    FAIL() << "it ran somewhere";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("provider cuda has no kernel for Det"));
    EXPECT_THAT(error.message(), HasSubstr("'cuda,cpu'"));
  }
}

TEST_F(CudaSession, PadsAndResizesAsTheCpu) {
  Tensor pads(DType::kInt64, {8}), sizes(DType::kInt64, {4});
  const int64_t lengths[] = {0, 1, 0, 2, 0, 0, 3, 1}, wanted[] = {2, 4, 13, 7};
  std::copy(lengths, lengths + 8, pads.MutableData<int64_t>());
  std::copy(wanted, wanted + 4, sizes.MutableData<int64_t>());
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    Model model = testing::MakeModel(
        {testing::MakeInfo("x", DType::kFloat, {Dim(2), Dim(3), Dim(5), Dim(6)})},
        {MakeNode("Pad", {"x", "pads", "value"}, {"p"}),
         MakeNode("Resize", {"p", "", "", "sizes"}, {"y"}, {Attribute("mode", std::string(mode))})},
        {testing::MakeInfo("y")},
        {MakeStored("pads", pads), MakeStored("sizes", sizes), MakeStored("value", Tensor::Scalar(2.5f))});
    const Tensor x = RandomTensor(DType::kFloat, {2, 3, 5, 6}, 2);
    ExpectClose(RunOn(*Session::FromModel(model, {.threads = 1, .provider = "cuda"}), x),
                RunOn(*Session::FromModel(model, {.threads = 1}), x), mode, 1e-5);
  }
}

TEST_F(CudaSession, ThreadsGetTheAnswersOfOne) {
  auto session = Open("cuda,cpu");
  std::vector<Tensor> inputs, expected;
  for (uint64_t i = 0; i < 8; ++i) {
    inputs.push_back(RandomTensor(DType::kFloat, {static_cast<int64_t>(i % 3) + 1, 3, 16, 16}, i));
    expected.push_back(RunOn(*session, inputs.back()));
  }
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (size_t i = 0; i < inputs.size(); ++i)
    threads.emplace_back([&, i] {
      for (int run = 0; run < 50; ++run) wrong += !Identical(RunOn(*session, inputs[i]), expected[i]);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(CudaSession, WorksAgainAfterMemoryRanOut) {
  auto session = Open("cuda,cpu");
  Tensor x = RandomTensor(DType::kFloat, {2, 3, 16, 16}, 1), expected = RunOn(*session, x);
  DeviceMemory& memory = Device::Get().memory();
  memory.Trim();
  memory.SetLimit(memory.use().in_use + (1 << 20));
  Tensor large = RandomTensor(DType::kFloat, {512, 3, 16, 16}, 1);
  try {
    RunOn(*session, large);
    ADD_FAILURE() << "it fits";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kLimit) << error.message();
    EXPECT_THAT(error.message(), HasSubstr("no memory for "));
  }
  memory.SetLimit(0);
  EXPECT_TRUE(Identical(RunOn(*session, x), expected));
}

TEST(CudaProvider, IsRefusedWhereItCannotBeHad) {
  if (!FindDevices().empty()) GTEST_SKIP() << "it can be had here";
  try {
    MakeCudaProvider().Open({});
    FAIL() << "there is no device";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(error.message(), HasSubstr("provider cuda cannot be used here: "));
  }
}

}  // namespace
}  // namespace ferry::cuda
