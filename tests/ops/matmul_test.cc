#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/nodes.h"
#include "tests/support/random_tensors.h"

namespace ferry {
namespace {

using testing::Elements;
using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::InferNode;
using testing::OneNode;
using testing::Random;
using testing::RunNode;

ValueFacts Known(DType type, SymbolicShape shape) { return {.type = Type::Tensor(type, std::move(shape))}; }

template <class T>
Tensor Make(std::vector<T> values, Shape shape) {
  return Tensor::FromVector(values, std::move(shape));
}

TEST(MatMul, FollowsNumpyAboutVectorsAndStacks) {
  Random random(1);
  struct Case {
    Shape a, b, out;
  };
  for (const Case& c :
       {Case{{3}, {3}, {}}, Case{{3}, {3, 2}, {2}}, Case{{4, 3}, {3}, {4}}, Case{{2, 4, 3}, {3, 5}, {2, 4, 5}},
        Case{{2, 1, 4, 3}, {7, 3, 5}, {2, 7, 4, 5}}, Case{{3}, {2, 3, 5}, {2, 5}}, Case{{0, 3}, {3, 2}, {0, 2}},
        Case{{2, 0}, {0, 3}, {2, 3}}, Case{{1, 2, 3}, {4, 3, 2}, {4, 2, 2}}}) {
    Tensor a = random.Floats(c.a), b = random.Floats(c.b);
    Tensor y = RunNode(OneNode("MatMul", 2), {a, b})[0].tensor();
    EXPECT_EQ(y.shape(), c.out) << ToText(c.a) << ToText(c.b);
    auto inferred =
        InferNode(OneNode("MatMul", 2), {Known(DType::kFloat, ToSymbolic(c.a)), Known(DType::kFloat, ToSymbolic(c.b))});
    EXPECT_EQ(ToText(inferred[0].type), "float" + ToText(c.out));
  }
  Tensor zeros = RunNode(OneNode("MatMul", 2), {random.Floats({2, 0}), random.Floats({0, 3})})[0].tensor();
  for (float value : zeros.Span<float>()) EXPECT_EQ(value, 0);
}

TEST(MatMul, EveryTypeOfTheSchemaWorks) {
  Tensor a = Make<int32_t>({INT32_MAX, 2}, {1, 2}), b = Make<int32_t>({2, 3}, {2, 1});
  EXPECT_EQ(Elements<int32_t>(RunNode(OneNode("MatMul", 2), {a, b})[0]), std::vector<int32_t>{4});  // wraps
  EXPECT_EQ(
      Elements<uint64_t>(RunNode(OneNode("MatMul", 2), {Make<uint64_t>({3, 4}, {2}), Make<uint64_t>({5, 6}, {2})})[0]),
      std::vector<uint64_t>{39});
  EXPECT_EQ(Elements<double>(RunNode(OneNode("MatMul", 2), {Make<double>({3, 4}, {2}), Make<double>({5, 6}, {2})})[0]),
            std::vector<double>{39});
  Tensor half(DType::kFloat16, {2});
  half.MutableData<Float16>()[0] = {0x4200};  // 3
  half.MutableData<Float16>()[1] = {0x4400};  // 4
  Tensor y = RunNode(OneNode("MatMul", 2), {half, half})[0].tensor();
  EXPECT_EQ(y.Data<Float16>()[0].bits, 0x4E40);  // 25
}

TEST(MatMul, NamesTheShapesThatDoNotFit) {
  Tensor a = Tensor::Zeros(DType::kFloat, {2, 3}), b = Tensor::Zeros(DType::kFloat, {4, 5});
  EXPECT_THAT(ErrorOf([&] {
                RunNode(OneNode("MatMul", 2), {a, b});
              }),
              HasSubstr("inner sizes differ: [2, 3] × [4, 5]"));
  EXPECT_THAT(ErrorOf([&] { RunNode(OneNode("MatMul", 2), {Tensor::Scalar(1.0f), b}); }), HasSubstr("got []"));
  auto infer = [&] { InferNode(OneNode("MatMul", 2), {Known(DType::kFloat, {2, 3}), Known(DType::kFloat, {4, 5})}); };
  EXPECT_THAT(ErrorOf(infer), HasSubstr("inner sizes differ"));
}

TEST(MatMul, InferenceKeepsNames) {
  auto y = InferNode(OneNode("MatMul", 2), {Known(DType::kFloat, {Dim::Named("batch"), Dim::Named("seq"), 8}),
                                            Known(DType::kFloat, {8, 16})});
  EXPECT_EQ(ToText(y[0].type), "float[batch, seq, 16]");
}

TEST(Gemm, ScalesTransposesAndBroadcasts) {
  Random random(2);
  for (int round = 0; round < 16; ++round) {
    bool ta = round & 1, tb = round & 2;
    int64_t m = random.Int(1, 9), n = random.Int(1, 40), k = random.Int(1, 20);
    Tensor a = random.Floats(ta ? Shape{k, m} : Shape{m, k}), b = random.Floats(tb ? Shape{n, k} : Shape{k, n});
    Tensor c = random.Floats(round & 4 ? Shape{n} : Shape{m, 1});
    float alpha = round & 8 ? 0.5f : 1.0f;
    Node node =
        OneNode("Gemm", 3, {{"transA", int64_t{ta}}, {"transB", int64_t{tb}}, {"alpha", alpha}, {"beta", 2.0f}});
    std::vector<float> y = Elements<float>(RunNode(node, {a, b, c})[0]);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t p = 0; p < k; ++p)
          sum +=
              double{a.Data<float>()[ta ? p * m + i : i * k + p]} * double{b.Data<float>()[tb ? j * k + p : p * n + j]};
        double expected = alpha * sum + 2.0 * c.Data<float>()[round & 4 ? j : i];
        EXPECT_NEAR(y[static_cast<size_t>(i * n + j)], expected, 1e-5);
      }
  }
}

