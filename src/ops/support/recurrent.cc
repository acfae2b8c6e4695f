#include "ops/support/recurrent.h"

#include <cctype>
#include <cmath>

#include "base/error.h"

namespace ferry {
namespace {

struct FunctionFacts {
  const char* name;
  bool takes_alpha, takes_beta;
  float alpha, beta;
};

// In the order of CellFunction.
constexpr FunctionFacts kFunctions[] = {
    {"relu", false, false, 0, 0},         {"tanh", false, false, 0, 0},
    {"sigmoid", false, false, 0, 0},      {"affine", true, true, 1, 0},
    {"leakyrelu", true, false, 0.01f, 0}, {"thresholdedrelu", true, false, 1, 0},
    {"scaledtanh", true, true, 1, 1},     {"hardsigmoid", true, true, 0.2f, 0.5f},
    {"elu", true, false, 1, 0},           {"softsign", false, false, 0, 0},
    {"softplus", false, false, 0, 0},
};

CellFunction FunctionNamed(const std::string& name) {
  std::string lower;
  for (char c : name) lower.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  for (size_t i = 0; i < std::size(kFunctions); ++i)
    if (lower == kFunctions[i].name) return static_cast<CellFunction>(i);
  Fail(ErrorCode::kInvalidModel, "'", Printable(name), "' is not an activation of recurrent operators");
}

// alpha and beta are consumed by the functions that take them, in order.
std::vector<CellActivation> ReadActivations(const Node& node, std::span<const CellFunction> defaults,
                                            int64_t directions) {
  std::vector<CellActivation> activations;
  std::vector<std::string> names = node.Strings("activations");
  size_t count = defaults.size() * static_cast<size_t>(directions);
  Require(names.empty() || names.size() >= count, "activations has ", names.size(), " names, ", count, " are needed");
  std::vector<float> alphas = node.Floats("activation_alpha"), betas = node.Floats("activation_beta");
  size_t next_alpha = 0, next_beta = 0;
  for (size_t i = 0; i < count; ++i) {
    CellActivation activation{names.empty() ? defaults[i % defaults.size()] : FunctionNamed(names[i])};
    const FunctionFacts& facts = kFunctions[static_cast<size_t>(activation.function)];
    activation.alpha = facts.takes_alpha && next_alpha < alphas.size() ? alphas[next_alpha++] : facts.alpha;
    activation.beta = facts.takes_beta && next_beta < betas.size() ? betas[next_beta++] : facts.beta;
    activations.push_back(activation);
  }
  return activations;
}

struct Direction {
  int64_t count;
  bool first_is_reverse;
};

Direction ReadDirection(const Node& node) {
  std::string text = node.String("direction", "forward");
  Require(text == "forward" || text == "reverse" || text == "bidirectional",
          "direction must be forward, reverse or bidirectional, is '", Printable(text), "'");
  return {text == "bidirectional" ? 2 : 1, text == "reverse"};
}

void RequireShape(const Tensor& tensor, const Shape& shape, const char* what) {
  Require(tensor.shape() == shape, what, " must have shape ", shape, ", has ", tensor.shape());
}

template <class T>
T Apply(const CellActivation& activation, T x) {
  T alpha = static_cast<T>(activation.alpha), beta = static_cast<T>(activation.beta);
  switch (activation.function) {
    case CellFunction::kRelu: return x < T{0} ? T{0} : x;
    case CellFunction::kTanh: return std::tanh(x);
    case CellFunction::kSigmoid: return T{1} / (T{1} + std::exp(-x));
    case CellFunction::kAffine: return alpha * x + beta;
    case CellFunction::kLeakyRelu: return x < T{0} ? alpha * x : x;
    case CellFunction::kThresholdedRelu: return x < alpha ? T{0} : x;
    case CellFunction::kScaledTanh: return alpha * std::tanh(beta * x);
    case CellFunction::kHardSigmoid: return std::min(std::max(alpha * x + beta, T{0}), T{1});
    case CellFunction::kElu: return x < T{0} ? alpha * std::expm1(x) : x;
    case CellFunction::kSoftsign: return x / (T{1} + std::abs(x));
    // log(1 + e^x) without the overflow.
    case CellFunction::kSoftplus: return std::max(x, T{0}) + std::log1p(std::exp(-std::abs(x)));
  }
  return x;
}

}  // namespace

template <class T>
void Activate(const CellActivation& activation, float clip, T* values, int64_t count) {
  if (clip > 0)
    for (int64_t i = 0; i < count; ++i) values[i] = std::clamp(values[i], -static_cast<T>(clip), static_cast<T>(clip));
  if constexpr (std::is_same_v<T, float>) {
    using Kind = ActivationKind;
    if (activation.function == CellFunction::kTanh || activation.function == CellFunction::kSigmoid) {
      Kind kind = activation.function == CellFunction::kTanh ? Kind::kTanh : Kind::kSigmoid;
      return BestRowKernels().activate({kind}, values, values, count);
    }
  }
  switch (activation.function) {
    case CellFunction::kTanh:
      for (int64_t i = 0; i < count; ++i) values[i] = std::tanh(values[i]);
      break;
    case CellFunction::kSigmoid:
      for (int64_t i = 0; i < count; ++i) values[i] = T{1} / (T{1} + std::exp(-values[i]));
      break;
    default:
      for (int64_t i = 0; i < count; ++i) values[i] = Apply(activation, values[i]);
  }
}
template void Activate(const CellActivation&, float, float*, int64_t);
template void Activate(const CellActivation&, float, double*, int64_t);

RecurrentPlan::RecurrentPlan(const OpContext& context, int64_t gate_count, std::span<const CellFunction> functions)
    : gates(gate_count) {
  const Node& node = context.node();
  const Tensor& x = context.Input(0);
  const Tensor& w = context.Input(1);
  const Tensor& r = context.Input(2);
  batch_first = node.Int("layout", 0) != 0;
  Direction direction = ReadDirection(node);
  directions = direction.count;
  first_is_reverse = direction.first_is_reverse;
  clip = node.Float("clip", 0.0f);
  Require(clip >= 0, "clip must not be negative, is ", static_cast<double>(clip));
  activations = ReadActivations(node, functions, directions);

  Require(x.rank() == 3 && r.rank() == 3, "X and R must have three axes, their shapes are ", x.shape(), " and ",
          r.shape());
  steps = x.dim(batch_first ? 1 : 0);
  batch = x.dim(batch_first ? 0 : 1);
  inputs = x.dim(2);
  hidden = r.dim(2);
  int64_t declared = node.Int("hidden_size", hidden);
  Require(declared == hidden, "hidden_size is ", declared, ", R has ", hidden);
  int64_t rows = CheckedProduct(gates, hidden);
  RequireShape(w, Shape{directions, rows, inputs}, "W");
  RequireShape(r, Shape{directions, rows, hidden}, "R");
  if (const Tensor* bias = context.OptionalInput(3)) RequireShape(*bias, Shape{directions, 2 * rows}, "B");
  if (const Tensor* initial = context.OptionalInput(5)) RequireShape(*initial, StateShape(), "initial_h");
  lengths.assign(static_cast<size_t>(batch), steps);
  if (const Tensor* given = context.OptionalInput(4)) {
    RequireShape(*given, Shape{batch}, "sequence_lens");
    lengths = ToInt64Vector(*given);
    for (int64_t length : lengths)
      Require(length >= 0 && length <= steps, "a sequence has length ", length, ", there are ", steps, " steps");
  }
}

Shape RecurrentPlan::SequenceShape() const {
  return batch_first ? Shape{batch, steps, directions, hidden} : Shape{steps, directions, batch, hidden};
}

Shape RecurrentPlan::StateShape() const {
  return batch_first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
}

RecurrentTensors::RecurrentTensors(OpContext& context, const RecurrentPlan& plan, size_t states) {
  DType type = context.Input(0).dtype();
  constexpr size_t kSequenceLengths = 4;
  for (size_t i = 0; i < std::max<size_t>(context.input_count(), 8); ++i) {
    const Tensor* tensor = context.OptionalInput(i);
    bool is_real = tensor && i != kSequenceLengths;
    if (is_real) Require(tensor->dtype() == type, "input ", i, " is ", tensor->dtype(), ", X is ", type);
    inputs.push_back(is_real ? WidenToFloat(*tensor) : Tensor());
  }
  for (size_t i = 0; i <= states; ++i) {
    Shape shape = i == 0 ? plan.SequenceShape() : plan.StateShape();
    places_.push_back(&context.Output(i, type, shape));
    outputs.push_back(IsSmallFloat(type) ? Tensor(DType::kFloat, shape) : *places_[i]);
  }
}

void RecurrentTensors::Finish() {
  for (size_t i = 0; i < places_.size(); ++i) NarrowInto(outputs[i], *places_[i]);
}

static bool CanBeSame(const SymbolicShape& a, const SymbolicShape& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].known() && b[i].known() && *a[i].value != *b[i].value) return false;
  return true;
}

