// Single operators on the device against the CPU: that they are taken at all, what they answer, and that what lies
// outside is refused. Placement needs no GPU.
#include "providers/cuda/operators.h"

#include "engine/plan_file.h"
#include "engine/session.h"
#include "gmock/gmock.h"
#include "measure/plan_summary.h"
#include "ops/support/cast_tensor.h"
#include "providers/cuda/state.h"
#include "tests/cuda/device_test.h"
#include "tests/support/graphs.h"

namespace ferry::cuda {
namespace {

using ::testing::HasSubstr;
using testing::MakeInfo;
using testing::MakeNode;

// A model of one node. Inputs that are `constants` are part of it.
struct OneNodeCase {
  std::string what;
  Node node;
  std::vector<Tensor> inputs;
  std::vector<size_t> constants = {};
  double tolerance = 0;  // 0: the same bits
};

std::string InputName(size_t i) { return Cat("in", i); }

Model ModelOf(const OneNodeCase& test) {
  std::vector<ValueInfo> inputs, outputs;
  std::vector<StoredTensor> stored;
  for (size_t i = 0; i < test.inputs.size(); ++i) {
    const Tensor& tensor = test.inputs[i];
    if (!tensor.defined()) continue;
    if (std::find(test.constants.begin(), test.constants.end(), i) != test.constants.end())
      stored.push_back(MakeStored(InputName(i), tensor));
    else
      inputs.push_back(MakeInfo(InputName(i), tensor.dtype(), ToSymbolic(tensor.shape())));
  }
  for (const std::string& name : test.node.outputs)
    if (!name.empty()) outputs.push_back(MakeInfo(name, DType::kUndefined));
  for (ValueInfo& output : outputs) output.type = {};
  return testing::MakeModel(inputs, {test.node}, outputs, stored);
}

std::vector<NamedValue> InputsOf(const OneNodeCase& test) {
  std::vector<NamedValue> inputs;
  for (size_t i = 0; i < test.inputs.size(); ++i)
    if (test.inputs[i].defined() && std::find(test.constants.begin(), test.constants.end(), i) == test.constants.end())
      inputs.emplace_back(InputName(i), test.inputs[i]);
  return inputs;
}

OneNodeCase Case(std::string op, std::vector<Tensor> inputs, std::vector<Attribute> attributes = {},
                 std::vector<size_t> constants = {}, double tolerance = 0, size_t outputs = 1) {
  std::vector<std::string> in, out;
  for (size_t i = 0; i < inputs.size(); ++i) in.push_back(inputs[i].defined() ? InputName(i) : "");
  for (size_t i = 0; i < outputs; ++i) out.push_back(Cat("out", i));
  std::string what = Cat(op, " of ", inputs[0].dtype(), inputs[0].shape());
  return {what, MakeNode(std::move(op), in, out, std::move(attributes)), std::move(inputs), std::move(constants),
          tolerance};
}

Tensor Whole(std::vector<int64_t> values, Shape shape) { return Tensor::FromVector(values, std::move(shape)); }
Tensor Whole(std::vector<int64_t> values) { return Tensor::FromVector(values); }

// Values that are often equal, so that ties are there.
Tensor FewValues(DType type, const Shape& shape, int64_t count) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < shape.ElementCount(); ++i) values.push_back((i * 7919 + i / 3) % count - count / 2);
  return CastTensor(Tensor::FromVector(values, shape), type);
}

