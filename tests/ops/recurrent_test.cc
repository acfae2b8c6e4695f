#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/thread_pool.h"
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

constexpr int64_t kSteps = 5, kBatch = 3, kInputs = 4, kHidden = 6;
using Vector = std::vector<double>;

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// One direction of one sequence, written down from the equations. `gates` · kHidden rows in W and R.
struct PlainCell {
  const double *w, *r, *b;  // b: input biases, then recurrent ones
  int64_t gates;

  double Input(int64_t row, const Vector& x) const {
    double sum = b[row];
    for (int64_t i = 0; i < kInputs; ++i) sum += w[row * kInputs + i] * x[static_cast<size_t>(i)];
    return sum;
  }
  double Recurrent(int64_t row, const Vector& h) const {
    double sum = b[gates * kHidden + row];
    for (int64_t i = 0; i < kHidden; ++i) sum += r[row * kHidden + i] * h[static_cast<size_t>(i)];
    return sum;
  }

  Vector Rnn(const Vector& x, const Vector& h) const {
    Vector out(kHidden);
    for (int64_t i = 0; i < kHidden; ++i) out[static_cast<size_t>(i)] = std::tanh(Input(i, x) + Recurrent(i, h));
    return out;
  }

  Vector Gru(const Vector& x, const Vector& h, bool linear_before_reset) const {
    Vector reset_h(kHidden), out(kHidden), z(kHidden), reset(kHidden);
    for (int64_t i = 0; i < kHidden; ++i) {
      auto at = static_cast<size_t>(i);
      z[at] = Sigmoid(Input(i, x) + Recurrent(i, h));
      reset[at] = Sigmoid(Input(kHidden + i, x) + Recurrent(kHidden + i, h));
      reset_h[at] = reset[at] * h[at];
    }
    for (int64_t i = 0; i < kHidden; ++i) {
      auto at = static_cast<size_t>(i);
      double recurrent =
          linear_before_reset ? reset[at] * Recurrent(2 * kHidden + i, h) : Recurrent(2 * kHidden + i, reset_h);
      out[at] = (1 - z[at]) * std::tanh(Input(2 * kHidden + i, x) + recurrent) + z[at] * h[at];
    }
    return out;
  }

  Vector Lstm(const Vector& x, const Vector& h, Vector& c, const double* p, bool input_forget) const {
    Vector out(kHidden);
    for (int64_t i = 0; i < kHidden; ++i) {
      auto at = static_cast<size_t>(i);
      auto gate = [&](int64_t which) { return Input(which * kHidden + i, x) + Recurrent(which * kHidden + i, h); };
      double in = Sigmoid(gate(0) + p[i] * c[at]);
      double forget = input_forget ? 1 - in : Sigmoid(gate(2) + p[2 * kHidden + i] * c[at]);
      c[at] = forget * c[at] + in * std::tanh(gate(3));
      out[at] = Sigmoid(gate(1) + p[kHidden + i] * c[at]) * std::tanh(c[at]);
    }
    return out;
  }
};

struct Recurrent {
  const char* op;
  int64_t gates, directions;
  bool batch_first, flag;  // flag: linear_before_reset or input_forget
  std::string direction;
  Tensor x, w, r, b, lengths, h, c, p;

  Recurrent(Random& random, const char* name, int64_t gate_count) : op(name), gates(gate_count) {
    direction = std::vector<std::string>{"forward", "reverse", "bidirectional"}[static_cast<size_t>(random.Int(0, 2))];
    directions = direction == "bidirectional" ? 2 : 1;
    batch_first = random.Bool();
    flag = random.Bool();
    x = random.Numbers<double>(batch_first ? Shape{kBatch, kSteps, kInputs} : Shape{kSteps, kBatch, kInputs});
    w = random.Numbers<double>({directions, gates * kHidden, kInputs});
    r = random.Numbers<double>({directions, gates * kHidden, kHidden});
    b = random.Numbers<double>({directions, 2 * gates * kHidden});
    lengths = Tensor::FromVector<int32_t>(
        {static_cast<int32_t>(random.Int(1, kSteps)), kSteps, static_cast<int32_t>(random.Int(1, kSteps))});
    Shape state = batch_first ? Shape{kBatch, directions, kHidden} : Shape{directions, kBatch, kHidden};
    h = random.Numbers<double>(state);
    c = random.Numbers<double>(state);
    p = random.Numbers<double>({directions, 3 * kHidden});
  }

