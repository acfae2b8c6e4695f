// Concat of parts that may lie in its result already, and pools and factors of images that may be such parts.
#include "ops/support/concat.h"

#include "ops/support/fused.h"
#include "ops/support/movement.h"
#include "ops/support/nhwc.h"
#include "providers/cpu/kernels.h"

namespace ferry {
namespace {

// A tensor whose rows lie apart, with its rows one after the other.
Tensor Together(const OpContext& context, const Tensor& tensor, int64_t stride) {
  Tensor dense(tensor.dtype(), tensor.shape());
  const int64_t width = dense.shape().back();
  CopyStrided(context, tensor, 0, dense, 0, {{dense.size() / width, stride, width}, {width, 1, 1}});
  return dense;
}

class ConcatKernel final : public CpuKernel {
 public:
  std::string name() const override { return "concat"; }
  ConcatKernel(std::vector<Shape> parts, size_t axis, Shape shape)
      : parts_(std::move(parts)), axis_(axis), shape_(std::move(shape)) {}

  bool ReadsStrided(size_t) const override { return true; }
  bool WritesStrided() const override { return axis_ + 1 == shape_.rank(); }

  void Run(OpContext& context) const override {
    const DType type = context.Input(0).dtype();
    for (size_t i = 0; i < parts_.size(); ++i)
      if (!(context.Input(i).shape() == parts_[i]) || context.Input(i).dtype() != type) return RunUnexpected(context);
    Tensor& y = context.Output(0, type, shape_);
    const int64_t y_stride = rows_.output.StrideOf(y);
    const bool across = axis_ + 1 == shape_.rank();
    int64_t place = 0;  // of the part's first element
    for (size_t i = 0; i < parts_.size(); ++i) {
      const Tensor& part = context.Input(i);
      const int64_t width = part.shape().back(), stride = rows_.InputStride(i, part), to = across ? y_stride : width;
      if (part.size() == 0) continue;
      const int64_t at = place * static_cast<int64_t>(part.bytes()) / part.size();
      if (stride != to || part.raw() != y.raw() + at)
        CopyStrided(context, part, 0, y, place, {{part.size() / width, stride, to}, {width, 1, 1}});
      place += across ? width : part.size();
    }
  }

 private:
  void RunUnexpected(OpContext& context) const {
    std::vector<Tensor> parts(context.input_count());
    std::vector<const Tensor*> pointers(parts.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      const Tensor& part = context.Input(i);
      const int64_t stride = rows_.InputStride(i, part);
      const bool apart = part.size() > 0 && part.rank() > 0 && stride != part.shape().back();
      parts[i] = apart ? Together(context, part, stride) : part;
      pointers[i] = &parts[i];
    }
    WriteConcatenated(context, 0, pointers, context.node().Int("axis", 0));
  }

  std::vector<Shape> parts_;
  size_t axis_;
  Shape shape_;
};

class NhwcKernel final : public CpuKernel {
 public:
  using Compute = void (*)(OpContext&, const RowLayout&);
  std::string name() const override { return "nhwc rows"; }
  NhwcKernel(Compute compute, bool writes) : compute_(compute), writes_(writes) {}
  void Run(OpContext& context) const override { compute_(context, rows_); }
  bool ReadsStrided(size_t input) const override { return input == 0; }
  bool WritesStrided() const override { return writes_; }

 private:
  Compute compute_;
  bool writes_;
};

}  // namespace

// Parts are rows of the last axis, or whole blocks of a result that has nothing in front of its axis.
std::unique_ptr<CpuKernel> MakeConcatKernel(const CpuKernelRequest& request) {
  const Node& node = request.node;
  if (node.op_type != "Concat" || !CanonicalDomain(node.domain).empty() || !node.Has("axis")) return nullptr;
  std::vector<Shape> parts;
  for (const ValueFacts* facts : request.inputs) {
    if (!facts || !facts->type.is_tensor() || !facts->type.shape) return nullptr;
    if (facts->type.dtype != request.inputs[0]->type.dtype || facts->type.dtype == DType::kString ||
        BitWidth(facts->type.dtype) < 8)
      return nullptr;
    std::optional<Shape> shape = ToConcrete(*facts->type.shape);
    if (!shape || shape->rank() == 0) return nullptr;
    parts.push_back(std::move(*shape));
  }
  if (parts.empty()) return nullptr;
  const auto rank = static_cast<int64_t>(parts[0].rank());
  int64_t axis = node.Int("axis", 0);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return nullptr;
  const auto along = static_cast<size_t>(axis);
  if (axis + 1 != rank && parts[0].CountBetween(0, along) != 1) return nullptr;
  Shape shape = parts[0];
  shape[along] = 0;
  for (const Shape& part : parts) {
    if (part.rank() != shape.rank()) return nullptr;
    for (size_t i = 0; i < part.rank(); ++i)
      if (i != along && part[i] != shape[i]) return nullptr;
    if (__builtin_add_overflow(shape[along], part[along], &shape[along])) return nullptr;
  }
  return std::make_unique<ConcatKernel>(std::move(parts), along, std::move(shape));
}

std::unique_ptr<CpuKernel> MakeNhwcKernel(const CpuKernelRequest& request) {
  if (request.node.domain != kInternalDomain) return nullptr;
  const std::string& op = request.node.op_type;
  if (op == "NhwcAffine") return std::make_unique<NhwcKernel>(ComputeNhwcAffine, false);
  if (op == "NhwcMaxPool") return std::make_unique<NhwcKernel>(ComputeNhwcMaxPool, true);
  if (op == "NhwcAveragePool") return std::make_unique<NhwcKernel>(ComputeNhwcAveragePool, true);
  return nullptr;
}

}  // namespace ferry
