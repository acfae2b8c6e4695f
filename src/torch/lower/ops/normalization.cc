// Normalisations, and dropout, which is nothing once training is over.
#include <cmath>
#include <limits>
#include <numeric>

#include "torch/lower/families.h"

namespace ferry::torch {
namespace {

using Training = LowerOptions::Training;

// Whether an operator in training mode is to be kept so. Refuses unless the user has decided.
bool KeepsTraining(Call& c, std::string_view what) {
  if (c.options().training == Training::kRefuse)
    c.Unsupported("the program was captured in training mode: ", what,
                  ". Call model.eval() before torch.export, or export with ", c.options().eval_option(),
                  " (for inference) or ", c.options().training_option(), " (as it is)");
  return c.options().training == Training::kKeep;
}

Operand Vector(Call& c, const Operand& given, double otherwise, const Operand& like, DType dtype) {
  if (given) return c.b.Cast(given, dtype);
  Operand size = like ? c.b.ShapeOf(like) : c.b.SizeOf(c.Tensor(0), 1);
  return c.b.Fill(otherwise, dtype, size);
}

std::vector<int64_t> AllButChannels(const Operand& x) {
  std::vector<int64_t> axes;
  for (size_t axis = 0; axis < x.rank(); ++axis)
    if (axis != 1) axes.push_back(static_cast<int64_t>(axis));
  return axes;
}

// One number per channel, as [C, 1, 1 …] to broadcast over the rest.
Operand PerChannel(Builder& b, const Operand& v, size_t rank) {
  if (rank <= 2) return v;
  std::vector<int64_t> axes(rank - 2);
  std::iota(axes.begin(), axes.end(), 1);
  return b.Unsqueeze(v, axes);
}

struct Statistics {
  Operand mean, variance;  // [C], of this batch
};
Statistics OfBatch(Builder& b, const Operand& x) {
  std::vector<int64_t> axes = AllButChannels(x);
  Operand mean = b.Reduce("ReduceMean", x, axes, true);
  Operand centred = b.Sub(x, mean);
  return {b.Squeeze(mean, axes), b.Reduce("ReduceMean", b.Mul(centred, centred), axes, false)};
}

Operand NormalizeChannels(Call& c, const Operand& x, const Operand& weight, const Operand& bias, const Operand& mean,
                          const Operand& variance, double eps) {
  Operand scale = Vector(c, weight, 1, mean, x.dtype()), shift = Vector(c, bias, 0, mean, x.dtype());
  return c.b.Widened("BatchNormalization", {x, scale, shift, c.b.CastLike(mean, x), c.b.CastLike(variance, x)},
                     {{"epsilon", static_cast<float>(eps)}});
}

struct Normalized {
  Operand y, mean, inverse_deviation;
};
// Arguments: input, weight, bias, running_mean, running_var …
Normalized BatchNormOf(Call& c, bool training, double eps) {
  Operand x = c.Tensor(0), mean = c.MaybeTensor(3), variance = c.MaybeTensor(4);
  // Without running statistics a module uses those of the batch in inference, too; and statistics that are given to the
  // program are no module's.
  bool is_module = mean && variance && mean.record()->is_weight && variance.record()->is_weight;
  if (training && is_module && !KeepsTraining(c, "this batch norm uses the statistics of the batch")) training = false;
  if (x.static_shape() && x.static_shape()->ElementCount() == 0) return {x, {}, {}};
  if (!training) {
    if (!mean || !variance) c.Unsupported("batch norm for inference has no running statistics");
    return {NormalizeChannels(c, x, c.MaybeTensor(1), c.MaybeTensor(2), mean, variance, eps), {}, {}};
  }
  Statistics batch = OfBatch(c.b, x);
  Operand y = NormalizeChannels(c, x, c.MaybeTensor(1), c.MaybeTensor(2), batch.mean, batch.variance, eps);
  return {y, batch.mean, c.b.Reciprocal(c.b.Sqrt(c.b.Add(batch.variance, eps)))};
}
Result BatchNorm(Call& c) { return BatchNormOf(c, c.Bool(5), c.Float(7)).y; }
// The kernel forms also give what the backward pass would need.
Result NativeBatchNorm(Call& c) {
  Normalized n = BatchNormOf(c, c.Bool(5), c.Float(7));
  if (!n.mean) n.mean = n.inverse_deviation = c.b.Constant(Tensor::Zeros(c.Tensor(0).dtype(), {0}));
  return Operands{n.y, n.mean, n.inverse_deviation};
}
// The last result is scratch memory of the backward pass.
Result BatchNormWithUpdate(Call& c) {
  Normalized n = BatchNormOf(c, true, c.Float(6));
  Operand nothing = c.b.Constant(Tensor::Zeros(c.Tensor(0).dtype(), {0}));
  return Operands{n.y, n.mean ? n.mean : nothing, n.mean ? n.inverse_deviation : nothing,
                  c.b.Constant(Tensor::Zeros(DType::kUInt8, {0}))};
}
Result NativeBatchNormNoTraining(Call& c) {
  Normalized n = BatchNormOf(c, false, c.Float(6));
  Operand nothing = c.b.Constant(Tensor::Zeros(c.Tensor(0).dtype(), {0}));
  return Operands{n.y, nothing, nothing};
}

Result InstanceNorm(Call& c) {
  Operand x = c.Tensor(0);
  if (!c.Bool(5))
    return NormalizeChannels(c, x, c.MaybeTensor(1), c.MaybeTensor(2), c.Tensor(3), c.Tensor(4), c.Float(7));
  Operand like;
  Operand scale = Vector(c, c.MaybeTensor(1), 1, like, x.dtype()),
          shift = Vector(c, c.MaybeTensor(2), 0, like, x.dtype());
  return c.b.Widened("InstanceNormalization", {x, scale, shift}, {{"epsilon", static_cast<float>(c.Float(7))}});
}

struct LayerNormResult {
  Operand y, mean, inverse_deviation;
};
LayerNormResult LayerNormOf(Call& c) {
  Operand x = c.Tensor(0), weight = c.MaybeTensor(2), bias = c.MaybeTensor(3);
  std::vector<int64_t> shape = c.Ints(1);
  auto axes_count = static_cast<int64_t>(shape.size());
  double eps = c.Float(4);
  if (c.b.Has("LayerNormalization")) {
    Operand scale = weight ? weight : c.b.Fill(1, x.dtype(), c.b.Ints(shape));
    Operands inputs = bias ? Operands{x, scale, bias} : Operands{x, scale};
    Operands out =
        c.b.EmitMany("LayerNormalization", inputs, {{"axis", -axes_count}, {"epsilon", static_cast<float>(eps)}}, 3);
    return {out[0], out[1], out[2]};
  }
  std::vector<int64_t> axes(shape.size());
  std::iota(axes.begin(), axes.end(), -axes_count);
  Operand mean = c.b.Reduce("ReduceMean", x, axes, true), centred = c.b.Sub(x, mean);
  Operand variance = c.b.Reduce("ReduceMean", c.b.Mul(centred, centred), axes, true);
  Operand deviation = c.b.Sqrt(c.b.Add(variance, eps));
  Operand y = c.b.Div(centred, deviation);
  if (weight) y = c.b.Mul(y, weight);
  return {bias ? c.b.Add(y, bias) : y, mean, c.b.Reciprocal(deviation)};
}
Result LayerNorm(Call& c) { return LayerNormOf(c).y; }
Result NativeLayerNorm(Call& c) {
  LayerNormResult n = LayerNormOf(c);
  return Operands{n.y, n.mean, n.inverse_deviation};
}

// Groups of channels are the instances of an instance norm without scale; the scale is per channel, afterwards.
Operand GroupNormOf(Call& c, const Operand& x, int64_t groups, const Operand& weight, const Operand& bias, double eps) {
  std::vector<Scalar> sizes = c.b.Sizes(x);
  // Of a batch of nothing, the size that is left cannot be told from the others.
  SymbolicShape shape = x.shape();
  Dim per_image = CountElements({shape.begin() + 1, shape.end()});
  Scalar left = per_image.known() && groups > 0 ? Scalar(*per_image.value / groups) : Scalar(-1);
  Operand grouped = c.b.View(x, {sizes[0], Scalar(groups), left});
  Operand ones = c.b.Fill(1, x.dtype(), c.b.Ints({groups})), zeros = c.b.Fill(0, x.dtype(), c.b.Ints({groups}));
  Operand normal = c.b.Widened("InstanceNormalization", {grouped, ones, zeros}, {{"epsilon", static_cast<float>(eps)}});
  Operand y = c.b.View(normal, sizes);
  if (weight) y = c.b.Mul(y, PerChannel(c.b, weight, x.rank()));
  return bias ? c.b.Add(y, PerChannel(c.b, bias, x.rank())) : y;
}
Result GroupNorm(Call& c) {
  Operand x = c.Tensor(0), weight = c.MaybeTensor(2), bias = c.MaybeTensor(3);
  // Since opset 21 the operator scales per channel, as PyTorch does.
  if (c.b.opset() >= 21 && weight && bias && x.rank() > 2)
    return c.b.Widened("GroupNormalization", {x, weight, bias},
                       {{"num_groups", c.Int(1)}, {"epsilon", static_cast<float>(c.Float(4))}});
  return GroupNormOf(c, x, c.Int(1), weight, bias, c.Float(4));
}
Result NativeGroupNorm(Call& c) {
  Operand x = c.Tensor(0);
  int64_t groups = c.Int(6);
  Operand y = GroupNormOf(c, x, groups, c.MaybeTensor(1), c.MaybeTensor(2), c.Float(7));
  Operand grouped = c.b.View(x, {c.b.SizeScalar(x, 0), Scalar(groups), Scalar(-1)});
  Operand mean = c.b.Reduce("ReduceMean", grouped, {2}, true), centred = c.b.Sub(grouped, mean);
  Operand variance = c.b.Reduce("ReduceMean", c.b.Mul(centred, centred), {2}, false);
  return Operands{y, c.b.Squeeze(mean, {2}), c.b.Reciprocal(c.b.Sqrt(c.b.Add(variance, c.Float(7))))};
}

double MachineEpsilon(DType dtype) {
  switch (dtype) {
    case DType::kDouble: return std::numeric_limits<double>::epsilon();
    case DType::kFloat16: return 0x1p-10;
    case DType::kBFloat16: return 0x1p-7;
    default: return std::numeric_limits<float>::epsilon();
  }
}
Result RmsNorm(Call& c) {
  Operand x = c.Tensor(0), weight = c.MaybeTensor(2);
  std::vector<int64_t> shape = c.Ints(1), axes(shape.size());
  auto axes_count = static_cast<int64_t>(shape.size());
  std::iota(axes.begin(), axes.end(), -axes_count);
  double eps = c.IsNone(3) ? MachineEpsilon(x.dtype()) : c.Float(3);
  if (c.b.Has("RMSNormalization") && weight && weight.dtype() == x.dtype())
    return c.b.Emit("RMSNormalization", {x, weight}, {{"axis", -axes_count}, {"epsilon", static_cast<float>(eps)}});
  Operand wide = IsSmallFloat(x.dtype()) ? c.b.Cast(x, DType::kFloat) : x;
  Operand power = c.b.Reduce("ReduceMean", c.b.Mul(wide, wide), axes, true);
  Operand y = c.b.CastLike(c.b.Mul(wide, c.b.Reciprocal(c.b.Sqrt(c.b.Add(power, eps)))), x);
  return weight ? c.b.Mul(y, weight) : y;
}

// train = True and p > 0 is what has an effect.
Result Dropout(Call& c) {
  Operand x = c.Tensor(0);
  double p = c.Float(1);
  if (!c.Bool(2) || p == 0 || !KeepsTraining(c, "this dropout is active")) return x;
  return c.b.Emit("Dropout", {x, c.b.Number(p, DType::kFloat), c.b.Constant(Tensor::Scalar<bool>(true))});
}
Result OtherDropout(Call& c) {
  if (!c.Bool(2) || c.Float(1) == 0 || !KeepsTraining(c, "this dropout is active")) return c.Tensor(0);
  c.Unsupported("there is no export for it in training mode");
}
Result NativeDropout(Call& c) {
  Operand x = c.Tensor(0);
  bool train = c.IsNone(2) || c.Bool(2);
  if (!train || c.Float(1) == 0 || !KeepsTraining(c, "this dropout is active"))
    return Operands{x, c.b.Fill(1, DType::kBool, c.b.ShapeOf(x))};
  return c.b.EmitMany("Dropout", {x, c.b.Number(c.Float(1), DType::kFloat), c.b.Constant(Tensor::Scalar<bool>(true))},
                      {}, 2);
}

Result DropoutBackward(Call& c) {
  Operand gradient = c.Tensor(0);
  return c.b.Mul(c.b.Mul(gradient, c.b.CastLike(c.Tensor(1), gradient)), c.b.Of(c.Number(2), gradient.dtype()));
}

constexpr Rule kRules[] = {
    {"batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, "
     "float momentum, float eps, bool cudnn_enabled)",
     BatchNorm},
    {"native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
     "bool training, float momentum, float eps)",
     NativeBatchNorm},
    {"_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
     "bool training, float momentum, float eps)",
     NativeBatchNorm},
    {"_batch_norm_with_update(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, "
     "float momentum, float eps)",
     BatchNormWithUpdate},
    {"_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, "
     "Tensor running_var, float momentum, float eps)",
     NativeBatchNormNoTraining},
    {"instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
     "bool use_input_stats, float momentum, float eps, bool cudnn_enabled)",
     InstanceNorm},
    {"layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, "
     "bool cudnn_enable=True)",
     LayerNorm},
    {"native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps)",
     NativeLayerNorm},
    {"group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, "
     "bool cudnn_enabled=True)",
     GroupNorm},
    {"native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float "
     "eps)",
     NativeGroupNorm},
    {"rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None)", RmsNorm},
    {"dropout(Tensor input, float p, bool train)", Dropout, RuleKind::kSelf},
    {"feature_dropout(Tensor input, float p, bool train)", OtherDropout, RuleKind::kSelf},
    {"alpha_dropout(Tensor input, float p, bool train)", OtherDropout, RuleKind::kSelf},
    {"feature_alpha_dropout(Tensor input, float p, bool train)", OtherDropout, RuleKind::kSelf},
    {"native_dropout_backward(Tensor grad_output, Tensor mask, float scale)", DropoutBackward},
    {"native_dropout(Tensor input, float p, bool? train)", NativeDropout},
};

}  // namespace

std::span<const Rule> NormalizationRules() { return kRules; }

}  // namespace ferry::torch
