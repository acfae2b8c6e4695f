// LSTM, GRU and simple recurrent networks, and their cells.
#include "torch/lower/families.h"

namespace ferry::torch {
namespace {

// What differs between the three: the operator, and where ONNX wants each of PyTorch's gates.
struct Kind {
  const char* op_type;
  std::span<const int64_t> gates;  // PyTorch's gate number for each gate of ONNX
};
constexpr int64_t kLstmGates[] = {0, 3, 1, 2};  // i f g o → i o f c
constexpr int64_t kGruGates[] = {1, 0, 2};      // r z n → z r h
constexpr int64_t kRnnGates[] = {0};
constexpr Kind kLstm = {"LSTM", kLstmGates}, kGru = {"GRU", kGruGates}, kRnn = {"RNN", kRnnGates};

// Gates of a [gates × hidden, …] tensor put into ONNX's order.
Operand Reordered(Call& c, const Operand& x, const Kind& kind) {
  if (kind.gates.size() == 1) return x;
  Dim rows = x.dim(0);
  if (!rows.known()) c.Unsupported("the size of its weights is not known");
  int64_t hidden = *rows.value / static_cast<int64_t>(kind.gates.size());
  Operands parts;
  for (int64_t gate : kind.gates) parts.push_back(c.b.Slice(x, 0, Scalar(gate * hidden), Scalar((gate + 1) * hidden)));
  return c.b.Concat(parts, 0);
}

struct Layers {
  Operands params;
  bool has_biases = true, bidirectional = false, batch_first = false;
  int64_t count = 1;
  size_t directions() const { return bidirectional ? 2 : 1; }
  size_t per_direction() const { return has_biases ? 4 : 2; }
};

// Arguments from `first` on: params, has_biases, num_layers, dropout, train, bidirectional and, where the input is not
// packed, batch_first.
Layers ReadLayers(Call& c, size_t first, bool is_packed = false) {
  bool batch_first = !is_packed && c.Bool(first + 6);
  Layers layers{c.Tensors(first), c.Bool(first + 1), c.Bool(first + 5), batch_first, c.Int(first + 2)};
  bool drops = c.Float(first + 3) > 0 && c.Bool(first + 4) && layers.count > 1;
  if (drops && c.options().training != LowerOptions::Training::kConvert)
    c.Unsupported(
        "the program was captured in training mode: dropout between its layers is active. Call model.eval() before "
        "torch.export, or export with ",
        c.options().eval_option());
  if (layers.count < 1) c.Unsupported("there is no recurrent network of ", layers.count, " layers");
  size_t expected = layers.per_direction() * layers.directions() * static_cast<size_t>(layers.count);
  if (layers.params.size() != expected) c.Unsupported("recurrent networks with projections have no export");
  return layers;
}

Operand Stacked(Call& c, const Operands& per_direction) {
  Operands parts;
  for (const Operand& part : per_direction) parts.push_back(c.b.Unsqueeze(part, {0}));
  return c.b.Concat(parts, 0);
}

struct LayerResult {
  Operand y, h, cell;
};
// x is [time, batch, features]; initial states are [directions, batch, hidden]; `lengths` may be absent.
LayerResult RunLayer(Call& c, const Kind& kind, const Layers& layers, size_t layer, const Operand& x,
                     const Operand& lengths, const Operand& h, const Operand& cell) {
  Operands inputs_w, inputs_r, biases;
  for (size_t d = 0; d < layers.directions(); ++d) {
    size_t at = (layer * layers.directions() + d) * layers.per_direction();
    inputs_w.push_back(Reordered(c, layers.params[at], kind));
    inputs_r.push_back(Reordered(c, layers.params[at + 1], kind));
    if (layers.has_biases)
      biases.push_back(
          c.b.Concat({Reordered(c, layers.params[at + 2], kind), Reordered(c, layers.params[at + 3], kind)}, 0));
  }
  Dim hidden = layers.params[1].dim(1);
  if (!hidden.known()) c.Unsupported("the size of its state is not known");
  Attributes attributes = {{"hidden_size", *hidden.value}};
  if (layers.bidirectional) attributes.push_back({"direction", std::string("bidirectional")});
  std::string op_type = kind.op_type;
  if (op_type == "GRU") attributes.push_back({"linear_before_reset", int64_t{1}});
  if (c.op_name().find("relu") != std::string::npos)
    attributes.push_back({"activations", std::vector<std::string>(layers.directions(), "Relu")});
  Operands inputs = {
      x, Stacked(c, inputs_w), Stacked(c, inputs_r), biases.empty() ? Operand() : Stacked(c, biases), lengths, h};
  if (op_type == "LSTM") inputs.push_back(cell);
  Operands out = c.b.EmitMany(op_type, inputs, attributes, op_type == "LSTM" ? 3 : 2);
  // [time, directions, batch, hidden] → [time, batch, directions · hidden]
  Operand y = out[0];
  if (layers.directions() == 1) {
    y = c.b.Squeeze(y, {1});
  } else {
    y = c.b.Transpose(y, {0, 2, 1, 3});
    y = c.b.View(y, {c.b.SizeScalar(x, 0), c.b.SizeScalar(x, 1), Scalar(2 * *hidden.value)});
  }
  return {y, out[1], out.size() > 2 ? out[2] : Operand()};
}

Operands RunLayers(Call& c, const Kind& kind, const Operand& input, const Operands& states, const Layers& layers,
                   const Operand& lengths = {}) {
  bool unbatched = input.rank() == 2;
  Operand x = unbatched ? c.b.Unsqueeze(input, {1}) : layers.batch_first ? c.b.SwapAxes(input, 0, 1) : input;
  Operands starts = states;
  if (unbatched)
    for (Operand& state : starts) state = c.b.Unsqueeze(state, {1});
  Operands hs, cells;
  for (size_t layer = 0; layer < static_cast<size_t>(layers.count); ++layer) {
    auto begin = static_cast<int64_t>(layer * layers.directions()),
         end = begin + static_cast<int64_t>(layers.directions());
    auto of_layer = [&](const Operand& state) {
      return layers.count == 1 ? state : c.b.Slice(state, 0, Scalar(begin), Scalar(end));
    };
    LayerResult result = RunLayer(c, kind, layers, layer, x, lengths, of_layer(starts.at(0)),
                                  starts.size() > 1 ? of_layer(starts[1]) : Operand());
    x = result.y;
    hs.push_back(result.h);
    if (result.cell) cells.push_back(result.cell);
  }
  Operands results = {unbatched            ? c.b.Squeeze(x, {1})
                      : layers.batch_first ? c.b.SwapAxes(x, 0, 1)
                                           : x,
                      c.b.Concat(hs, 0)};
  if (!cells.empty()) results.push_back(c.b.Concat(cells, 0));
  if (unbatched)
    for (size_t i = 1; i < results.size(); ++i) results[i] = c.b.Squeeze(results[i], {1});
  return results;
}

Result Lstm(Call& c) { return RunLayers(c, kLstm, c.Tensor(0), c.Tensors(1), ReadLayers(c, 2)); }
Result Gru(Call& c) { return RunLayers(c, kGru, c.Tensor(0), {c.Tensor(1)}, ReadLayers(c, 2)); }
Result Rnn(Call& c) { return RunLayers(c, kRnn, c.Tensor(0), {c.Tensor(1)}, ReadLayers(c, 2)); }

// --- packed sequences: the rows of the first step of all sequences, longest first, then those of the second …

// Where a batch of sequences has elements: [time, batch].
Operand Present(Call& c, const Operand& batch_sizes, const Operand& batch) {
  Operand sequences = c.b.Range(c.b.Int(0), c.b.AsRank0(batch), c.b.Int(1));
  return c.b.Less(sequences, c.b.Unsqueeze(batch_sizes, {1}));
}
Operand PlacesOf(Call& c, const Operand& present) { return c.b.SwapAxes(c.b.Emit("NonZero", {present}), 0, 1); }
Operand LengthsOf(Call& c, const Operand& present) {
  return c.b.Reduce("ReduceSum", c.b.Cast(present, DType::kInt64), {0}, false);
}
Operand Unpack(Call& c, const Operand& data, const Operand& present, const Operand& steps, double padding) {
  Operand batch = c.b.Slice(c.b.ShapeOf(present), 0, Scalar(1), Scalar(2));
  Operand features = c.b.Slice(c.b.ShapeOf(data), 0, Scalar(1), Scalar(INT64_MAX));
  Operand empty = c.b.Fill(padding, data.dtype(), c.b.Concat({steps, batch, features}, 0));
  return c.b.Emit("ScatterND", {empty, PlacesOf(c, present), data});
}

Result Pack(Call& c) {
  Operand x = c.Bool(2) ? c.b.SwapAxes(c.Tensor(0), 0, 1) : c.Tensor(0);
  Operand lengths = c.b.Cast(c.Tensor(1), DType::kInt64);
  Operand longest = c.b.Reduce("ReduceMax", lengths, {0}, false);
  Operand steps = c.b.Unsqueeze(c.b.Range(c.b.Int(0), longest, c.b.Int(1)), {1});
  Operand present = c.b.Less(steps, lengths);
  Operand batch_sizes = c.b.Reduce("ReduceSum", c.b.Cast(present, DType::kInt64), {1}, false);
  return Operands{c.b.Emit("GatherND", {x, PlacesOf(c, present)}), batch_sizes};
}

Result RunPacked(Call& c, const Kind& kind, const Operands& states) {
  Operand data = c.Tensor(0), batch_sizes = c.Tensor(1);
  Operand present = Present(c, batch_sizes, c.b.SizeOf(states.at(0), 1));
  Operand padded = Unpack(c, data, present, c.b.SizeOf(batch_sizes, 0), 0);
  Operand lengths = c.b.Cast(LengthsOf(c, present), DType::kInt32);
  Operands results = RunLayers(c, kind, padded, states, ReadLayers(c, 3, true), lengths);
  results[0] = c.b.Emit("GatherND", {results[0], PlacesOf(c, present)});
  return results;
}
Result PackedLstm(Call& c) { return RunPacked(c, kLstm, c.Tensors(2)); }
Result PackedGru(Call& c) { return RunPacked(c, kGru, {c.Tensor(2)}); }
Result PackedRnn(Call& c) { return RunPacked(c, kRnn, {c.Tensor(2)}); }

Result Pad(Call& c) {
  Operand batch_sizes = c.Tensor(1), first = c.b.Slice(batch_sizes, 0, Scalar(0), Scalar(1));
  Operand present = Present(c, batch_sizes, first);
  bool as_long_as_asked = !c.Number(4).is_known() || c.Int(4) > 0;
  Operand steps = as_long_as_asked ? c.b.AsVector(c.Number(4)) : c.b.SizeOf(batch_sizes, 0);
  Operand padded = Unpack(c, c.Tensor(0), present, steps, c.Float(3));
  return Operands{c.Bool(2) ? c.b.SwapAxes(padded, 0, 1) : padded, LengthsOf(c, present)};
}

// --- one step

Operand Affine(Call& c, const Operand& x, const Operand& weight, const Operand& bias) {
  Operand product = c.b.MatMul(x, c.b.TransposedWeight(weight));
  return bias ? c.b.Add(product, bias) : product;
}
Operands Gates(Call& c, const Operand& x, int64_t count) {
  Dim size = x.dim(-1);
  if (!size.known()) c.Unsupported("the size of its state is not known");
  std::vector<int64_t> sizes(static_cast<size_t>(count), *size.value / count);
  return c.b.EmitMany("Split", {x, c.b.Ints(sizes)}, {{"axis", static_cast<int64_t>(x.rank()) - 1}}, sizes.size());
}
Result LstmCell(Call& c) {
  Operands state = c.Tensors(1);
  Operand sum = c.b.Add(Affine(c, c.Tensor(0), c.Tensor(2), c.MaybeTensor(4)),
                        Affine(c, state.at(0), c.Tensor(3), c.MaybeTensor(5)));
  Operands gates = Gates(c, sum, 4);
  auto sigmoid = [&](const Operand& x) { return c.b.Widened("Sigmoid", {x}); };
  auto tanh = [&](const Operand& x) { return c.b.Widened("Tanh", {x}); };
  Operand cell = c.b.Add(c.b.Mul(sigmoid(gates[1]), state.at(1)), c.b.Mul(sigmoid(gates[0]), tanh(gates[2])));
  return Operands{c.b.Mul(sigmoid(gates[3]), tanh(cell)), cell};
}
Result GruCell(Call& c) {
  Operand h = c.Tensor(1);
  Operands in = Gates(c, Affine(c, c.Tensor(0), c.Tensor(2), c.MaybeTensor(4)), 3);
  Operands back = Gates(c, Affine(c, h, c.Tensor(3), c.MaybeTensor(5)), 3);
  Operand reset = c.b.Widened("Sigmoid", {c.b.Add(in[0], back[0])}),
          update = c.b.Widened("Sigmoid", {c.b.Add(in[1], back[1])});
  Operand fresh = c.b.Widened("Tanh", {c.b.Add(in[2], c.b.Mul(reset, back[2]))});
  return c.b.Add(c.b.Mul(c.b.Sub(h, fresh), update), fresh);
}
Result RnnCell(Call& c) {
  Operand sum = c.b.Add(Affine(c, c.Tensor(0), c.Tensor(2), c.MaybeTensor(4)),
                        Affine(c, c.Tensor(1), c.Tensor(3), c.MaybeTensor(5)));
  return c.b.Widened(c.op_name() == "rnn_relu_cell" ? "Relu" : "Tanh", {sum});
}

#define LAYER_ARGS \
  "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first)"
#define PACKED_ARGS "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional)"
#define CELL_ARGS "Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None)"

// torch.export describes the final states with a dimension too many.
constexpr size_t kOutputOnly = 1;

constexpr Rule kRules[] = {
    {"lstm.input(Tensor input, Tensor[] hx, " LAYER_ARGS, Lstm, RuleKind::kPlain, !kComplexToo, kOutputOnly},
    {"gru.input(Tensor input, Tensor hx, " LAYER_ARGS, Gru, RuleKind::kPlain, !kComplexToo, kOutputOnly},
    {"rnn_tanh.input(Tensor input, Tensor hx, " LAYER_ARGS, Rnn, RuleKind::kPlain, !kComplexToo, kOutputOnly},
    {"rnn_relu.input(Tensor input, Tensor hx, " LAYER_ARGS, Rnn, RuleKind::kPlain, !kComplexToo, kOutputOnly},
    {"lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, " PACKED_ARGS, PackedLstm},
    {"gru.data(Tensor data, Tensor batch_sizes, Tensor hx, " PACKED_ARGS, PackedGru},
    {"rnn_tanh.data(Tensor data, Tensor batch_sizes, Tensor hx, " PACKED_ARGS, PackedRnn},
    {"rnn_relu.data(Tensor data, Tensor batch_sizes, Tensor hx, " PACKED_ARGS, PackedRnn},
    {"_pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first)", Pack},
    {"_pad_packed_sequence(Tensor data, Tensor batch_sizes, bool batch_first, Scalar padding_value, int total_length)",
     Pad},
    {"lstm_cell(Tensor input, Tensor[] hx, " CELL_ARGS, LstmCell},
    {"gru_cell(Tensor input, Tensor hx, " CELL_ARGS, GruCell},
    {"rnn_tanh_cell(Tensor input, Tensor hx, " CELL_ARGS, RnnCell},
    {"rnn_relu_cell(Tensor input, Tensor hx, " CELL_ARGS, RnnCell},
};
#undef LAYER_ARGS
#undef PACKED_ARGS
#undef CELL_ARGS

}  // namespace

std::span<const Rule> RecurrentRules() { return kRules; }

}  // namespace ferry::torch
