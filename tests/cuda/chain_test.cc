// Generated kernels: what their sources hold, that they compile for every architecture (where NVRTC is installed), and
// that they give the operators' own answers (where there is a GPU).
#include "providers/cuda/chain.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "providers/cuda/compile.h"
#include "tests/cuda/device_test.h"

namespace ferry::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// gelu(x · w + b) in the type, and whether it is above the middle.
Chain SampleChain(DType type) {
  Chain chain;
  int x = chain.AddInput(type), w = chain.AddInput(type), b = chain.AddInput(type);
  int product = *chain.AddStep(testing::OneNode("Mul", 2), std::vector{x, w}, type);
  int sum = *chain.AddStep(testing::OneNode("Add", 2), std::vector{product, b}, type);
  int gelu = *chain.AddStep(testing::OneNode("Gelu", 1), std::vector{sum}, type);
  int wide =
      *chain.AddStep(testing::OneNode("Cast", 1, {Attribute("to", int64_t{1})}), std::vector{gelu}, DType::kFloat);
  int half = chain.AddConstant(Tensor::Scalar(0.5f));
  int above = *chain.AddStep(testing::OneNode("Greater", 2), std::vector{wide, half}, DType::kBool);
  chain.AddOutput(gelu);
  chain.AddOutput(above);
  return chain;
}

Chain::Form FormOf(const Chain& chain, const std::vector<Shape>& shapes, const Shape& output, uintptr_t address = 256) {
  std::vector<uintptr_t> addresses(shapes.size() + chain.output_count(), address);
  return chain.FormFor(shapes, addresses, output);
}

TEST(Chain, InputsThatNeedNoBroadcastingAreReadInOrderAndWide) {
  Chain chain = SampleChain(DType::kFloat);
  Chain::Form form = FormOf(chain, {{8, 16}, {8, 16}, {1}}, {8, 16});
  EXPECT_EQ(form.width, 4);
  EXPECT_EQ(form.dims, std::vector<int64_t>{32});
  const std::string text = chain.Source(form).text;
  EXPECT_THAT(text, HasSubstr("reinterpret_cast<const Pack<float, 4>*>(p0)[i]"));
  EXPECT_THAT(text, HasSubstr("p2[0]"));
  EXPECT_THAT(text, Not(HasSubstr("rest")));
}

TEST(Chain, NeighbouringAxesAreOneWhereEveryInputAllowsIt) {
  Chain chain = SampleChain(DType::kFloat16);
  Chain::Form form = FormOf(chain, {{2, 3, 5, 16}, {16}, {2, 1, 1, 16}}, {2, 3, 5, 16});
  EXPECT_EQ(form.width, 8);
  EXPECT_EQ(form.dims, (std::vector<int64_t>{2, 15, 2}));
  EXPECT_EQ(form.strides[1], (std::vector<int64_t>{0, 0, 8}));
  EXPECT_EQ(form.strides[2], (std::vector<int64_t>{16, 0, 8}));
}

TEST(Chain, GroupsAreNarrowWhereSizesOrAddressesAreOdd) {
  Chain chain = SampleChain(DType::kFloat);
  EXPECT_EQ(FormOf(chain, {{3, 7}, {3, 7}, {7}}, {3, 7}).width, 1);
  EXPECT_EQ(FormOf(chain, {{3, 8}, {3, 8}, {8}}, {3, 8}, 8).width, 2);
  EXPECT_EQ(FormOf(chain, {{3, 8}, {3, 8}, {8}}, {3, 8}, 4).width, 1);
}

TEST(Chain, LeavesWhatItCannotSayToOthers) {
  Chain chain;
  int x = chain.AddInput(DType::kFloat), n = chain.AddInput(DType::kInt64), s = chain.AddInput(DType::kComplex64);
  EXPECT_FALSE(chain.AddStep(testing::OneNode("MatMul", 2), std::vector{x, x}, DType::kFloat));
  EXPECT_FALSE(chain.AddStep(testing::OneNode("Add", 2), std::vector{x, n}, DType::kFloat));
  // A zero among integers is an error, which a kernel cannot raise.
  EXPECT_FALSE(chain.AddStep(testing::OneNode("Div", 2), std::vector{n, n}, DType::kInt64));
  EXPECT_FALSE(chain.AddStep(testing::OneNode("Add", 2), std::vector{s, s}, DType::kComplex64));
  EXPECT_FALSE(chain.AddStep(testing::OneNode("Where", 3), std::vector{n, x, x}, DType::kFloat));
}

