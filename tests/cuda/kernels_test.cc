// The room's own kernels, cuBLASLt's products and cuDNN's convolutions against the operators on the CPU.
#include "providers/cuda/kernels.h"

#include "base/error.h"
#include "gmock/gmock.h"
#include "providers/cuda/choices.h"
#include "providers/cuda/compile.h"
#include "providers/cuda/convolution.h"
#include "providers/cuda/depthwise.h"
#include "providers/cuda/flash.h"
#include "providers/cuda/product.h"
#include "tests/cuda/device_test.h"

namespace ferry::cuda {
namespace {

using testing::OneNode;

TEST(KernelSources, CompileForEveryArchitecture) {
  if (!Nvrtc().report.usable()) GTEST_SKIP() << Nvrtc().report.WhatIsMissing();
  for (const KernelSource& source : AllKernelSources())
    for (int major : {8, 9, 10}) {
      if (source.only_major != 0 && source.only_major != major) continue;
      SCOPED_TRACE(source.name);
      EXPECT_GT(Compile(Cat(kPrelude, source.text), {major, 0}).size(), 1000u);
    }
}

constexpr DType kFloatTypes[] = {DType::kFloat, DType::kFloat16, DType::kBFloat16, DType::kDouble};

class KernelsOnDevice : public DeviceTest {
 protected:
  Tensor There(const Tensor& tensor) { return tensor.In(device().memory()); }
  Tensor Back(const Tensor& tensor) { return tensor.In(HostMemory()); }

