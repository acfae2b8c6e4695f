// Parts of a Concat that are made inside its result: where they lie, and that no bit changes by it.
#include "providers/cpu/place_concats.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "engine/program.h"
#include "ops/support/fused.h"
#include "tests/support/graphs.h"

namespace ferry {
namespace {

using ::ferry::testing::MakeInfo;
using ::ferry::testing::MakeNode;

Tensor Values(Shape shape, int step) {
  Tensor tensor(DType::kFloat, std::move(shape));
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.MutableData<float>()[i] = static_cast<float>(i * step % 1009) / 504.5f - 1.0f;
  return tensor;
}

Attribute MakeAttribute(std::string name, decltype(Attribute::held) held) {
  Attribute attribute;
  attribute.name = std::move(name);
  attribute.held = std::move(held);
  return attribute;
}

// The CPU's compiler under another eye.
class CpuCompilerUser : public Compiler {
 public:
  std::vector<PartPlace> PlaceParts(const Plan& plan, const std::vector<int>& viewed,
                                    const OuterFacts& facts) const override {
    return cpu_->PlaceParts(plan, viewed, facts);
  }

 protected:
  const std::unique_ptr<const Compiler> cpu_ = CpuProvider().Open({});
};

template <class C>
class ProviderOf final : public Provider {
 public:
  std::string_view name() const override { return "test"; }
  std::string Fingerprint(const ProviderOptions&) const override { return {}; }
  std::unique_ptr<const Compiler> Open(const ProviderOptions&) const override { return std::make_unique<C>(); }
};

// The CPU's kernels, which keep to themselves what they know of rows that lie apart.
class DenseCompiler final : public CpuCompilerUser {
 public:
  std::optional<ChosenKernel> Choose(const KernelRequest& request) const override {
    std::optional<ChosenKernel> chosen = cpu_->Choose(request);
    chosen->plan.reads_strided = 0;
    chosen->plan.writes_strided = false;
    return chosen;
  }
};
using DenseProvider = ProviderOf<DenseCompiler>;

// Nodes named "liar" answer with one channel less than was inferred.
class LyingCompiler final : public CpuCompilerUser {
 public:
  std::optional<ChosenKernel> Choose(const KernelRequest& request) const override {
    if (request.node.name != "liar") return std::nullopt;
    return ChosenKernel{{}, std::make_unique<Liar>()};
  }

 private:
  struct Liar final : Kernel {
    void Run(OpContext& context) const override {
      const Tensor& x = context.Input(0);
      Shape shape = x.shape();
      int64_t channels = shape.back()--;
      Tensor& y = context.Output(0, DType::kFloat, shape);
      for (int64_t i = 0; i < y.size(); ++i)
        y.MutableData<float>()[i] = x.Data<float>()[i / (channels - 1) * channels + i % (channels - 1)];
    }
  };
};
using LyingProvider = ProviderOf<LyingCompiler>;

class PlaceConcatsTest : public ::testing::Test {
 protected:
  std::string Input(const std::string& name, Shape shape) {
    graph_.inputs.push_back(MakeInfo(name, DType::kFloat, ToSymbolic(shape)));
    input_names_.push_back(name);
    inputs_.push_back(Values(std::move(shape), 7 + static_cast<int>(inputs_.size())));
    return name;
  }
  std::string Constant(Tensor value) {
    std::string name = Cat("constant", graph_.initializers.size());
    graph_.initializers.push_back(MakeStored(name, std::move(value)));
    return name;
  }
  std::string Add(Node node) {
    graph_.nodes.push_back(std::move(node));
    return graph_.nodes.back().outputs[0];
  }
  std::string Concat(const std::string& name, std::vector<std::string> parts, int64_t axis) {
    return Add(MakeNode("Concat", std::move(parts), {name}, {MakeAttribute("axis", axis)}));
  }
  std::string Conv(const std::string& name, const std::string& x, int64_t channels, int64_t features, int64_t kernel,
                   ActivationKind activation = ActivationKind::kNone, const std::string& residual = "") {
    int step = 3 + static_cast<int>(graph_.initializers.size());
    std::string weight = Constant(Values({features, channels, kernel, kernel}, step));
    Node node = MakeNode("NhwcConv", {x, weight, Constant(Values({features}, step))}, {name},
                         {MakeAttribute("pads", std::vector<int64_t>(4, kernel / 2))});
    if (!residual.empty()) node.inputs.push_back(residual);
    SetActivation(node, {activation});
    node.domain = kInternalDomain;
    return Add(std::move(node));
  }
  std::string Pool(const std::string& name, const std::string& x, bool average = false) {
    Node node = MakeNode(
        average ? "NhwcAveragePool" : "NhwcMaxPool", {x}, {name},
        {MakeAttribute("kernel_shape", std::vector<int64_t>{3, 3}), MakeAttribute("pads", std::vector<int64_t>(4, 1))});
    node.domain = kInternalDomain;
    return Add(std::move(node));
  }
  std::string Affine(const std::string& name, const std::string& x, int64_t channels) {
    std::string factor = Constant(Values({channels}, 11)), offset = Constant(Values({channels}, 13));
    Node node = MakeNode("NhwcAffine", {x, factor, offset}, {name});
    node.domain = kInternalDomain;
    return Add(std::move(node));
  }

