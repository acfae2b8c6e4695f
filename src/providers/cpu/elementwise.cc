// Arithmetic and reductions in float32, with everything that follows from shapes worked out beforehand. A value that
// turns out to have another shape goes to the plain operator.
#include "kernels/elementwise.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/work_poll.h"
#include "kernels/nhwc.h"
#include "ops/support/elementwise.h"
#include "providers/cpu/kernels.h"
#include "providers/cpu/scratch.h"

namespace ferry {
namespace {

std::optional<Shape> FloatShape(const CpuKernelRequest& request, size_t input) {
  const ValueFacts* facts = input < request.inputs.size() ? request.inputs[input] : nullptr;
  if (!facts || facts->type.dtype != DType::kFloat || !facts->type.shape) return std::nullopt;
  return ToConcrete(*facts->type.shape);
}

class BinaryKernel final : public CpuKernel {
 public:
  std::string name() const override { return "elementwise"; }
  BinaryKernel(BinaryKind kind, const Operator& op, const Shape& a, const Shape& b)
      : kind_(kind), compute_(op.compute), a_(a), b_(b), out_(BroadcastShapes(a, b)), walk_(out_, {&a_, &b_}) {}

  void Run(OpContext& context) const override {
    const Tensor &a = context.Input(0), &b = context.Input(1);
    if (!(a.shape() == a_) || !(b.shape() == b_)) return compute_(context);
    const float *first = a.Data<float>(), *second = b.Data<float>();
    float* out = context.Output(0, DType::kFloat, out_).MutableData<float>();
    const ElementwiseKernels& kernels = BestElementwiseKernels();
    bool a_advances = walk_.run_strides()[0] != 0, b_advances = walk_.run_strides()[1] != 0;
    RunPieces(context, walk_, [&](int64_t at, const std::array<int64_t, 2>& offsets, int64_t count) {
      kernels.binary(kind_, first + offsets[0], a_advances, second + offsets[1], b_advances, out + at, count);
    });
  }

 private:
  BinaryKind kind_;
  void (*compute_)(OpContext&);
  Shape a_, b_, out_;
  BroadcastWalk<2> walk_;
};

// Axes that lie next to each other are one: [outer, count, inner].
struct Reduced {
  Shape x, y;
  int64_t outer = 1, count = 1, inner = 1;
};

enum class ReduceKind : uint8_t { kSum, kMean, kMax, kMin };

class ReduceKernel final : public CpuKernel {
 public:
  std::string name() const override { return "reduction"; }
  ReduceKernel(ReduceKind kind, const Operator& op, Reduced sizes)
      : kind_(kind), compute_(op.compute), sizes_(std::move(sizes)) {}

  void Run(OpContext& context) const override {
    const Tensor& x = context.Input(0);
    int64_t block = sizes_.count * sizes_.inner;
    // The plain operator looks at the clock where columns of many rows are held against each other.
    if (!(x.shape() == sizes_.x) || (!adds() && sizes_.inner > 1 && block > kLongFold)) return compute_(context);
    const float* from = x.Data<float>();
    float* to = context.Output(0, DType::kFloat, sizes_.y).MutableData<float>();
    context.ParallelFor(sizes_.outer, 1 + kElementGrain / block, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) Fold(from + i * block, to + i * sizes_.inner);
    });
  }

 private:
  static constexpr int64_t kLongFold = int64_t{1} << 22;  // elements that take some milliseconds

  bool adds() const { return kind_ == ReduceKind::kSum || kind_ == ReduceKind::kMean; }

  void Fold(const float* x, float* y) const {
    double divisor = kind_ == ReduceKind::kMean ? static_cast<double>(sizes_.count) : 1.0;
    BinaryKind extreme = kind_ == ReduceKind::kMax ? BinaryKind::kMax : BinaryKind::kMin;
    if (sizes_.inner == 1)
      *y = adds() ? static_cast<float>(SumOf(x) / divisor) : ExtremeOf(extreme, x);
    else if (adds())
      AddRows(x, divisor, y);
    else
      BestElementwiseKernels().extremes(extreme, x, sizes_.count, sizes_.inner, y);
  }

  double SumOf(const float* x) const {
    double total = 0;
    ForLookedParts(sizes_.count, 1,
                   [&](int64_t begin, int64_t end) { total += BestElementwiseKernels().sum(x + begin, end - begin); });
    return total;
  }

  float ExtremeOf(BinaryKind extreme, const float* x) const {
    float found[2] = {x[0], x[0]};
    ForLookedParts(sizes_.count, 1, [&](int64_t begin, int64_t end) {
      found[1] = BestElementwiseKernels().extreme(extreme, x + begin, end - begin);
      found[0] = BestElementwiseKernels().extreme(extreme, found, 2);
    });
    return found[0];
  }