TEST(MatMulInteger, ZeroPointsPerRowAndColumn) {
  Random random(3);
  Tensor a = random.Numbers<uint8_t>({2, 3, 4}), b = random.Numbers<int8_t>({4, 5});
  Tensor a_zero = random.Numbers<uint8_t>({2, 3, 1}), b_zero = random.Numbers<int8_t>({5});
  std::vector<int32_t> y = Elements<int32_t>(RunNode(OneNode("MatMulInteger", 4), {a, b, a_zero, b_zero})[0]);
  for (int64_t row = 0; row < 6; ++row)
    for (int64_t j = 0; j < 5; ++j) {
      int32_t sum = 0;
      for (int64_t p = 0; p < 4; ++p)
        sum += (a.Data<uint8_t>()[row * 4 + p] - a_zero.Data<uint8_t>()[row]) *
               (b.Data<int8_t>()[p * 5 + j] - b_zero.Data<int8_t>()[j]);
      EXPECT_EQ(y[static_cast<size_t>(row * 5 + j)], sum);
    }
  EXPECT_THAT(ErrorOf([&] {
                RunNode(OneNode("MatMulInteger", 4), {a, b, a_zero, random.Numbers<int8_t>({4})});
              }),
              HasSubstr("one value per column"));
}

TEST(QLinearMatMul, RoundsHalvesToEvenAndSaturates) {
  auto run = [](std::vector<uint8_t> a, float scale, uint8_t zero) {
    auto count = static_cast<int64_t>(a.size());
    return Elements<uint8_t>(RunNode(
        OneNode("QLinearMatMul", 8),
        {Make<uint8_t>(a, {count, 1}), Tensor::Scalar(scale), Tensor::Scalar<uint8_t>(0), Make<uint8_t>({1}, {1, 1}),
         Tensor::Scalar(1.0f), Tensor::Scalar<uint8_t>(0), Tensor::Scalar(1.0f), Tensor::Scalar<uint8_t>(zero)})[0]);
  };
  EXPECT_EQ(run({1, 3, 5, 7}, 0.5f, 0), (std::vector<uint8_t>{0, 2, 2, 4}));
  EXPECT_EQ(run({1, 3, 200}, 0.5f, 1), (std::vector<uint8_t>{1, 3, 101}));
  EXPECT_EQ(run({200, 255}, 2.0f, 0), (std::vector<uint8_t>{255, 255}));
}

// Adds up every combination of all labels: slow and plain.
std::vector<double> PlainEinsum(const std::vector<Tensor>& operands, const std::vector<std::string>& terms,
                                const std::string& output) {
  std::map<char, int64_t> sizes;
  for (size_t i = 0; i < terms.size(); ++i)
    for (size_t a = 0; a < terms[i].size(); ++a) sizes[terms[i][a]] = std::max(sizes[terms[i][a]], operands[i].dim(a));
  int64_t total = 1, out_count = 1;
  for (auto [label, size] : sizes) total *= size;
  for (char label : output) out_count *= sizes[label];
  std::vector<double> out(static_cast<size_t>(out_count));
  for (int64_t flat = 0; flat < total; ++flat) {
    std::map<char, int64_t> at;
    int64_t rest = flat;
    for (auto [label, size] : sizes) {
      at[label] = rest % size;
      rest /= size;
    }
    double product = 1;
    for (size_t i = 0; i < terms.size(); ++i) {
      int64_t offset = 0;
      for (size_t a = 0; a < terms[i].size(); ++a)
        offset = offset * operands[i].dim(a) + (operands[i].dim(a) == 1 ? 0 : at[terms[i][a]]);
      product *= operands[i].Data<double>()[offset];
    }
    int64_t to = 0;
    for (char label : output) to = to * sizes[label] + at[label];
    out[static_cast<size_t>(to)] += product;
  }
  return out;
}