  std::unique_ptr<Program> Build(const std::vector<std::string>& results, const Provider& provider) {
    FactsByName known;
    for (size_t i = 0; i < inputs_.size(); ++i) known[input_names_[i]].type = TypeOf(inputs_[i]);
    facts_.push_back(std::make_unique<GraphFacts>(InferGraph(graph_, known)));
    const Provider* providers[] = {&provider, &CpuProvider()};
    return BuildProgram({graph_, *facts_.back(), input_names_, results, CompilerList(providers, {}), *weights_});
  }

  // Builds and runs it, more than once and with several threads, beside a program that copies every part.
  void Run(const std::vector<std::string>& results) {
    program_ = Build(results, CpuProvider());
    std::unique_ptr<Program> copying = Build(results, DenseProvider());
    for (const Slot& slot : copying->plan().slots) ASSERT_EQ(slot.row_stride, 0) << slot.name;
    std::vector<Value> expected = copying->Run(inputs_, {});
    ThreadPool pool(3);
    for (ThreadPool* threads : {static_cast<ThreadPool*>(nullptr), &pool, &pool}) {
      RunServices services;
      services.pool = threads;
      std::vector<Value> got = program_->Run(inputs_, services);
      for (size_t i = 0; i < results.size(); ++i)
        ASSERT_TRUE(Identical(got[i].tensor(), expected[i].tensor())) << results[i] << (threads ? " by threads" : "");
    }
  }

  const Slot& SlotOf(const std::string& name) const {
    for (const Slot& slot : program_->plan().slots)
      if (slot.name == name) return slot;
    Fail(ErrorCode::kInternal, "no slot ", name);
  }
  // How many elements into `whole` a part begins; -1: it does not lie in it.
  int64_t PlaceIn(const std::string& part, const std::string& whole) const {
    const Slot &a = SlotOf(part), &b = SlotOf(whole);
    if (a.place != Slot::Place::kArena || b.place != Slot::Place::kArena) return -1;
    if (a.offset < b.offset || a.offset >= b.offset + StorageBytes(b.dtype, b.shape->ElementCount())) return -1;
    return static_cast<int64_t>((a.offset - b.offset) / (StorageBytes(b.dtype, 8) / 8));
  }

