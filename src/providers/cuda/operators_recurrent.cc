// LSTM, GRU and RNN: one product takes all inputs to the gates; then every step is a product of the states and a cell.
#include "ops/support/recurrent.h"
#include "providers/cuda/kernels.h"
#include "providers/cuda/operators.h"
#include "providers/cuda/product.h"
#include "providers/cuda/recurrent.h"

namespace ferry::cuda {
namespace {

constexpr int64_t kMostLengths = 256;

constexpr CellFunction kRnnFunctions[] = {CellFunction::kTanh};
constexpr CellFunction kGruFunctions[] = {CellFunction::kSigmoid, CellFunction::kTanh};
constexpr CellFunction kLstmFunctions[] = {CellFunction::kSigmoid, CellFunction::kTanh, CellFunction::kTanh};

std::span<const CellFunction> FunctionsOf(CellKind kind) {
  if (kind == CellKind::kLstm) return kLstmFunctions;
  return kind == CellKind::kGru ? std::span<const CellFunction>(kGruFunctions) : kRnnFunctions;
}

struct Cell {
  int64_t batch, hidden, step, row_of_step, row_of_sequence, y_of_step, y_of_sequence;
  int32_t reverse, varies;
  int64_t steps;
  int32_t lengths[kMostLengths];
};

size_t BytesOf(DType type) { return static_cast<size_t>(BitWidth(type)) / 8; }

void SetZero(const Device& device, Tensor& tensor) {
  CheckDriver(
      device.Use().MemsetD8Async(reinterpret_cast<DeviceAddress>(tensor.address()), 0, tensor.bytes(), device.stream()),
      "cuMemsetD8Async");
}

class RecurrentRun {
 public:
  RecurrentRun(const Device& device, OpContext& context, CellKind kind, bool tf32)
      : device_(device),
        context_(context),
        kind_(kind),
        tf32_(tf32),
        plan_(context,
              kind == CellKind::kLstm  ? 4
              : kind == CellKind::kGru ? 3
                                       : 1,
              FunctionsOf(kind)),
        type_(context.Input(0).dtype()),
        rows_(plan_.gates * plan_.hidden) {
    if (const Tensor* first = context.OptionalInput(6); first && kind == CellKind::kLstm)
      Require(first->shape() == plan_.StateShape(), "initial_c must have shape ", plan_.StateShape(), ", has ",
              first->shape());
    if (const Tensor* peephole = context.OptionalInput(7); peephole && kind == CellKind::kLstm)
      Require(peephole->shape() == Shape{plan_.directions, 3 * plan_.hidden}, "P must have shape ",
              Shape{plan_.directions, 3 * plan_.hidden}, ", has ", peephole->shape());
  }

  void Run() {
    y_ = &context_.Output(0, type_, plan_.SequenceShape());
    last_ = &context_.Output(1, type_, plan_.StateShape());
    if (kind_ == CellKind::kLstm) last_cell_ = &context_.Output(2, type_, plan_.StateShape());
    if (plan_.batch == 0 || plan_.hidden == 0) return;
    for (int64_t direction = 0; direction < plan_.directions; ++direction) RunDirection(direction);
  }

 private:
  const std::byte* Part(size_t input, int64_t elements) const {
    const Tensor* tensor = context_.OptionalInput(input);
    return tensor ? tensor->address() + static_cast<size_t>(elements) * BytesOf(type_) : nullptr;
  }

  Function Find(const CellForm& form, bool only_reset) const {
    const KernelSource source = CellSource(form, type_, only_reset);
    return FindKernel(device_, source);
  }

  CellForm FormOf(int64_t direction) const {
    const size_t count = FunctionsOf(kind_).size(), first = count * static_cast<size_t>(direction);
    CellForm form;
    form.kind = kind_;
    form.functions.assign(plan_.activations.begin() + static_cast<ptrdiff_t>(first),
                          plan_.activations.begin() + static_cast<ptrdiff_t>(first + count));
    form.clip = plan_.clip;
    form.couples_forget = kind_ == CellKind::kLstm && context_.node().Int("input_forget", 0) != 0;
    form.has_peephole = kind_ == CellKind::kLstm && context_.Has(7);
    form.linear_first = kind_ == CellKind::kGru && context_.node().Int("linear_before_reset", 0) != 0;
    return form;
  }

