// Kernels that work shapes and weights out beforehand (arithmetic, reductions, LSTM, transposed convolution) against
// the plain operators, over random shapes and attributes.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/session.h"
#include "ops/evaluate.h"
#include "tests/support/graphs.h"
#include "tests/support/random_tensors.h"

namespace ferry {
namespace {

using testing::MakeInfo;
using testing::MakeModel;
using testing::MakeNode;
using testing::Random;

struct Given {
  std::string name;
  Tensor tensor;
};

// Inputs are declared without sizes where `dynamic`: shapes are then known only when a program is built.
void Compare(std::vector<Node> nodes, const std::vector<Given>& inputs, std::vector<StoredTensor> constants,
             std::vector<std::string> outputs, double tolerance, const std::string& what) {
  std::vector<ValueInfo> infos, results;
  std::vector<NamedValue> named;
  std::vector<Value> values;
  for (const Given& input : inputs) {
    SymbolicShape shape;
    for (size_t axis = 0; axis < input.tensor.rank(); ++axis) shape.push_back(Dim::Named(Cat(input.name, axis)));
    infos.push_back(MakeInfo(input.name, input.tensor.dtype(), shape));
    named.emplace_back(input.name, input.tensor);
    values.push_back(input.tensor);
  }
  for (const std::string& name : outputs) results.push_back(MakeInfo(name));
  Model model = MakeModel(infos, std::move(nodes), results, std::move(constants));
  std::vector<Value> expected = EvaluateGraph(model.graph, values, RunServices{});
  std::vector<Value> first;
  for (int threads : {1, 3}) {
    std::vector<Value> got = Session::FromModel(model, {.threads = threads})->Run(named);
    for (size_t n = 0; n < got.size(); ++n) {
      const Tensor &a = expected[n].tensor(), &b = got[n].tensor();
      ASSERT_TRUE(a.shape() == b.shape()) << what << ToText(a.shape()) << ToText(b.shape());
      for (int64_t i = 0; i < a.size(); ++i) {
        float x = a.Data<float>()[i], y = b.Data<float>()[i];
        if (std::isnan(x) || std::isinf(x))
          ASSERT_TRUE(std::isnan(x) ? std::isnan(y) : x == y) << what << " at " << i << ": " << x << " " << y;
        else
          ASSERT_NEAR(x, y, tolerance * (1 + std::abs(static_cast<double>(x)))) << what << " at " << i;
      }
      if (threads > 1) {
        EXPECT_TRUE(Identical(first[n], got[n])) << what << ": threads change the result";
      }
    }
    first = std::move(got);
  }
}

Shape RandomShape(Random& random, size_t rank, int64_t most) {
  Shape shape;
  for (size_t i = 0; i < rank; ++i) shape.push_back(random.Int(1, most));
  return shape;
}

// NaN, infinities and zeros among the rest.
Tensor WithOddities(Random& random, Shape shape) {
  Tensor tensor = random.Floats(std::move(shape));
  const float odd[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-42f};
  for (int64_t i = 0; i < tensor.size(); ++i)
    if (random.Int(0, 30) == 0) tensor.MutableData<float>()[i] = odd[random.Int(0, 5)];
  return tensor;
}

TEST(CpuKernels, ArithmeticBroadcasts) {
  Random random(11);
  for (int trial = 0; trial < 300; ++trial) {
    size_t rank = static_cast<size_t>(random.Int(0, 4));
    Shape a = RandomShape(random, rank, trial % 10 ? 9 : 40), b = a;
    for (size_t axis = 0; axis < rank; ++axis) {
      if (random.Int(0, 3) == 0) a[axis] = 1;
      if (random.Int(0, 3) == 0) b[axis] = 1;
    }
    Shape shorter;
    for (size_t axis = static_cast<size_t>(random.Int(0, static_cast<int64_t>(rank))); axis < rank; ++axis)
      shorter.push_back(b[axis]);
    const char* ops[] = {"Add", "Sub", "Mul", "Div", "Max", "Min", "Sum"};
    const char* op = ops[random.Int(0, 6)];
    Tensor x = WithOddities(random, a), y = WithOddities(random, shorter);
    if (random.Bool()) std::swap(x, y);
    Compare({MakeNode(op, {"a", "b"}, {"y"})}, {{"a", x}, {"b", y}}, {}, {"y"}, 1e-6, op);
  }
}

TEST(CpuKernels, FunctionsOfOneNumber) {
  Random random(12);
  const char* ops[] = {"Neg", "Abs", "Sqrt", "Reciprocal", "Log", "Floor", "Ceil", "Relu", "LeakyRelu"};
  for (int trial = 0; trial < 100; ++trial)
    for (const char* op : ops) {
      Tensor x = WithOddities(random, RandomShape(random, 2, 30));
      Compare({MakeNode(op, {"x"}, {"y"})}, {{"x", x}}, {}, {"y"}, 1e-6, op);
    }
  for (float exponent : {2.0f, 3.0f, -1.0f, 0.5f, 1.7f}) {
    Tensor x = WithOddities(random, {7, 13});
    Compare({MakeNode("Pow", {"x", "e"}, {"y"})}, {{"x", x}}, {MakeStored("e", Tensor::Scalar(exponent))}, {"y"}, 1e-6,
            Cat("Pow ", exponent));
  }
  for (int bounds = 0; bounds < 4; ++bounds) {
    std::vector<std::string> inputs = {"x", bounds & 1 ? "low" : "", bounds & 2 ? "high" : ""};
    Compare({MakeNode("Clip", inputs, {"y"})}, {{"x", WithOddities(random, {5, 31})}},
            {MakeStored("low", Tensor::Scalar(-0.3f)), MakeStored("high", Tensor::Scalar(0.4f))}, {"y"}, 0, "Clip");
  }
}

TEST(CpuKernels, LogIsWithinTwoUlps) {
  Tensor x(DType::kFloat, {400000});
  Random random(13);
  for (int64_t i = 0; i < x.size(); ++i)
    x.MutableData<float>()[i] = std::exp(static_cast<float>(random.Real()) * (i % 2 ? 87.0f : 0.7f));
  Model model = MakeModel({MakeInfo("x", DType::kFloat, {400000})}, {MakeNode("Log", {"x"}, {"y"})}, {MakeInfo("y")});
  std::vector<NamedValue> inputs = {{"x", x}};
  Value y = Session::FromModel(model, {.threads = 1})->Run(inputs)[0];
  for (int64_t i = 0; i < x.size(); ++i) {
    double exact = std::log(static_cast<double>(x.Data<float>()[i]));
    float rounded = static_cast<float>(exact), next = std::nextafter(std::abs(rounded), INFINITY);
    double ulp = static_cast<double>(next) - std::abs(static_cast<double>(rounded));
    ASSERT_LE(std::abs(static_cast<double>(y.tensor().Data<float>()[i]) - exact), 2 * ulp) << x.Data<float>()[i];
  }
}

TEST(CpuKernels, Reductions) {
  Random random(14);
  const char* ops[] = {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"};
  for (int trial = 0; trial < 400; ++trial) {
    size_t rank = static_cast<size_t>(random.Int(1, 4));
    Shape shape = RandomShape(random, rank, trial % 7 ? 8 : 30);
    std::vector<int64_t> axes;
    for (size_t axis = 0; axis < rank; ++axis)
      if (random.Bool()) axes.push_back(static_cast<int64_t>(axis) - (random.Bool() ? static_cast<int64_t>(rank) : 0));
    const char* op = ops[random.Int(0, 3)];
    bool extreme = op[6] == 'M' && op[7] != 'e';
    Tensor x = extreme ? WithOddities(random, shape) : random.Floats(shape);
    Compare({MakeNode(op, {"x", "axes"}, {"y"}, {{"keepdims", random.Int(0, 1)}})}, {{"x", x}},
            {MakeStored("axes", Tensor::FromVector(axes))}, {"y"}, 2e-6, Cat(op, " of ", ToText(shape)));
  }
}

TEST(CpuKernels, LongSumsStayExact) {
  Tensor x(DType::kFloat, {3, 1 << 20});
  for (int64_t i = 0; i < x.size(); ++i) x.MutableData<float>()[i] = 0.1f;
  Compare({MakeNode("ReduceSum", {"x", "axes"}, {"y"})}, {{"x", x}},
          {MakeStored("axes", Tensor::FromVector<int64_t>({1}))}, {"y"}, 1e-6, "a long sum");
}

TEST(CpuKernels, NormalizedGroupsAreAsInDouble) {
  Random random(18);
  for (int trial = 0; trial < 40; ++trial) {
    int64_t groups = random.Int(1, 4), per_group = random.Int(1, 3), size = random.Int(1, trial % 4 ? 40 : 3000);
    int64_t channels = groups * per_group, count = per_group * size;
    Tensor x = random.Floats({2, channels, size}), scale = random.Floats({channels}), bias = random.Floats({channels});
    for (int64_t i = 0; i < x.size(); ++i) x.MutableData<float>()[i] += 5;
    Node node = per_group == 1 ? MakeNode("InstanceNormalization", {"x", "s", "b"}, {"y"})
                               : MakeNode("GroupNormalization", {"x", "s", "b"}, {"y"}, {{"num_groups", groups}});
    Model model = MakeModel({MakeInfo("x", DType::kFloat, {2, channels, size})}, {node}, {MakeInfo("y")},
                            {MakeStored("s", scale), MakeStored("b", bias)});
    std::vector<NamedValue> inputs = {{"x", x}};
    Value got = Session::FromModel(model, {.threads = 1})->Run(inputs)[0];
    for (int64_t group = 0; group < 2 * groups; ++group) {
      const float* from = x.Data<float>() + group * count;
      double mean = 0, variance = 0;
      for (int64_t i = 0; i < count; ++i) mean += from[i] / static_cast<double>(count);
      for (int64_t i = 0; i < count; ++i) variance += (from[i] - mean) * (from[i] - mean) / static_cast<double>(count);
      for (int64_t i = 0; i < count; ++i) {
        int64_t channel = group % groups * per_group + i / size;
        double exact = (from[i] - mean) / std::sqrt(variance + 1e-5) * scale.Data<float>()[channel];
        exact += bias.Data<float>()[channel];
        ASSERT_NEAR(got.tensor().Data<float>()[group * count + i], exact, 1e-4) << trial;
      }
    }
  }
}

TEST(CpuKernels, Lstm) {
  Random random(15);
  for (int trial = 0; trial < 60; ++trial) {
    int64_t steps = random.Int(1, 9), batch = random.Int(1, 5), inputs = random.Int(1, 40), hidden = random.Int(1, 40);
    const char* directions[] = {"forward", "reverse", "bidirectional"};
    std::string direction = directions[random.Int(0, 2)];
    int64_t count = direction == "bidirectional" ? 2 : 1;
    std::vector<StoredTensor> constants = {MakeStored("w", random.Floats({count, 4 * hidden, inputs})),
                                           MakeStored("r", random.Floats({count, 4 * hidden, hidden}))};
    std::vector<std::string> names = {"x", "w", "r", "", "", "", ""};
    std::vector<Given> given = {{"x", random.Floats({steps, batch, inputs})}};
    if (random.Bool()) {
      names[3] = "b";
      constants.push_back(MakeStored("b", random.Floats({count, 8 * hidden})));
    }
    if (random.Bool()) {
      names[5] = "h";
      names[6] = "c";
      given.push_back({"h", random.Floats({count, batch, hidden})});
      given.push_back({"c", random.Floats({count, batch, hidden})});
    }
    Compare({MakeNode("LSTM", names, {"y", "last_h", "last_c"}, {{"direction", direction}, {"hidden_size", hidden}})},
            given, constants, {"y", "last_h", "last_c"}, 2e-5, Cat("LSTM ", trial));
  }
}

TEST(CpuKernels, TransposedConvolution) {
  Random random(16);
  for (int trial = 0; trial < 120; ++trial) {
    auto spatial = static_cast<size_t>(random.Int(1, trial % 5 ? 2 : 3));
    int64_t groups = random.Int(0, 3) ? 1 : random.Int(1, 3), channels = groups * random.Int(1, 20);
    Shape x = {random.Int(1, 2), channels}, w = {channels, random.Int(1, 20)};
    std::vector<int64_t> strides, dilations, pads(2 * spatial), more;
    for (size_t i = 0; i < spatial; ++i) {
      int64_t kernel = random.Int(1, 4);
      x.push_back(random.Int(2, 7));
      w.push_back(kernel);
      strides.push_back(random.Int(1, 3));
      dilations.push_back(random.Int(0, 3) ? 1 : 2);
      pads[i] = random.Int(0, std::min<int64_t>(kernel - 1, 1));
      pads[spatial + i] = random.Int(0, std::min<int64_t>(kernel - 1, 1));
      more.push_back(random.Int(0, strides.back() - 1));
    }
    std::vector<StoredTensor> constants = {MakeStored("w", random.Floats(w)),
                                           MakeStored("b", random.Floats({w[1] * groups}))};
    std::vector<std::string> inputs = {"x", "w"};
    if (random.Bool()) inputs.push_back("b");
    Node conv = MakeNode(
        "ConvTranspose", inputs, {"c"},
        {{"strides", strides}, {"dilations", dilations}, {"pads", pads}, {"output_padding", more}, {"group", groups}});
    Node after = MakeNode(random.Bool() ? "Relu" : "Sigmoid", {"c"}, {"y"});
    Compare({conv, after}, {{"x", random.Floats(x)}}, constants, {"y"}, 2e-5,
            Cat("ConvTranspose ", ToText(x), " ", ToText(w)));
  }
}

TEST(CpuKernels, ResizedBetweenConvolutions) {
  Random random(17);
  const char* modes[] = {"nearest", "linear"};
  const char* places[] = {"asymmetric", "half_pixel", "align_corners"};
  for (int trial = 0; trial < 60; ++trial) {
    int64_t channels = random.Int(1, 20);
    Shape x = {random.Int(1, 2), channels, random.Int(2, 6), random.Int(2, 6)};
    Node resize = MakeNode("Resize", {"c", "", "scales"}, {"r"},
                           {{"mode", std::string(modes[random.Int(0, 1)])},
                            {"nearest_mode", std::string("floor")},
                            {"coordinate_transformation_mode", std::string(places[random.Int(0, 2)])}});
    std::vector<float> scales = {1, 1, static_cast<float>(random.Int(1, 5)) / 2,
                                 static_cast<float>(random.Int(1, 5)) / 2};
    if (random.Bool()) {
      resize.Set("axes", std::vector<int64_t>{-1, 2});
      scales = {scales[3], scales[2]};
    }
    Compare(
        {MakeNode("Conv", {"x", "w"}, {"c"}), resize, MakeNode("Conv", {"r", "w"}, {"y"})}, {{"x", random.Floats(x)}},
        {MakeStored("w", random.Floats({channels, channels, 1, 1})), MakeStored("scales", Tensor::FromVector(scales))},
        {"y"}, 2e-5, Cat("Resize ", trial));
  }
}

// In the first run, which packs on the way, and in those after it.
TEST(CpuKernels, ProductsWithFactorsOfColumnsAndASum) {
  Random random(31);
  for (int64_t rows : {1, 7, 241, 700}) {
    const int64_t depth = 9 + rows % 5, columns = 3 + rows % 50;
    Model model = MakeModel(
        {MakeInfo("x", DType::kFloat, {Dim::Named("rows"), depth})},
        {MakeNode("MatMul", {"x", "v"}, {"q"}), MakeNode("Relu", {"q"}, {"r"}), MakeNode("MatMul", {"x", "w"}, {"p"}),
         MakeNode("Mul", {"p", "f"}, {"m"}), MakeNode("Add", {"r", "m"}, {"y"})},
        {MakeInfo("y")},
        {MakeStored("v", random.Numbers<float>({depth, columns})),
         MakeStored("w", random.Numbers<float>({depth, columns})),
         MakeStored("f", random.Numbers<float>({1, columns}))});
    const std::vector<Value> inputs = {random.Numbers<float>({rows, depth})};
    const std::vector<NamedValue> named = {{"x", inputs[0]}};
    const Tensor expected = EvaluateGraph(model.graph, inputs, RunServices{})[0].tensor();
    for (int threads : {1, 3}) {
      auto session = Session::FromModel(model, {.threads = threads});
      for (int run = 0; run < 3; ++run) {
        const Tensor got = session->Run(named)[0].tensor();
        ASSERT_TRUE(got.shape() == expected.shape());
        for (int64_t i = 0; i < got.size(); ++i)
          ASSERT_NEAR(got.Data<float>()[i], expected.Data<float>()[i], 1e-4) << rows << " rows, run " << run;
      }
    }
  }
}

}  // namespace
}  // namespace ferry
