#include "ops/support/indices.h"
#include "providers/cuda/kernels.h"
#include "providers/cuda/operators.h"

namespace ferry::cuda {
namespace {

bool IsComputed(DType type) {
  return type == DType::kFloat || type == DType::kFloat16 || type == DType::kBFloat16 || type == DType::kDouble;
}

std::optional<Reduction> ReductionOf(const OperatorRequest& request) {
  constexpr std::pair<std::string_view, Reduction> kNames[] = {
      {"ReduceSum", Reduction::kSum},       {"ReduceMean", Reduction::kMean},
      {"ReduceMax", Reduction::kMax},       {"ReduceMin", Reduction::kMin},
      {"ReduceProd", Reduction::kProd},     {"ReduceL1", Reduction::kL1},
      {"ReduceL2", Reduction::kL2},         {"ReduceSumSquare", Reduction::kSumSquare},
      {"ReduceLogSum", Reduction::kLogSum}, {"ReduceLogSumExp", Reduction::kLogSumExp}};
  for (const auto& [name, reduction] : kNames)
    if (request.Is(name)) return reduction;
  return std::nullopt;
}

// Over the axes that are true; those stay with size 1 where `keep` says so.
void ReduceOver(const Device& device, OpContext& context, Reduction reduction, const std::vector<bool>& axes,
                bool keep) {
  const Tensor& x = context.Input(0);
  Shape shape;
  for (size_t i = 0; i < x.rank(); ++i)
    if (!axes[i])
      shape.push_back(x.dim(i));
    else if (keep)
      shape.push_back(1);
  if ((reduction == Reduction::kMax || reduction == Reduction::kMin) && x.size() == 0 && !IsComputed(x.dtype()))
    Require(shape.ElementCount() == 0, "there is no largest or smallest of no integers");
  Reduce(device, reduction, x, axes, context.Output(0, x.dtype(), shape));
}

void RunReduction(const Device& device, OpContext& context, Reduction reduction) {
  const Tensor& x = context.Input(0);
  const Node& node = context.node();
  std::vector<int64_t> named;
  if (context.Has(1)) named = IntegerList(context.Input(1), "axes");
  std::vector<bool> axes(x.rank(), named.empty() && node.Int("noop_with_empty_axes", 0) == 0);
  for (size_t axis : NormalizeAxes(named, x.rank())) axes[axis] = true;
  ReduceOver(device, context, reduction, axes, node.Int("keepdims", 1) != 0);
}

// Over all axes but the first and `channels`.
void RunImageReduction(const Device& device, OpContext& context, Reduction reduction, bool channels_last, bool keep) {
  const Tensor& x = context.Input(0);
  Require(x.rank() >= 3, "the input needs a batch, channels and spatial axes, its shape is ", x.shape());
  std::vector<bool> axes(x.rank(), true);
  axes[0] = axes[channels_last ? x.rank() - 1 : 1] = false;
  ReduceOver(device, context, reduction, axes, keep);
}

// `rounds`: after every step, as a model that is bfloat16 itself asks for it.
void RunSoftmax(const Device& device, OpContext& context, bool log, bool rounds) {
  const Tensor& x = context.Input(0);
  Tensor& y = context.Output(0, x.dtype(), x.shape());
  if (x.rank() == 0) return Softmax(device, log, 1, 1, 1, x, y);
  const size_t axis = NormalizeAxis(context.node().Int("axis", -1), x.rank());
  const int64_t outer = x.shape().CountBetween(0, axis), inner = x.shape().CountBetween(axis + 1, x.rank());
  if (rounds) return RoundedSoftmax(device, outer, x.dim(axis), inner, x, y);
  Softmax(device, log, outer, x.dim(axis), inner, x, y);
}

void RunNormalization(const Device& device, OpContext& context, bool centered) {
  const Tensor& x = context.Input(0);
  const Tensor *scale = context.OptionalInput(1), *bias = centered ? context.OptionalInput(2) : nullptr;
  const size_t axis = NormalizeAxis(context.node().Int("axis", -1), x.rank());
  const int64_t count = x.shape().CountBetween(axis, x.rank());
  for (const Tensor* part : {scale, bias})
    if (part)
      Require(part->size() == count, "a scale or bias of shape ", part->shape(), " does not fit axis ", axis, " of ",
              x.shape());
  NormalizeRows(device, count, context.node().Float("epsilon", 1e-5f), centered, x, scale, bias,
                context.Output(0, x.dtype(), x.shape()));
}

// Scale and bias must cover the rows: what broadcasts otherwise is left to the portable operator.
bool CoversRows(const OperatorRequest& request, size_t input) {
  if (!request.Has(input)) return true;
  const std::optional<Shape> x = request.ShapeOf(0), part = request.ShapeOf(input);
  if (!x || !part || x->rank() == 0 || request.TypeOf(input) != request.TypeOf(0)) return false;
  int64_t axis = request.node().Int("axis", -1);
  if (axis < 0) axis += static_cast<int64_t>(x->rank());
  if (axis < 0 || axis >= static_cast<int64_t>(x->rank())) return false;
  return part->ElementCount() == x->CountBetween(static_cast<size_t>(axis), x->rank());
}

}  // namespace

std::optional<ChosenKernel> ChooseRows(const OperatorRequest& request) {
  const DType type = request.TypeOf(0);
  if (std::optional<Reduction> reduction = ReductionOf(request); reduction && CanReduce(*reduction, type))
    return OnDevice(
        request, "reduce", [=](const Device& device, OpContext& context) { RunReduction(device, context, *reduction); },
        InputBit(1));
  if (!IsComputed(type)) return std::nullopt;
  for (bool log : {false, true})
    if (request.Is(log ? "LogSoftmax" : "Softmax")) {
      const bool rounds = !log && type == DType::kBFloat16 && request.settings.lower == DType::kUndefined;
      return OnDevice(request, "softmax",
                      [=](const Device& device, OpContext& context) { RunSoftmax(device, context, log, rounds); });
    }
  for (bool centered : {false, true})
    if (request.Is(centered ? "LayerNormalization" : "RMSNormalization") && request.WantsOnly(1) &&
        CoversRows(request, 1) && CoversRows(request, 2) && request.node().Int("stash_type", 1) == 1)
      return OnDevice(request, "normalize",
                      [=](const Device& device, OpContext& context) { RunNormalization(device, context, centered); });
  const bool mean = request.Is("GlobalAveragePool"), image_mean = request.IsInternal("NhwcMean");
  if (mean || image_mean || request.Is("GlobalMaxPool")) {
    const Reduction reduction = mean || image_mean ? Reduction::kMean : Reduction::kMax;
    const bool keep = !image_mean || request.node().Int("keepdims", 1) != 0;
    return OnDevice(request, "reduce", [=](const Device& device, OpContext& context) {
      RunImageReduction(device, context, reduction, image_mean, keep);
    });
  }
  return std::nullopt;
}

}  // namespace ferry::cuda
