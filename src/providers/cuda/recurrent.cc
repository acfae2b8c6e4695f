#include "providers/cuda/recurrent.h"

#include "providers/cuda/chain.h"
#include "providers/cuda/chain_operators.h"

namespace ferry::cuda {
namespace {

std::string FunctionText(const CellActivation& activation) {
  const std::string alpha = Cat("COMPUTE(", NumberText(activation.alpha), ")"),
                    beta = Cat("COMPUTE(", NumberText(activation.beta), ")");
  switch (activation.function) {
    case CellFunction::kRelu: return "x < COMPUTE(0) ? COMPUTE(0) : x";
    case CellFunction::kTanh: return "tanh(x)";
    case CellFunction::kSigmoid: return "COMPUTE(1) / (COMPUTE(1) + exp(-x))";
    case CellFunction::kAffine: return Cat(alpha, " * x + ", beta);
    case CellFunction::kLeakyRelu: return Cat("x < COMPUTE(0) ? ", alpha, " * x : x");
    case CellFunction::kThresholdedRelu: return Cat("x < ", alpha, " ? COMPUTE(0) : x");
    case CellFunction::kScaledTanh: return Cat(alpha, " * tanh(", beta, " * x)");
    case CellFunction::kHardSigmoid: return Cat("Clamp(", alpha, " * x + ", beta, ", COMPUTE(0), COMPUTE(1))");
    case CellFunction::kElu: return Cat("x < COMPUTE(0) ? ", alpha, " * expm1(x) : x");
    case CellFunction::kSoftsign: return "x / (COMPUTE(1) + fabs(x))";
    case CellFunction::kSoftplus: return "(x > COMPUTE(0) ? x : COMPUTE(0)) + log1p(exp(-fabs(x)))";
  }
  return "x";
}

// `xw`: the inputs' part of the gates for every step, [rows, gates · hidden]; `hr`: the states' part for this step,
// [batch, gates · hidden]. A thread has one number of one state. Sequences that have ended keep their states.
constexpr char kCellSource[] = R"(
struct Cell { int64 batch, hidden, step, row_of_step, row_of_sequence, y_of_step, y_of_sequence; int32 reverse, varies;
              int64 steps; int32 lengths[256]; };
__device__ inline COMPUTE Clamp(COMPUTE x, COMPUTE low, COMPUTE high) { return x < low ? low : x > high ? high : x; }
__device__ inline COMPUTE Cut(COMPUTE x) { return HAS_CLIP ? Clamp(x, -COMPUTE(CLIP), COMPUTE(CLIP)) : x; }
FUNCTIONS
extern "C" __global__ void RunCell(const ELEMENT* xw, const ELEMENT* hr, const ELEMENT* extra, ELEMENT* state,
                                   COMPUTE* cell, ELEMENT* y, const Cell how) {
  const int64 total = how.batch * how.hidden, n = how.hidden;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < total; i += int64(gridDim.x) * blockDim.x) {
    const int64 sequence = i / n, at = i % n, length = how.varies ? how.lengths[sequence] : how.steps;
    const bool is_active = how.step < length;
    const int64 time = is_active && how.reverse ? length - 1 - how.step : how.step;
    if (!is_active) {
      y[ONLY_RESET ? i : time * how.y_of_step + sequence * how.y_of_sequence + at] = Stored<ELEMENT>::From(COMPUTE(0));
      continue;
    }
    const ELEMENT* in = xw + (time * how.row_of_step + sequence * how.row_of_sequence) * (GATES * n) + at;
    const ELEMENT* from = hr + sequence * (GATES * n) + at;
    const COMPUTE last = COMPUTE(Load(state[i]));
    COMPUTE made;
    BODY
    if (!ONLY_RESET) state[i] = Stored<ELEMENT>::From(made);
    y[ONLY_RESET ? i : time * how.y_of_step + sequence * how.y_of_sequence + at] = Stored<ELEMENT>::From(made);
  }
}
)";

constexpr char kRnnBody[] = R"(made = F0(Cut(COMPUTE(Load(in[0])) + COMPUTE(Load(from[0]))));)";

// Gates i, o, f, c; `extra` has the peepholes of i, o and f.
constexpr char kLstmBody[] = R"(
    COMPUTE gate_i = COMPUTE(Load(in[0])) + COMPUTE(Load(from[0]));
    COMPUTE gate_o = COMPUTE(Load(in[n])) + COMPUTE(Load(from[n]));
    COMPUTE gate_f = COMPUTE(Load(in[2 * n])) + COMPUTE(Load(from[2 * n]));
    const COMPUTE gate_c = F1(Cut(COMPUTE(Load(in[3 * n])) + COMPUTE(Load(from[3 * n]))));
    COMPUTE kept = cell[i];
    if (HAS_PEEPHOLE) {
      gate_i += COMPUTE(Load(extra[at])) * kept;
      gate_f += COMPUTE(Load(extra[2 * n + at])) * kept;
    }
    gate_i = F0(Cut(gate_i));
    gate_f = COUPLES_FORGET ? COMPUTE(1) - gate_i : F0(Cut(gate_f));
    kept = gate_f * kept + gate_i * gate_c;
    if (HAS_PEEPHOLE) gate_o += COMPUTE(Load(extra[n + at])) * kept;
    cell[i] = kept;
    made = F0(Cut(gate_o)) * F2(Cut(kept));)";

