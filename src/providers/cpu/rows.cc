// Softmax and normalisation along the last axes in float32.
#include <algorithm>
#include <optional>

#include "kernels/row_kernels.h"
#include "providers/cpu/kernels.h"

namespace ferry {
namespace {

// Elements that are worth a thread of their own: some ten microseconds of work.
constexpr int64_t kGrain = 16384;

// A row that takes longer than some milliseconds: the plain operators stop in the middle of one, these kernels do not.
constexpr int64_t kLongestRow = int64_t{1} << 22;

bool IsFloat(const ValueFacts* facts) { return facts && facts->type.dtype == DType::kFloat; }

std::optional<Shape> ConcreteShape(const ValueFacts* facts) {
  return facts && facts->type.shape ? ToConcrete(*facts->type.shape) : std::nullopt;
}

// The first of the axes that `name` counts from, when it stands for the last axes of x.
std::optional<size_t> AxisOf(const CpuKernelRequest& request, size_t rank) {
  int64_t axis = request.node.Int("axis", -1), signed_rank = static_cast<int64_t>(rank);
  if (axis < 0) axis += signed_rank;
  if (axis < 0 || axis >= signed_rank) return std::nullopt;
  return static_cast<size_t>(axis);
}

class SoftmaxKernel final : public CpuKernel {
 public:
  std::string name() const override { return "softmax rows"; }
  explicit SoftmaxKernel(int64_t count) : count_(count) {}

  void Run(OpContext& context) const override {
    const Tensor& x = context.Input(0);
    const float* from = x.Data<float>();
    float* to = context.Output(0, DType::kFloat, x.shape()).MutableData<float>();
    const RowKernels& kernels = BestRowKernels();
    context.ParallelFor(x.size() / count_, std::max<int64_t>(1, kGrain / count_), [&](int64_t first, int64_t last) {
      for (int64_t r = first; r < last; ++r) kernels.softmax({from + r * count_, nullptr, to + r * count_, count_});
    });
  }

 private:
  int64_t count_;
};

class NormalizeKernel final : public CpuKernel {
 public:
  std::string name() const override { return "normalize rows"; }
  NormalizeKernel(int64_t count, float epsilon, bool centered)
      : count_(count), epsilon_(epsilon), centered_(centered) {}

  void Run(OpContext& context) const override {
    const Tensor& x = context.Input(0);
    const Tensor* bias = context.OptionalInput(2);
    NormalizeRow row{x.Data<float>(),
                     context.Input(1).Data<float>(),
                     bias ? bias->Data<float>() : nullptr,
                     nullptr,
                     count_,
                     epsilon_,
                     centered_};
    row.y = context.Output(0, DType::kFloat, x.shape()).MutableData<float>();
    const RowKernels& kernels = BestRowKernels();
    context.ParallelFor(x.size() / count_, std::max<int64_t>(1, kGrain / count_), [&](int64_t first, int64_t last) {
      NormalizeRow one = row;
      for (int64_t r = first; r < last; ++r) {
        one.x = row.x + r * count_;
        one.y = row.y + r * count_;
        kernels.normalize(one);
      }
    });
  }

 private:
  int64_t count_;
  float epsilon_;
  bool centered_;
};

std::unique_ptr<CpuKernel> MakeSoftmax(const CpuKernelRequest& request, const Shape& x) {
  std::optional<size_t> axis = AxisOf(request, x.rank());
  if (!axis || *axis + 1 != x.rank() || x.back() == 0 || x.back() > kLongestRow) return nullptr;
  return std::make_unique<SoftmaxKernel>(x.back());
}

std::unique_ptr<CpuKernel> MakeNormalize(const CpuKernelRequest& request, const Shape& x) {
  std::optional<size_t> axis = AxisOf(request, x.rank());
  if (!axis || request.node.Int("stash_type", 1) != 1) return nullptr;
  for (size_t i = 1; i < request.outputs.size(); ++i)
    if (!request.node.outputs[i].empty()) return nullptr;  // the statistics are wanted too
  Shape inner;
  for (size_t i = *axis; i < x.rank(); ++i) inner.push_back(x[i]);
  if (inner.ElementCount() == 0 || inner.ElementCount() > kLongestRow || request.inputs.size() < 2) return nullptr;
  for (size_t i = 1; i < request.inputs.size(); ++i) {
    if (i > 1 && !request.inputs[i]) continue;
    if (!IsFloat(request.inputs[i]) || ConcreteShape(request.inputs[i]) != inner) return nullptr;
  }
  bool centered = request.node.op_type == "LayerNormalization";
  return std::make_unique<NormalizeKernel>(inner.ElementCount(), request.node.Float("epsilon", 1e-5f), centered);
}

}  // namespace

std::unique_ptr<CpuKernel> MakeRowKernel(const CpuKernelRequest& request) {
  if (!CanonicalDomain(request.node.domain).empty() || request.inputs.empty() || !IsFloat(request.inputs[0]))
    return nullptr;
  std::optional<Shape> x = ConcreteShape(request.inputs[0]);
  if (!x || x->rank() == 0) return nullptr;
  const std::string& op = request.node.op_type;
  if (op == "Softmax") return MakeSoftmax(request, *x);
  if (op == "LayerNormalization" || op == "RMSNormalization") return MakeNormalize(request, *x);
  return nullptr;
}

}  // namespace ferry