  Graph graph_;
  std::vector<std::string> input_names_;
  std::vector<Value> inputs_;
  std::unique_ptr<WeightCache> weights_ = std::make_unique<WeightCache>();
  std::vector<std::unique_ptr<GraphFacts>> facts_;
  std::unique_ptr<Program> program_;
};

TEST_F(PlaceConcatsTest, ConvolutionsWriteColumnsOfTheResult) {
  for (int64_t batch : {1, 2}) {
    graph_ = {}, input_names_.clear(), inputs_.clear();
    Input("x", {batch, 20, 19, 24});
    Conv("a", "x", 24, 5, 1, ActivationKind::kRelu);
    Conv("b", "x", 24, 33, 3, ActivationKind::kSigmoid);  // by Winograd's algorithm
    Conv("c", "x", 24, 7, 5, ActivationKind::kHardSwish);
    Concat("y", {"a", "b", "c"}, 3);
    Conv("z", "y", 45, 8, 1);
    Run({"z"});
    EXPECT_EQ(PlaceIn("a", "y"), 0);
    EXPECT_EQ(PlaceIn("b", "y"), 5);
    EXPECT_EQ(PlaceIn("c", "y"), 38);
    for (const char* part : {"a", "b", "c"}) EXPECT_EQ(SlotOf(part).row_stride, 45) << part;
    EXPECT_EQ(SlotOf("y").row_stride, 0);
  }
}

TEST_F(PlaceConcatsTest, DenseBlocksAreOneBuffer) {
  Input("x", {1, 14, 14, 20});
  std::vector<std::string> parts{Pool("f0", "x")};
  std::vector<std::string> readers;
  int64_t channels = 20;
  for (int layer = 1; layer <= 5; ++layer) {
    std::string joined = parts.size() == 1 ? parts[0] : Concat(Cat("y", layer), parts, -1);
    std::string narrow =
        Conv(Cat("n", layer), Affine(Cat("s", layer), joined, channels), channels, 16, 1, ActivationKind::kRelu);
    parts.push_back(Conv(Cat("f", layer), narrow, 16, 12, 3));
    channels += 12;
  }
  Concat("y6", parts, 3);
  Affine("s6", "y6", channels);
  Pool("z", "s6", true);
  Run({"z"});
  for (int layer = 2; layer <= 5; ++layer) {
    EXPECT_EQ(PlaceIn(Cat("y", layer), "y6"), 0) << layer;
    EXPECT_EQ(SlotOf(Cat("y", layer)).row_stride, channels) << layer;
  }
  for (int layer = 1; layer <= 5; ++layer) EXPECT_EQ(PlaceIn(Cat("f", layer), "y6"), 8 + layer * 12);
  EXPECT_EQ(PlaceIn("s6", "y6"), 0) << "the last reader writes over it";
  EXPECT_LT(program_->plan().ArenaBytes(), Build({"z"}, DenseProvider())->plan().ArenaBytes());
}

TEST_F(PlaceConcatsTest, ResultsOfConcatsAreParts) {
  Input("x", {1, 9, 8, 16});
  Conv("a", "x", 16, 6, 3);
  Pool("b", "a");
  Concat("y", {"a", "b"}, 3);
  Conv("c", "y", 12, 10, 3);
  Concat("z", {"c", "y", "x"}, 3);
  Concat("tall", {"z", "z"}, 1);
  Pool("out", "tall");
  Run({"out"});
  EXPECT_EQ(PlaceIn("c", "z"), 0);
  EXPECT_EQ(PlaceIn("y", "z"), 10);
  EXPECT_EQ(PlaceIn("a", "z"), 10);
  EXPECT_EQ(PlaceIn("b", "z"), 16);
  EXPECT_EQ(SlotOf("b").row_stride, 38);
  EXPECT_EQ(SlotOf("z").row_stride, 0);
  EXPECT_EQ(PlaceIn("z", "tall"), 0) << "and what is twice in one lies there once";
}

TEST_F(PlaceConcatsTest, BlocksOfTheOutermostAxisAreForAnyKernel) {
  Input("x", {1, 3, 5, 7});
  Add(MakeNode("Sigmoid", {"x"}, {"a"}));
  Add(MakeNode("Tanh", {"x"}, {"b"}));
  Add(MakeNode("Transpose", {"x"}, {"t"}, {MakeAttribute("perm", std::vector<int64_t>{0, 2, 3, 1})}));
  Add(MakeNode("Reshape", {"t", Constant(Tensor::FromVector<int64_t>({1, 3, 5, 7}))}, {"view"}));
  Concat("y", {"a", "view", "x", "b"}, 1);
  Add(MakeNode("Softmax", {"y"}, {"z"}));
  Add(MakeNode("Softmax", {"a"}, {"again"}));
  Run({"z", "again"});
  EXPECT_EQ(PlaceIn("a", "y"), 0);
  EXPECT_EQ(PlaceIn("t", "y"), 105);
  EXPECT_EQ(PlaceIn("view", "y"), 105);
  EXPECT_EQ(PlaceIn("b", "y"), 315);
  for (const Slot& slot : program_->plan().slots) EXPECT_EQ(slot.row_stride, 0) << slot.name;
}

TEST_F(PlaceConcatsTest, WholeNumbersAndListsToo) {
  Input("x", {4});
  Add(MakeNode("Cast", {"x"}, {"a"}, {MakeAttribute("to", int64_t{static_cast<int64_t>(DType::kInt64)})}));
  Add(MakeNode("Neg", {"a"}, {"b"}));
  Concat("y", {"b", "a", "b"}, 0);
  Add(MakeNode("Abs", {"y"}, {"z"}));
  Add(MakeNode("Neg", {"a"}, {"late"}));
  Run({"z", "late"});
  EXPECT_EQ(PlaceIn("b", "y"), 0);
  EXPECT_EQ(PlaceIn("a", "y"), 4);
}

TEST_F(PlaceConcatsTest, WhatOthersReadAnywhereStaysWhereItIs) {
  Input("x", {1, 6, 5, 8});
  Conv("read", "x", 8, 8, 1);
  Conv("result", "x", 8, 8, 1);
  Conv("added", "x", 8, 8, 1);
  Conv("viewed", "x", 8, 8, 1);
  Conv("fine", "x", 8, 8, 1);
  Add(MakeNode("Softmax", {"read"}, {"softmax"}));
  Conv("sum", "x", 8, 8, 3, ActivationKind::kNone, "added");
  Add(MakeNode("Reshape", {"viewed", Constant(Tensor::FromVector<int64_t>({30, 8}))}, {"view"}));
  Add(MakeNode("Softmax", {"view"}, {"softmax2"}));
  std::string constant = Constant(Values({1, 6, 5, 8}, 5));
  Concat("y", {"read", "x", "result", "fine", "added", constant, "fine", "viewed"}, 3);
  Pool("z", "y");
  Concat("end", {"fine", "sum"}, 3);  // an output itself
  Run({"z", "softmax", "softmax2", "result", "end"});
  EXPECT_EQ(PlaceIn("fine", "y"), 24);
  for (const char* name : {"read", "result", "added", "viewed", "sum"}) EXPECT_EQ(SlotOf(name).row_stride, 0) << name;
  EXPECT_EQ(PlaceIn("read", "y"), -1);
}

TEST_F(PlaceConcatsTest, BodiesReadWhatLiesTogether) {
  Input("x", {1, 6, 5, 8});
  Input("flag", {1});
  Conv("a", "x", 8, 8, 1);
  Conv("b", "x", 8, 8, 1);
  Concat("y", {"a", "b"}, 3);
  Add(MakeNode("Cast", {"flag"}, {"yes"}, {MakeAttribute("to", int64_t{static_cast<int64_t>(DType::kBool)})}));
  auto body = std::make_shared<Graph>();
  body->name = "body";
  body->nodes = {MakeNode("Softmax", {"a"}, {"inside"})};
  body->outputs = {MakeInfo("inside")};
  Node branch = MakeNode("If", {"yes"}, {"chosen"});
  branch.attributes = {MakeAttribute("then_branch", body), MakeAttribute("else_branch", body)};
  for (Attribute& attribute : branch.attributes) attribute.type = AttributeType::kGraph;
  Add(std::move(branch));
  Pool("z", "y");
  Run({"z", "chosen"});
  EXPECT_EQ(SlotOf("a").row_stride, 0);
  EXPECT_EQ(SlotOf("b").row_stride, 16);
}

TEST_F(PlaceConcatsTest, PartsThatAreInTheWayAreCopied) {
  Input("x", {1, 6, 5, 8});
  Conv("a", "x", 8, 4, 1);
  Conv("b", "x", 8, 4, 3);
  Concat("y", {"a", "b"}, 3);
  Concat("turned", {"b", "a"}, 3);
  Concat("tall", {"a", "b"}, 1);
  Concat("longer", {"a", "b", "a"}, 3);
  Pool("y2", "y"), Pool("turned2", "turned"), Pool("tall2", "tall"), Pool("longer2", "longer");
  Run({"y2", "turned2", "tall2", "longer2"});
  EXPECT_EQ(PlaceIn("y", "longer"), 0);
  EXPECT_EQ(PlaceIn("b", "longer"), 4);
  EXPECT_EQ(PlaceIn("turned", "longer"), -1);
}

TEST_F(PlaceConcatsTest, LaterStepsWriteOverPartsOnlyWhenAllIsRead) {
  Input("x", {1, 4, 64});
  Add(MakeNode("Sigmoid", {"x"}, {"a"}));
  Add(MakeNode("Tanh", {"x"}, {"b"}));
  Concat("y", {"a", "b"}, 1);
  Add(MakeNode("Neg", {"a"}, {"early"}));
  Add(MakeNode("Softmax", {"y"}, {"s"}));
  Add(MakeNode("Abs", {"b"}, {"late"}));
  Add(MakeNode("Neg", {"late"}, {"z"}));
  Add(MakeNode("Neg", {"early"}, {"e"}));
  Run({"z", "s", "e"});
  EXPECT_EQ(PlaceIn("early", "y"), -1);
  EXPECT_EQ(PlaceIn("late", "y"), 256);
}

TEST_F(PlaceConcatsTest, WatchersSeeRowsTogether) {
  Input("x", {1, 6, 5, 8});
  Conv("a", "x", 8, 3, 1);
  Conv("b", "x", 8, 4, 1);
  Concat("y", {"a", "b"}, 3);
  Pool("z", "y");
  auto watched = [&](const Provider& provider) {
    std::map<std::string, Tensor> seen;
    WatchValue watch = [&](const std::string& name, const Value& value) { seen[name] = value.tensor().Clone(); };
    Build({"z"}, provider)->Run(inputs_, {}, {.watch = &watch});
    return seen;
  };
  Run({"z"});
  ASSERT_NE(SlotOf("a").row_stride, 0);
  std::map<std::string, Tensor> seen = watched(CpuProvider()), expected = watched(DenseProvider());
  ASSERT_EQ(seen.size(), 4u);
  for (const auto& [name, tensor] : seen) EXPECT_TRUE(Identical(tensor, expected[name])) << name;
}

TEST_F(PlaceConcatsTest, ShapesThatWereNotExpectedAreCopied) {
  Input("x", {1, 6, 5, 8});
  Conv("a", "x", 8, 4, 1);
  Add(MakeNode("Sigmoid", {"x"}, {"b"}));
  Concat("y", {"a", "b"}, 3);
  Add(MakeNode("Neg", {"y"}, {"z"}));
  graph_.nodes[1].name = "liar";
  std::unique_ptr<Program> program = Build({"z"}, LyingProvider());
  program_ = std::move(program);
  ASSERT_EQ(SlotOf("a").row_stride, 12);
  Tensor a = Build({"a"}, CpuProvider())->Run(inputs_, {})[0].tensor();
  for (int repeat = 0; repeat < 2; ++repeat) {
    Tensor z = program_->Run(inputs_, {})[0].tensor();
    ASSERT_EQ(ToText(ToSymbolic(z.shape())), "[1, 6, 5, 11]");
    for (int64_t pixel = 0; pixel < 30; ++pixel)
      for (int64_t c = 0; c < 11; ++c) {
        float part = c < 4 ? a.Data<float>()[pixel * 4 + c] : inputs_[0].tensor().Data<float>()[pixel * 8 + c - 4];
        ASSERT_EQ(z.Data<float>()[pixel * 11 + c], -part) << pixel << " " << c;
      }
  }
}

// Whatever is joined with whatever.
TEST_F(PlaceConcatsTest, RandomGraphsGiveTheSameBits) {
  std::mt19937 random(5);
  size_t placed = 0, apart = 0;
  for (int round = 0; round < 300; ++round) {
    graph_ = {}, input_names_.clear(), inputs_.clear(), weights_ = std::make_unique<WeightCache>();
    const int64_t batch = 1 + random() % 2;
    struct Made {
      std::string name;
      int64_t height, channels;
    };
    std::vector<Made> made{{Input("x", {batch, 4, 3, 5}), 4, 5}, {Input("w", {batch, 4, 3, 2}), 4, 2}};
    auto pick = [&]() -> Made { return made[random() % made.size()]; };
    for (int i = 0; i < 14; ++i) {
      const std::string name = Cat("v", i);
      Made x = pick();
      switch (random() % 8) {
        case 0:
        case 1: {
          int64_t features = 1 + random() % 20;
          made.push_back({Conv(name, x.name, x.channels, features, random() % 2 ? 1 : 3), x.height, features});
          break;
        }
        case 2: made.push_back({Pool(name, x.name), x.height, x.channels}); break;
        case 3: made.push_back({Affine(name, x.name, x.channels), x.height, x.channels}); break;
        case 4: made.push_back({Add(MakeNode("Relu", {x.name}, {name})), x.height, x.channels}); break;
        case 5: {
          Tensor flat = Tensor::FromVector<int64_t>({batch, 3, x.height, x.channels});
          std::string view = Add(MakeNode("Reshape", {x.name, Constant(flat)}, {name + "_flat"}));
          Tensor back = Tensor::FromVector<int64_t>({batch, x.height, 3, x.channels});
          made.push_back({Add(MakeNode("Reshape", {view, Constant(back)}, {name})), x.height, x.channels});
          break;
        }
        default: {
          const int64_t axis = random() % 4 ? 3 : 1;
          std::vector<std::string> parts{x.name};
          for (int tries = 0; tries < 4; ++tries) {
            Made y = pick();
            if (axis == 3 ? y.height != x.height : y.channels != x.channels) continue;
            parts.push_back(y.name);
            (axis == 3 ? x.channels : x.height) += axis == 3 ? y.channels : y.height;
          }
          made.push_back({Concat(name, parts, axis), x.height, x.channels});
        }
      }
    }
    std::vector<std::string> results;
    for (size_t i = 2; i < made.size(); ++i)
      if (random() % 5 == 0 || i + 1 == made.size()) results.push_back(made[i].name);
    ASSERT_NO_FATAL_FAILURE(Run(results)) << "round " << round;
    for (const Slot& slot : program_->plan().slots) apart += slot.row_stride != 0;
    ++placed;
  }
  EXPECT_GT(apart, placed / 2) << "nothing was tested";
}

}  // namespace
}  // namespace ferry
