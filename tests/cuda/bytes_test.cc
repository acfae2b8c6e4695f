// Quantised networks on the device against the CPU: the same bits, whatever the shape of the tiles.
#include "engine/session.h"
#include "gmock/gmock.h"
#include "measure/plan_summary.h"
#include "ops/support/fused.h"
#include "providers/cuda/byte_convolution.h"
#include "tests/cuda/device_test.h"
#include "tests/passes/qdq_graphs.h"

namespace ferry::cuda {
namespace {

using testing::QdqBuilder;

struct WindowCase {
  Shape x;  // channels first
  int64_t features, kernel, stride, pad, dilation;
  DType type;
  int32_t zero;
  bool whole_bias, has_other, is_float;
  int32_t y_zero = 11, low = 3, sum_low = 20;
};

const WindowCase kWindowCases[] = {
    {{2, 64, 9, 7}, 48, 3, 1, 1, 1, DType::kUInt8, 0, true, true, false},
    {{1, 32, 14, 14}, 130, 1, 1, 0, 1, DType::kUInt8, 100, true, false, false},
    {{2, 24, 11, 13}, 33, 3, 2, 1, 1, DType::kInt8, -7, false, true, false},
    {{1, 20, 8, 8}, 16, 2, 1, 1, 2, DType::kInt8, 3, false, false, false},
    {{2, 3, 30, 29}, 64, 7, 2, 3, 1, DType::kUInt8, 114, true, false, false},
    {{1, 4, 9, 12}, 5, 3, 1, 1, 1, DType::kUInt8, 128, false, false, false},
    {{3, 13, 6, 6}, 21, 1, 1, 0, 1, DType::kInt8, 5, true, false, true},
    {{1, 700, 5, 5}, 40, 3, 1, 1, 1, DType::kUInt8, 1, true, true, false},
    {{3, 64, 10, 9}, 272, 1, 1, 0, 1, DType::kUInt8, 0, true, true, false, 11, 11, 0},
    {{2, 128, 9, 9}, 136, 3, 1, 1, 1, DType::kUInt8, 0, false, false, false, 7, 7},
    {{2, 256, 7, 7}, 512, 1, 1, 0, 1, DType::kUInt8, 9, true, false, false, 0, 0},
    {{1, 64, 12, 12}, 64, 1, 2, 0, 1, DType::kInt8, -128, true, true, false, 4, 0, 0},
};

Tensor RandomBytes(DType type, const Shape& shape, uint64_t seed) {
  testing::Random random(static_cast<uint32_t>(seed));
  Tensor bytes(type, shape);
  for (int64_t i = 0; i < bytes.size(); ++i) MutableBytesOf(bytes)[i] = static_cast<uint8_t>(random.Int(0, 255));
  return bytes;
}

Tensor ChannelsLast(const Tensor& x) {
  return testing::RunNode(testing::OneNode("Transpose", 1, {Attribute("perm", std::vector<int64_t>{0, 2, 3, 1})}),
                          {x})[0]
      .tensor();
}

class BytesOnDevice : public DeviceTest {
 protected:
  Tensor There(const Tensor& tensor) { return tensor.In(device().memory()); }

