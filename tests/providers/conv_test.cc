// Convolutions as the engine runs them (rewritten, channels last, every algorithm) against the plain operators.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "engine/prepare.h"
#include "engine/session.h"
#include "ops/support/fused.h"
#include "tests/support/graphs.h"
#include "tests/support/random_tensors.h"

namespace ferry {
namespace {

using ::ferry::testing::MakeInfo;
using ::ferry::testing::MakeModel;
using ::ferry::testing::MakeNode;
using ::ferry::testing::Random;

void ExpectSame(const Tensor& got, const Tensor& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(ToText(ToSymbolic(got.shape())), ToText(ToSymbolic(expected.shape()))) << what;
  double largest = 1;
  for (float value : expected.Span<float>()) largest = std::max(largest, std::abs(static_cast<double>(value)));
  for (int64_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got.Data<float>()[i], expected.Data<float>()[i], tolerance * largest) << what << " at " << i;
}

void Compare(const Model& model, const Tensor& x, const std::string& what, double tolerance = 2e-5) {
  std::vector<NamedValue> inputs{{"x", x}};
  auto expected = Session::FromModel(model, {.threads = 1, .optimize = false})->Run(inputs);
  auto fast = Session::FromModel(model, {.threads = 1})->Run(inputs);
  auto threaded = Session::FromModel(model, {.threads = 3})->Run(inputs);
  for (size_t i = 0; i < expected.size(); ++i) {
    ExpectSame(fast[i].tensor(), expected[i].tensor(), tolerance, what);
    EXPECT_TRUE(Identical(fast[i].tensor(), threaded[i].tensor())) << what << ": threads change the result";
  }
}

std::vector<int64_t> Repeat(Random& random, size_t count, int64_t low, int64_t high) {
  std::vector<int64_t> values;
  for (size_t i = 0; i < count; ++i) values.push_back(random.Int(low, high));
  return values;
}

struct Layer {
  Tensor x;
  Model model;
  std::string text;
};

// A convolution with everything that can follow it, of `spatial` axes.
Layer RandomLayer(Random& random, size_t spatial, int64_t groups, int64_t group_channels, int64_t group_features) {
  int64_t channels = groups * group_channels, features = groups * group_features;
  std::vector<int64_t> kernel = Repeat(random, spatial, 1, spatial == 3 ? 3 : 5);
  if (random.Bool()) kernel.assign(spatial, 3);
  std::vector<int64_t> strides = Repeat(random, spatial, 1, 2), dilations(spatial, 1),
                       pads = Repeat(random, 2 * spatial, 0, 2);
  if (random.Bool()) strides.assign(spatial, 1);
  if (random.Int(0, 4) == 0) dilations = Repeat(random, spatial, 1, 2);
  Shape x = {random.Int(1, 2), channels}, w = {features, group_channels};
  for (size_t i = 0; i < spatial; ++i) {
    x.push_back((kernel[i] - 1) * dilations[i] + 1 + random.Int(0, spatial == 3 ? 6 : 20));
    w.push_back(kernel[i]);
  }
  std::vector<StoredTensor> weights{MakeStored("w", random.Floats(w)), MakeStored("b", random.Floats({features}))};
  std::vector<std::string> inputs{"x", "w"};
  if (random.Bool()) inputs.push_back("b");
  std::vector<Node> nodes{MakeNode(
      "Conv", inputs, {"c"}, {{"group", groups}, {"strides", strides}, {"dilations", dilations}, {"pads", pads}})};
  std::string value = "c";
  auto then = [&](const char* op, std::vector<std::string> more = {}) {
    more.insert(more.begin(), value);
    value += op[0];
    nodes.push_back(MakeNode(op, more, {value}));
  };
  if (random.Bool()) {
    for (const char* name : {"scale", "shift", "mean", "var"}) {
      Tensor values = random.Floats({features});
      for (int64_t i = 0; i < features; ++i) values.MutableData<float>()[i] += name[0] == 'v' ? 2.0f : 0.0f;
      weights.push_back(MakeStored(name, values));
    }
    then("BatchNormalization", {"scale", "shift", "mean", "var"});
  }
  if (random.Bool()) {
    nodes.push_back(MakeNode("Neg", {"c"}, {"other"}));
    then("Add", {"other"});
  }
  if (random.Bool()) then(random.Pick<const char*>({"Relu", "HardSwish", "Sigmoid", "Tanh", "Gelu"}));
  Layer layer{random.Floats(x),
              MakeModel({MakeInfo("x", DType::kFloat, ToSymbolic(x))}, nodes, {MakeInfo(value)}, weights), ""};
  layer.text = Cat("x ", x, " w ", w, " groups ", groups, " strides ", Join(strides, ","), " dilations ",
                   Join(dilations, ","), " pads ", Join(pads, ","), " → ", value);
  return layer;
}

TEST(Conv, DenseAgreesOnRandomShapes) {
  Random random(1);
  for (int round = 0; round < 150; ++round) {
    Layer layer = RandomLayer(random, 2, 1, random.Int(1, 40), random.Int(1, 70));
    Compare(layer.model, layer.x, layer.text, 2e-4);
  }
}

TEST(Conv, DepthwiseAgreesOnRandomShapes) {
  Random random(2);
  for (int round = 0; round < 150; ++round) {
    Layer layer = RandomLayer(random, 2, random.Int(1, 50), 1, random.Int(0, 4) == 0 ? 2 : 1);
    Compare(layer.model, layer.x, layer.text);
  }
}

TEST(Conv, GroupedAgreesOnRandomShapes) {
  Random random(3);
  for (int round = 0; round < 100; ++round) {
    Layer layer = RandomLayer(random, 2, random.Int(2, 5), random.Int(2, 12), random.Int(1, 40));
    Compare(layer.model, layer.x, layer.text);
  }
}

TEST(Conv, GroupsThatFillVectorsAgreeOnRandomShapes) {
  Random random(13);
  for (int round = 0; round < 100; ++round) {
    Layer layer = RandomLayer(random, 2, random.Int(2, 5), random.Int(2, 20), 8 * random.Int(1, 4));
    Compare(layer.model, layer.x, layer.text);
  }
}

TEST(Conv, LinesAndVolumesAgreeOnRandomShapes) {
  Random random(4);
  for (int round = 0; round < 100; ++round) {
    Layer layer = RandomLayer(random, random.Bool() ? 1 : 3, random.Int(1, 2), random.Int(1, 10), random.Int(1, 20));
    Compare(layer.model, layer.x, layer.text);
  }
}

// Whole numbers small enough that every sum of products is exact in float: whoever adds them up as the text says gives
// the true result, whatever the order; Winograd's fractions do not.
Layer WholeNumbers(Random& random, int64_t channels, int64_t features, int64_t size) {
  auto whole = [&](Shape shape) {
    Tensor tensor(DType::kFloat, std::move(shape));
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor.MutableData<float>()[i] = static_cast<float>(random.Int(-100, 100));
    return tensor;
  };
  Shape x = {1, channels, size, size};
  Layer layer{whole(x), {}, Cat(channels, " to ", features, " channels, size ", size)};
  layer.model = MakeModel({MakeInfo("x", DType::kFloat, ToSymbolic(x))},
                          {MakeNode("Conv", {"x", "w"}, {"y"}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}})},
                          {MakeInfo("y")}, {MakeStored("w", whole({features, channels, 3, 3}))});
  return layer;
}

