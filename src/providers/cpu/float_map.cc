// Functions of one float32: one kernel, and one table of the operators that it is.
#include <optional>
#include <variant>

#include "kernels/elementwise.h"
#include "kernels/row_kernels.h"
#include "ops/support/activation.h"
#include "ops/support/elementwise.h"
#include "providers/cpu/kernels.h"

namespace ferry {
namespace {

using RowFunction = void (*)(const float* x, float* y, int64_t count);
using FloatFunction = std::variant<Activation, UnaryKind, RowFunction RowKernels::*>;

struct Apply {
  const float* x;
  float* y;
  int64_t count;

  void operator()(const Activation& activation) const { BestRowKernels().activate(activation, x, y, count); }
  void operator()(UnaryKind kind) const { BestElementwiseKernels().unary(kind, x, y, count); }
  void operator()(RowFunction RowKernels::*function) const { (BestRowKernels().*function)(x, y, count); }
};

class FloatMapKernel final : public CpuKernel {
 public:
  std::string name() const override { return "elementwise"; }
  explicit FloatMapKernel(const FloatFunction& function) : function_(function) {}

  void Run(OpContext& context) const override {
    const Tensor& x = context.Input(0);
    const float* from = x.Data<float>();
    float* to = context.Output(0, DType::kFloat, x.shape()).MutableData<float>();
    context.ParallelFor(x.size(), kElementGrain, [&](int64_t begin, int64_t end) {
      std::visit(Apply{from + begin, to + begin, end - begin}, function_);
    });
  }

 private:
  FloatFunction function_;
};

// Those that are activations too have their rows in ops/support/activation.cc.
constexpr std::pair<std::string_view, FloatFunction> kFunctions[] = {
    {"Neg", UnaryKind::kNegate}, {"Abs", UnaryKind::kAbs},
    {"Sqrt", UnaryKind::kSqrt},  {"Reciprocal", UnaryKind::kReciprocal},
    {"Log", UnaryKind::kLog},    {"Floor", UnaryKind::kFloor},
    {"Ceil", UnaryKind::kCeil},  {"Exp", &RowKernels::exp},
    {"Erf", &RowKernels::erf},
};

std::optional<double> OneNumber(const Tensor* constant) {
  if (!constant || constant->size() != 1) return std::nullopt;
  if (constant->dtype() == DType::kFloat) return static_cast<double>(*constant->Data<float>());
  if (constant->dtype() == DType::kInt64) return static_cast<double>(*constant->Data<int64_t>());
  if (constant->dtype() == DType::kInt32) return static_cast<double>(*constant->Data<int32_t>());
  return std::nullopt;
}

// Powers that are a multiplication or two.
std::optional<FloatFunction> PowerOf(const CpuKernelRequest& request) {
  const std::optional<SymbolicShape>& x = request.inputs[0]->type.shape;
  const Tensor* given = ConstantOf(request, 1);
  std::optional<double> exponent = OneNumber(given);
  if (!exponent || !x || given->rank() > x->size()) return std::nullopt;
  if (*exponent == 2) return UnaryKind::kSquare;
  if (*exponent == 3) return UnaryKind::kCube;
  if (*exponent == -1) return UnaryKind::kReciprocal;
  return std::nullopt;
}

std::optional<FloatFunction> FunctionOf(const CpuKernelRequest& request) {
  auto constant = [&](size_t input) { return ConstantOf(request, input); };
  if (std::optional<Activation> activation = StandardActivation(request.node, constant)) return *activation;
  for (const auto& [op, function] : kFunctions)
    if (op == request.node.op_type) return function;
  return request.node.op_type == "Pow" ? PowerOf(request) : std::nullopt;
}

}  // namespace

std::unique_ptr<CpuKernel> MakeFloatMapKernel(const CpuKernelRequest& request) {
  if (!CanonicalDomain(request.node.domain).empty() || request.inputs.empty() || !request.inputs[0] ||
      request.inputs[0]->type.dtype != DType::kFloat)
    return nullptr;
  try {
    std::optional<FloatFunction> function = FunctionOf(request);
    return function ? std::make_unique<FloatMapKernel>(*function) : nullptr;
  } catch (const Error&) {
    return nullptr;  // told again when the node runs, where more is known
  }
}

}  // namespace ferry