  // Every third tile, from `first` on: each has a kernel of its own to be compiled.
  void ExpectTiles(const WindowCase& test, uint64_t seed, int begin) {
    const int64_t channels = test.x[1];
    const Tensor w = RandomBytes(DType::kInt8, {test.features, channels, test.kernel, test.kernel}, seed);
    const bool first = channels < 4;
    const Tensor image = RandomBytes(test.type, test.x, seed + 1), x = first ? image : ChannelsLast(image);
    testing::Random random(static_cast<uint32_t>(seed));
    Tensor factor = random.Floats({test.features}),
           bias(test.whole_bias ? DType::kInt32 : DType::kFloat, {test.features});
    for (int64_t i = 0; i < test.features; ++i) {
      factor.MutableData<float>()[i] *= 2e-3f;
      if (test.whole_bias)
        bias.MutableData<int32_t>()[i] = static_cast<int32_t>(random.Int(-9000, 9000));
      else
        bias.MutableData<float>()[i] = static_cast<float>(random.Int(-900, 900)) / 64;
    }
    const std::vector<int64_t> twice_stride(2, test.stride), pads(4, test.pad), dilations(2, test.dilation);
    Node conv = testing::OneNode("QuantizedNhwcConv", 4,
                                 {Attribute("strides", twice_stride), Attribute("pads", pads),
                                  Attribute("dilations", dilations), Attribute("channels_first", int64_t{first})},
                                 kInternalDomain);
    const QuantizedStep step{test.is_float ? DType::kFloat : DType::kUInt8, test.zero, test.y_zero, test.low, 250};
    step.Write(conv);
    Tensor expected = testing::RunNode(conv, {x, w, factor, bias})[0].tensor();
    AfterBytes after(step);
    Tensor other;
    if (test.has_other) {
      other = RandomBytes(DType::kInt8, expected.shape(), seed + 2);
      Node add =
          testing::OneNode("QuantizedAdd", 2,
                           {Attribute("a_factor", 0.7f), Attribute("b_factor", 0.4f), Attribute("b_zero", int64_t{11})},
                           kInternalDomain);
      QuantizedStep{DType::kUInt8, -3, 20, test.sum_low, 255}.Write(add);
      expected = testing::RunNode(add, {other, expected})[0].tensor();
      after.AddOther(add, DType::kInt8, true);
    }
    const NhwcConvPlan plan = PlanNhwcConv(conv, x.shape(), w.shape());
    ByteWindows windows{plan.conv.batch, channels, test.features, {plan.axes[1], plan.axes[2]}, first};
    ASSERT_TRUE(CanConvolveBytes(windows));
    const ByteFilter filter = PackByteFilter(device(), windows, w);
    const Tensor x_there = There(x), factor_there = There(factor), bias_there = There(bias);
    const Tensor other_there = test.has_other ? There(other) : Tensor();
    for (int tile = begin; tile < ByteTiles(); tile += 3) {
      if (tile >= 0 && !HasByteTile(device(), tile)) continue;
      Tensor y = Poisoned(expected.dtype(), expected.shape());
      ByteOperands operands{x_there.address(), &filter, factor_there.address()};
      (test.whole_bias ? operands.bias : operands.shift) = bias_there.address();
      if (test.has_other) operands.other = other_there.address();
      operands.y = y.address();
      ConvolveBytes(device(), windows, test.type, after, operands, tile < 0 ? std::nullopt : std::optional(tile));
      EXPECT_TRUE(Identical(y.In(HostMemory()), expected)) << "tile " << tile << " of " << ToText(test.x);
    }
  }
};

TEST_F(BytesOnDevice, EveryTileGivesTheSameBits) {
  uint64_t seed = 1;
  int begin = 0;
  for (const WindowCase& test : kWindowCases) ExpectTiles(test, seed += 10, begin++ % 4 - 1);
}

// A first layer, a pool, two convolutions with a sum, single channels, groups, a mean and a product, as quantisers
// write networks.
Model Network(uint32_t seed, DType type) {
  QdqBuilder b(seed);
  const int32_t zero = type == DType::kInt8 ? -128 : 0, middle = zero + 120;
  auto conv = [&](const std::string& x, Shape w, int64_t groups, int64_t stride, int64_t pad) {
    const int64_t depth = w.CountBetween(1, 4);
    return b.Add("Conv",
                 {x, b.Weight(w, 0, true, DType::kInt8, 0.02f / std::sqrt(static_cast<float>(depth))),
                  b.Constant(b.random.Floats({w[0]}))},
                 {Attribute("group", groups), Attribute("strides", std::vector<int64_t>{stride, stride}),
                  Attribute("pads", std::vector<int64_t>(4, pad))});
  };
  auto relu = [&](const std::string& x) { return b.Pair(b.Add("Relu", {x}), 0.02f, type, zero); };
  std::string x = b.Pair("x", 0.01f, type, middle);
  x = relu(conv(x, {32, 3, 7, 7}, 1, 2, 3));
  x = b.Pair(b.Add("MaxPool", {x},
                   {Attribute("kernel_shape", std::vector<int64_t>{3, 3}),
                    Attribute("strides", std::vector<int64_t>{2, 2}), Attribute("pads", std::vector<int64_t>(4, 1))}),
             0.02f, type, zero);
  const std::string shorter = b.Pair(conv(x, {48, 32, 1, 1}, 1, 1, 0), 0.03f, type, middle);
  std::string y = relu(conv(x, {32, 32, 3, 3}, 1, 1, 1));
  y = b.Pair(conv(y, {48, 32, 1, 1}, 1, 1, 0), 0.025f, type, middle);
  x = relu(b.Add("Add", {y, shorter}));
  x = relu(conv(x, {48, 1, 3, 3}, 48, 1, 1));
  x = relu(conv(x, {36, 16, 3, 3}, 3, 2, 1));
  x = b.Pair(b.Add("Sigmoid", {x}), 1.0f / 255, DType::kUInt8, 0);
  x = b.Pair(b.Add("GlobalAveragePool", {x}), 1.0f / 255, DType::kUInt8, 0);
  x = b.Add("Flatten", {x});
  x = b.Add("Gemm", {x, b.Weight({10, 36}, 0, true, DType::kInt8, 0.01f), b.Constant(b.random.Floats({10}))},
            {Attribute("transB", int64_t{1})});
  x = b.Pair(x, 0.02f, type, middle);
  b.nodes.push_back(testing::MakeNode("Identity", {x}, {"y"}));
  return b.Finish({testing::MakeInfo("x", DType::kFloat, {Dim::Named("n"), Dim(3), Dim(37), Dim(41)})},
                  {testing::MakeInfo("y")});
}

TEST(ByteSteps, RunOnTheDeviceAndTakeTheSumWithThem) {
  std::vector<std::string> algorithms;
  for (const PlannedStep& step :
       SummarizePlan(Network(1, DType::kUInt8), {{"n", 2}}, {.threads = 1, .provider = "cuda"}).steps) {
    EXPECT_TRUE(step.provider == "cuda" || step.op == "Copy") << step.op << " by " << step.provider;
    EXPECT_NE(step.op, "QuantizedAdd");
    EXPECT_NE(step.op, "Conv");
    algorithms.push_back(step.algorithm);
  }
  EXPECT_EQ(std::count(algorithms.begin(), algorithms.end(), "tensor cores, int8"), 5);
  EXPECT_EQ(std::count(algorithms.begin(), algorithms.end(), "depthwise, int8"), 1);
}

TEST_F(BytesOnDevice, NetworksAnswerAsTheCpu) {
  for (DType type : {DType::kUInt8, DType::kInt8})
    for (int64_t batch : {1, 5})
      for (const char* precision : {"float32", "fp16"}) {
        const Model model = Network(static_cast<uint32_t>(batch), type);
        const std::vector<NamedValue> inputs{{"x", RandomTensor(DType::kFloat, {batch, 3, 37, 41}, 3)}};
        const Tensor expected = Session::FromModel(model, {.threads = 1})->Run(inputs)[0].tensor();
        auto session = Session::FromModel(
            model, {.threads = 1,
                    .provider = "cuda",
                    .precision = precision == std::string("fp16") ? Precision::kFp16 : Precision::kFloat32});
        for (int run = 0; run < 3; ++run) {
          const Tensor made = session->Run(inputs)[0].tensor();
          if (precision == std::string("fp16"))
            ExpectClose(made, expected, "in fp16", 0.05);
          else
            EXPECT_TRUE(Identical(made, expected)) << ToText(type) << " at batch " << batch << ", run " << run;
        }
      }
}

}  // namespace
}  // namespace ferry::cuda
