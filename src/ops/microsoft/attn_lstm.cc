// An LSTM that looks at a memory after each step (Bahdanau's attention) and reads what it saw beside the next input.
#include "ops/support/compose.h"
#include "ops/support/recurrent.h"

namespace ferry {
namespace {

enum Input : size_t {
  kX,
  kW,
  kR,
  kB,
  kLengths,
  kInitialH,
  kInitialC,
  kP,
  kQueryWeights,
  kMemoryWeights,
  kV,
  kMemory,
  kMemoryLengths,
  kAttentionWeights,
};

// One direction of an input that has it in front: [directions, …] as […].
Term PartOf(Composer& c, Term term, int64_t direction) {
  if (!term) return term;
  return c.Call("Gather", {term, c.Int(direction)});
}

Term WithDirection(Composer& c, Term term) { return term ? c.Call("Unsqueeze", {term, c.Ints({0})}) : term; }

// What attention sees of the memory, from one direction's weights.
class Attention {
 public:
  Attention(Composer& c, int64_t direction)
      : c_(c),
        query_(PartOf(c, c.In(kQueryWeights), direction)),
        v_(PartOf(c, c.In(kV), direction)),
        layer_(PartOf(c, c.In(kAttentionWeights), direction)),
        memory_(c.In(kMemory)) {
    keys_ = c.Call("MatMul", {memory_, PartOf(c, c.In(kMemoryWeights), direction)});
    if (!c.In(kMemoryLengths)) return;
    std::vector<int64_t> lengths = ToInt64Vector(c.In(kMemoryLengths).value());
    int64_t batch = memory_.size(0), steps = memory_.size(1);
    Require(static_cast<int64_t>(lengths.size()) == batch, "memory_seq_lens must have ", batch, " numbers, has ",
            lengths.size());
    Tensor hidden = Tensor::Zeros(DType::kFloat, Shape{batch, steps});
    for (int64_t b = 0; b < batch; ++b) {
      int64_t length = lengths[static_cast<size_t>(b)];
      Require(length > 0 && length <= steps, "memory_seq_lens has ", length, ", the memory has ", steps, " steps");
      std::fill(hidden.MutableData<float>() + b * steps + length, hidden.MutableData<float>() + (b + 1) * steps,
                -std::numeric_limits<float>::infinity());
    }
    hidden_ = c.Constant(std::move(hidden));
  }

  int64_t width() const { return layer_ ? layer_.size(1) : memory_.size(2); }

  // h: [batch, hidden]
  Term See(Term h) {
    Term query = c_.Call("Unsqueeze", {c_.Call("MatMul", {h, query_}), c_.Ints({1})});
    Term mixed = c_.Call("Mul", {c_.Call("Tanh", {c_.Call("Add", {keys_, query})}), v_});
    Term scores = c_.Call("ReduceSum", {mixed, c_.Ints({2})}, {{"keepdims", int64_t{0}}});
    if (hidden_) scores = c_.Call("Add", {scores, hidden_});
    Term parts = c_.Call("Unsqueeze", {c_.Call("Softmax", {scores}, {{"axis", int64_t{-1}}}), c_.Ints({1})});
    Term seen = c_.Call("Squeeze", {c_.Call("MatMul", {parts, memory_}), c_.Ints({1})});
    if (!layer_) return seen;
    return c_.Call("MatMul", {c_.Call("Concat", {h, seen}, {{"axis", int64_t{1}}}), layer_});
  }