struct OneOperator {
  Node node;
  std::vector<DType> types;
  DType result;
};

std::vector<OneOperator> Operators() {
  std::vector<OneOperator> all;
  auto floats = {DType::kFloat, DType::kFloat16, DType::kBFloat16, DType::kDouble};
  auto one = [&](const char* op, DType type, DType to, std::vector<Attribute> attributes = {}) {
    all.push_back({testing::OneNode(op, 1, std::move(attributes)), {type}, to});
  };
  for (DType type : floats) {
    for (const char* op : {"Identity",    "Neg",     "Abs",      "Sign",     "Relu",      "Sqrt",
                           "Reciprocal",  "Exp",     "Log",      "Floor",    "Ceil",      "Round",
                           "Erf",         "Sin",     "Cos",      "Tan",      "Asin",      "Acos",
                           "Atan",        "Sinh",    "Cosh",     "Tanh",     "Asinh",     "Acosh",
                           "Atanh",       "Sigmoid", "Softplus", "Softsign", "Mish",      "HardSwish",
                           "HardSigmoid", "Celu",    "Elu",      "Selu",     "LeakyRelu", "ThresholdedRelu",
                           "Swish",       "Shrink",  "Gelu"})
      one(op, type, type);
    one("Gelu", type, type, {Attribute("approximate", std::string("tanh"))});
    one("LeakyRelu", type, type, {Attribute("alpha", 0.3f)});
    one("IsNaN", type, DType::kBool);
    one("IsInf", type, DType::kBool, {Attribute("detect_negative", int64_t{0})});
    for (const char* op : {"Add", "Sub", "Mul", "Div", "PRelu", "Max", "Min", "Sum", "Mean", "Pow"})
      all.push_back({testing::OneNode(op, 2), {type, type}, type});
    for (const char* op : {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"})
      all.push_back({testing::OneNode(op, 2), {type, type}, DType::kBool});
    all.push_back({testing::OneNode("Clip", 3), {type, type, type}, type});
    all.push_back({testing::OneNode("Where", 3), {DType::kBool, type, type}, type});
    for (DType to : {DType::kFloat, DType::kFloat16, DType::kBFloat16, DType::kInt64, DType::kBool, DType::kInt8})
      one("Cast", type, to, {Attribute("to", static_cast<int64_t>(to))});
  }
  for (DType type : {DType::kInt8, DType::kUInt8, DType::kInt32, DType::kInt64, DType::kUInt64}) {
    for (const char* op : {"Add", "Sub", "Mul", "Max", "Min", "BitwiseAnd", "BitwiseOr", "BitwiseXor"})
      all.push_back({testing::OneNode(op, 2), {type, type}, type});
    for (const char* op : {"Equal", "Greater", "Less"})
      all.push_back({testing::OneNode(op, 2), {type, type}, DType::kBool});
    one("BitwiseNot", type, type);
    for (const char* way : {"LEFT", "RIGHT"})
      all.push_back({testing::OneNode("BitShift", 2, {Attribute("direction", std::string(way))}), {type, type}, type});
    one("Cast", type, DType::kFloat, {Attribute("to", int64_t{1})});
  }
  for (const char* op : {"And", "Or", "Xor", "Equal"})
    all.push_back({testing::OneNode(op, 2), {DType::kBool, DType::kBool}, DType::kBool});
  one("Not", DType::kBool, DType::kBool);
  return all;
}

// All of them in one kernel, which saves most of the time to compile.
TEST(Chain, SourcesCompileForEveryArchitecture) {
  if (!Nvrtc().report.usable()) GTEST_SKIP() << Nvrtc().report.WhatIsMissing();
  Chain everything;
  for (const OneOperator& op : Operators()) {
    // These differ from float by how elements are read and written alone, which the sample below has.
    if (op.types.back() == DType::kDouble || op.types.back() == DType::kBFloat16) continue;
    std::vector<int> inputs;
    for (DType type : op.types) inputs.push_back(everything.AddInput(type));
    auto step = everything.AddStep(op.node, inputs, op.result);
    ASSERT_TRUE(step) << op.node.op_type << " of " << ToText(op.types[0]);
    everything.AddOutput(*step);
  }
  std::vector<Shape> shapes(everything.input_count(), Shape{4, 8});
  const std::string text = everything.Source(FormOf(everything, shapes, {4, 8}, 1)).text;
  for (int major : {8, 9, 10}) EXPECT_GT(Compile(Cat(kPrelude, text), {major, 0}).size(), 1000u);
  for (DType type : {DType::kBFloat16, DType::kDouble}) {
    Chain sample = SampleChain(type);
    Chain::Form form = FormOf(sample, {{2, 3, 5, 16}, {16}, {2, 1, 1, 16}}, {2, 3, 5, 16});
    EXPECT_GT(Compile(Cat(kPrelude, sample.Source(form).text), {9, 0}).size(), 1000u);
  }
}

TEST(Chain, AWrongSourceIsToldInTheCompilersWords) {
  if (!Nvrtc().report.usable()) GTEST_SKIP() << Nvrtc().report.WhatIsMissing();
  try {
    Compile("__global__ void Broken() { undeclared = 1; }", {9, 0});
    FAIL() << "it compiled";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("undeclared"));
  }
}

class ChainOnDevice : public DeviceTest {};

TEST_F(ChainOnDevice, GivesTheOperatorsAnswers) {
  for (const OneOperator& op : Operators()) {
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < op.types.size(); ++i)
      inputs.push_back(RandomTensor(op.types[i],
                                    i == 0                      ? Shape{3, 5, 16}
                                    : op.node.op_type == "Clip" ? Shape{}
                                    : i == 1                    ? Shape{16}
                                                                : Shape{3, 5, 16},
                                    i + 1));
    Chain chain;
    std::vector<int> values;
    for (DType type : op.types) values.push_back(chain.AddInput(type));
    chain.AddOutput(*chain.AddStep(op.node, values, op.result));
    std::vector<Tensor> there;
    for (const Tensor& input : inputs) there.push_back(input.In(device().memory()));
    std::vector<const Tensor*> given;
    for (const Tensor& tensor : there) given.push_back(&tensor);
    Tensor result = Poisoned(op.result, {3, 5, 16});
    Tensor* results[] = {&result};
    chain.Run(device(), given, results);
    ExpectClose(result.In(HostMemory()), Reference(op.node, inputs), Cat(op.node.op_type, " ", ToText(op.types[0])));
  }
}

