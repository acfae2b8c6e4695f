// The first run of a session packs weights on the way and forgets them; later ones keep them. Nobody sees it but by the
// memory.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <thread>

#include "engine/session.h"
#include "onnx/writer.h"
#include "ops/support/widen.h"
#include "tensor/alignment.h"
#include "tests/support/graphs.h"
#include "tests/support/random_tensors.h"
#include "tests/support/temporary_folder.h"

namespace ferry {
namespace {

using namespace ::ferry::testing;

struct Given {
  Model model;
  std::vector<NamedValue> inputs;
  std::string text;
};

void ExpectSameEachTime(const Session& session, const Given& given, const Tensor& expected) {
  for (int run = 0; run < 3; ++run)
    EXPECT_TRUE(Identical(session.Run(given.inputs)[0].tensor(), expected)) << "run " << run << " of " << given.text;
}

void ExpectSameEachTime(const Given& given) {
  auto session = Session::FromModel(given.model, {.threads = 1});
  session->Run(given.inputs);
  const Tensor expected = session->Run(given.inputs)[0].tensor();
  for (int threads : {1, 2, 5})
    ExpectSameEachTime(*Session::FromModel(given.model, {.threads = threads}), given, expected);
}

Given Finish(Random& random, const Tensor& x, std::vector<Node> nodes, std::vector<StoredTensor> weights) {
  const char* activations[] = {"Identity", "Relu", "Gelu", "Sigmoid"};
  nodes.push_back(MakeNode(activations[random.Int(0, 3)], {"c"}, {"y"}));
  std::string text = Cat(x.shape(), " ", weights[0].tensor.shape(), " ", nodes[0].op_type, nodes.back().op_type);
  Model model = MakeModel({MakeInfo("x", DType::kFloat, ToSymbolic(x.shape()))}, std::move(nodes), {MakeInfo("y")},
                          std::move(weights));
  return {std::move(model), {{"x", x}}, std::move(text)};
}

Given RandomProduct(Random& random) {
  const int64_t rows = random.Int(0, 3) == 0 ? 1 : random.Int(1, 300),
                depth = random.Int(1, 8) == 1 ? 2000 : random.Int(1, 300);
  const int64_t columns = random.Int(1, 400);
  if (random.Bool()) {
    Shape shape = random.Bool() ? Shape{rows, depth} : Shape{random.Int(1, 3), rows, depth};
    return Finish(random, random.Floats(shape),
                  {MakeNode("MatMul", {"x", "w"}, {"p"}), MakeNode("Add", {"p", "b"}, {"c"})},
                  {MakeStored("w", random.Floats({depth, columns})), MakeStored("b", random.Floats({columns}))});
  }
  const int64_t trans_a = random.Int(0, 1), trans_b = random.Int(0, 1);
  return Finish(random, random.Floats(trans_a ? Shape{depth, rows} : Shape{rows, depth}),
                {MakeNode("Gemm", {"x", "w", "b"}, {"c"}, {{"transA", trans_a}, {"transB", trans_b}})},
                {MakeStored("w", random.Floats(trans_b ? Shape{columns, depth} : Shape{depth, columns})),
                 MakeStored("b", random.Floats({columns}))});
}

TEST(FirstRun, GivesTheBitsOfLaterProducts) {
  Random random(1);
  for (int round = 0; round < 60; ++round) ExpectSameEachTime(RandomProduct(random));
}

TEST(FirstRun, GivesTheBitsOfLaterProductsOfBytes) {
  Random random(6);
  for (int round = 0; round < 40; ++round) {
    const int64_t rows = random.Int(1, 300), depth = random.Int(1, 5) == 1 ? 2000 : random.Int(1, 300),
                  columns = random.Int(1, 400);
    auto bytes = [&](Shape shape, bool is_signed) {
      return is_signed ? random.Numbers<int8_t>(shape) : random.Numbers<uint8_t>(shape);
    };
    const bool x_signed = random.Bool(), w_signed = random.Bool();
    Tensor x = bytes({rows, depth}, x_signed), w = bytes({depth, columns}, w_signed);
    ExpectSameEachTime(
        {MakeModel({MakeInfo("x", x.dtype(), ToSymbolic(x.shape()))},
                   {MakeNode("MatMulInteger", {"x", "w", "x0", "w0"}, {"y"})}, {MakeInfo("y", DType::kInt32)},
                   {MakeStored("w", w), MakeStored("x0", bytes({}, x_signed)),
                    MakeStored("w0", bytes({random.Bool() ? columns : 1}, w_signed))}),
         {{"x", x}},
         Cat(x.shape(), " ", w.shape())});
  }
}

// 1×1, strided and dilated windows over few and many pixels, and 3×3 ones that take Winograd's algorithm.
TEST(FirstRun, GivesTheBitsOfLaterConvolutions) {
  Random random(2);
  for (int round = 0; round < 60; ++round) {
    const int64_t kernel = round % 3 == 0 ? 1 : 3, stride = round % 3 == 1 ? 2 : 1,
                  dilation = random.Int(0, 4) == 0 ? 2 : 1;
    const int64_t channels = random.Int(9, 150), features = random.Int(1, 150), size = random.Int(5, 24);
    const int64_t pad = kernel / 2;
    Tensor x = random.Floats({random.Int(1, 2), channels, size, random.Int(5, 24)});
    ExpectSameEachTime(Finish(random, x,
                              {MakeNode("Conv", {"x", "w", "b"}, {"c"},
                                        {{"strides", std::vector<int64_t>{stride, stride}},
                                         {"dilations", std::vector<int64_t>{dilation, dilation}},
                                         {"pads", std::vector<int64_t>{pad, pad, pad, pad}}})},
                              {MakeStored("w", random.Floats({features, channels, kernel, kernel})),
                               MakeStored("b", random.Floats({features}))}));
  }
}

// Windows of bytes: as products, some of them of more weights than are packed at a time, by Winograd's algorithm, in
// groups, and channel by channel.
TEST(FirstRun, GivesTheBitsOfLaterConvolutionsOfBytes) {
  Random random(7);
  for (int round = 0; round < 40; ++round) {
    const int64_t kernel = round % 2 == 0 ? 3 : 1, stride = round % 5 == 1 ? 2 : 1, unit = round % 3 == 0 ? 16 : 1;
    const int64_t groups = round % 8 == 7 ? 3 : 1;
    const int64_t channels = groups * unit * random.Int(1, 160 / unit);
    const int64_t features = round % 10 == 3 ? 4002 : groups * unit * random.Int(1, 160 / unit);
    const int64_t pad = kernel / 2, size = random.Int(5, 20);
    const bool depthwise = round % 13 == 12;
    Tensor x = random.Numbers<uint8_t>({random.Int(1, 2), channels, size, random.Int(5, 20)});
    Tensor w =
        random.Numbers<int8_t>({depthwise ? channels : features, depthwise ? 1 : channels / groups, kernel, kernel});
    auto scalar = [](const char* name, auto value) { return MakeStored(name, Tensor::Scalar(value)); };
    ExpectSameEachTime(
        {MakeModel({MakeInfo("x", DType::kUInt8, ToSymbolic(x.shape()))},
                   {MakeNode("QLinearConv", {"x", "xs", "x0", "w", "ws", "w0", "ys", "y0"}, {"y"},
                             {{"strides", std::vector<int64_t>{stride, stride}},
                              {"group", depthwise ? channels : groups},
                              {"pads", std::vector<int64_t>{pad, pad, pad, pad}}})},
                   {MakeInfo("y", DType::kUInt8)},
                   {scalar("xs", 0.02f), scalar("x0", static_cast<uint8_t>(random.Int(0, 255))), MakeStored("w", w),
                    scalar("ws", 0.01f), scalar("w0", int8_t{0}), scalar("ys", 5.0f), scalar("y0", uint8_t{128})}),
         {{"x", x}},
         Cat(x.shape(), " ", w.shape(), " stride ", stride, " in ", groups, " groups")});
  }
}

// Weights begin at any byte of a model's file, or lie in a file beside it.
TEST(FirstRun, ReadsWeightsWhereverTheyLie) {
  Random random(3);
  TemporaryFolder folder;
  for (int shift = 0; shift < 4; ++shift) {
    Given given = RandomProduct(random);
    auto session = Session::FromModel(given.model, {.threads = 1});
    const Tensor expected = session->Run(given.inputs)[0].tensor();
    given.model.graph.name = std::string(static_cast<size_t>(shift), 'n');
    const std::string inside = (folder / Cat("inside", shift, ".onnx")).string();
    WriteModel(given.model, inside);
    ExpectSameEachTime(*Session::Open(inside, {.threads = 2}), given, expected);
    const std::string outside = (folder / Cat("outside", shift, ".onnx")).string();
    WriteModel(given.model, outside, {.external = WriteOptions::External::kAlways, .smallest_external = 0});
    ExpectSameEachTime(*Session::Open(outside, {.threads = 2}), given, expected);
  }
}

// A network of every way in which weights are packed, folded or copied.
Given EveryReader(Random& random) {
  const Shape image = {1, 3, 21, 23};
  std::vector<StoredTensor> weights;
  auto weight = [&](const std::string& name, Shape shape) {
    weights.push_back(MakeStored(name, random.Floats(std::move(shape))));
    return name;
  };
  std::vector<Node> nodes;
  auto add = [&](const char* op, std::vector<std::string> inputs, std::vector<Attribute> attributes = {}) {
    nodes.push_back(MakeNode(op, std::move(inputs), {Cat("v", nodes.size())}, std::move(attributes)));
    return nodes.back().outputs[0];
  };
  auto window = [](int64_t pad, int64_t groups, int64_t stride = 1) {
    return std::vector<Attribute>{
        {"pads", std::vector<int64_t>(4, pad)}, {"strides", std::vector<int64_t>{stride, stride}}, {"group", groups}};
  };
  std::string v = add("Conv", {"x", weight("first", {48, 3, 3, 3})}, window(1, 1, 2));
  v = add("Relu", {add("Conv", {v, weight("three", {64, 48, 3, 3})}, window(1, 1))});
  v = add("Conv", {v, weight("normalized", {48, 64, 1, 1})}, window(0, 1));
  v = add("BatchNormalization", {v, weight("scale", {48}), weight("shift", {48}), weight("mean", {48}), "variance"});
  weights.push_back(MakeStored("variance", Tensor::FromVector(std::vector<float>(48, 0.5f))));
  v = add("Mul",
          {add("Conv", {v, weight("scaled", {1200, 48, 1, 1})}, window(0, 1)), weight("factor", {1, 1200, 1, 1})});
  v = add("Conv", {v, weight("depthwise", {1200, 1, 3, 3})}, window(1, 1200));
  v = add("Conv", {v, weight("grouped", {1200, 8, 3, 3})}, window(1, 150));
  v = add("Flatten", {add("GlobalAveragePool", {v})});
  v = add("MatMul", {v, weight("product", {1200, 67})});
  v = add("Gemm", {v, weight("turned", {200, 67})}, {{"transB", int64_t{1}}});
  v = add("Add", {v, add("MatMul", {weight("known", {1, 67}), weight("folded", {67, 200})})});
  v = add("Add", {v, add("Gather", {weight("table", {200, 200}), add("ArgMax", {v}, {{"axis", int64_t{1}}})})});
  v = add("MatMul", {v, weight("twice", {200, 200})});
  nodes.push_back(MakeNode("Add", {v, "twice"}, {"y"}));  // where it lies, too
  Model model = MakeModel({MakeInfo("x", DType::kFloat, ToSymbolic(image))}, std::move(nodes), {MakeInfo("y")},
                          std::move(weights));
  return {std::move(model), {{"x", random.Floats(image)}}, "every reader"};
}

TEST(FirstRun, SoItIsWithHalves) {
  Random random(9);
  TemporaryFolder folder;
  Given given = EveryReader(random);
  for (auto* infos : {&given.model.graph.inputs, &given.model.graph.outputs})
    for (ValueInfo& info : *infos) info.type.dtype = DType::kFloat16;
  for (StoredTensor& stored : given.model.graph.initializers)
    stored = MakeStored(stored.name, NarrowFromFloat(stored.tensor, DType::kFloat16));
  given.inputs[0].second = NarrowFromFloat(given.inputs[0].second.tensor(), DType::kFloat16);
  const Tensor expected = Session::FromModel(given.model, {.threads = 1})->Run(given.inputs)[0].tensor();
  for (int shift = 0; shift < 2; ++shift) {
    given.model.graph.name = std::string(static_cast<size_t>(shift), 'n');
    const std::string path = (folder / Cat("inside", shift, ".onnx")).string();
    WriteModel(given.model, path);
    const std::string cache = (folder / "cache").string();
    for (const std::string& kept : {std::string(), cache, cache})
      ExpectSameEachTime(*Session::Open(path, {.threads = 2, .cache_folder = kept}), given, expected);
  }
}

TEST(FirstRun, EveryOperatorReadsWeightsWhereverTheyLie) {
  Random random(9);
  TemporaryFolder folder;
  Given given = EveryReader(random);
  const Tensor expected = Session::FromModel(given.model, {.threads = 1})->Run(given.inputs)[0].tensor();
  for (int shift = 0; shift < 4; ++shift) {
    given.model.graph.name = std::string(static_cast<size_t>(shift), 'n');
    const std::string path = (folder / Cat("inside", shift, ".onnx")).string();
    WriteModel(given.model, path);
    ExpectSameEachTime(*Session::Open(path, {.threads = 2}), given, expected);
    const std::string cache = (folder / "cache").string();
    for (int start = 0; start < 2; ++start)
      ExpectSameEachTime(*Session::Open(path, {.threads = 1, .cache_folder = cache}), given, expected);
    auto plain = Session::Open(path, {.threads = 1, .optimize = false});
    const Tensor unoptimized = plain->Run(given.inputs)[0].tensor();
    ASSERT_EQ(unoptimized.shape(), expected.shape());
    double largest = 0, difference = 0;
    for (int64_t i = 0; i < expected.size(); ++i) {
      const double value = expected.Data<float>()[i];
      largest = std::max(largest, std::abs(value));
      difference = std::max(difference, std::abs(value - double{unoptimized.Data<float>()[i]}));
    }
    EXPECT_LT(difference, 1e-4 * largest) << "shifted by " << shift;
  }
}

TEST(FirstRun, WeightsThatLieAnywhereCanBeAskedFor) {
  Random random(10);
  TemporaryFolder folder;
  for (int shift = 0; shift < 4; ++shift) {
    const Tensor w = random.Floats({40, 50});
    Model model = MakeModel({MakeInfo("x", DType::kFloat, ToSymbolic(Shape{2, 40}))},
                            {MakeNode("MatMul", {"x", "w"}, {"y"})}, {MakeInfo("y")}, {MakeStored("w", w)});
    model.graph.name = std::string(static_cast<size_t>(shift), 'n');
    const std::string path = (folder / Cat("asked", shift, ".onnx")).string();
    WriteModel(model, path);
    const std::vector<NamedValue> inputs = {{"x", random.Floats({2, 40})}};
    const std::vector<std::string> outputs = {"y", "w"};
    const Tensor given = Session::Open(path, {.threads = 1})->Run(inputs, outputs)[1].tensor();
    EXPECT_TRUE(IsReadable(given));
    EXPECT_TRUE(Identical(given, w));
  }
}

// More than is read from the file at a time before its pages are given back.
TEST(FirstRun, PacksALargeMatrixPieceByPiece) {
  Random random(8);
  TemporaryFolder folder;
  const Given given =
      Finish(random, random.Floats({3, 1001}), {MakeNode("Gemm", {"x", "w", "b"}, {"c"}, {{"transB", int64_t{1}}})},
             {MakeStored("w", random.Floats({2345, 1001})), MakeStored("b", random.Floats({2345}))});
  auto reference = Session::FromModel(given.model, {.threads = 1, .optimize = false});
  const Tensor expected = reference->Run(given.inputs)[0].tensor();
  const std::string path = (folder / "large.onnx").string();
  WriteModel(given.model, path, {.external = WriteOptions::External::kAlways});
  auto session = Session::Open(path, {.threads = 2});
  const Tensor first = session->Run(given.inputs)[0].tensor();
  ASSERT_EQ(first.shape(), expected.shape());
  for (int64_t i = 0; i < first.size(); ++i)
    ASSERT_NEAR(first.Data<float>()[i], expected.Data<float>()[i], 1e-3) << "element " << i;
  ExpectSameEachTime(*session, given, first);
}

TEST(FirstRun, MayMeetOtherRuns) {
  Random random(4);
  for (int round = 0; round < 10; ++round) {
    const Given given = RandomProduct(random);
    auto reference = Session::FromModel(given.model, {.threads = 1});
    const Tensor expected = reference->Run(given.inputs)[0].tensor();
    auto session = Session::FromModel(given.model, {.threads = 2});
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&] { ExpectSameEachTime(*session, given, expected); });
    for (std::thread& thread : threads) thread.join();
  }
}

int64_t OwnMegabytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (int64_t found = 0; word == "RssAnon:" && status >> found) return found / 1024;
  return 0;
}

TEST(FirstRun, NeedsNoMemoryForWeights) {
  constexpr int64_t kDepth = 2048, kColumns = 8192, kMegabytes = kDepth * kColumns * 4 >> 20;
  Random random(5);
  Given given{
      MakeModel({MakeInfo("x", DType::kFloat, ToSymbolic(Shape{8, kDepth}))}, {MakeNode("MatMul", {"x", "w"}, {"y"})},
                {MakeInfo("y")}, {MakeStored("w", Tensor::Zeros(DType::kFloat, {kDepth, kColumns}))}),
      {{"x", random.Floats({8, kDepth})}},
      ""};
  auto session = Session::FromModel(given.model, {.threads = 1});
  const int64_t before = OwnMegabytes();
  if (before == 0) GTEST_SKIP() << "the system does not say what memory is in use";
  session->Run(given.inputs);
  EXPECT_LT(OwnMegabytes() - before, kMegabytes / 4);
  session->Run(given.inputs);
  EXPECT_GT(OwnMegabytes() - before, kMegabytes * 3 / 4) << "the second run keeps packed weights";
}

}  // namespace
}  // namespace ferry