  void ExpectTransposed(DType type, const Shape& shape, const std::vector<int64_t>& order) {
    Tensor x = RandomTensor(type, shape, 1);
    Tensor expected = Reference(OneNode("Transpose", 1, {Attribute("perm", order)}), {x});
    Walk walk{expected.shape().ToVector(), {}, expected.shape().Strides()};
    for (int64_t axis : order) walk.from.push_back(shape.Strides()[static_cast<size_t>(axis)]);
    Tensor y = Poisoned(type, expected.shape()), from = There(x);
    CopyWalk(device(), walk, static_cast<size_t>(BitWidth(type)) / 8, from.address(), y.address());
    EXPECT_TRUE(Identical(Back(y), expected)) << ToText(shape) << ToText(type);
  }
};

TEST_F(KernelsOnDevice, MoveElements) {
  for (DType type : {DType::kInt8, DType::kFloat16, DType::kFloat, DType::kInt64}) {
    ExpectTransposed(type, {3, 40, 70}, {0, 2, 1});
    ExpectTransposed(type, {70, 40}, {1, 0});
    ExpectTransposed(type, {2, 3, 5, 8}, {0, 2, 1, 3});
    ExpectTransposed(type, {2, 3, 4, 5, 6}, {4, 2, 0, 3, 1});
    ExpectTransposed(type, {2, 3}, {0, 1});
  }
}

TEST_F(KernelsOnDevice, GatherRows) {
  Tensor x = RandomTensor(DType::kFloat, {2, 9, 6}, 1);
  Tensor indices = Tensor::FromVector<int64_t>({8, 0, -1, 3, -9});
  Tensor expected = Reference(OneNode("Gather", 2, {Attribute("axis", int64_t{1})}), {x, indices});
  Tensor y = Poisoned(DType::kFloat, expected.shape()), from = There(x), which = There(indices);
  Gather(device(), from, 1, which, y);
  EXPECT_TRUE(Identical(Back(y), expected));
  Tensor outside = There(Tensor::FromVector<int64_t>({0, 1, 9, 2, 3}));
  Gather(device(), from, 1, outside, y);
  EXPECT_THROW(device().Synchronize(), Error);
  Gather(device(), from, 1, which, y);
  EXPECT_TRUE(Identical(Back(y), expected));
}

TEST_F(KernelsOnDevice, Reduce) {
  const std::pair<const char*, Reduction> reductions[] = {
      {"ReduceSum", Reduction::kSum},       {"ReduceMean", Reduction::kMean},
      {"ReduceMax", Reduction::kMax},       {"ReduceMin", Reduction::kMin},
      {"ReduceProd", Reduction::kProd},     {"ReduceL1", Reduction::kL1},
      {"ReduceL2", Reduction::kL2},         {"ReduceSumSquare", Reduction::kSumSquare},
      {"ReduceLogSum", Reduction::kLogSum}, {"ReduceLogSumExp", Reduction::kLogSumExp}};
  const std::vector<std::vector<int64_t>> axes = {{0}, {1}, {2}, {0, 2}, {1, 2}, {0, 1, 2}};
  for (const auto& [op, reduction] : reductions)
    for (DType type : {DType::kFloat, DType::kFloat16, DType::kDouble, DType::kInt64}) {
      if (!CanReduce(reduction, type)) continue;
      for (const Shape& shape : {Shape{3, 5, 7}, Shape{4, 300, 3}, Shape{2, 3, 700}})
        for (const auto& gone : axes) {
          Tensor x = RandomTensor(type, shape, 3);
          Tensor expected = Reference(OneNode(op, 2), {x, Tensor::FromVector(gone)});
          std::vector<bool> is_gone(3);
          for (int64_t axis : gone) is_gone[static_cast<size_t>(axis)] = true;
          Tensor y = Poisoned(type, expected.shape()), from = There(x);
          ferry::cuda::Reduce(device(), reduction, from, is_gone, y);
          ExpectClose(Back(y), expected, Cat(op, " ", ToText(type), ToText(shape)), 20 * ToleranceOf(type));
        }
    }
}

TEST_F(KernelsOnDevice, SoftmaxAndNormalize) {
  for (DType type : kFloatTypes)
    for (int64_t count : {1, 7, 128, 1000, 3000})
      for (int64_t inner : {1, 3}) {
        Tensor x = RandomTensor(type, {5, count, inner}, 1), from = There(x);
        for (const char* op : {"Softmax", "LogSoftmax"}) {
          Tensor y = Poisoned(type, x.shape());
          Softmax(device(), op[0] == 'L', 5, count, inner, from, y);
          ExpectClose(Back(y), Reference(OneNode(op, 1, {Attribute("axis", int64_t{1})}), {x}),
                      Cat(op, " ", ToText(type), " ", count), 4 * ToleranceOf(type));
        }
        if (inner > 1) continue;
        Tensor rows = x.Reshaped({5, count}), there = There(rows);
        Tensor scale = RandomTensor(type, {count}, 2), bias = RandomTensor(type, {count}, 3);
        Tensor s = There(scale), b = There(bias), y = Poisoned(type, rows.shape());
        NormalizeRows(device(), count, 1e-5f, true, there, &s, &b, y);
        ExpectClose(Back(y), Reference(OneNode("LayerNormalization", 3), {rows, scale, bias}),
                    Cat("LayerNormalization ", ToText(type), " ", count), 20 * ToleranceOf(type));
        NormalizeRows(device(), count, 1e-5f, false, there, &s, nullptr, y);
        ExpectClose(Back(y), Reference(OneNode("RMSNormalization", 2), {rows, scale}),
                    Cat("RMSNormalization ", ToText(type), " ", count), 20 * ToleranceOf(type));
      }
}

TEST_F(KernelsOnDevice, Pool) {
  Tensor x = RandomTensor(DType::kFloat, {2, 5, 9, 11}, 1), from = There(x);
  for (bool is_max : {false, true}) {
    Node node = OneNode(
        is_max ? "MaxPool" : "AveragePool", 1,
        {Attribute("kernel_shape", std::vector<int64_t>{3, 2}), Attribute("strides", std::vector<int64_t>{2, 1}),
         Attribute("pads", std::vector<int64_t>{1, 1, 1, 0})});
    Tensor expected = Reference(node, {x});
    struct Pool pool;
    pool.is_max = is_max;
    pool.batch = 2;
    pool.channels = 5;
    pool.axes[0] = {9, expected.dim(2), 3, 2, 1, 1, 1};
    pool.axes[1] = {11, expected.dim(3), 2, 1, 1, 1, 0};
    Tensor y = Poisoned(DType::kFloat, expected.shape());
    RunPool(device(), pool, from, y);
    ExpectClose(Back(y), expected, "pool");
    pool.channels_last = true;
    const std::vector<int64_t> last{0, 2, 3, 1};
    Node turn = OneNode("Transpose", 1, {Attribute("perm", last)});
    Tensor turned = Reference(turn, {expected}), image = There(Reference(turn, {x}));
    Tensor z = Poisoned(DType::kFloat, turned.shape());
    RunPool(device(), pool, image, z);
    ExpectClose(Back(z), turned, "pool, channels last");
  }
}

TEST_F(KernelsOnDevice, Multiply) {
  for (DType type : kFloatTypes)
    for (bool b_transposed : {false, true})
      for (bool extras : {false, true}) {
        ProductShape shape;
        shape.dtype = type;
        shape.rows = 24, shape.columns = 40, shape.depth = 72, shape.batch = extras ? 1 : 3;
        shape.b_transposed = b_transposed;
        shape.a_pitch = 72, shape.b_pitch = b_transposed ? 72 : 40, shape.d_pitch = 40;
        shape.a_stride = 24 * 72, shape.d_stride = 24 * 40;
        shape.has_bias = shape.has_sum = extras && type != DType::kDouble;
        if (shape.has_bias) shape.after = ProductShape::After::kRelu;
        Tensor a = RandomTensor(type, {shape.batch, 24, 72}, 1), b = RandomTensor(type, {72, 40}, 2),
               bias = RandomTensor(type, {40}, 3), sum = RandomTensor(type, {shape.batch, 24, 40}, 4);
        Tensor expected = Reference(OneNode("MatMul", 2), {a, b});
        if (shape.has_bias) {
          expected = Reference(OneNode("Sum", 3), {expected, bias, sum});
          expected = Reference(OneNode("Relu", 1), {expected});
        }
        Node turn = OneNode("Transpose", 1, {Attribute("perm", std::vector<int64_t>{1, 0})});
        Tensor left = There(a), right = There(b_transposed ? Reference(turn, {b}) : b), more = There(bias),
               added = There(sum), d = Poisoned(type, expected.shape());
        ferry::cuda::Multiply(device(), shape,
                              {left.address(), right.address(), added.address(), more.address(), d.address(), 1});
        ExpectClose(Back(d), expected, Cat("product of ", ToText(type), b_transposed, extras), 10 * ToleranceOf(type));
      }
}

TEST_F(KernelsOnDevice, Convolve) {
  for (DType type : {DType::kFloat, DType::kFloat16})
    for (int64_t groups : {1, 4})
      for (int extras : {0, 1, 2}) {
        const int64_t channels = 8, features = 12;
        Tensor x = RandomTensor(type, {2, channels, 9, 10}, 1),
               w = RandomTensor(type, {features, channels / groups, 3, 3}, 2), bias = RandomTensor(type, {features}, 3);
        Node conv = OneNode("Conv", 3,
                            {Attribute("pads", std::vector<int64_t>{1, 1, 1, 1}),
                             Attribute("strides", std::vector<int64_t>{2, 1}), Attribute("group", groups)});
        Tensor zero = Tensor::Zeros(type, {features});
        Tensor plain = Reference(conv, {x, w, extras ? bias : zero}), sum = RandomTensor(type, plain.shape(), 4),
               expected = plain;
        if (extras == 2) expected = Reference(OneNode("Relu", 1), {Reference(OneNode("Add", 2), {plain, sum})});
        ConvolutionShape shape;
        shape.dtype = type;
        shape.batch = 2, shape.channels = channels, shape.features = features, shape.groups = groups;
        shape.axes[0] = {9, plain.dim(2), 3, 2, 1, 1, 1};
        shape.axes[1] = {10, plain.dim(3), 3, 1, 1, 1, 1};
        shape.has_bias = extras > 0;
        shape.has_sum = extras == 2;
        if (extras == 2) shape.after.kind = ActivationKind::kRelu;
        ASSERT_TRUE(CanConvolve(shape));
        Node turn = OneNode("Transpose", 1, {Attribute("perm", std::vector<int64_t>{0, 2, 3, 1})});
        Tensor image = There(Reference(turn, {x})), filter = There(Reference(turn, {w})), b = There(bias),
               added = There(Reference(turn, {sum})), result = Reference(turn, {expected}),
               y = Poisoned(type, result.shape());
        EXPECT_TRUE(ferry::cuda::Convolve(
            device(), shape, {image.address(), filter.address(), b.address(), added.address(), y.address()}));
        ExpectClose(Back(y), result, Cat("convolution of ", ToText(type), groups, extras), 10 * ToleranceOf(type));
      }
}

TEST_F(KernelsOnDevice, ConvolveDepthwise) {
  for (int64_t channels : {8, 5})
    for (bool extras : {false, true}) {
      Tensor x = RandomTensor(DType::kFloat, {2, channels, 9, 10}, 1),
             w = RandomTensor(DType::kFloat, {channels, 1, 3, 2}, 2), bias = RandomTensor(DType::kFloat, {channels}, 3);
      Node conv = OneNode("Conv", extras ? 3 : 2,
                          {Attribute("pads", std::vector<int64_t>{1, 0, 1, 1}),
                           Attribute("strides", std::vector<int64_t>{2, 1}), Attribute("group", channels)});
      Tensor plain = Reference(conv, extras ? std::vector{x, w, bias} : std::vector{x, w}),
             sum = RandomTensor(DType::kFloat, plain.shape(), 4);
      Tensor expected = extras ? Reference(OneNode("Relu", 1), {Reference(OneNode("Add", 2), {plain, sum})}) : plain;
      ConvolutionShape shape;
      shape.batch = 2, shape.channels = shape.features = shape.groups = channels;
      shape.axes[0] = {9, plain.dim(2), 3, 2, 1, 1, 1};
      shape.axes[1] = {10, plain.dim(3), 2, 1, 1, 0, 1};
      shape.has_bias = shape.has_sum = extras;
      if (extras) shape.after.kind = ActivationKind::kRelu;
      ASSERT_TRUE(IsDepthwise(shape));
      Node turn = OneNode("Transpose", 1, {Attribute("perm", std::vector<int64_t>{0, 2, 3, 1})});
      Node turn_filter = OneNode("Transpose", 1, {Attribute("perm", std::vector<int64_t>{2, 3, 1, 0})});
      Tensor image = There(Reference(turn, {x})), filter = There(Reference(turn_filter, {w})), b = There(bias),
             added = There(Reference(turn, {sum})), result = Reference(turn, {expected}),
             y = Poisoned(DType::kFloat, result.shape());
      ferry::cuda::ConvolveDepthwise(device(), shape,
                                     {image.address(), filter.address(), b.address(), added.address(), y.address()});
      ExpectClose(Back(y), result, Cat("depthwise of ", channels, extras));
    }
}

// Against FusedAttention on the CPU, which takes heads inside rows and keys that lie transposed as well.
TEST_F(KernelsOnDevice, Attend) {
  struct Way {
    int64_t heads, sharing, queries, keys, depth, values;
    bool mask, turned, inside;
  };
  for (DType type : {DType::kFloat, DType::kFloat16, DType::kBFloat16})
    for (const Way& way :
         {Way{3, 1, 49, 49, 32, 32, true, false, false}, Way{2, 1, 70, 130, 64, 64, false, true, true},
          Way{4, 2, 1, 129, 64, 128, true, false, false}, Way{2, 1, 200, 20, 16, 48, true, false, true},
          Way{1, 1, 5, 300, 128, 64, false, true, false}}) {
      const int64_t batch = 2, groups = way.heads / way.sharing;
      const Shape q_shape = way.inside ? Shape{batch, way.queries, way.heads, way.depth}
                                       : Shape{batch, way.heads, way.queries, way.depth},
                  k_shape = way.turned ? Shape{batch, groups, way.depth, way.keys}
                                       : Shape{batch, groups, way.keys, way.depth},
                  v_shape{batch, groups, way.keys, way.values};
      Tensor q = RandomTensor(type, q_shape, 1), k = RandomTensor(type, k_shape, 2), v = RandomTensor(type, v_shape, 3),
             mask = RandomTensor(type, {batch, 1, way.queries, way.keys}, 4);
      Node node = OneNode("FusedAttention", way.mask ? 4 : 3,
                          {Attribute("scale", 0.5f), Attribute("q_form", int64_t{way.inside}),
                           Attribute("k_form", int64_t{way.turned ? 2 : 0}), Attribute("v_form", int64_t{0}),
                           Attribute("out_form", int64_t{0}), Attribute("heads_sharing", way.sharing)},
                          "ferry");
      std::vector<Tensor> inputs{CastTo(q, DType::kFloat), CastTo(k, DType::kFloat), CastTo(v, DType::kFloat)};
      if (way.mask) inputs.push_back(CastTo(mask, DType::kFloat));
      Tensor expected = CastTo(Reference(node, inputs), type);
      FlashProblem flash;
      flash.dtype = flash.mask_type = type;
      flash.batch = batch, flash.heads = way.heads, flash.sharing = way.sharing;
      flash.queries = way.queries, flash.keys = way.keys, flash.depth = way.depth, flash.values = way.values;
      const int64_t row = way.inside ? way.heads * way.depth : way.depth;
      flash.q[0] = way.heads * way.queries * way.depth, flash.q[2] = row;
      flash.q[1] = way.inside ? way.depth : way.queries * way.depth;
      flash.k[0] = groups * way.keys * way.depth, flash.k[1] = way.keys * way.depth;
      flash.k[2] = way.turned ? 1 : way.depth, flash.k[3] = way.turned ? way.keys : 1;
      flash.v[0] = groups * way.keys * way.values, flash.v[1] = way.keys * way.values, flash.v[2] = way.values;
      flash.out[0] = way.heads * way.queries * way.values, flash.out[1] = way.queries * way.values;
      flash.out[2] = way.values;
      flash.has_mask = way.mask;
      flash.mask[0] = way.queries * way.keys, flash.mask[2] = way.keys, flash.mask[3] = 1;
      flash.scale = 0.5f;
      ASSERT_TRUE(CanFlash(flash, 9));
      Tensor there[] = {There(q), There(k), There(v), There(mask)}, out = Poisoned(type, expected.shape());
      Flash(device(), flash,
            {there[0].address(), there[1].address(), there[2].address(), there[3].address(), out.address()});
      ExpectClose(Back(out), expected, Cat("attention of ", ToText(type), " over ", way.keys, " keys"),
                  type == DType::kFloat ? 2e-3 : 3 * ToleranceOf(type));
    }
}

TEST(Attention, OddSizesAreLeftToProducts) {
  FlashProblem flash;
  flash.queries = flash.keys = 8, flash.depth = flash.values = 64;
  flash.k[3] = 1;
  EXPECT_TRUE(CanFlash(flash, 9));
  EXPECT_FALSE(CanFlash(flash, 7));
  flash.depth = 60;
  EXPECT_FALSE(CanFlash(flash, 9));
  flash.depth = 64, flash.q[2] = 65;
  EXPECT_FALSE(CanFlash(flash, 9));
}

TEST(Choices, LinesThatAreNotWholeAreLeftOut) {
  const std::map<std::string, int> choices{{"a product", 3}, {"b", 0}};
  EXPECT_EQ(ParseChoices(ToText(choices)), choices);
  EXPECT_EQ(ParseChoices("a\t1\nno number\tx\n\t2\nlast\t7"), (std::map<std::string, int>{{"a", 1}}));
  EXPECT_TRUE(ParseChoices("huge\t99999999999\nnegative\t-1\n").empty());
}

TEST(Convolution, UnevenPaddingIsLeftToOthers) {
  ConvolutionShape shape;
  shape.batch = shape.channels = shape.features = 1;
  shape.axes[0] = {8, 8, 3, 1, 1, 1, 1};
  shape.axes[1] = {8, 8, 4, 1, 1, 1, 2};
  EXPECT_FALSE(CanConvolve(shape));
  shape.axes[1] = shape.axes[0];
  EXPECT_TRUE(CanConvolve(shape));
}

}  // namespace
}  // namespace ferry::cuda