TEST(Conv, ExactGivesWhatDirectConvolutionGives) {
  Random random(6);
  bool winograd_differs = false;
  for (int round = 0; round < 20; ++round) {
    Layer layer = WholeNumbers(random, random.Int(16, 40), random.Int(16, 40), random.Int(5, 20));
    std::vector<NamedValue> inputs{{"x", layer.x}};
    Value plain = Session::FromModel(layer.model, {.threads = 1, .optimize = false})->Run(inputs)[0];
    Value exact = Session::FromModel(layer.model, {.threads = 2, .exact = true})->Run(inputs)[0];
    Value fast = Session::FromModel(layer.model, {.threads = 1})->Run(inputs)[0];
    EXPECT_TRUE(Identical(exact.tensor(), plain.tensor())) << layer.text;
    winograd_differs |= !Identical(fast.tensor(), plain.tensor());
  }
  EXPECT_TRUE(winograd_differs) << "nothing here would show a reassociating algorithm";
}

// Whatever is found to be fastest here, the answer is the same.
TEST(Conv, TunedChoicesAgree) {
  Random random(7);
  for (int round = 0; round < 12; ++round) {
    Layer layer = RandomLayer(random, 2, 1, random.Int(8, 40), random.Int(8, 40));
    std::vector<NamedValue> inputs{{"x", layer.x}};
    Value plain = Session::FromModel(layer.model, {.threads = 1, .optimize = false})->Run(inputs)[0];
    auto tuned = Session::FromModel(layer.model, {.threads = 2, .tune = "none"});
    Value first = tuned->Run(inputs)[0];
    ExpectSame(first.tensor(), plain.tensor(), 2e-4, layer.text);
    EXPECT_TRUE(Identical(first.tensor(), tuned->Run(inputs)[0].tensor())) << "a choice is made once";
  }
}