std::vector<OneNodeCase> IndexCases() {
  const Tensor x = RandomTensor(DType::kFloat, {5, 70, 9}, 1), longer = RandomTensor(DType::kFloat, {3, 5000}, 2);
  const Attribute axis1("axis", int64_t{1});
  std::vector<OneNodeCase> cases;
  for (DType type : {DType::kFloat, DType::kFloat16, DType::kInt64, DType::kInt32})
    for (bool reverse : {false, true}) {
      const Attribute back("reverse", int64_t{reverse}), without("exclusive", int64_t{reverse});
      const double near = type == DType::kFloat16 ? 1e-3 : IsFloating(type) ? 1e-6 : 0;
      cases.push_back(Case("CumSum", {FewValues(type, {5, 70, 9}, 9), Whole({1}, {})}, {back, without}, {1}, near));
      cases.push_back(Case("CumSum", {FewValues(type, {2, 4000}, 5), Whole({-1}, {})}, {back}, {1}, near));
    }
  for (DType type : {DType::kFloat, DType::kFloat16, DType::kInt64, DType::kInt8, DType::kUInt8})
    for (bool largest : {false, true}) {
      const Tensor ties = FewValues(type, {4, 300, 3}, 40);
      cases.push_back(Case(largest ? "ArgMax" : "ArgMin", {ties}, {axis1}));
      cases.push_back(Case(largest ? "ArgMax" : "ArgMin", {FewValues(type, {2, 4000}, 90)},
                           {axis1, Attribute("select_last_index", int64_t{1}), Attribute("keepdims", int64_t{0})}));
      for (int64_t k : {1, 7, 300})
        cases.push_back(Case("TopK", {ties, Whole({k})}, {axis1, Attribute("largest", int64_t{largest})}, {1}, 0, 2));
      cases.push_back(Case("TopK", {FewValues(type, {2, 4000}, 90), Whole({1500})},
                           {Attribute("largest", int64_t{largest})}, {1}, 0, 2));
    }
  cases.push_back(Case("TopK", {longer, Whole({10})}, {}, {1}, 0, 2));
  const Tensor indices = Whole({0, 4, -1, 2, 2, 1, -70, 69, 3, 0, 5, 6}, {2, 3, 2});
  cases.push_back(Case("GatherElements", {x, indices}, {axis1}));
  cases.push_back(Case("GatherElements", {x, CastTensor(indices, DType::kInt32)}, {axis1}));
  const Tensor places = Whole({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {2, 3, 2}),
               updates = RandomTensor(DType::kFloat, {2, 3, 2}, 3);
  cases.push_back(Case("ScatterElements", {x, places, updates}, {axis1}));
  for (const char* how : {"add", "mul", "max", "min"}) {
    cases.push_back(
        Case("ScatterElements", {x, indices, updates}, {axis1, Attribute("reduction", std::string(how))}, {}, 1e-5));
    cases.push_back(Case("ScatterND", {x, Whole({0, 1, 4, 2, 0, 1}, {3, 2}), RandomTensor(DType::kFloat, {3, 9}, 4)},
                         {Attribute("reduction", std::string(how))}, {}, 1e-5));
  }
  cases.push_back(Case("ScatterND", {x, Whole({0, -2, 4}, {3, 1}), RandomTensor(DType::kFloat, {3, 70, 9}, 5)}));
  cases.push_back(Case("GatherND", {x, Whole({0, 1, 4, -2, 0, 69}, {3, 2})}));
  cases.push_back(
      Case("GatherND", {x, Whole({3, -1, 0, 1, 2, 4, 9, 8, 7, 6}, {5, 2, 1})}, {Attribute("batch_dims", int64_t{1})}));
  return cases;
}

std::vector<OneNodeCase> FillCases() {
  const Tensor x = RandomTensor(DType::kFloat, {3, 20, 30}, 1);
  const Tensor spots = FewValues(DType::kFloat, {40, 50, 3}, 3);
  std::vector<OneNodeCase> cases{
      Case("NonZero", {spots}),
      Case("NonZero", {CastTensor(spots, DType::kBool)}),
      Case("Trilu", {x, Whole({2}, {})}, {}, {1}),
      Case("Trilu", {x, Whole({-3}, {})}, {Attribute("upper", int64_t{0})}, {1}),
      Case("OneHot", {Whole({3, -1, 0, 99, 5, -12}, {2, 3}), Whole({12}, {}), Tensor::FromVector<float>({-1, 2})},
           {Attribute("axis", int64_t{1})}, {1}),
      Case("Tile", {x, Whole({2, 1, 3})}, {}, {1}),
      Case("DepthToSpace", {RandomTensor(DType::kFloat, {2, 12, 3, 5}, 2)}, {Attribute("blocksize", int64_t{2})}),
      Case("DepthToSpace", {RandomTensor(DType::kFloat16, {2, 12, 3, 5}, 2)},
           {Attribute("blocksize", int64_t{2}), Attribute("mode", std::string("CRD"))}),
      Case("SpaceToDepth", {RandomTensor(DType::kFloat, {2, 3, 6, 8}, 2)}, {Attribute("blocksize", int64_t{2})}),
  };
  return cases;
}

std::vector<OneNodeCase> ChannelCases() {
  const Tensor x = RandomTensor(DType::kFloat, {2, 6, 9, 7}, 1), scale = RandomTensor(DType::kFloat, {6}, 2),
               bias = RandomTensor(DType::kFloat, {6}, 3), mean = RandomTensor(DType::kFloat, {6}, 4);
  Tensor variance = RandomTensor(DType::kFloat, {6}, 5);
  for (int i = 0; i < 6; ++i) variance.MutableData<float>()[i] = std::abs(variance.Data<float>()[i]) + 0.5f;
  std::vector<OneNodeCase> cases{
      Case("InstanceNormalization", {x, scale, bias}, {}, {1, 2}, 1e-5),
      Case("GroupNormalization", {x, scale, bias}, {Attribute("num_groups", int64_t{3})}, {1, 2}, 1e-5),
      Case("BatchNormalization", {x, scale, bias, mean, variance}, {}, {}, 1e-5),
  };
  struct Way {
    int64_t groups, kernel, stride, pad, dilation;
  };
  for (const Way& way : {Way{1, 2, 2, 0, 1}, Way{1, 4, 2, 1, 1}, Way{3, 3, 1, 1, 2}, Way{2, 3, 2, 0, 1}}) {
    const Tensor w = RandomTensor(DType::kFloat, {6, 4, way.kernel, way.kernel}, 6),
                 b = RandomTensor(DType::kFloat, {4 * way.groups}, 7);
    cases.push_back(Case("ConvTranspose", {x, w, b},
                         {Attribute("group", way.groups), Attribute("strides", std::vector<int64_t>(2, way.stride)),
                          Attribute("pads", std::vector<int64_t>(4, way.pad)),
                          Attribute("dilations", std::vector<int64_t>(2, way.dilation))},
                         {1, 2}, 2e-5));
  }
  return cases;
}

std::vector<OneNodeCase> RecurrentCases() {
  std::vector<OneNodeCase> cases;
  const int64_t steps = 6, batch = 3, inputs = 5, hidden = 8;
  for (auto [op, gates] : {std::pair{"RNN", 1}, {"GRU", 3}, {"LSTM", 4}})
    for (const char* direction : {"forward", "reverse", "bidirectional"})
      for (bool full : {false, true}) {
        const int64_t both = direction[0] == 'b' ? 2 : 1;
        std::vector<Tensor> given{RandomTensor(DType::kFloat, {steps, batch, inputs}, 1),
                                  RandomTensor(DType::kFloat, {both, gates * hidden, inputs}, 2),
                                  RandomTensor(DType::kFloat, {both, gates * hidden, hidden}, 3)};
        std::vector<Attribute> attributes{Attribute("hidden_size", hidden),
                                          Attribute("direction", std::string(direction))};
        if (full) {
          given.push_back(RandomTensor(DType::kFloat, {both, 2 * gates * hidden}, 4));
          given.push_back(CastTensor(Whole({6, 2, 4}), DType::kInt32));
          given.push_back(RandomTensor(DType::kFloat, {both, batch, hidden}, 5));
          attributes.emplace_back("clip", 0.8f);
          if (gates == 3) attributes.emplace_back("linear_before_reset", int64_t{1});
          if (gates == 4) {
            given.push_back(RandomTensor(DType::kFloat, {both, batch, hidden}, 6));
            given.push_back(RandomTensor(DType::kFloat, {both, 3 * hidden}, 7));
          }
        }
        cases.push_back(Case(op, given, attributes, {1, 2}, 2e-5, gates == 4 ? 3 : 2));
      }
  return cases;
}

std::vector<OneNodeCase> QuantizedCases() {
  const Tensor x = RandomTensor(DType::kFloat, {4, 6, 10}, 1), one = Tensor::Scalar(0.013f);
  const Tensor scales = Tensor::FromVector<float>({0.01f, 0.02f, 0.005f, 0.03f, 0.011f, 0.5f});
  const Tensor bytes = CastTensor(FewValues(DType::kInt64, {4, 6, 10}, 250), DType::kInt8);
  std::vector<OneNodeCase> cases{
      Case("QuantizeLinear", {x, one, CastTensor(Whole({7}, {}), DType::kInt8)}),
      Case("QuantizeLinear", {x, scales, CastTensor(Whole({7, 100, 3, 0, 255, 128}), DType::kUInt8)}),
      Case("DequantizeLinear", {bytes, one, CastTensor(Whole({-5}, {}), DType::kInt8)}),
      Case("DequantizeLinear", {bytes, RandomTensor(DType::kFloat, {4, 3, 10}, 9)},
           {Attribute("block_size", int64_t{2})}),
      Case("DynamicQuantizeLinear", {x}, {}, {}, 0, 3),
  };
  for (int64_t depth : {64, 37, 3})
    for (DType a : {DType::kUInt8, DType::kInt8})
      cases.push_back(Case("MatMulInteger",
                           {CastTensor(FewValues(DType::kInt64, {2, 45, depth}, 200), a),
                            CastTensor(FewValues(DType::kInt64, {depth, 70}, 250), DType::kInt8),
                            CastTensor(Whole({9}, {}), a), CastTensor(Whole({-3}, {}), DType::kInt8)},
                           {}, {1}));
  return cases;
}

std::vector<OneNodeCase> AllCases() {
  std::vector<OneNodeCase> all;
  for (auto make : {IndexCases, FillCases, ChannelCases, RecurrentCases, QuantizedCases})
    for (OneNodeCase& test : make()) all.push_back(std::move(test));
  return all;
}

// Planned as for a device, whether or not there is one: nothing but copies is left to the CPU.
TEST(CudaPlacement, TakesEveryOperatorOfTheseCases) {
  for (const OneNodeCase& test : AllCases()) {
    SCOPED_TRACE(test.what);
    try {
      for (const PlannedStep& step : SummarizePlan(ModelOf(test), {}, {.threads = 1, .provider = "cuda"}).steps)
        EXPECT_TRUE(step.provider == "cuda" || step.op == "Copy") << step.op << " by " << step.provider;
    } catch (const Error& error) {
      ADD_FAILURE() << error.message();
    }
  }
}

class CudaOperators : public DeviceTest {};

// Without the CPU: what is not taken fails. The second and third run are recorded and played.
TEST_F(CudaOperators, AnswerAsTheCpu) {
  for (const OneNodeCase& test : AllCases()) {
    SCOPED_TRACE(test.what);
    const std::vector<NamedValue> inputs = InputsOf(test);
    const std::vector<Value> expected = Session::FromModel(ModelOf(test), {.threads = 1})->Run(inputs);
    try {
      auto session = Session::FromModel(ModelOf(test), {.threads = 1, .provider = "cuda"});
      for (int run = 0; run < 3; ++run) {
        const std::vector<Value> made = session->Run(inputs);
        for (size_t i = 0; i < made.size(); ++i) {
          const Tensor &a = made[i].tensor(), &b = expected[i].tensor();
          if (test.tolerance == 0 || !IsFloating(b.dtype()))
            EXPECT_TRUE(Identical(a, b)) << "output " << i << ", run " << run;
          else
            ExpectClose(a, b, test.what, test.tolerance);
        }
      }
    } catch (const Error& error) {
      ADD_FAILURE() << error.message();
    }
  }
}

TEST_F(CudaOperators, RefuseIndicesOutside) {
  const Tensor x = RandomTensor(DType::kFloat, {5, 7}, 1), bad = Whole({0, 7, 1, 2}, {2, 2});
  for (const OneNodeCase& test :
       {Case("GatherElements", {x, bad}, {Attribute("axis", int64_t{1})}), Case("GatherND", {x, bad}),
        Case("ScatterND", {x, bad, RandomTensor(DType::kFloat, {2}, 2)})}) {
    auto session = Session::FromModel(ModelOf(test), {.threads = 1, .provider = "cuda"});
    for (int run = 0; run < 3; ++run) try {
        session->Run(InputsOf(test));
        ADD_FAILURE() << test.what << ": it went through";
      } catch (const Error& error) {
        EXPECT_THAT(error.message(), HasSubstr("an index lies outside")) << test.what;
      }
  }
}

// Both branches read a value of the outer graph; the loop carries one.
Model Branches() {
  Graph then_graph, else_graph, body;
  then_graph.nodes = {MakeNode("Relu", {"h"}, {"t"})};
  then_graph.outputs = {MakeInfo("t")};
  else_graph.nodes = {MakeNode("Tanh", {"h"}, {"e"})};
  else_graph.outputs = {MakeInfo("e")};
  body.inputs = {MakeInfo("i", DType::kInt64, {}), MakeInfo("go", DType::kBool, {}),
                 MakeInfo("c", DType::kFloat, {Dim(4), Dim(6)})};
  body.nodes = {MakeNode("Add", {"c", "h"}, {"c1"}), MakeNode("Identity", {"go"}, {"go1"})};
  body.outputs = {MakeInfo("go1", DType::kBool), MakeInfo("c1")};
  Node branch = MakeNode("If", {"which"}, {"b"}), loop = MakeNode("Loop", {"trips", "", "b"}, {"y"});
  branch.Set("then_branch", std::make_shared<Graph>(then_graph));
  branch.Set("else_branch", std::make_shared<Graph>(else_graph));
  loop.Set("body", std::make_shared<Graph>(body));
  return testing::MakeModel({MakeInfo("x", DType::kFloat, {Dim(4), Dim(5)}), MakeInfo("which", DType::kBool, {}),
                             MakeInfo("trips", DType::kInt64, {})},
                            {MakeNode("MatMul", {"x", "w"}, {"h"}), branch, loop}, {MakeInfo("y")},
                            {MakeStored("w", RandomTensor(DType::kFloat, {5, 6}, 1))});
}

TEST_F(CudaOperators, BodiesRunOnTheDevice) {
  const Tensor x = RandomTensor(DType::kFloat, {4, 5}, 2);
  auto cpu = Session::FromModel(Branches(), {.threads = 1}),
       gpu = Session::FromModel(Branches(), {.threads = 1, .provider = "cuda"});
  for (int run = 0; run < 6; ++run) {
    const std::vector<NamedValue> inputs{
        {"x", x}, {"which", Tensor::Scalar(run % 2 == 0)}, {"trips", Tensor::Scalar(int64_t{run})}};
    ExpectClose(gpu->Run(inputs)[0].tensor(), cpu->Run(inputs)[0].tensor(), "bodies", 1e-5);
  }
}

TEST_F(CudaOperators, PlansStartWithoutCompiling) {
  const OneNodeCase test = Case("Softmax", {RandomTensor(DType::kFloat, {4, 50}, 1)});
  auto session = Session::FromModel(ModelOf(test), {.threads = 1, .provider = "cuda"});
  const Tensor expected = session->Run(InputsOf(test))[0].tensor();
  const std::string path = Cat(::testing::TempDir(), "/softmax.plan");
  WritePlan(MakePlanFile(*session), path);
  auto planned = Session::Open(path);
  EXPECT_EQ(planned->options().provider, "cuda");
  EXPECT_TRUE(Identical(planned->Run(InputsOf(test))[0].tensor(), expected));
}

TEST(CudaState, ComesBackWholeOrNotAtAll) {
  const ReadyState state{{{"source", "code"}, {"other", std::string(1000, '\1')}}, {{"product 1", 3}, {"conv", 0}}};
  const std::string bytes = ToBytes(state);
  const ReadyState back = ParseState(bytes);
  EXPECT_EQ(back.kernels, state.kernels);
  EXPECT_EQ(back.choices, state.choices);
  for (size_t size : {size_t{0}, size_t{5}, bytes.size() - 1, bytes.size() - 999})
    EXPECT_THROW(ParseState(bytes.substr(0, size)), Error) << size;
}

}  // namespace
}  // namespace ferry::cuda
