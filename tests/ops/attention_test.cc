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

// Attention with everything random, and the plain way to compute it. Heads are [batch, heads, length, size] here; the
// node may get them packed.
struct RandomAttention {
  int64_t batch, kv_heads, group, queries, keys, past, size, v_size;
  bool packed, causal, bool_mask, float_mask, counts_valid;
  int64_t left, right, mode;
  float softcap;
  Tensor q, k, v, past_k, past_v, mask;
  std::vector<int64_t> valid;

  explicit RandomAttention(Random& random)
      : batch(random.Int(1, 2)),
        kv_heads(random.Int(1, 3)),
        group(random.Int(1, 3)),
        queries(random.Int(1, 70)),
        keys(random.Int(1, 40)),
        size(random.Int(1, 9)),
        v_size(random.Int(1, 9)),
        packed(random.Bool()),
        causal(random.Bool()),
        bool_mask(random.Int(0, 2) == 0),
        float_mask(!bool_mask && random.Bool()),
        left(random.Int(-1, 6)),
        right(random.Int(-1, 6)),
        mode(random.Int(0, 3)),
        softcap(random.Bool() ? 0.7f : 0.0f) {
    counts_valid = random.Int(0, 2) == 0;
    past = counts_valid ? 0 : random.Int(0, 5);
    q = random.Numbers<double>({batch, kv_heads * group, queries, size});
    k = random.Numbers<double>({batch, kv_heads, keys, size});
    v = random.Numbers<double>({batch, kv_heads, keys, v_size});
    past_k = random.Numbers<double>({batch, kv_heads, past, size});
    past_v = random.Numbers<double>({batch, kv_heads, past, v_size});
    if (bool_mask) {
      mask = Tensor(DType::kBool, {batch, 1, queries, total()});
      for (int64_t i = 0; i < mask.size(); ++i) mask.MutableData<bool>()[i] = random.Int(0, 3) > 0;
    } else if (float_mask) {
      mask = random.Numbers<double>({kv_heads * group, queries, total()});
    }
    for (int64_t i = 0; i < batch && counts_valid; ++i) valid.push_back(random.Int(0, keys));
  }

  int64_t total() const { return keys + past; }

  static Tensor Pack(const Tensor& x) {
    Tensor out(DType::kDouble, {x.dim(0), x.dim(2), x.dim(1) * x.dim(3)});
    int64_t at = 0;
    for (int64_t b = 0; b < x.dim(0); ++b)
      for (int64_t t = 0; t < x.dim(2); ++t)
        for (int64_t h = 0; h < x.dim(1); ++h)
          for (int64_t d = 0; d < x.dim(3); ++d)
            out.MutableData<double>()[at++] = x.Data<double>()[((b * x.dim(1) + h) * x.dim(2) + t) * x.dim(3) + d];
    return out;
  }

  Node MakeNode() const {
    std::vector<Attribute> attributes{{"is_causal", int64_t{causal}},
                                      {"left_window_size", left},
                                      {"right_window_size", right},
                                      {"qk_matmul_output_mode", mode},
                                      {"softcap", softcap}};
    if (packed) {
      attributes.emplace_back("q_num_heads", kv_heads * group);
      attributes.emplace_back("kv_num_heads", kv_heads);
    }
    Node node = OneNode("Attention", 7, attributes, "", 4);
    if (counts_valid) node.outputs[1] = node.outputs[2] = "";
    return node;
  }
  std::vector<Value> Inputs() const {
    std::vector<Value> inputs{packed ? Pack(q) : q, packed ? Pack(k) : k, packed ? Pack(v) : v};
    inputs.push_back(mask.defined() ? Value(mask) : Value());
    inputs.push_back(past > 0 ? Value(past_k) : Value());
    inputs.push_back(past > 0 ? Value(past_v) : Value());
    inputs.push_back(counts_valid ? Value(Tensor::FromVector(valid)) : Value());
    return inputs;
  }

