#include "torch/script/quantized.h"

#include <cmath>

#include "base/error.h"

namespace ferry::torch::script {
namespace {

constexpr std::string_view kClasses = "__torch__.torch.classes.quantized.";
// PyTorch's numbers of quantised element types.
constexpr int64_t kQInt8 = 12, kQUInt8 = 13, kQInt32 = 14;

const ScriptValue& At(const Arguments& args, size_t i, const std::string& name) {
  if (i >= args.values.size())
    Fail(ErrorCode::kInvalidModel, "ops.quantized.", Printable(name), " is called with ", args.size(), " arguments");
  return args.values[i];
}

// What the numbers are once they have been integers.
Operand Rounded(Builder& b, const Operand& x, double scale, int64_t zero, DType dtype) {
  if (!(scale > 0) || !std::isfinite(scale)) Fail(ErrorCode::kInvalidModel, "a tensor is quantised with scale ", scale);
  Operand step = b.Number(scale, DType::kFloat), offset = b.Of(Scalar(zero), dtype);
  return b.Emit("DequantizeLinear", {b.Emit("QuantizeLinear", {x, step, offset}), step, offset});
}

ScriptValue Rounded(Interpreter& in, const ScriptValue& value, const Arguments& args, size_t scale,
                    const std::string& name) {
  double step = in.ScalarOf(At(args, scale, name)).AsDouble();
  int64_t zero = in.ScalarOf(At(args, scale + 1, name)).AsInt();
  return in.TensorValue(Rounded(in.builder(), in.TensorOf(value), step, zero, DType::kUInt8));
}

const std::vector<ScriptValue>& Params(const ScriptValue& packed, size_t count) {
  const std::vector<ScriptValue>* parts = packed.items();
  if (!parts || parts->size() != count)
    Fail(ErrorCode::kUnsupported, "the packed weights of a quantised layer are of another kind");
  return *parts;
}

ScriptValue Linear(Interpreter& in, const ScriptValue& x, const ScriptValue& packed) {
  const std::vector<ScriptValue>& params = Params(packed, 2);
  return in.CallAten("linear", {{x, params[0], params[1]}, {}});
}

ScriptValue Conv(Interpreter& in, const std::string& name, const ScriptValue& x, const ScriptValue& packed) {
  std::vector<ScriptValue> arguments = {x};
  const std::vector<ScriptValue>& params = Params(packed, 6);
  arguments.insert(arguments.end(), params.begin(), params.end());
  return in.CallAten(name, {arguments, {}});
}

// Numbers between their smallest and largest in 255 steps, or 127, chosen while the model runs.
ScriptValue DynamicallyRounded(Interpreter& in, const ScriptValue& value, bool reduce_range) {
  Builder& b = in.builder();
  Operand x = in.TensorOf(value);
  double steps = reduce_range ? 127 : 255;
  Operand zero = b.NumberLike(0, x);
  Operand low = b.Min(b.Reduce("ReduceMin", x, {}, false), zero),
          high = b.Max(b.Reduce("ReduceMax", x, {}, false), zero);
  Operand span = b.Div(b.Sub(high, low), steps);
  Operand scale = b.Where(b.Equal(span, zero), b.NumberLike(0.1, x), span);
  Operand offset = b.Emit("Round", {b.Neg(b.Div(low, scale))});
  Operand whole = b.Add(b.Emit("Round", {b.Div(x, scale)}), offset);
  Operand kept = b.Min(b.Max(whole, zero), b.NumberLike(255, x));
  return in.TensorValue(b.Mul(b.Sub(kept, offset), scale));
}

ScriptValue Relu(Interpreter& in, const ScriptValue& x) { return in.CallAten("relu", {{x}, {}}); }

}  // namespace

bool IsPackedParams(std::string_view class_name) { return class_name.starts_with(kClasses); }

ScriptValue UnpackedParams(const ScriptValue& state, std::string_view class_name) {
  if (class_name.substr(kClasses.size()) == "LinearPackedParamsBase") return state;
  Fail(ErrorCode::kUnsupported, "there is no export for the packed weights '", Printable(class_name), "'");
}

std::optional<ScriptValue> QuantizePerTensor(Interpreter& in, const Arguments& args) {
  if (args.values.size() != 4) return std::nullopt;
  int64_t type = in.ScalarOf(args.values[3]).AsInt();
  if (type != kQInt8 && type != kQUInt8 && type != kQInt32)
    Fail(ErrorCode::kUnsupported, "a tensor is quantised to element type ", type);
  DType dtype = type == kQInt8 ? DType::kInt8 : type == kQUInt8 ? DType::kUInt8 : DType::kInt32;
  return in.TensorValue(Rounded(in.builder(), in.TensorOf(args.values[0]), in.ScalarOf(args.values[1]).AsDouble(),
                                in.ScalarOf(args.values[2]).AsInt(), dtype));
}

ScriptValue CallQuantized(Interpreter& in, const std::string& name, const Arguments& args) {
  constexpr std::string_view kRelu = "_relu", kDynamic = "_dynamic";
  std::string plain = name;
  bool is_dynamic = plain.ends_with(kDynamic);
  if (is_dynamic) plain.resize(plain.size() - kDynamic.size());
  bool has_relu = plain.ends_with(kRelu);
  if (has_relu) plain.resize(plain.size() - kRelu.size());
  auto finished = [&](const ScriptValue& value) { return has_relu ? Relu(in, value) : value; };

  if (name == "linear_prepack" || name == "conv1d_prepack" || name == "conv2d_prepack") return MakeTuple(args.values);
  if (name == "linear_unpack") return MakeTuple(Params(At(args, 0, name), 2));
  if (plain == "linear" && is_dynamic) {
    bool reduce_range = args.values.size() > 2 && in.ScalarOf(args.values[2]).AsBool();
    return finished(Linear(in, DynamicallyRounded(in, At(args, 0, name), reduce_range), At(args, 1, name)));
  }
  if (plain == "linear") return Rounded(in, finished(Linear(in, At(args, 0, name), At(args, 1, name))), args, 2, name);
  if ((plain == "conv1d" || plain == "conv2d") && !is_dynamic)
    return Rounded(in, finished(Conv(in, plain, At(args, 0, name), At(args, 1, name))), args, 2, name);
  if (plain == "add" || plain == "mul")
    return Rounded(in, finished(in.CallAten(plain, {{At(args, 0, name), At(args, 1, name)}, {}})), args, 2, name);
  if (name == "cat") {
    ScriptValue joined = in.CallTorch("cat", {{At(args, 0, name), At(args, 1, name)}, {}});
    return args.values.size() > 2 && !args.values[2].is_none() ? Rounded(in, joined, args, 2, name) : joined;
  }
  if (name == "hardswish" || name == "sigmoid")
    return Rounded(in, in.CallAten(name, {{At(args, 0, name)}, {}}), args, 1, name);
  Fail(ErrorCode::kUnsupported, "there is no export for ops.quantized.", Printable(name));
}

// The integers are stored. Its node is outside of all bodies, where every one sees it.
ScriptValue Interpreter::QuantisedWeight(const TensorRecipe& recipe, const std::string& path, bool is_constant) {
  const Quantizer& quantizer = *recipe.quantizer;
  Builder& b = outermost_;
  DType dtype = recipe.dtype;
  Tensor integers = library_.ReadTensor(recipe, is_constant);
  Operand weight = b.Weight(path, integers), scale, zero;
  Attributes attributes;
  if (quantizer.scales) {
    scale = b.Cast(b.Constant(library_.ReadTensor(*quantizer.scales->tensor, is_constant)), DType::kFloat);
    zero = b.Cast(b.Constant(library_.ReadTensor(*quantizer.zeros->tensor, is_constant)), dtype);
    Dim rows = weight.dim(quantizer.axis);
    if (scale.rank() != 1 || zero.rank() != 1 || !SameDim(scale.dim(0), rows) || !SameDim(zero.dim(0), rows))
      Fail(ErrorCode::kInvalidModel, "'", Printable(path), "' has ", scale.shape(), " scales for ", weight.shape());
    attributes.push_back({"axis", static_cast<int64_t>(weight.Axis(quantizer.axis))});
  } else {
    scale = b.Number(quantizer.scale, DType::kFloat);
    zero = b.Of(Scalar(quantizer.zero), dtype);
  }
  return std::make_shared<Cell>(b.Emit("DequantizeLinear", {weight, scale, zero}, attributes));
}

}  // namespace ferry::torch::script