void InferRecurrent(InferContext& context, int64_t gates, size_t states) {
  const Node& node = context.node();
  DType type = context.InputDType(0);
  bool batch_first = node.Int("layout", 0) != 0;
  Dim directions(ReadDirection(node).count);
  const SymbolicShape* x = context.InputShape(0);
  const SymbolicShape* w = context.InputShape(1);
  const SymbolicShape* r = context.InputShape(2);
  for (const SymbolicShape* shape : {x, w, r})
    if (shape) Require(shape->size() == 3, "X, W and R must have three axes, one has shape ", *shape);
  Dim steps = x ? (*x)[batch_first ? 1 : 0] : Dim(), batch = x ? (*x)[batch_first ? 0 : 1] : Dim();
  Dim hidden = r ? (*r)[2] : Dim();
  if (!hidden.known() && node.Has("hidden_size")) hidden = Dim(node.Int("hidden_size", 0));
  if (!hidden.known() && w) hidden = FloorDivide((*w)[1], Dim(gates));
  context.SetOutput(
      0, type,
      batch_first ? SymbolicShape{batch, steps, directions, hidden} : SymbolicShape{steps, directions, batch, hidden});
  SymbolicShape state =
      batch_first ? SymbolicShape{batch, directions, hidden} : SymbolicShape{directions, batch, hidden};
  for (size_t i = 1; i <= states; ++i) context.SetOutput(i, type, state);
  for (size_t i = 0; i < states; ++i)
    if (const SymbolicShape* given = context.InputShape(5 + i))
      Require(CanBeSame(*given, state), i == 0 ? "initial_h" : "initial_c", " must have shape ", state, ", has ",
              *given);
}

}  // namespace ferry