TEST_F(ChainOnDevice, BroadcastsSeveralInputsAndGivesSeveralOutputs) {
  Chain chain = SampleChain(DType::kFloat);
  Tensor x = RandomTensor(DType::kFloat, {2, 3, 5, 7}, 1), w = RandomTensor(DType::kFloat, {3, 1, 7}, 2),
         b = RandomTensor(DType::kFloat, {2, 1, 5, 1}, 3);
  Tensor there[] = {x.In(device().memory()), w.In(device().memory()), b.In(device().memory())};
  const Tensor* given[] = {&there[0], &there[1], &there[2]};
  Tensor y(DType::kFloat, x.shape(), device().memory()), above(DType::kBool, x.shape(), device().memory());
  Tensor* results[] = {&y, &above};
  chain.Run(device(), given, results);
  Tensor product = Reference(testing::OneNode("Mul", 2), {x, w}),
         sum = Reference(testing::OneNode("Add", 2), {product, b});
  Tensor expected = Reference(testing::OneNode("Gelu", 1), {sum});
  ExpectClose(y.In(HostMemory()), expected, "gelu");
  Tensor is_above = above.In(HostMemory());
  for (int64_t i = 0; i < expected.size(); ++i) EXPECT_EQ(is_above.Data<bool>()[i], expected.Data<float>()[i] > 0.5f);
}

}  // namespace
}  // namespace ferry::cuda