  double Cached(const Tensor& old, const Tensor& fresh, int64_t b, int64_t h, int64_t t, int64_t d) const {
    const Tensor& from = t < past ? old : fresh;
    int64_t row = t < past ? t : t - past;
    return from.Data<double>()[((b * kv_heads + h) * from.dim(2) + row) * from.dim(3) + d];
  }

  // Scores of one query at the stage the node keeps, and the output row.
  void Plain(int64_t b, int64_t head, int64_t i, std::vector<double>& kept, std::vector<double>& out) const {
    std::vector<double> s(static_cast<size_t>(total()));
    std::vector<bool> allowed(s.size(), true);
    int64_t position = counts_valid ? valid[static_cast<size_t>(b)] - queries + i : past + i;
    for (int64_t t = 0; t < total(); ++t) {
      auto at = static_cast<size_t>(t);
      for (int64_t d = 0; d < size; ++d)
        s[at] += q.Data<double>()[((b * kv_heads * group + head) * queries + i) * size + d] *
                 Cached(past_k, k, b, head / group, t, d) / std::sqrt(static_cast<double>(size));
    }
    if (mode == 0) kept = s;
    for (double& score : s)
      if (softcap != 0) score = softcap * std::tanh(score / softcap);
    if (mode == 1) kept = s;
    double sum = 0;
    for (int64_t t = 0; t < total(); ++t) {
      auto at = static_cast<size_t>(t);
      if (causal && t > position) allowed[at] = false;
      if (left >= 0 && t < position - left) allowed[at] = false;
      if (right >= 0 && t > position + right) allowed[at] = false;
      if (counts_valid && t >= valid[static_cast<size_t>(b)]) allowed[at] = false;
      if (bool_mask && !mask.Data<bool>()[(b * queries + i) * total() + t]) allowed[at] = false;
      if (float_mask) s[at] += mask.Data<double>()[(head * queries + i) * total() + t];
      if (!allowed[at]) s[at] = -INFINITY;
      sum += std::exp(s[at]);
    }
    if (mode == 2) kept = s;
    for (double& score : s) score = sum > 0 ? std::exp(score) / sum : 0;
    if (mode == 3) kept = s;
    out.assign(static_cast<size_t>(v_size), 0.0);
    for (int64_t t = 0; t < total(); ++t)
      for (int64_t d = 0; d < v_size; ++d)
        out[static_cast<size_t>(d)] += s[static_cast<size_t>(t)] * Cached(past_v, v, b, head / group, t, d);
  }
};

TEST(Attention, AgreesWithThePlainDefinition) {
  Random random(61);
  for (int round = 0; round < 60; ++round) {
    RandomAttention a(random);
    std::vector<Value> results = RunNode(a.MakeNode(), a.Inputs());
    int64_t heads = a.kv_heads * a.group;
    const double* y = results[0].tensor().Data<double>();
    const double* scores = results[3].tensor().Data<double>();
    for (int64_t b = 0; b < a.batch; ++b)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t i = 0; i < a.queries; ++i) {
          std::vector<double> kept, out;
          a.Plain(b, h, i, kept, out);
          int64_t row = a.packed ? (b * a.queries + i) * heads + h : (b * heads + h) * a.queries + i;
          for (int64_t d = 0; d < a.v_size; ++d)
            ASSERT_NEAR(y[row * a.v_size + d], out[static_cast<size_t>(d)], 1e-9) << "round " << round;
          for (int64_t t = 0; t < a.total(); ++t) {
            double expected = kept[static_cast<size_t>(t)];
            double got = scores[((b * heads + h) * a.queries + i) * a.total() + t];
            if (std::isinf(expected))
              ASSERT_EQ(got, expected);
            else
              ASSERT_NEAR(got, expected, 1e-9) << "round " << round << " mode " << a.mode;
          }
        }
    if (!a.counts_valid) {
      EXPECT_EQ(results[1].tensor().shape(), (Shape{a.batch, a.kv_heads, a.total(), a.size}));
    }
  }
}