// The taps of a kernel row are merged where channels are few; so many of them make a product that is cut along its
// depth elsewhere.
TEST(Conv, DeepWindowsOverFewChannelsAgree) {
  Random random(8);
  for (auto [channels, features, kernel] : {std::array<int64_t, 3>{4, 20, 19}, {8, 33, 13}, {1, 17, 37}, {3, 16, 21}}) {
    Shape x = {2, channels, kernel + 6, kernel + 9};
    Model model = MakeModel({MakeInfo("x", DType::kFloat, ToSymbolic(x))},
                            {MakeNode("Conv", {"x", "w"}, {"c"}, {{"pads", std::vector<int64_t>{2, 1, 0, 3}}}),
                             MakeNode("Relu", {"c"}, {"y"})},
                            {MakeInfo("y")}, {MakeStored("w", random.Floats({features, channels, kernel, kernel}))});
    ASSERT_GT(channels * kernel * kernel, 1280);
    Compare(model, random.Floats(x), Cat(channels, " channels, kernel ", kernel), 1e-4);
  }
}

// Everything that a region of channels-last images may hold, with values that leave it in the middle.
// The same bits as two steps give, in the first run and in later ones.
TEST(Conv, ScalesItsInputItself) {
  const InternalOperators allowed;
  Random random(35);
  for (int round = 0; round < 40; ++round) {
    const int64_t channels = random.Int(1, 70), features = random.Int(1, 40), batch = random.Int(1, 2);
    const int64_t height = random.Int(1, round % 2 ? 40 : 8), width = random.Int(1, 30);
    auto activation = random.Pick({ActivationKind::kNone, ActivationKind::kRelu, ActivationKind::kSigmoid});
    std::vector<StoredTensor> weights{
        MakeStored("factor", random.Floats({channels})), MakeStored("offset", random.Floats({channels})),
        MakeStored("bias", random.Floats({features})), MakeStored("w", random.Floats({features, channels, 1, 1}))};
    Node affine = MakeNode("NhwcAffine", {"x", "factor", "offset"}, {"scaled"});
    Node two = MakeNode("NhwcConv", {"scaled", "w", "bias"}, {"y"});
    Node one = MakeNode("NhwcConv", {"x", "w", "bias", "", "factor", "offset"}, {"y"});
    one.Set("before", std::vector<float>{static_cast<float>(activation), 0, 0});
    SetActivation(affine, {activation});
    for (Node* node : {&affine, &two, &one}) node->domain = kInternalDomain;
    ValueInfo image = MakeInfo("x", DType::kFloat, {batch, height, width, channels});
    std::vector<NamedValue> inputs{{"x", random.Floats({batch, height, width, channels})}};
    auto run = [&](std::vector<Node> nodes, int threads, Precision precision) {
      auto session = Session::FromModel(MakeModel({image}, std::move(nodes), {MakeInfo("y")}, weights),
                                        {.threads = threads, .optimize = false, .precision = precision});
      std::vector<Tensor> results;
      for (int repeat = 0; repeat < 3; ++repeat) results.push_back(session->Run(inputs)[0].tensor());
      return results;
    };
    for (Precision precision : {Precision::kFloat32, Precision::kBf16})
      for (int threads : {1, 3}) {
        std::vector<Tensor> got = run({one}, threads, precision), expected = run({affine, two}, threads, precision);
        for (size_t i = 0; i < got.size(); ++i)
          ASSERT_TRUE(Identical(got[i], expected[i]))
              << channels << " channels to " << features << ", " << threads << " threads, run " << i;
      }
  }
}

