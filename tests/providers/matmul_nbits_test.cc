// Products with weights of 4 and 8 bits: the packed kernels against the plain operators, and what becomes of
// DequantizeLinear in front of a product.
#include <gtest/gtest.h>

#include <cmath>
#include <span>

#include "engine/session.h"
#include "ops/evaluate.h"
#include "providers/cpu/pipeline.h"
#include "tests/support/graphs.h"
#include "tests/support/random_tensors.h"

namespace ferry {
namespace {

using testing::MakeInfo;
using testing::MakeModel;
using testing::MakeNode;
using testing::Random;

Model WithMicrosoft(Model model) {
  model.opsets.push_back({"com.microsoft", 1, {}});
  return model;
}

// Ten thousandths of the largest result, or of what rounding rows to bytes may change.
void ExpectNear(const Tensor& expected, const Tensor& got, double part, const std::string& what) {
  ASSERT_TRUE(expected.shape() == got.shape()) << what;
  double largest = 1e-6;
  for (int64_t i = 0; i < expected.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(expected.Data<float>()[i])));
  for (int64_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(expected.Data<float>()[i], got.Data<float>()[i], part * largest) << what << " at " << i;
}

void Compare(const Model& model, const Tensor& x, double part, const std::string& what) {
  std::vector<Value> expected = EvaluateGraph(model.graph, std::vector<Value>{x}, RunServices{}), first;
  for (int threads : {1, 3}) {
    std::vector<Value> got =
        Session::FromModel(model, {.threads = threads})->Run(std::vector<NamedValue>{NamedValue("x", x)});
    ExpectNear(expected[0].tensor(), got[0].tensor(), part, what);
    if (threads == 3) {
      EXPECT_TRUE(Identical(first[0], got[0])) << what << ": threads change the result";
    }
    first = std::move(got);
  }
}

TEST(MatMulNBits, PackedLikePlain) {
  Random random(3);
  for (int trial = 0; trial < 80; ++trial) {
    const int64_t bits = random.Bool() ? 4 : 8, block = int64_t{16} << random.Int(0, 4);
    const int64_t depth = random.Size(90, 600), columns = random.Size(40, 200), rows = random.Size(3, 40);
    const int64_t blocks = (depth + block - 1) / block, level = random.Bool() ? 4 : random.Int(0, 1);
    std::vector<StoredTensor> constants = {
        MakeStored("b", random.Numbers<uint8_t>({columns, blocks, block * bits / 8})),
        MakeStored("scales", random.Floats({columns, blocks})),
        MakeStored("zeros", random.Numbers<uint8_t>({columns, (blocks * bits + 7) / 8})),
        MakeStored("bias", random.Floats({columns}))};
    std::vector<std::string> inputs = {"x", "b", "scales"};
    const bool has_zeros = random.Bool(), has_bias = random.Bool();
    if (has_zeros || has_bias) inputs.push_back(has_zeros ? "zeros" : "");
    if (has_bias) inputs.insert(inputs.end(), {"", "bias"});
    Node node =
        MakeNode("MatMulNBits", inputs, {"y"},
                 {{"K", depth}, {"N", columns}, {"bits", bits}, {"block_size", block}, {"accuracy_level", level}});
    node.domain = "com.microsoft";
    Model model = WithMicrosoft(MakeModel({MakeInfo("x", DType::kFloat, {Dim::Named("rows"), Dim(depth)})}, {node},
                                          {MakeInfo("y")}, constants));
    Compare(model, random.Floats({rows, depth}), level == 4 ? 0.03 : 1e-5,
            Cat(bits, " bits, blocks of ", block, ", [", rows, ", ", depth, ", ", columns, "] level ", level));
  }
}

// Depths that are widened in several chunks, and many rows.
struct LargeProduct {
  LargeProduct(Random& random, int64_t bits, int64_t block, int64_t depth, int64_t columns, bool has_zeros)
      : depth(depth), columns(columns) {
    const int64_t blocks = depth / block;
    scales = Tensor(DType::kFloat, {columns, blocks});
    for (float& scale : std::span(scales.MutableData<float>(), static_cast<size_t>(scales.size())))
      scale = 0.01f + 0.01f * static_cast<float>(std::abs(random.Real()));
    b = random.Numbers<uint8_t>({columns, blocks, block * bits / 8});
    zeros = random.Numbers<uint8_t>({columns, (blocks * bits + 7) / 8});
    node = MakeNode("MatMulNBits", {"x", "b", "scales", has_zeros ? "zeros" : "", "", "bias"}, {"y"},
                    {{"K", depth}, {"N", columns}, {"bits", bits}, {"block_size", block}});
    node.domain = "com.microsoft";
    bias = random.Floats({columns});
  }