 private:
  Composer& c_;
  Term query_, v_, layer_, memory_, keys_, hidden_;
};

struct DirectionResult {
  Term y, h, c;  // [steps, batch, hidden], [batch, hidden] twice
};

DirectionResult RunDirection(Composer& c, int64_t direction, bool is_reverse, const Settings& attributes) {
  Term x = c.In(kX);
  int64_t steps = x.size(0), batch = x.size(1), hidden = c.In(kR).size(2);
  std::vector<int64_t> lengths(static_cast<size_t>(batch), steps);
  if (c.In(kLengths)) lengths = ToInt64Vector(c.In(kLengths).value());
  Require(static_cast<int64_t>(lengths.size()) == batch, "sequence_lens must have ", batch, " numbers, has ",
          lengths.size());
  for (int64_t length : lengths)
    Require(length > 0 && length <= steps, "sequence_lens has ", length, ", there are ", steps, " steps");
  Term turn = c.Ints(lengths);
  auto turned = [&](Term term) {
    return c.Call("ReverseSequence", {term, turn}, {{"time_axis", int64_t{0}}, {"batch_axis", int64_t{1}}});
  };
  if (is_reverse) x = turned(x);
  Attention attention(c, direction);
  auto one = [&](size_t i) { return WithDirection(c, PartOf(c, c.In(i), direction)); };
  Term w = one(kW), r = one(kR), b = one(kB), p = one(kP), h = one(kInitialH), state = one(kInitialC);
  auto zeros = [&](Shape shape) { return c.Constant(Tensor::Zeros(c.In(kX).type(), std::move(shape))); };
  if (!h) h = zeros({1, batch, hidden});
  if (!state) state = zeros({1, batch, hidden});
  Term seen = WithDirection(c, zeros({batch, attention.width()}));
  std::vector<Term> outputs;
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<int32_t> active;
    for (int64_t length : lengths) active.push_back(step < length ? 1 : 0);
    Term input = c.Call("Concat", {c.Slice(x, 0, step, step + 1), seen}, {{"axis", int64_t{2}}});
    std::vector<Term> results =
        c.CallMany("LSTM", {input, w, r, b, c.Constant(Tensor::FromVector(active)), h, state, p}, 3, attributes);
    outputs.push_back(c.Reshape(results[0], {1, batch, hidden}));
    h = results[1];
    state = results[2];
    seen = WithDirection(c, attention.See(c.Reshape(outputs.back(), {batch, hidden})));
  }
  Term y = c.Call("Concat", outputs, {{"axis", int64_t{0}}});
  return {is_reverse ? turned(y) : y, h, state};
}

void ComposeAttnLSTM(Composer& c) {
  for (size_t i : {kQueryWeights, kMemoryWeights, kV, kMemory})
    Require(static_cast<bool>(c.In(i)), "inputs QW, MW, V and M are needed");
  Require(c.In(kX).rank() == 3 && c.In(kX).size(0) > 0 && c.In(kR).rank() == 3, "X and R must have 3 axes");
  const Node& node = c.node();
  std::string direction = node.String("direction", "forward");
  Require(direction == "forward" || direction == "reverse" || direction == "bidirectional",
          "direction must be forward, reverse or bidirectional, is \"", Printable(direction), "\"");
  bool is_both = direction == "bidirectional";
  std::vector<std::string> functions = node.Strings("activations");
  Require(!is_both || (node.Floats("activation_alpha").empty() && node.Floats("activation_beta").empty()),
          "parameters of activations in two directions are not supported");
  std::vector<DirectionResult> results;
  for (int64_t d = 0; d < (is_both ? 2 : 1); ++d) {
    Settings attributes = c.Keep({"clip", "hidden_size", "input_forget"});
    std::vector<std::string> mine;
    if (!is_both) attributes = c.Keep({"clip", "hidden_size", "input_forget", "activation_alpha", "activation_beta"});
    if (!functions.empty()) {
      Require(functions.size() == (is_both ? 6u : 3u), "there must be three activations for each direction");
      mine.assign(functions.begin() + 3 * d, functions.begin() + 3 * (d + 1));
      attributes.emplace_back("activations", mine);
    }
    results.push_back(RunDirection(c, d, d == 1 || direction == "reverse", attributes));
  }
  std::vector<Term> y, h, state;
  for (DirectionResult& result : results) {
    y.push_back(c.Call("Unsqueeze", {result.y, c.Ints({1})}));
    h.push_back(result.h);
    state.push_back(result.c);
  }
  c.Out(0, c.Call("Concat", y, {{"axis", int64_t{1}}}));
  c.Out(1, c.Call("Concat", h, {{"axis", int64_t{0}}}));
  c.Out(2, c.Call("Concat", state, {{"axis", int64_t{0}}}));
}

}  // namespace

FERRY_OPERATOR_IN(microsoft, AttnLSTM,
                  {.compute = [](OpContext& context) { RunComposed(ComposeAttnLSTM, context); },
                   .infer = [](InferContext& context) { InferRecurrent(context, 4, 2); }});

}  // namespace ferry