TEST(Conv, RegionsAgreeOnRandomNetworks) {
  Random random(5);
  for (int round = 0; round < 60; ++round) {
    int64_t channels = 2 * random.Int(2, 20), height = random.Int(8, 20), width = random.Int(8, 20);
    Shape x = {random.Int(1, 2), 3, height, width};
    std::vector<StoredTensor> weights{
        MakeStored("first", random.Floats({channels, 3, 3, 3})),
        MakeStored("second", random.Floats({channels, channels, 3, 3})),
        MakeStored("gate_w", random.Floats({channels, channels, 1, 1})),
        MakeStored("per_channel", random.Floats({channels, 1, 1})),
        MakeStored("axes", Tensor::FromVector<int64_t>({2, 3})),
        MakeStored("split5", Tensor::FromVector<int64_t>({0, 2, channels / 2, height, width})),
        MakeStored("joined", Tensor::FromVector<int64_t>({0, channels, height, width}))};
    std::vector<int64_t> pads{1, 1, 1, 1}, window{3, 3}, step{2, 2};
    std::vector<Node> nodes{
        MakeNode("Conv", {"x", "first"}, {"a"}, {{"pads", pads}}),
        MakeNode("Mul", {"a", "per_channel"}, {"scaled"}),
        MakeNode("ReduceMean", {"scaled", "axes"}, {"mean"}),
        MakeNode("Conv", {"mean", "gate_w"}, {"gate_in"}),
        MakeNode("Sigmoid", {"gate_in"}, {"gate"}),
        MakeNode("Mul", {"gate", "scaled"}, {"gated"}),
        MakeNode("Reshape", {"gated", "split5"}, {"s0"}),
        MakeNode("Transpose", {"s0"}, {"s1"}, {{"perm", std::vector<int64_t>{0, 2, 1, 3, 4}}}),
        MakeNode("Reshape", {"s1", "joined"}, {"shuffled"}),
        MakeNode("Conv", {"shuffled", "second"}, {"b"}, {{"pads", pads}}),
        MakeNode("Add", {"b", "shuffled"}, {"sum"}),
        MakeNode("Relu", {"sum"}, {"r"}),
        MakeNode("Concat", {"r", "a"}, {"cat"}, {{"axis", int64_t{1}}}),
        MakeNode("Split", {"cat"}, {"half0", "half1"}, {{"axis", int64_t{1}}, {"num_outputs", int64_t{2}}}),
        MakeNode("MaxPool", {"half0"}, {"pooled"}, {{"kernel_shape", window}, {"strides", step}, {"pads", pads}}),
        MakeNode(
            "AveragePool", {"half1"}, {"averaged"},
            {{"kernel_shape", window}, {"strides", step}, {"pads", pads}, {"count_include_pad", random.Int(0, 1)}}),
        MakeNode("Sub", {"pooled", "averaged"}, {"difference"}),
        MakeNode("Transpose", {"difference"}, {"turned"}, {{"perm", std::vector<int64_t>{0, 2, 3, 1}}}),
        MakeNode("Neg", {"turned"}, {"negative"}),
        MakeNode("Transpose", {"negative"}, {"back"}, {{"perm", std::vector<int64_t>{0, 3, 1, 2}}}),
        MakeNode("Add", {"back", "difference"}, {"zero"}),
        MakeNode("GlobalAveragePool", {"cat"}, {"global"}),
        MakeNode("Flatten", {"global"}, {"flat"}),
        MakeNode("Softmax", {"r"}, {"soft"}, {{"axis", int64_t{1}}})};
    Model model = MakeModel({MakeInfo("x", DType::kFloat, {Dim::Named("batch"), 3, height, width})}, nodes,
                            {MakeInfo("difference"), MakeInfo("turned"), MakeInfo("zero"), MakeInfo("flat"),
                             MakeInfo("soft"), MakeInfo("gated")},
                            weights);
    Compare(model, random.Floats(x), Cat("channels ", channels, " image ", x), 5e-5);
  }
}

}  // namespace
}  // namespace ferry