// Gates z, r, h; `extra` has the second half of the last gate's bias where the reset gate comes behind the product.
constexpr char kGruBody[] = R"(
    const COMPUTE update = F0(Cut(COMPUTE(Load(in[0])) + COMPUTE(Load(from[0]))));
    COMPUTE candidate = COMPUTE(Load(in[2 * n]));
    if (LINEAR_FIRST) {
      const COMPUTE reset = F0(Cut(COMPUTE(Load(in[n])) + COMPUTE(Load(from[n]))));
      candidate += reset * (COMPUTE(Load(from[2 * n])) + (extra ? COMPUTE(Load(extra[at])) : COMPUTE(0)));
    } else {
      candidate += COMPUTE(Load(from[2 * n]));
    }
    candidate = F1(Cut(candidate));
    made = (COMPUTE(1) - update) * candidate + update * last;)";

// `y` is where reset · state goes.
constexpr char kResetBody[] = R"(made = F0(Cut(COMPUTE(Load(in[n])) + COMPUTE(Load(from[n])))) * last;)";

constexpr char kJoinBiasSource[] = R"(
extern "C" __global__ void JoinBias(const ELEMENT* bias, ELEMENT* joined, int64 rows, int64 both) {
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < rows; i += int64(gridDim.x) * blockDim.x)
    joined[i] = Stored<ELEMENT>::From(COMPUTE(Load(bias[i])) + (i < both ? COMPUTE(Load(bias[rows + i])) : COMPUTE(0)));
}
)";

constexpr char kStateSource[] = R"(
extern "C" __global__ void MoveState(const FROM* from, TO* to, int64 batch, int64 hidden, int64 from_step,
                                     int64 to_step) {
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < batch * hidden; i += int64(gridDim.x) * blockDim.x)
    to[i / hidden * to_step + i % hidden] = Stored<TO>::From(Load(from[i / hidden * from_step + i % hidden]));
}
)";

}  // namespace

KernelSource CellSource(const CellForm& form, DType type, bool only_reset) {
  std::string functions;
  for (size_t i = 0; i < form.functions.size(); ++i)
    functions +=
        Cat("__device__ inline COMPUTE F", i, "(COMPUTE x) { return ", FunctionText(form.functions[i]), "; }\n");
  std::string text = kCellSource;
  auto put = [&](std::string_view name, std::string_view what) { text.replace(text.find(name), name.size(), what); };
  put("FUNCTIONS", functions);
  put("BODY", only_reset                     ? kResetBody
              : form.kind == CellKind::kLstm ? kLstmBody
              : form.kind == CellKind::kGru  ? kGruBody
                                             : kRnnBody);
  return {"RunCell",
          Cat("#define ELEMENT ", TypeName(type), "\n#define COMPUTE ", ComputeTypeName(type), "\n#define GATES ",
              form.gates(), "\n#define HAS_CLIP ", form.clip > 0, "\n#define CLIP ", NumberText(form.clip),
              "\n#define HAS_PEEPHOLE ", form.has_peephole, "\n#define COUPLES_FORGET ", form.couples_forget,
              "\n#define LINEAR_FIRST ", form.linear_first, "\n#define ONLY_RESET ", only_reset, text)};
}

KernelSource JoinBiasSource(DType type) {
  return {"JoinBias",
          Cat("#define ELEMENT ", TypeName(type), "\n#define COMPUTE ", ComputeTypeName(type), kJoinBiasSource)};
}

KernelSource StateSource(DType from, DType to) {
  return {"MoveState", Cat("#define FROM ", TypeName(from), "\n#define TO ", TypeName(to), kStateSource)};
}

std::vector<KernelSource> RecurrentSources() {
  const CellActivation tanh{CellFunction::kTanh}, sigmoid{CellFunction::kSigmoid};
  std::vector<CellActivation> every;
  for (int i = 0; i <= static_cast<int>(CellFunction::kSoftplus); ++i)
    every.push_back({static_cast<CellFunction>(i), 0.5f, 0.25f});
  return {CellSource({CellKind::kLstm, {sigmoid, tanh, tanh}}, DType::kFloat16, false),
          CellSource({CellKind::kLstm, {sigmoid, tanh, tanh}, 2, true, true}, DType::kFloat, false),
          CellSource({CellKind::kGru, {sigmoid, tanh}, 0, false, false, true}, DType::kFloat, false),
          CellSource({CellKind::kGru, {sigmoid, tanh}}, DType::kBFloat16, false),
          CellSource({CellKind::kGru, {sigmoid, tanh}}, DType::kBFloat16, true),
          CellSource({CellKind::kRnn, every}, DType::kDouble, false),
          JoinBiasSource(DType::kFloat16),
          StateSource(DType::kFloat, DType::kFloat16)};
}

}  // namespace ferry::cuda