TEST(Einsum, AgreesWithThePlainDefinition) {
  Random random(4);
  struct Case {
    std::vector<std::string> terms;
    std::string output;
    std::vector<Shape> shapes;
  };
  for (const Case& c :
       {Case{{"ij", "jk"}, "ik", {{3, 4}, {4, 5}}}, Case{{"bhqd", "bhkd"}, "bhqk", {{2, 3, 4, 5}, {2, 3, 6, 5}}},
        Case{{"bqhd", "bkhd"}, "bhqk", {{2, 4, 3, 5}, {2, 6, 3, 5}}}, Case{{"ii"}, "i", {{4, 4}}},
        Case{{"ii"}, "", {{4, 4}}}, Case{{"ijk"}, "ki", {{2, 3, 4}}},
        Case{{"ij", "jk", "kl"}, "li", {{2, 3}, {3, 4}, {4, 5}}}, Case{{"ij", "ij"}, "ij", {{3, 4}, {3, 4}}},
        Case{{"ij", "kl"}, "iljk", {{2, 3}, {4, 5}}}, Case{{"iij", "jj"}, "i", {{3, 3, 4}, {4, 4}}},
        Case{{"ij", "ij"}, "i", {{3, 1}, {3, 4}}}, Case{{"abc", "cd", "be"}, "ade", {{2, 3, 4}, {4, 5}, {3, 6}}}}) {
    std::vector<Tensor> operands;
    std::vector<Value> values;
    std::vector<ValueFacts> facts;
    std::string equation;
    for (size_t i = 0; i < c.terms.size(); ++i) {
      operands.push_back(random.Numbers<double>(c.shapes[i]));
      values.push_back(operands.back());
      facts.push_back(Known(DType::kDouble, ToSymbolic(c.shapes[i])));
      equation += (i ? " , " : "") + c.terms[i];
    }
    equation += " -> " + c.output;
    Node node = OneNode("Einsum", operands.size(), {{"equation", equation}});
    Tensor y = RunNode(node, values)[0].tensor();
    EXPECT_EQ(ToText(InferNode(node, facts)[0].type), "double" + ToText(y.shape())) << equation;
    std::vector<double> expected = PlainEinsum(operands, c.terms, c.output), got = Elements<double>(Value(y));
    ASSERT_EQ(got.size(), expected.size()) << equation;
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12) << equation;
  }
}

TEST(Einsum, EllipsisImplicitOutputAndErrors) {
  Random random(5);
  auto shape_of = [&](std::string equation, std::vector<Shape> shapes) {
    std::vector<Value> values;
    for (const Shape& shape : shapes) values.push_back(random.Floats(shape));
    return ToText(RunNode(OneNode("Einsum", shapes.size(), {{"equation", equation}}), values)[0].tensor().shape());
  };
  EXPECT_EQ(shape_of("...ij,...jk->...ik", {{2, 1, 3, 4}, {5, 4, 6}}), "[2, 5, 3, 6]");
  EXPECT_EQ(shape_of("...i->...", {{2, 3, 4}}), "[2, 3]");
  EXPECT_EQ(shape_of("ba", {{2, 3}}), "[3, 2]");             // implicit output is sorted
  EXPECT_EQ(shape_of("Ab,bB", {{2, 3}, {3, 4}}), "[2, 4]");  // capitals first
  EXPECT_EQ(shape_of("i,i", {{3}, {3}}), "[]");
  EXPECT_EQ(shape_of(",i->i", {{}, {3}}), "[3]");
  EXPECT_THAT(ErrorOf([&] { shape_of("ij,jk->il", {{2, 3}, {3, 4}}); }), HasSubstr("no operand has"));
  EXPECT_THAT(ErrorOf([&] { shape_of("ij,jk->ii", {{2, 3}, {3, 4}}); }), HasSubstr("twice"));
  EXPECT_THAT(ErrorOf([&] { shape_of("ij,jk", {{2, 3}, {4, 4}}); }), HasSubstr("has size 4 where another has 3"));
  EXPECT_THAT(ErrorOf([&] { shape_of("ij", {{2, 3, 4}}); }), HasSubstr("rank 3"));
  EXPECT_THAT(ErrorOf([&] { shape_of("i$j", {{2, 3, 4}}); }), HasSubstr("only letters"));
  EXPECT_THAT(ErrorOf([&] { shape_of("ij", {{2, 3}, {2, 3}}); }), HasSubstr("1 terms for 2 operands"));
}

TEST(Einsum, NarrowIntegersWrap) {
  Node node = OneNode("Einsum", 2, {{"equation", std::string("i,i->")}});
  EXPECT_EQ(Elements<int8_t>(RunNode(node, {Make<int8_t>({100, 100}, {2}), Make<int8_t>({2, 1}, {2})})[0]),
            std::vector<int8_t>{44});
}

TEST(Det, StacksAndSingularMatrices) {
  Tensor x = Make<float>({1, 2, 3, 4, 0, 1, 1, 0, 2, 4, 1, 2}, {3, 2, 2});
  EXPECT_EQ(Elements<float>(RunNode(OneNode("Det", 1), {x})[0]), (std::vector<float>{-2, -1, 0}));
  EXPECT_EQ(Elements<float>(RunNode(OneNode("Det", 1), {Tensor(DType::kFloat, {0, 0})})[0]), std::vector<float>{1});
  EXPECT_THAT(ErrorOf([&] {
                RunNode(OneNode("Det", 1), {Tensor::Zeros(DType::kFloat, {2, 3})});
              }),
              HasSubstr("square"));
}

}  // namespace
}  // namespace ferry
