// Quantized networks as the engine runs them against the graph as it is written.
#include "engine/session.h"
#include "tests/passes/qdq_graphs.h"

namespace ferry {
namespace {

using namespace ::ferry::testing;

void Compare(const Model& model, const Tensor& x, float step, const std::string& what) {
  std::vector<NamedValue> inputs{{"x", x}};
  auto expected = Session::FromModel(model, {.threads = 1, .optimize = false})->Run(inputs);
  auto fast = Session::FromModel(model, {.threads = 1})->Run(inputs);
  auto threaded = Session::FromModel(model, {.threads = 3})->Run(inputs);
  ExpectWithinOneStep(fast[0].tensor(), expected[0].tensor(), step, what);
  EXPECT_TRUE(Identical(fast[0].tensor(), threaded[0].tensor())) << what << ": threads change the result";
}

std::vector<int64_t> Repeat(Random& random, size_t count, int64_t low, int64_t high) {
  std::vector<int64_t> values;
  for (size_t i = 0; i < count; ++i) values.push_back(random.Int(low, high));
  return values;
}

// `plain`: 3×3 with stride 1, over an image of some size.
void RunConv(uint32_t seed, int64_t groups, int64_t group_channels, int64_t group_features, bool plain = false) {
  QdqBuilder b(seed);
  Random& random = b.random;
  size_t spatial = !plain && random.Int(0, 5) == 0 ? 1 : 2;
  std::vector<int64_t> kernel = Repeat(random, spatial, 1, 4), strides = Repeat(random, spatial, 1, 2),
                       dilations(spatial, random.Int(0, 4) == 0 ? 2 : 1), pads = Repeat(random, 2 * spatial, 0, 2);
  if (random.Bool()) kernel.assign(spatial, random.Bool() ? 3 : 1);
  if (kernel[0] == 1 && random.Bool()) strides.assign(spatial, 1), pads.assign(2 * spatial, 0);
  if (plain) kernel.assign(2, 3), strides.assign(2, 1), dilations.assign(2, 1);
  Shape x = {random.Int(1, 2), groups * group_channels}, w = {groups * group_features, group_channels};
  SymbolicShape symbolic = {Dim::Named("n"), Dim(x[1])};
  for (size_t i = 0; i < spatial; ++i) {
    w.push_back(kernel[i]);
    x.push_back((kernel[i] - 1) * dilations[i] + random.Int(plain ? 6 : 1, plain ? 30 : 9));
    symbolic.push_back(Dim(x.back()));
  }
  DType x_type = random.Bool() ? DType::kUInt8 : DType::kInt8, y_type = random.Bool() ? DType::kUInt8 : DType::kInt8;
  auto zero = [&](DType type) { return static_cast<int32_t>(random.Int(90, 160)) - (type == DType::kInt8 ? 128 : 0); };
  std::string in = b.Pair("x", 2.0f / 255, x_type, zero(x_type));
  std::vector<std::string> inputs = {in, b.Weight(w, 0, random.Bool(), DType::kInt8, 0.01f)};
  if (random.Bool()) inputs.push_back(b.Constant(random.Floats({w[0]})));
  std::string y = b.Add("Conv", inputs,
                        {Attribute("group", groups), Attribute("strides", strides), Attribute("dilations", dilations),
                         Attribute("pads", pads)});
  if (random.Bool()) y = b.Add("Relu", {y});
  float step = 0.01f * std::sqrt(static_cast<float>(group_channels * w.CountBetween(2, w.rank())));
  y = b.Pair(y, step, y_type, zero(y_type));
  b.nodes.push_back(MakeNode("Identity", {y}, {"y"}));
  Model model = b.Finish({MakeInfo("x", DType::kFloat, symbolic)}, {MakeInfo("y")});
  Compare(model, random.Floats(x), step, Cat("seed ", seed, ": x ", x, " w ", w, " in ", groups, " groups"));
}

TEST(Quantized, ConvolutionsOfRandomShapes) {
  std::mt19937 random(1);
  for (uint32_t seed = 0; seed < 400 && !HasFatalFailure(); ++seed)
    RunConv(seed, 1, 1 + random() % (seed % 3 == 0 ? 4 : 70), 1 + random() % 40);
}

TEST(Quantized, ConvolutionsByWinogradsAlgorithm) {
  for (uint32_t seed = 0; seed < 40 && !HasFatalFailure(); ++seed)
    RunConv(seed, 1, 16 * (1 + seed % 5), 16 * (1 + seed % 7), true);
}

TEST(Quantized, GroupedAndDepthwiseConvolutions) {
  std::mt19937 random(2);
  for (uint32_t seed = 0; seed < 300 && !HasFatalFailure(); ++seed)
    seed % 2 ? RunConv(seed, 1 + random() % 70, 1, 1)
             : RunConv(seed, 2 + random() % 3, 1 + random() % 20, 1 + random() % 20);
}

TEST(Quantized, DeepAndManyRows) {
  RunConv(1001, 1, 600, 33);
  RunConv(1002, 1, 1500, 7);
}

TEST(Quantized, IntegerProductsWithAnyZeroPoint) {
  std::mt19937 numbers(3);
  for (int round = 0; round < 100; ++round) {
    QdqBuilder b(static_cast<uint32_t>(round));
    int64_t rows = 1 + numbers() % 20, depth = 1 + numbers() % 60, columns = 1 + numbers() % 40;
    if (round % 25 == 24) rows = 0;
    if (round % 25 == 12) columns = 0;
    bool is_signed = round % 2, per_column = round % 3 == 0 && columns > 0;
    std::string q = b.Name("q"), scale = b.Name("s"), zero = b.Name("z");
    b.nodes.push_back(MakeNode("DynamicQuantizeLinear", {"x"}, {q, scale, zero}));
    Shape points = per_column ? Shape{columns} : Shape{};
    Tensor w = is_signed ? b.random.Numbers<int8_t>({depth, columns}) : b.random.Numbers<uint8_t>({depth, columns});
    Tensor w_zero = is_signed ? b.random.Numbers<int8_t>(points) : b.random.Numbers<uint8_t>(points);
    std::string y = b.Add("MatMulInteger", {q, b.Constant(w), zero, b.Constant(w_zero)});
    b.nodes.push_back(MakeNode("Cast", {y}, {"y"}, {Attribute("to", int64_t{1})}));
    Model model = b.Finish({MakeInfo("x", DType::kFloat, {Dim(rows), Dim(depth)})}, {MakeInfo("y")});
    Compare(model, b.random.Floats({rows, depth}), 0.0f, Cat(rows, "×", depth, "×", columns));
  }
}

}  // namespace
}  // namespace ferry