TEST(Attention, ThreadsDoNotChangeABit) {
  Random random(62);
  ThreadPool pool(3);
  RunServices services;
  services.pool = &pool;
  Node node = OneNode("Attention", 3, {{"is_causal", int64_t{1}}});
  std::vector<Value> inputs{random.Floats({2, 6, 130, 16}), random.Floats({2, 2, 130, 16}),
                            random.Floats({2, 2, 130, 24})};
  std::vector<const Value*> pointers{&inputs[0], &inputs[1], &inputs[2]};
  EXPECT_TRUE(Identical(EvaluateNode(node, pointers, services)[0], RunNode(node, inputs)[0]));
}

TEST(Attention, AMaskedKeyHasNoSayWhateverItHolds) {
  Tensor q = Tensor::FromVector<float>({1}, {1, 1, 1, 1}), k = Tensor::FromVector<float>({1, NAN}, {1, 1, 2, 1});
  Tensor v = Tensor::FromVector<float>({5, 7}, {1, 1, 2, 1}), mask = Tensor::FromVector<bool>({true, false}, {1, 2});
  EXPECT_EQ(Elements<float>(RunNode(OneNode("Attention", 4), {q, k, v, mask})[0]), std::vector<float>{5});
}

TEST(Attention, RefusesWhatDoesNotGoTogether) {
  Tensor q = Tensor::Zeros(DType::kFloat, {1, 4, 3, 8}), k = Tensor::Zeros(DType::kFloat, {1, 2, 5, 8});
  auto error = [&](std::vector<Value> inputs, std::vector<Attribute> attributes = {}) {
    return ErrorOf([&] { RunNode(OneNode("Attention", 7, attributes), inputs); });
  };
  EXPECT_EQ(error({q, k, k}), "no error");
  EXPECT_THAT(error({q, Tensor::Zeros(DType::kFloat, {1, 3, 5, 8}), k}), HasSubstr("do not go together"));
  EXPECT_THAT(error({q, k, k, Value(), k}), HasSubstr("past_key and past_value must be given together"));
  EXPECT_THAT(error({q, k, k, Tensor::Zeros(DType::kFloat, {3, 9})}), HasSubstr("more keys"));
  EXPECT_THAT(error({q, k, k, Tensor::Zeros(DType::kFloat, {2, 5})}), HasSubstr("cannot be broadcast"));
  EXPECT_THAT(error({q, k, k, Value(), Value(), Value(), Tensor::FromVector<int64_t>({6})}),
              HasSubstr("nonpad_kv_seqlen has 6"));
  EXPECT_THAT(error({q, k, k}, {{"left_window_size", int64_t{-2}}}), HasSubstr("window sizes"));
  EXPECT_THAT(error({q, k, k}, {{"softmax_precision", int64_t{7}}}), HasSubstr("softmax_precision 7"));
  Tensor packed = Tensor::Zeros(DType::kFloat, {1, 3, 8});
  EXPECT_THAT(error({packed, packed, packed}), HasSubstr("the number of heads must be given"));
  EXPECT_THAT(error({packed, packed, packed}, {{"q_num_heads", int64_t{3}}, {"kv_num_heads", int64_t{3}}}),
              HasSubstr("cannot be split into 3 heads"));
}

