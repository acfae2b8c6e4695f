// LSTM over float with constant weights: both matrices packed once, biases added up beforehand, gates of all steps
// taken from the inputs by one product.
#include <algorithm>
#include <vector>

#include "kernels/packed_gemm.h"
#include "kernels/row_kernels.h"
#include "providers/cpu/cuts.h"
#include "providers/cpu/kernels.h"
#include "providers/cpu/scratch.h"

namespace ferry {
namespace {

constexpr int64_t kGates = 4;

// Panels of a matrix that lies transposed, [columns, depth], one after the other for each direction.
struct PackedDirections {
  std::shared_ptr<const Tensor> panels;
  int64_t depth = 0, columns = 0;

  const float* of(int64_t direction) const { return panels->Data<float>() + direction * PackedSize(depth, columns); }
};

PackedDirections Pack(const Tensor& weight, WeightCache& cache) {
  const int64_t directions = weight.dim(0), columns = weight.dim(1), depth = weight.dim(2);
  const int64_t size = PackedSize(depth, columns);
  auto panels = cache.GetTensor(weight, "panels of directions", DType::kFloat, directions * size, [=](Tensor& made) {
    for (int64_t direction = 0; direction < directions; ++direction)
      PackMatrix(weight.Data<float>() + direction * depth * columns, depth, columns, 1, depth,
                 made.MutableData<float>() + direction * size);
  });
  return {std::move(panels), depth, columns};
}

// c = a · panels + epilogue, columns shared by the threads.
void Multiply(const OpContext& context, const float* a, int64_t rows, const float* panels, int64_t depth,
              int64_t columns, const GemmEpilogue& epilogue, float* c) {
  ForColumns(context, columns, PanelsOfPiece(rows, depth), [&](int64_t column, int64_t width) {
    GemmEpilogue part = epilogue;
    if (part.bias) part.bias += column;
    if (part.residual) part.residual += column;
    BestGemmKernels().plain(a, depth, rows, depth, panels + depth * column, width, c + column, columns, part);
  });
}

class LstmKernel final : public CpuKernel {
 public:
  std::string name() const override { return "packed lstm"; }
  LstmKernel(PackedDirections w, PackedDirections r, Tensor bias, int64_t directions, bool reverse)
      : w_(std::move(w)), r_(std::move(r)), bias_(std::move(bias)), directions_(directions), reverse_(reverse) {}

  void Run(OpContext& context) const override {
    const Tensor& x = context.Input(0);
    int64_t hidden = r_.depth;
    Require(x.rank() == 3 && x.dim(2) == w_.depth, "X must have shape [steps, batch, ", w_.depth, "], has ", x.shape());
    int64_t steps = x.dim(0), batch = x.dim(1);
    Shape state = {directions_, batch, hidden};
    float* y = nullptr;
    if (context.Wants(0))
      y = context.Output(0, DType::kFloat, {steps, directions_, batch, hidden}).MutableData<float>();
    float* last_h = context.Wants(1) ? context.Output(1, DType::kFloat, state).MutableData<float>() : nullptr;
    float* last_c = context.Wants(2) ? context.Output(2, DType::kFloat, state).MutableData<float>() : nullptr;
    for (int64_t direction = 0; direction < directions_; ++direction) {
      int64_t size = batch * hidden;
      auto first = [&](size_t input) -> const float* {
        const Tensor* given = context.OptionalInput(input);
        if (!given) return nullptr;
        Require(given->shape() == state, input == 5 ? "initial_h" : "initial_c", " must have shape ", state, ", has ",
                given->shape());
        return given->Data<float>() + direction * size;
      };
      // States, then the gates of some steps: long sequences need little memory.
      constexpr int64_t kChunkElements = 1 << 20;
      int64_t row = kGates * hidden;
      int64_t chunk =
          std::clamp<int64_t>(kChunkElements / std::max<int64_t>(1, batch * row), 1, std::max<int64_t>(1, steps));
      float* h = ThreadScratch<float>(ScratchUse::kLstmState, 2 * size + chunk * batch * row);
      Walk walk{context, *this, direction, steps, batch, chunk, h, h + size, h + 2 * size};
      walk.Start(first(5), first(6));
      walk.Run(x.Data<float>(), y);
      if (last_h) std::copy_n(walk.h, size, last_h + direction * size);
      if (last_c) std::copy_n(walk.c, size, last_c + direction * size);
    }
  }

 private:
  struct Walk {
    const OpContext& context;
    const LstmKernel& kernel;
    int64_t direction, steps, batch, chunk;
    float *h, *c, *gates;  // [batch, hidden] twice, [chunk, batch, 4 · hidden]

    int64_t hidden() const { return kernel.r_.depth; }

    void Start(const float* first_h, const float* first_c) const {
      int64_t size = batch * hidden();
      first_h ? std::copy_n(first_h, size, h) : std::fill_n(h, size, 0.0f);
      first_c ? std::copy_n(first_c, size, c) : std::fill_n(c, size, 0.0f);
    }