  Node MakeNode() const {
    std::vector<Attribute> attributes{
        {"direction", direction}, {"layout", int64_t{batch_first}}, {"hidden_size", kHidden}};
    if (gates == 3) attributes.emplace_back("linear_before_reset", int64_t{flag});
    if (gates == 4) attributes.emplace_back("input_forget", int64_t{flag});
    return OneNode(op, gates == 4 ? 8 : 6, attributes, "", gates == 4 ? 3 : 2);
  }
  std::vector<Value> Inputs() const {
    std::vector<Value> inputs{x, w, r, b, lengths, h};
    if (gates == 4) inputs.insert(inputs.end(), {c, p});
    return inputs;
  }
  int64_t StateAt(int64_t d, int64_t n) const { return (batch_first ? n * directions + d : d * kBatch + n) * kHidden; }
  int64_t OutputAt(int64_t t, int64_t d, int64_t n) const {
    return (batch_first ? (n * kSteps + t) * directions + d : (t * directions + d) * kBatch + n) * kHidden;
  }

  void Check() const {
    std::vector<Value> results = RunNode(MakeNode(), Inputs());
    Vector y(static_cast<size_t>(results[0].tensor().size())), last_h(static_cast<size_t>(h.size())), last_c = last_h;
    for (int64_t d = 0; d < directions; ++d)
      for (int64_t n = 0; n < kBatch; ++n) Walk(d, n, y, last_h, last_c);
    Expect(results[0], y, "Y");
    Expect(results[1], last_h, "Y_h");
    if (gates == 4) Expect(results[2], last_c, "Y_c");
  }

 private:
  void Walk(int64_t d, int64_t n, Vector& y, Vector& last_h, Vector& last_c) const {
    PlainCell cell{w.Data<double>() + d * gates * kHidden * kInputs, r.Data<double>() + d * gates * kHidden * kHidden,
                   b.Data<double>() + d * 2 * gates * kHidden, gates};
    const double* first = h.Data<double>() + StateAt(d, n);
    const double* first_c = c.Data<double>() + StateAt(d, n);
    Vector state(first, first + kHidden), memory(first_c, first_c + kHidden);
    int64_t length = lengths.Data<int32_t>()[n];
    for (int64_t step = 0; step < length; ++step) {
      int64_t t = d == 1 || direction == "reverse" ? length - 1 - step : step;
      const double* from = x.Data<double>() + (batch_first ? n * kSteps + t : t * kBatch + n) * kInputs;
      Vector input(from, from + kInputs);
      if (gates == 1) state = cell.Rnn(input, state);
      if (gates == 3) state = cell.Gru(input, state, flag);
      if (gates == 4) state = cell.Lstm(input, state, memory, p.Data<double>() + d * 3 * kHidden, flag);
      std::copy(state.begin(), state.end(), y.begin() + OutputAt(t, d, n));
    }
    std::copy(state.begin(), state.end(), last_h.begin() + StateAt(d, n));
    std::copy(memory.begin(), memory.end(), last_c.begin() + StateAt(d, n));
  }
  void Expect(const Value& got, const Vector& expected, const char* what) const {
    Vector values = Elements<double>(got);
    ASSERT_EQ(values.size(), expected.size());
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(values[i], expected[i], 1e-12) << op << " " << direction << " " << what << " at " << i;
  }
};

TEST(Recurrent, AgreesWithTheEquations) {
  Random random(51);
  for (int round = 0; round < 20; ++round) {
    Recurrent(random, "RNN", 1).Check();
    Recurrent(random, "GRU", 3).Check();
    Recurrent(random, "LSTM", 4).Check();
  }
}

double RunActivation(const std::string& name, std::vector<float> alpha, std::vector<float> beta, double x,
                     float clip = 0) {
  std::vector<Attribute> attributes{{"activations", std::vector<std::string>{name}}};
  if (!alpha.empty()) attributes.emplace_back("activation_alpha", alpha);
  if (!beta.empty()) attributes.emplace_back("activation_beta", beta);
  if (clip > 0) attributes.emplace_back("clip", clip);
  Tensor one = Tensor::FromVector<double>({1}, {1, 1, 1}), zero = Tensor::Zeros(DType::kDouble, {1, 1, 1});
  return RunNode(OneNode("RNN", 3, attributes), {Tensor::FromVector<double>({x}, {1, 1, 1}), one, zero})[0]
      .tensor()
      .Data<double>()[0];
}