TEST(Attention, InferenceFollowsPackedInputsAndCaches) {
  ValueFacts q{.type = Type::Tensor(DType::kFloat, {Dim::Named("n"), Dim::Named("s"), 64})};
  ValueFacts k{.type = Type::Tensor(DType::kFloat, {Dim::Named("n"), 3, 16})};
  ValueFacts v{.type = Type::Tensor(DType::kFloat, {Dim::Named("n"), 3, 32})};
  auto out =
      InferNode(OneNode("Attention", 3, {{"q_num_heads", int64_t{8}}, {"kv_num_heads", int64_t{2}}}, "", 4), {q, k, v});
  EXPECT_EQ(ToText(out[0].type), "float[n, s, 128]");
  EXPECT_EQ(ToText(out[1].type), "float[n, 2, 3, 8]");
  EXPECT_EQ(ToText(out[2].type), "float[n, 2, 3, 16]");
  EXPECT_EQ(ToText(out[3].type), "float[n, 8, s, 3]");
}

TEST(RotaryEmbedding, TurnsPairsAndChecksPositions) {
  Tensor x = Tensor::FromVector<float>({1, 2, 3, 4}, {1, 1, 1, 4});
  Tensor cosines = Tensor::FromVector<float>({1, 1, 0, 0}, {2, 2}),
         sines = Tensor::FromVector<float>({0, 0, 1, 1}, {2, 2});
  auto run = [&](int64_t position, int64_t interleaved) {
    return Elements<float>(RunNode(OneNode("RotaryEmbedding", 4, {{"interleaved", interleaved}}),
                                   {x, cosines, sines, Tensor::FromVector<int64_t>({position}, {1, 1})})[0]);
  };
  EXPECT_EQ(run(0, 0), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(run(1, 0), (std::vector<float>{-3, -4, 1, 2}));
  EXPECT_EQ(run(1, 1), (std::vector<float>{-2, 1, -4, 3}));
  EXPECT_THAT(ErrorOf([&] { run(2, 0); }), HasSubstr("position 2 is outside the caches of 2 rows"));
}

TEST(CausalConvWithState, StepByStepIsTheSameAsAllAtOnce) {
  Random random(63);
  Tensor x = random.Floats({2, 3, 7}), w = random.Floats({3, 1, 4}), bias = random.Floats({3});
  Node node = OneNode("CausalConvWithState", 4, {{"activation", std::string("silu")}}, "", 2);
  std::vector<Value> whole = RunNode(node, {x, w, bias, Value()});
  Value state;
  for (int64_t t = 0; t < 7; ++t) {
    Tensor step(DType::kFloat, {2, 3, 1});
    for (int64_t i = 0; i < 6; ++i) step.MutableData<float>()[i] = x.Data<float>()[i * 7 + t];
    std::vector<Value> out = RunNode(node, {step, w, bias, state});
    state = out[1];
    for (int64_t i = 0; i < 6; ++i)
      EXPECT_NEAR(out[0].tensor().Data<float>()[i], whole[0].tensor().Data<float>()[i * 7 + t], 1e-6);
  }
  EXPECT_TRUE(Identical(state, whole[1]));
}

TEST(LinearAttention, RefusesInputsTheRuleDoesNotTake) {
  Tensor x = Tensor::Zeros(DType::kFloat, {1, 2, 4}), beta = Tensor::Zeros(DType::kFloat, {1, 2, 2});
  auto error = [&](const char* rule, std::vector<Value> inputs) {
    return ErrorOf([&] {
      RunNode(OneNode("LinearAttention", 6,
                      {{"update_rule", std::string(rule)}, {"q_num_heads", int64_t{2}}, {"kv_num_heads", int64_t{2}}},
                      "", 2),
              inputs);
    });
  };
  EXPECT_EQ(error("linear", {x, x, x}), "no error");
  EXPECT_THAT(error("linear", {x, x, x, Value(), Value(), beta}), HasSubstr("does not take beta"));
  EXPECT_THAT(error("gated", {x, x, x}), HasSubstr("needs decay"));
  EXPECT_THAT(error("delta", {x, x, x, Value(), Value(), Tensor::Zeros(DType::kFloat, {1, 2, 3})}),
              HasSubstr("beta has 3"));
  EXPECT_THAT(error("other", {x, x, x}), HasSubstr("'other'"));
}

}  // namespace
}  // namespace ferry