    void Run(const float* x, float* y) const {
      bool backward = kernel.reverse_ || direction == 1;
      int64_t row = kGates * hidden(), inputs = kernel.w_.depth;
      for (int64_t done = 0; done < steps; done += chunk) {
        int64_t count = std::min(chunk, steps - done), begin = backward ? steps - done - count : done;
        GemmEpilogue epilogue;
        if (kernel.bias_.defined()) epilogue.bias = kernel.bias_.Data<float>() + direction * row;
        Multiply(context, x + begin * batch * inputs, count * batch, kernel.w_.of(direction), inputs, row, epilogue,
                 gates);
        for (int64_t i = 0; i < count; ++i) {
          context.CheckCancelled();
          int64_t at = backward ? count - 1 - i : i;
          Step(gates + at * batch * row);
          if (y)
            std::copy_n(h, batch * hidden(), y + ((begin + at) * kernel.directions_ + direction) * batch * hidden());
        }
      }
    }

    // Gates of one sequence lie in the order i, o, f, c.
    void Step(float* step) const {
      int64_t n = hidden(), row = kGates * n;
      GemmEpilogue sum;
      sum.residual = step;
      sum.residual_stride = row;
      Multiply(context, h, batch, kernel.r_.of(direction), n, row, sum, step);
      const RowKernels& rows = BestRowKernels();
      for (int64_t sequence = 0; sequence < batch; ++sequence) {
        float *in = step + sequence * row, *out = in + n, *forget = out + n, *candidate = forget + n;
        float *cell = c + sequence * n, *state = h + sequence * n;
        rows.activate({ActivationKind::kSigmoid}, in, in, 3 * n);
        rows.activate({ActivationKind::kTanh}, candidate, candidate, n);
        for (int64_t i = 0; i < n; ++i) cell[i] = forget[i] * cell[i] + in[i] * candidate[i];
        rows.activate({ActivationKind::kTanh}, cell, state, n);
        for (int64_t i = 0; i < n; ++i) state[i] *= out[i];
      }
    }
  };

  PackedDirections w_, r_;
  Tensor bias_;  // of W and R together, [directions, 4 · hidden]; undefined: none
  int64_t directions_;
  bool reverse_;
};

const Tensor* FloatConstant(const CpuKernelRequest& request, size_t input) {
  const Tensor* constant = ConstantOf(request, input);
  return constant && constant->dtype() == DType::kFloat ? constant : nullptr;
}

bool IsOrdinary(const Node& node) {
  if (node.HasInput(4) || node.HasInput(7) || node.Has("clip") || node.Has("activation_alpha")) return false;
  if (node.Int("input_forget", 0) != 0 || node.Int("layout", 0) != 0) return false;
  std::vector<std::string> functions = node.Strings("activations");
  for (size_t i = 0; i < functions.size(); ++i)
    if (functions[i] != (i % 3 == 0 ? "Sigmoid" : "Tanh")) return false;
  return functions.size() % 3 == 0;
}

Tensor SumOfBiases(const Tensor& bias, int64_t directions, int64_t row) {
  Tensor sum(DType::kFloat, {directions, row});
  const float* from = bias.Data<float>();
  for (int64_t d = 0; d < directions; ++d)
    for (int64_t i = 0; i < row; ++i)
      sum.MutableData<float>()[d * row + i] = from[2 * d * row + i] + from[(2 * d + 1) * row + i];
  return sum;
}

}  // namespace

std::unique_ptr<CpuKernel> MakeLstmKernel(const CpuKernelRequest& request) {
  const Node& node = request.node;
  if (node.op_type != "LSTM" || !CanonicalDomain(node.domain).empty() || request.inputs.size() < 3) return nullptr;
  const Tensor *w = FloatConstant(request, 1), *r = FloatConstant(request, 2), *bias = FloatConstant(request, 3);
  if (!request.inputs[0] || request.inputs[0]->type.dtype != DType::kFloat || !w || !r || !IsOrdinary(node))
    return nullptr;
  std::string direction = node.String("direction", "forward");
  int64_t directions = direction == "bidirectional" ? 2 : 1;
  bool fits = w->rank() == 3 && r->rank() == 3 && w->size() > 0 && r->size() > 0 && w->dim(0) == directions &&
              r->dim(0) == directions && r->dim(1) == kGates * r->dim(2) && w->dim(1) == r->dim(1) &&
              node.Int("hidden_size", r->dim(2)) == r->dim(2);
  bool known = direction == "bidirectional" || direction == "forward" || direction == "reverse";
  if (!fits || !known || (node.HasInput(3) && !(bias && bias->shape() == Shape{directions, 2 * r->dim(1)})))
    return nullptr;
  return std::make_unique<LstmKernel>(Pack(*w, request.weights), Pack(*r, request.weights),
                                      bias ? SumOfBiases(*bias, directions, r->dim(1)) : Tensor(), directions,
                                      direction == "reverse");
}

}  // namespace ferry