  // Some rows are added in float, their sums in double, as the plain operator adds all of them.
  void AddRows(const float* x, double divisor, float* y) const {
    constexpr int64_t kBlock = 128;
    const NhwcKernels& kernels = BestNhwcKernels();
    int64_t inner = sizes_.inner;
    if (sizes_.count <= kBlock)
      return ForLookedParts(inner, sizes_.count, [&](int64_t begin, int64_t end) {
        kernels.scaled_row_sum(x + begin, sizes_.count, inner, end - begin, static_cast<float>(1 / divisor), y + begin);
      });
    double* totals = ThreadScratch<double>(ScratchUse::kTotals, inner);
    std::fill_n(totals, inner, 0.0);
    WorkPoll poll;
    for (int64_t row = 0; row < sizes_.count; row += kBlock, poll(kBlock * inner)) {
      kernels.scaled_row_sum(x + row * inner, std::min(kBlock, sizes_.count - row), inner, inner, 1.0f, y);
      for (int64_t i = 0; i < inner; ++i) totals[i] += static_cast<double>(y[i]);
    }
    for (int64_t i = 0; i < inner; ++i) y[i] = static_cast<float>(totals[i] / divisor);
  }

  ReduceKind kind_;
  void (*compute_)(OpContext&);
  Reduced sizes_;
};

std::unique_ptr<CpuKernel> MakeBinary(const CpuKernelRequest& request) {
  static constexpr std::pair<std::string_view, BinaryKind> kKinds[] = {
      {"Add", BinaryKind::kAdd},    {"Sub", BinaryKind::kSubtract}, {"Mul", BinaryKind::kMultiply},
      {"Div", BinaryKind::kDivide}, {"Max", BinaryKind::kMax},      {"Min", BinaryKind::kMin},
      {"Sum", BinaryKind::kAdd}};
  for (const auto& [name, kind] : kKinds) {
    if (request.node.op_type != name || request.inputs.size() != 2) continue;
    std::optional<Shape> a = FloatShape(request, 0), b = FloatShape(request, 1);
    if (a && b) return std::make_unique<BinaryKernel>(kind, request.op, *a, *b);
  }
  return nullptr;
}

// Empty when the reduced axes are not next to each other.
std::optional<Reduced> PlanReduction(const CpuKernelRequest& request, const Shape& x) {
  std::vector<int64_t> axes;
  if (request.node.HasInput(1)) {
    const Tensor* given = ConstantOf(request, 1);
    if (!given || given->rank() > 1 || given->dtype() != DType::kInt64) return std::nullopt;
    axes = ToInt64Vector(*given);
  }
  if (axes.empty() && request.node.Int("noop_with_empty_axes", 0) != 0) return std::nullopt;
  std::vector<bool> reduced(x.rank(), axes.empty());
  auto rank = static_cast<int64_t>(x.rank());
  for (int64_t axis : axes) {
    if (axis < -rank || axis >= rank) return std::nullopt;
    reduced[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = true;
  }
  bool keeps = request.node.Int("keepdims", 1) != 0;
  Reduced plan;
  plan.x = x;
  for (size_t axis = 0; axis < x.rank(); ++axis) {
    if (!reduced[axis] || keeps) plan.y.push_back(reduced[axis] ? 1 : x[axis]);
    if (x[axis] == 1) continue;
    if (!reduced[axis])
      (plan.count > 1 ? plan.inner : plan.outer) *= x[axis];
    else if (plan.inner > 1)
      return std::nullopt;
    else
      plan.count *= x[axis];
  }
  return x.ElementCount() > 0 ? std::optional(plan) : std::nullopt;
}

std::unique_ptr<CpuKernel> MakeReduction(const CpuKernelRequest& request) {
  static constexpr std::pair<std::string_view, ReduceKind> kKinds[] = {{"ReduceSum", ReduceKind::kSum},
                                                                       {"ReduceMean", ReduceKind::kMean},
                                                                       {"ReduceMax", ReduceKind::kMax},
                                                                       {"ReduceMin", ReduceKind::kMin}};
  for (const auto& [name, kind] : kKinds) {
    if (request.node.op_type != name) continue;
    std::optional<Shape> x = FloatShape(request, 0);
    std::optional<Reduced> plan = x ? PlanReduction(request, *x) : std::nullopt;
    if (plan) return std::make_unique<ReduceKernel>(kind, request.op, std::move(*plan));
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<CpuKernel> MakeElementwiseKernel(const CpuKernelRequest& request) {
  if (!CanonicalDomain(request.node.domain).empty() || request.inputs.empty() || !request.inputs[0] ||
      request.inputs[0]->type.dtype != DType::kFloat)
    return nullptr;
  try {
    if (auto kernel = MakeBinary(request)) return kernel;
    return MakeReduction(request);
  } catch (const Error&) {
    return nullptr;  // told again when the node runs, where more is known
  }
}

}  // namespace ferry