  Cell CellOf(int64_t direction) const {
    Cell cell{.batch = plan_.batch,
              .hidden = plan_.hidden,
              .step = 0,
              .row_of_step = plan_.batch_first ? 1 : plan_.batch,
              .row_of_sequence = plan_.batch_first ? plan_.steps : 1,
              .y_of_step = plan_.OutputOffset(1, 0, 0),
              .y_of_sequence = plan_.OutputOffset(0, 0, 1),
              .reverse = plan_.is_reverse(direction),
              .varies = context_.Has(4),
              .steps = plan_.steps,
              .lengths = {}};
    for (size_t i = 0; cell.varies && i < plan_.lengths.size(); ++i)
      cell.lengths[i] = static_cast<int32_t>(plan_.lengths[i]);
    return cell;
  }

  // The inputs of all steps to the gates, with both halves of the bias.
  Tensor InputGates(int64_t direction, bool linear_first) const {
    const int64_t count = plan_.steps * plan_.batch;
    Tensor gates(type_, {count, rows_}, device_.memory()), bias;
    if (context_.Has(3)) {
      bias = Tensor(type_, {rows_}, device_.memory());
      const Function join = FindKernel(device_, Cat("join bias ", type_), [&] { return JoinBiasSource(type_); });
      Launch(device_, join, GridFor(device_, rows_), Part(3, 2 * direction * rows_), bias.address(), rows_,
             linear_first ? 2 * plan_.hidden : rows_);
    }
    if (plan_.inputs == 0) {
      SetZero(device_, gates);
      return gates;
    }
    ProductShape shape = ProductOf(count, rows_, plan_.inputs);
    shape.has_bias = bias.defined();
    Multiply(device_, shape,
             {Part(0, 0), Part(1, direction * rows_ * plan_.inputs), nullptr, bias.defined() ? bias.address() : nullptr,
              gates.address()});
    return gates;
  }

  ProductShape ProductOf(int64_t rows, int64_t columns, int64_t depth) const {
    ProductShape shape;
    shape.dtype = type_;
    shape.rows = rows, shape.columns = shape.d_pitch = columns;
    shape.depth = shape.a_pitch = shape.b_pitch = depth;
    shape.b_transposed = true;
    shape.tf32 = tf32_;
    return shape;
  }

  void MoveState(DType from_type, const std::byte* from, int64_t from_step, DType to_type, std::byte* to,
                 int64_t to_step) const {
    const Function move = FindKernel(device_, Cat("move state ", from_type, " ", to_type),
                                     [&] { return StateSource(from_type, to_type); });
    Launch(device_, move, GridFor(device_, plan_.batch * plan_.hidden), from, to, plan_.batch, plan_.hidden, from_step,
           to_step);
  }

  Tensor FirstState(size_t input, DType type, int64_t direction) const {
    Tensor state(type, {plan_.batch, plan_.hidden}, device_.memory());
    if (const std::byte* from = Part(input, plan_.StateOffset(direction, 0)))
      MoveState(type_, from, plan_.StateOffset(0, 1), type, state.address(), plan_.hidden);
    else
      SetZero(device_, state);
    return state;
  }

  void StoreState(const Tensor& state, int64_t direction, Tensor& to) const {
    MoveState(state.dtype(), state.address(), plan_.hidden, type_,
              to.address() + static_cast<size_t>(plan_.StateOffset(direction, 0)) * BytesOf(type_),
              plan_.StateOffset(0, 1));
  }