  Model MakeNetwork() const {
    return WithMicrosoft(MakeModel(
        {MakeInfo("x", DType::kFloat, {Dim::Named("rows"), Dim(depth)})}, {node}, {MakeInfo("y")},
        {MakeStored("b", b), MakeStored("scales", scales), MakeStored("zeros", zeros), MakeStored("bias", bias)}));
  }

  int64_t depth, columns;
  Tensor b, scales, zeros, bias;
  Node node;
};

TEST(MatMulNBits, ManyRowsLikePlain) {
  Random random(11);
  for (int trial = 0; trial < 14; ++trial) {
    const int64_t bits = random.Bool() ? 4 : 8, block = int64_t{16} << random.Int(0, 3);
    const int64_t depth = 2 * block * ((trial == 0 ? 1600 : 256) / (2 * block) + random.Int(0, 3));
    LargeProduct product(random, bits, block, depth, 64 + random.Size(3, 150), random.Bool());
    if (trial % 4 == 3) product.scales.MutableData<float>()[random.Int(0, 3)] = trial == 3 ? 0.0f : 1e4f;
    const int64_t rows = 48 + random.Size(2, 70);
    Compare(product.MakeNetwork(), random.Floats({rows, depth}), 1e-5,
            Cat(bits, " bits, blocks of ", block, ", [", rows, ", ", depth, ", ", product.columns, "]"));
  }
}

// Rows do not depend on each other: neither on numbers far larger, nor on those that are none.
TEST(MatMulNBits, RowsLeaveEachOtherAlone) {
  Random random(12);
  const int64_t rows = 64, depth = 512;
  LargeProduct product(random, 4, 32, depth, 128, true);
  std::fill_n(product.bias.MutableData<float>(), product.columns, 0.0f);
  const Model model = product.MakeNetwork();
  const auto session = Session::FromModel(model, {.threads = 1});
  for (const float factor : {1e6f, 1e-6f, 1e14f, 1e-20f, 0.0f, 1e25f, INFINITY, NAN}) {
    Tensor x = random.Floats({rows, depth});
    for (int64_t k = 0; k < depth; ++k) x.MutableData<float>()[5 * depth + k] *= factor;
    const std::vector<Value> expected = EvaluateGraph(model.graph, std::vector<Value>{x}, RunServices{});
    const std::vector<Value> got = session->Run(std::vector<NamedValue>{NamedValue("x", x)});
    for (int64_t row = 0; row < rows; ++row) {
      const float *wanted = expected[0].tensor().Data<float>() + row * product.columns,
                  *made = got[0].tensor().Data<float>() + row * product.columns;
      double largest = 0;
      for (int64_t n = 0; n < product.columns; ++n)
        largest = std::max(largest, std::abs(static_cast<double>(wanted[n])));
      for (int64_t n = 0; n < product.columns; ++n) {
        if (!std::isfinite(wanted[n])) {
          EXPECT_FALSE(std::isfinite(made[n])) << row << " with " << factor;
        } else {
          ASSERT_NEAR(wanted[n], made[n], 1e-5 * largest) << row << " with " << factor;
        }
      }
    }
  }
}

// What does not fit is refused by the operator, with its sizes; the packed form is not made of it.
TEST(MatMulNBits, RefusesWhatDoesNotFit) {
  Random random(5);
  auto error = [&](int64_t depth, int64_t columns, int64_t bits, int64_t block, Shape b, Shape scales, Shape zeros,
                   Shape bias) {
    Node node =
        MakeNode("MatMulNBits", {"x", "b", "scales", "zeros", "", "bias"}, {"y"},
                 {{"K", depth}, {"N", columns}, {"bits", bits}, {"block_size", block}, {"accuracy_level", int64_t{4}}});
    node.domain = "com.microsoft";
    Model model = WithMicrosoft(
        MakeModel({MakeInfo("x", DType::kFloat, {Dim(2), Dim(64)})}, {node}, {MakeInfo("y")},
                  {MakeStored("b", random.Numbers<uint8_t>(b)), MakeStored("scales", random.Floats(scales)),
                   MakeStored("zeros", random.Numbers<uint8_t>(zeros)), MakeStored("bias", random.Floats(bias))}));
    try {
      Session::FromModel(model, {.threads = 1})->Run(std::vector<NamedValue>{NamedValue("x", random.Floats({2, 64}))});
    } catch (const Error& problem) {
      return problem.message();
    }
    return std::string("no error");
  };
  const Shape b{3, 2, 16}, scales{3, 2}, zeros{3, 1}, bias{3};
  EXPECT_EQ(error(64, 3, 4, 32, b, scales, zeros, bias), "no error");
  for (int64_t block : {int64_t{0}, int64_t{-32}, int64_t{24}, int64_t{8}, INT64_MAX, INT64_MIN})
    EXPECT_NE(error(64, 3, 4, block, b, scales, zeros, bias).find("power of two"), std::string::npos) << block;
  for (int64_t bits : {int64_t{0}, int64_t{3}, int64_t{-4}, INT64_MAX})
    EXPECT_NE(error(64, 3, bits, 32, b, scales, zeros, bias).find("2, 4 or 8"), std::string::npos) << bits;
  for (int64_t size : {int64_t{0}, int64_t{-1}, INT64_MAX, INT64_MIN}) {
    EXPECT_NE(error(size, 3, 4, 32, b, scales, zeros, bias), "no error") << size;
    EXPECT_NE(error(64, size, 4, 32, b, scales, zeros, bias), "no error") << size;
  }
  EXPECT_NE(error(96, 3, 4, 32, {3, 3, 16}, {3, 3}, {3, 2}, bias).find("columns"), std::string::npos);
  EXPECT_NE(error(64, 3, 4, 32, {3, 2, 15}, scales, zeros, bias).find("B must have"), std::string::npos);
  EXPECT_NE(error(64, 4, 4, 32, b, scales, zeros, bias).find("B must have"), std::string::npos);
  EXPECT_NE(error(64, 3, 4, 32, b, {3, 1}, zeros, bias).find("scales"), std::string::npos);
  EXPECT_NE(error(64, 3, 4, 32, b, scales, {3, 2}, bias).find("zero_points"), std::string::npos);
  EXPECT_NE(error(64, 3, 4, 32, b, scales, zeros, {4}).find("bias"), std::string::npos);
}

Tensor Nibbles(Random& random, DType type, Shape shape) {
  Tensor tensor(type, std::move(shape));
  for (size_t i = 0; i < tensor.bytes(); ++i) tensor.mutable_raw()[i] = static_cast<std::byte>(random.Int(0, 255));
  if (tensor.size() % 2 != 0) tensor.mutable_raw()[tensor.bytes() - 1] &= std::byte{15};
  return tensor;
}

bool HasOperator(const Graph& graph, const std::string& name) {
  for (const Node& node : graph.nodes)
    if (node.op_type == name) return true;
  return false;
}

TEST(BlockedMatMul, StandsForDequantizeLinear) {
  Random random(4);
  for (int trial = 0; trial < 80; ++trial) {
    const DType type = random.Pick({DType::kInt4, DType::kUInt4, DType::kInt8, DType::kUInt8});
    const bool transposed = random.Bool(), is_gemm = random.Bool(), by_column = random.Int(0, 2) == 0;
    const bool has_zeros = random.Bool(), has_bias = random.Bool();
    const int64_t block = 16 * random.Int(1, 4), depth = block * random.Int(1, 6), columns = random.Size(40, 100);
    const int64_t rows = random.Size(3, 30);
    auto oriented = [&](int64_t along, int64_t across) {
      return transposed ? Shape{across, along} : Shape{along, across};
    };
    const Shape of_scales = by_column ? Shape{columns} : oriented(depth / block, columns);
    std::vector<StoredTensor> constants = {MakeStored("w", Nibbles(random, type, oriented(depth, columns))),
                                           MakeStored("scales", random.Floats(of_scales)),
                                           MakeStored("zeros", Nibbles(random, type, of_scales)),
                                           MakeStored("bias", random.Floats({columns}))};
    std::vector<Attribute> attributes;
    const int64_t depth_axis = transposed ? 1 : 0;
    if (by_column)
      attributes = {{"axis", 1 - depth_axis}};
    else
      attributes = {{"axis", depth_axis}, {"block_size", block}};
    std::vector<std::string> given = {"w", "scales"};
    if (has_zeros) given.push_back("zeros");
    std::vector<Node> nodes = {MakeNode("DequantizeLinear", given, {"floats"}, attributes)};
    if (is_gemm) {
      std::vector<std::string> inputs = {"x", "floats"};
      if (has_bias) inputs.push_back("bias");
      nodes.push_back(MakeNode("Gemm", inputs, {"y"}, {{"transB", int64_t{transposed}}}));
    } else {
      if (transposed) nodes.push_back(MakeNode("Transpose", {"floats"}, {"turned"}, {}));
      nodes.push_back(MakeNode("MatMul", {"x", transposed ? "turned" : "floats"}, {has_bias ? "product" : "y"}));
      if (has_bias) nodes.push_back(MakeNode("Add", {"product", "bias"}, {"y"}));
    }
    Model model =
        MakeModel({MakeInfo("x", DType::kFloat, {Dim::Named("rows"), Dim(depth)})}, nodes, {MakeInfo("y")}, constants);
    Graph rewritten = CopyDeep(model.graph);
    Optimize(rewritten);
    EXPECT_TRUE(HasOperator(rewritten, "BlockedMatMul") && !HasOperator(rewritten, "DequantizeLinear") &&
                !HasOperator(rewritten, "Add"))
        << trial;
    Compare(model, random.Floats({rows, depth}), 1e-5, Cat("trial ", trial));
  }
}

// What the packed form cannot say stays as it is.
TEST(BlockedMatMul, OtherBlocksStay) {
  Random random(8);
  std::vector<StoredTensor> constants = {MakeStored("w", random.Numbers<int8_t>({24, 8})),
                                         MakeStored("scales", random.Floats({3, 8}))};
  Model model = MakeModel(
      {MakeInfo("x", DType::kFloat, {Dim(2), Dim(24)})},
      {MakeNode("DequantizeLinear", {"w", "scales"}, {"floats"}, {{"axis", int64_t{0}}, {"block_size", int64_t{8}}}),
       MakeNode("MatMul", {"x", "floats"}, {"y"})},
      {MakeInfo("y")}, constants);
  Graph rewritten = CopyDeep(model.graph);
  Optimize(rewritten);
  EXPECT_FALSE(HasOperator(rewritten, "BlockedMatMul"));
  Compare(model, random.Floats({2, 24}), 1e-5, "blocks of 8");
}

}  // namespace
}  // namespace ferry