TEST(Recurrent, EveryActivation) {
  EXPECT_EQ(RunActivation("Relu", {}, {}, -2), 0);
  EXPECT_NEAR(RunActivation("sigmoid", {}, {}, -2), Sigmoid(-2), 1e-12);
  EXPECT_NEAR(RunActivation("Affine", {2}, {3}, -2), -1, 1e-12);
  EXPECT_NEAR(RunActivation("LeakyRelu", {}, {}, -2), -0.02, 1e-8);
  EXPECT_EQ(RunActivation("ThresholdedRelu", {}, {}, 0.5), 0);
  EXPECT_EQ(RunActivation("ThresholdedRelu", {}, {}, 1), 1);
  EXPECT_NEAR(RunActivation("ScaledTanh", {2}, {0.5}, 1), 2 * std::tanh(0.5), 1e-12);
  EXPECT_NEAR(RunActivation("HardSigmoid", {}, {}, 1), 0.7, 1e-7);
  EXPECT_NEAR(RunActivation("Elu", {}, {}, -1), std::exp(-1.0) - 1, 1e-12);
  EXPECT_NEAR(RunActivation("Softsign", {}, {}, -3), -0.75, 1e-12);
  EXPECT_NEAR(RunActivation("Softplus", {}, {}, 800), 800, 1e-12);
  EXPECT_NEAR(RunActivation("Affine", {1}, {0}, 7, 2.5f), 2.5, 1e-12);
  EXPECT_THAT(ErrorOf([] { RunActivation("Swish", {}, {}, 1); }), HasSubstr("'Swish' is not an activation"));
}

TEST(Recurrent, RefusesShapesThatDoNotFit) {
  Random random(52);
  Recurrent good(random, "LSTM", 4);
  auto error = [&](size_t input, Tensor tensor) {
    std::vector<Value> inputs = good.Inputs();
    inputs[input] = std::move(tensor);
    return ErrorOf([&] { RunNode(good.MakeNode(), inputs); });
  };
  EXPECT_THAT(error(1, Tensor::Zeros(DType::kDouble, {1, 5, kInputs})), HasSubstr("W must have shape"));
  EXPECT_THAT(error(4, Tensor::FromVector<int32_t>({1, 2, kSteps + 1})), HasSubstr("a sequence has length 6"));
  EXPECT_THAT(error(4, Tensor::FromVector<int32_t>({1, -2, 1})), HasSubstr("a sequence has length -2"));
  EXPECT_THAT(error(6, Tensor::Zeros(DType::kDouble, {1})), HasSubstr("initial_c"));
  EXPECT_THAT(error(7, Tensor::Zeros(DType::kFloat, {good.directions, 3 * kHidden})), HasSubstr("input 7 is float"));
  Node node = good.MakeNode();
  node.Set("hidden_size", int64_t{7});
  EXPECT_THAT(ErrorOf([&] { RunNode(node, good.Inputs()); }), HasSubstr("hidden_size is 7"));
}

TEST(Recurrent, InferenceOfBothLayouts) {
  ValueFacts x{.type = Type::Tensor(DType::kFloat, {Dim::Named("t"), Dim::Named("n"), 4})};
  ValueFacts w{.type = Type::Tensor(DType::kFloat, {2, 24, 4})}, r{.type = Type::Tensor(DType::kFloat, {2, 24, 6})};
  auto out = InferNode(OneNode("LSTM", 3, {{"direction", std::string("bidirectional")}}, "", 3), {x, w, r});
  EXPECT_EQ(ToText(out[0].type), "float[t, 2, n, 6]");
  EXPECT_EQ(ToText(out[2].type), "float[2, n, 6]");
  out = InferNode(OneNode("GRU", 2, {{"layout", int64_t{1}}, {"hidden_size", int64_t{8}}}, "", 2), {x, w});
  EXPECT_EQ(ToText(out[0].type), "float[t, n, 1, 8]");
  EXPECT_EQ(ToText(out[1].type), "float[t, 1, 8]");
}

}  // namespace
}  // namespace ferry
