// RNN, GRU and LSTM: one step of time after another, in either direction.
#include <algorithm>

#include "convert/c/kernels.h"

namespace ferry::c {
namespace {

struct Cell {
  int64_t gates, steps, batch, inputs, hidden, directions;
  bool batch_first;
  DType type;
  float clip;

  Cell(StepWriter& w, int64_t gate_count)
      : gates(gate_count),
        batch_first(w.node.Int("layout", 0) != 0),
        type(ArithmeticType(w.in[0].type)),
        clip(w.node.Float("clip", 0)) {
    const Shape &x = w.in[0].shape, &r = w.in[2].shape;
    steps = x[batch_first ? 1 : 0], batch = x[batch_first ? 0 : 1], inputs = x[2], hidden = r[2], directions = r[0];
  }
  std::string State(const std::string& unit) const {
    return batch_first ? Cat("(b * ", directions, " + dir) * ", hidden, " + ", unit)
                       : Cat("(dir * ", batch, " + b) * ", hidden, " + ", unit);
  }
};

// f of a clipped number in the variable v.
std::string Function(StepWriter& w, const Cell& cell, size_t number, const std::vector<std::string>& usual,
                     int64_t direction, const std::string& x) {
  std::vector<std::string> names = w.node.Strings("activations");
  const size_t at = static_cast<size_t>(direction) * usual.size() + number;
  const std::string name = at < names.size() ? names[at] : usual[number];
  // Alphas and betas are given to those functions that have them, in order.
  auto takes_alpha = [](const std::string& f) {
    return f == "Affine" || f == "LeakyRelu" || f == "ThresholdedRelu" || f == "ScaledTanh" || f == "HardSigmoid" ||
           f == "Elu";
  };
  auto takes_beta = [](const std::string& f) { return f == "Affine" || f == "ScaledTanh" || f == "HardSigmoid"; };
  size_t alphas = 0, betas = 0;
  for (size_t i = 0; i < at && i < names.size(); ++i) alphas += takes_alpha(names[i]), betas += takes_beta(names[i]);
  const std::vector<float> alpha_list = w.node.Floats("activation_alpha"), beta_list = w.node.Floats("activation_beta");
  Node node;
  node.op_type = name;
  if (takes_alpha(name) && alphas < alpha_list.size()) node.Set("alpha", alpha_list[alphas]);
  if (takes_beta(name) && betas < beta_list.size()) node.Set("beta", beta_list[betas]);
  if (name == "Affine")
    return Cat(Literal(node.Float("alpha", 1), cell.type), " * ", x, " + ", Literal(node.Float("beta", 0), cell.type));
  if (name == "ScaledTanh")
    return Cat(Literal(node.Float("alpha", 1), cell.type), " * ", Math("tanh", cell.type), "(",
               Literal(node.Float("beta", 1), cell.type), " * ", x, ")");
  const StepWriter inner(node, w.options);
  std::string text = UnaryText(inner, name, x, cell.type);
  if (text.empty()) w.Refuse(Cat("activation '", Printable(name), "' is not written as C"));
  return text;
}

// bias + x · W + h · R of one unit of one gate, without the recurrent part where it is not wanted.
std::string Biases(StepWriter& w, const Cell& cell, const std::string& gate, bool input, bool recurrent) {
  if (!w.Has(3)) return "0";
  const std::string unit = Cat("dir * ", 2 * cell.gates * cell.hidden, " + (", gate, ") * ", cell.hidden, " + u");
  std::string text;
  if (input) text = w.Load(w.in[3], unit);
  if (recurrent) text += Cat(text.empty() ? "" : " + ", w.Load(w.in[3], Cat(unit, " + ", cell.gates * cell.hidden)));
  return text.empty() ? "0" : text;
}

void WriteRecurrent(StepWriter& w) {
  const std::string& op = w.node.op_type;
  const bool lstm = op == "LSTM", gru = op == "GRU";
  const Cell cell(w, lstm ? 4 : gru ? 3 : 1);
  const bool linear_first = w.node.Int("linear_before_reset", 0) != 0, coupled = w.node.Int("input_forget", 0) != 0;
  const std::string c(StoredType(cell.type)), h = w.Scratch(cell.type, cell.hidden),
                                              next = w.Scratch(cell.type, cell.hidden),
                                              g = w.Scratch(cell.type, cell.gates * cell.hidden);
  const std::string state = lstm ? w.Scratch(cell.type, cell.hidden) : std::string();
  const std::vector<std::string> usual = lstm  ? std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"}
                                         : gru ? std::vector<std::string>{"Sigmoid", "Tanh"}
                                               : std::vector<std::string>{"Tanh"};
  const std::string H = Cat(cell.hidden);
  const bool first_reverse = w.node.String("direction", "forward") == "reverse";
  w.multiply_adds += cell.directions * cell.batch * cell.steps * cell.gates * cell.hidden * (cell.inputs + cell.hidden);
  auto clipped = [&](const std::string& v) {
    if (cell.clip == 0) return;
    const std::string limit = Literal(cell.clip, cell.type);
    w.Line(v, " = ", v, " < -", limit, " ? -", limit, " : ", v, " > ", limit, " ? ", limit, " : ", v, ";");
  };
  for (int64_t direction = 0; direction < cell.directions; ++direction) {
    auto f = [&](size_t number, const std::string& x) { return Function(w, cell, number, usual, direction, x); };
    w.For("b", cell.batch);
    w.Line("const int dir = ", direction, ", length = ", w.Has(4) ? Cat("(int)", w.in[4].c, "[b]") : Cat(cell.steps),
           ";");
    w.For("u", cell.hidden);
    w.Line(h, "[u] = ", w.Has(5) ? w.Load(w.in[5], cell.State("u")) : "0", ";");
    if (lstm) w.Line(state, "[u] = ", w.Has(6) ? w.Load(w.in[6], cell.State("u")) : "0", ";");
    w.Close();
    w.For("s", cell.steps);
    const std::string out = cell.batch_first
                                ? Cat("((b * ", cell.steps, " + t) * ", cell.directions, " + dir) * ", H, " + u")
                                : Cat("((t * ", cell.directions, " + dir) * ", cell.batch, " + b) * ", H, " + u");
    w.Line("const int t = s < length ? ", direction == 1 || first_reverse ? "length - 1 - s" : "s", " : s;");
    w.Open("if (s >= length)");
    if (w.Wants(0)) w.For("u", cell.hidden), w.Line(w.Store(w.out[0], out, "0")), w.Close();
    w.Line("continue;");
    w.Close();
    w.For("k", cell.gates);
    w.For("u", cell.hidden);
    const bool split = gru;
    w.Line(c, " sum = ",
           split ? Cat("k == 2 ? ", Biases(w, cell, "k", true, !linear_first), " : ", Biases(w, cell, "k", true, true))
                 : Biases(w, cell, "k", true, true),
           ";");
    w.Line("for (int i = 0; i < ", cell.inputs, "; i++) sum += ",
           w.Load(w.in[0], cell.batch_first ? Cat("(b * ", cell.steps, " + t) * ", cell.inputs, " + i")
                                            : Cat("(t * ", cell.batch, " + b) * ", cell.inputs, " + i")),
           " * ", w.Load(w.in[1], Cat("((dir * ", cell.gates, " + k) * ", H, " + u) * ", cell.inputs, " + i")), ";");
    w.Line(split ? "if (k < 2) " : "", "for (int i = 0; i < ", H, "; i++) sum += ", h, "[i] * ",
           w.Load(w.in[2], Cat("((dir * ", cell.gates, " + k) * ", H, " + u) * ", H, " + i")), ";");
    w.Line(g, "[k * ", H, " + u] = sum;");
    w.Close(2);
    if (!lstm && !gru) {
      w.For("u", cell.hidden);
      w.Line(c, " v = ", g, "[u];");
      clipped("v");
      w.Line(next, "[u] = ", f(0, "v"), ";");
      w.Close();
    } else if (gru) {
      w.For("u", 2 * cell.hidden);
      w.Line(c, " v = ", g, "[u];");
      clipped("v");
      w.Line(g, "[u] = ", f(0, "v"), ";");
      w.Close();
      w.For("u", cell.hidden);
      w.Line(c, " sum = ", linear_first ? Biases(w, cell, "2", false, true) : "0", ", v;");
      w.Line("for (int i = 0; i < ", H,
             "; i++) sum += ", linear_first ? Cat(h, "[i]") : Cat(g, "[", H, " + i] * ", h, "[i]"), " * ",
             w.Load(w.in[2], Cat("((dir * 3 + 2) * ", H, " + u) * ", H, " + i")), ";");
      w.Line("v = ", g, "[2 * ", H, " + u] + ", linear_first ? Cat(g, "[", H, " + u] * sum") : "sum", ";");
      clipped("v");
      w.Line("v = ", f(1, "v"), ";");
      w.Line(next, "[u] = (1 - ", g, "[u]) * v + ", g, "[u] * ", h, "[u];");
      w.Close();
    } else {
      auto peep = [&](int64_t which) {
        return w.Has(7) ? Cat(" + ", w.Load(w.in[7], Cat("dir * ", 3 * cell.hidden, " + ", which, " * ", H, " + u")),
                              " * ", state, "[u]")
                        : std::string();
      };
      w.For("u", cell.hidden);
      w.Line(c, " in = ", g, "[u]", peep(0), ", forget = ", g, "[2 * ", H, " + u]", peep(2), ", v = ", g, "[3 * ", H,
             " + u], o;");
      clipped("in"), clipped("forget"), clipped("v");
      w.Line("in = ", f(0, "in"), ";");
      w.Line("forget = ", coupled ? "1 - in" : f(0, "forget"), ";");
      w.Line("v = ", f(1, "v"), ";");
      w.Line(state, "[u] = forget * ", state, "[u] + in * v;");
      w.Line("o = ", g, "[", H, " + u]", peep(1), ";");
      clipped("o");
      w.Line("o = ", f(0, "o"), ";");
      w.Line("v = ", state, "[u];");
      clipped("v");
      w.Line(next, "[u] = o * (", f(2, "v"), ");");
      w.Close();
    }
    w.For("u", cell.hidden);
    w.Line(h, "[u] = ", next, "[u];");
    if (w.Wants(0)) w.Line(w.Store(w.out[0], out, Cat(next, "[u]")));
    w.Close();
    w.Close();
    w.For("u", cell.hidden);
    if (w.Wants(1)) w.Line(w.Store(w.out[1], cell.State("u"), Cat(h, "[u]")));
    if (lstm && w.Wants(2)) w.Line(w.Store(w.out[2], cell.State("u"), Cat(state, "[u]")));
    w.Line("(void)dir;");
    w.Close();
    w.Close();
  }
}

void WriteCausalConv(StepWriter& w) {
  const Operand& x = w.in[0];
  const int64_t batch = x.shape[0], channels = x.shape[1], length = x.shape[2], kernel = w.in[1].shape[2];
  const DType type = ArithmeticType(x.type);
  const std::string c(StoredType(type));
  auto line = [&](const std::string& at) {
    return Cat(
        "(", at, " < ", kernel - 1, " ? ",
        w.Has(3) && kernel > 1 ? w.Load(w.in[3], Cat("(n * ", channels, " + c) * ", kernel - 1, " + ", at)) : "0",
        " : ", w.Load(x, Cat("(n * ", channels, " + c) * ", length, " + ", at, " - ", kernel - 1)), ")");
  };
  const bool activates = w.node.String("activation", "none") != "none";
  w.For("n", batch);
  w.For("c", channels);
  w.For("i", length);
  w.Line(c, " sum = ", w.Has(2) ? w.Load(w.in[2], "c") : "0", ";");
  w.For("k", kernel);
  w.Line("const int j = i + k;");
  w.Line("sum += ", w.Load(w.in[1], Cat("c * ", kernel, " + k")), " * ", line("j"), ";");
  w.Close();
  if (w.Wants(0))
    w.Line(w.Store(w.out[0], Cat("(n * ", channels, " + c) * ", length, " + i"),
                   activates ? Cat("sum / (1 + ", Math("exp", type), "(-sum))") : "sum"));
  w.Close();
  if (w.Wants(1) && kernel > 1) {
    w.For("k", kernel - 1);
    w.Line("const int j = ", length, " + k;");
    w.Line(w.Store(w.out[1], Cat("(n * ", channels, " + c) * ", kernel - 1, " + k"), line("j")));
    w.Close();
  }
  w.Close(2);
}

}  // namespace

const std::vector<KernelEntry>& RecurrentKernels() {
  static const std::vector<KernelEntry> kernels = {{"RNN", WriteRecurrent},
                                                   {"GRU", WriteRecurrent},
                                                   {"LSTM", WriteRecurrent},
                                                   {"CausalConvWithState", WriteCausalConv}};
  return kernels;
}

}  // namespace ferry::c