  void RunDirection(int64_t direction) {
    const CellForm form = FormOf(direction);
    const bool resets_first = kind_ == CellKind::kGru && !form.linear_first;
    const DType cell_type = type_ == DType::kDouble ? DType::kDouble : DType::kFloat;
    Tensor inputs = InputGates(direction, form.linear_first), state = FirstState(5, type_, direction), kept,
           products(type_, {plan_.batch, rows_}, device_.memory()), reset;
    if (kind_ == CellKind::kLstm) kept = FirstState(6, cell_type, direction);
    if (resets_first) reset = Tensor(type_, {plan_.batch, plan_.hidden}, device_.memory());
    const std::byte* weights = Part(2, direction * rows_ * plan_.hidden);
    const std::byte* extra = nullptr;
    if (form.has_peephole) extra = Part(7, direction * 3 * plan_.hidden);
    if (form.linear_first) extra = Part(3, (2 * direction + 1) * rows_ + 2 * plan_.hidden);
    std::byte* y = y_->address() + static_cast<size_t>(plan_.OutputOffset(0, direction, 0)) * BytesOf(type_);
    Cell cell = CellOf(direction);
    const Function run = Find(form, false), run_reset = resets_first ? Find(form, true) : nullptr;
    const Grid grid = GridFor(device_, plan_.batch * plan_.hidden, 128);
    // The gates that a product of the states makes: all of them, or those before the reset gate is known.
    ProductShape shape = ProductOf(plan_.batch, resets_first ? 2 * plan_.hidden : rows_, plan_.hidden);
    shape.d_pitch = rows_;
    ProductShape last_gate = ProductOf(plan_.batch, plan_.hidden, plan_.hidden);
    last_gate.d_pitch = rows_;
    const size_t skipped = static_cast<size_t>(2 * plan_.hidden) * BytesOf(type_);
    for (cell.step = 0; cell.step < plan_.steps; ++cell.step) {
      context_.CheckCancelled();
      Multiply(device_, shape, {state.address(), weights, nullptr, nullptr, products.address()});
      if (resets_first) {
        Launch(device_, run_reset, grid, inputs.address(), products.address(), extra, state.address(), kept.address(),
               reset.address(), cell);
        Multiply(device_, last_gate,
                 {reset.address(), weights + skipped * static_cast<size_t>(plan_.hidden), nullptr, nullptr,
                  products.address() + skipped});
      }
      Launch(device_, run, grid, inputs.address(), products.address(), extra, state.address(), kept.address(), y, cell);
    }
    StoreState(state, direction, *last_);
    if (last_cell_) StoreState(kept, direction, *last_cell_);
  }

  const Device& device_;
  OpContext& context_;
  const CellKind kind_;
  const bool tf32_;
  const RecurrentPlan plan_;
  const DType type_;
  const int64_t rows_;
  Tensor *y_ = nullptr, *last_ = nullptr, *last_cell_ = nullptr;
};

}  // namespace

std::optional<ChosenKernel> ChooseRecurrent(const OperatorRequest& request) {
  for (auto [name, kind] : {std::pair{"RNN", CellKind::kRnn}, {"GRU", CellKind::kGru}, {"LSTM", CellKind::kLstm}}) {
    if (!request.Is(name)) continue;
    const DType type = request.TypeOf(0);
    const std::optional<Shape> x = request.ShapeOf(0);
    if (!CanMultiply(type) || !x || x->rank() != 3) return std::nullopt;
    for (size_t i : {1, 2, 3, 5, 6, 7})
      if (request.Has(i) && request.TypeOf(i) != type) return std::nullopt;
    // Lengths travel with the kernel's parameters.
    const int64_t batch = (*x)[request.node().Int("layout", 0) != 0 ? 0 : 1];
    if (request.Has(4) && batch > kMostLengths) return std::nullopt;
    return OnDevice(
        request, "cell and cublasLt",
        [kind = kind, tf32 = request.settings.tf32](const Device& device, OpContext& context) {
          RecurrentRun(device, context, kind, tf32).Run();
        },
        InputBit(4));
  }
  return std::nullopt;
}

}  // namespace ferry::cuda
