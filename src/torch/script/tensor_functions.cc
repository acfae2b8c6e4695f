// Functions that ask for something about a tensor, or make one from Python's values.
#include <algorithm>

#include "base/error.h"
#include "torch/script/builtins.h"
#include "torch/script/quantized.h"
#include "torch/script/runtime_list.h"

namespace ferry::torch::script {
namespace {

using Function = std::optional<ScriptValue> (*)(Interpreter&, const Arguments&);

bool OnTensor(const Arguments& args) { return !args.values.empty() && args.values[0].is_tensor(); }

ScriptValue SizesOf(Interpreter& in, const ScriptValue& tensor) {
  std::vector<ScriptValue> sizes;
  for (const Scalar& size : in.builder().Sizes(in.TensorOf(tensor))) sizes.emplace_back(size);
  return in.MakeList(std::move(sizes));
}

std::optional<ScriptValue> Size(Interpreter& in, const Arguments& args) {
  if (!OnTensor(args)) return std::nullopt;
  if (args.size() == 1) return SizesOf(in, args.values[0]);
  const ScriptValue* axis = args.Find(1, "dim");
  if (!axis) return std::nullopt;
  return ScriptValue(in.builder().SizeScalar(in.TensorOf(args.values[0]), in.ScalarOf(*axis).AsInt()));
}
std::optional<ScriptValue> Rank(Interpreter& in, const Arguments& args) {
  if (!OnTensor(args)) return std::nullopt;
  return Scalar(static_cast<int64_t>(in.TensorOf(args.values[0]).rank()));
}
std::optional<ScriptValue> LenOfTensor(Interpreter& in, const Arguments& args) {
  if (!OnTensor(args)) return std::nullopt;
  return ScriptValue(in.builder().SizeScalar(in.TensorOf(args.values[0]), 0));
}
std::optional<ScriptValue> ShapeTensor(Interpreter& in, const Arguments& args) {
  if (!OnTensor(args)) return std::nullopt;
  return in.TensorValue(in.builder().ShapeOf(in.TensorOf(args.values[0])));
}
std::optional<ScriptValue> IsFloatingPoint(Interpreter& in, const Arguments& args) {
  if (!OnTensor(args)) return std::nullopt;
  return Scalar(IsFloating(in.TensorOf(args.values[0]).dtype()));
}
std::optional<ScriptValue> IsComplexTensor(Interpreter& in, const Arguments& args) {
  if (!OnTensor(args)) return std::nullopt;
  return Scalar(in.TensorOf(args.values[0]).is_complex());
}
std::optional<ScriptValue> Same(Interpreter&, const Arguments& args) {
  if (!OnTensor(args)) return std::nullopt;
  return args.values[0];
}
// A copy when the tensor does not lie row by row, which nobody knows here: it can be read but not written to.
std::optional<ScriptValue> Contiguous(Interpreter& in, const Arguments& args) {
  if (!OnTensor(args)) return std::nullopt;
  const auto* cell = args.values[0].get<ScriptValue::Tensor>();
  if (!cell) return args.values[0];
  return ScriptValue(std::make_shared<Cell>(
      in.TensorOf(args.values[0]), *cell, [](const Operand& base) { return base; }, nullptr));
}
std::optional<ScriptValue> Device(Interpreter&, const Arguments& args) {
  const std::string* name = args.values.empty() ? nullptr : args.values[0].get<std::string>();
  return DeviceName{name ? *name : "cpu"};
}
// Programs ask for these to choose a faster path of PyTorch's own; the plain one is what can be exported.
std::optional<ScriptValue> Yes(Interpreter&, const Arguments&) { return Scalar(true); }
std::optional<ScriptValue> No(Interpreter&, const Arguments&) { return Scalar(false); }
std::optional<ScriptValue> Nothing(Interpreter&, const Arguments&) { return ScriptValue(); }

// x.to(…) in its many forms: an element type may be a number, come from another tensor, or not be asked for at all.
std::optional<ScriptValue> To(Interpreter& in, const Arguments& args) {
  if (!OnTensor(args)) return std::nullopt;
  DType dtype = DType::kUndefined;
  bool copy = false, flags_begin = false;
  int flags = 0;
  auto take = [&](const ScriptValue& value, std::string_view name) {
    const Scalar* number = value.get<Scalar>();
    if (number && number->kind() == Scalar::Kind::kBool && (name.empty() || name == "copy" || name == "non_blocking")) {
      flags_begin = true;
      bool is_copy = name == "copy" || (name.empty() && ++flags == 2);
      copy = copy || (is_copy && number->AsBool());
    } else if (number && (name == "dtype" || (name.empty() && !flags_begin))) {
      dtype = DTypeOf(value);
    } else if (value.is_tensor() && (name.empty() || name == "other")) {
      dtype = in.TensorOf(value).dtype();
    } else if (number && name == "layout" && number->AsInt() != 0) {
      Fail(ErrorCode::kUnsupported, "sparse tensors have no export");
    }
  };
  for (size_t i = 1; i < args.values.size(); ++i) take(args.values[i], {});
  for (const auto& [name, value] : args.named) take(value, name);
  Operand self = in.TensorOf(args.values[0]);
  if (dtype == DType::kUndefined || self.dtype() == dtype)
    return copy ? in.CallAten("clone", {{args.values[0]}, {}}) : args.values[0];
  return in.TensorValue(in.builder().Cast(self, dtype));
}

// --- tensors from Python's values

struct Flattened {
  std::vector<Scalar> numbers;
  std::vector<int64_t> shape;
};

void Flatten(Interpreter& in, const ScriptValue& value, size_t depth, Flattened& out) {
  in.Spend(1);
  const std::vector<ScriptValue>* items = value.items();
  if (!items) {
    if (depth != out.shape.size()) Fail(ErrorCode::kInvalidModel, "a tensor is made of lists of different depth");
    out.numbers.push_back(in.ScalarOf(value));
    return;
  }
  auto size = static_cast<int64_t>(items->size());
  if (depth == out.shape.size() && out.numbers.empty()) out.shape.push_back(size);
  if (depth >= out.shape.size() || out.shape[depth] != size)
    Fail(ErrorCode::kInvalidModel, "a tensor is made of lists of different lengths");
  for (const ScriptValue& item : *items) Flatten(in, item, depth + 1, out);
}

DType DefaultType(const std::vector<Scalar>& numbers) {
  Scalar::Kind kind = numbers.empty() ? Scalar::Kind::kFloat : Scalar::Kind::kBool;
  for (const Scalar& number : numbers) kind = std::max(kind, number.kind());
  static constexpr DType kTypes[] = {DType::kBool, DType::kInt64, DType::kFloat, DType::kComplex64};
  return kTypes[static_cast<size_t>(kind)];
}

// as_tensor gives a tensor back as it is where it may.
template <bool shares>
std::optional<ScriptValue> MakeTensor(Interpreter& in, const Arguments& args) {
  const ScriptValue* data = args.Find(0, "data");
  if (!data) return std::nullopt;
  const ScriptValue* type = args.Find(1, "dtype");
  DType dtype = type && !type->is_none() ? DTypeOf(*type) : DType::kUndefined;
  if (data->is_tensor()) {
    Operand self = in.TensorOf(*data);
    if (shares && (dtype == DType::kUndefined || dtype == self.dtype())) return *data;
    return in.TensorValue(dtype == DType::kUndefined ? self : in.builder().Cast(self, dtype));
  }
  Flattened flat;
  Flatten(in, *data, 0, flat);
  if (dtype == DType::kUndefined) dtype = DefaultType(flat.numbers);
  Builder& b = in.builder();
  if (flat.shape.empty()) return in.TensorValue(b.Of(flat.numbers.at(0), dtype));
  bool whole = std::all_of(flat.numbers.begin(), flat.numbers.end(),
                           [](const Scalar& n) { return n.is_known() && n.kind() == Scalar::Kind::kInt; });
  Operand made;
  if (flat.numbers.empty()) {
    made = b.Cast(b.Constant(Tensor::Zeros(DType::kFloat, {0})), dtype);
  } else if (whole) {
    made = b.Cast(b.ShapeVector(flat.numbers), dtype);
  } else {
    Operands parts;
    for (const Scalar& number : flat.numbers) parts.push_back(b.Unsqueeze(b.Of(number, dtype), {0}));
    made = b.Concat(parts, 0);
  }
  return in.TensorValue(b.Reshape(made, flat.shape));
}

std::optional<ScriptValue> ScalarTensor(Interpreter& in, const Arguments& args) {
  if (args.values.empty() || !args.values[0].is<Scalar>()) return std::nullopt;
  const ScriptValue* type = args.Find(1, "dtype");
  DType dtype = type && !type->is_none() ? DTypeOf(*type) : DType::kFloat;
  return in.TensorValue(in.builder().Of(*args.values[0].get<Scalar>(), dtype));
}

std::optional<ScriptValue> Count(Interpreter& in, const Arguments& args) {
  if (!OnTensor(args)) return std::nullopt;
  Scalar count(int64_t{1});
  for (const Scalar& size : in.builder().Sizes(in.TensorOf(args.values[0])))
    count = in.ScalarOf(in.CallTorch("mul", {{count, size}, {}}));
  return ScriptValue(count);
}
// Along an axis whose size is known, tensors; else a list of the running model.
std::optional<ScriptValue> Unbind(Interpreter& in, const Arguments& args) {
  if (!OnTensor(args)) return std::nullopt;
  const ScriptValue* axis = args.Find(1, "dim");
  int64_t along = axis ? in.ScalarOf(*axis).AsInt() : 0;
  Operand self = in.TensorOf(args.values[0]);
  if (self.is_complex() || self.rank() == 0 || self.dim(along).known()) return std::nullopt;
  RuntimeList list;
  list.stacked = in.builder().MoveAxis(self, along, 0);
  list.item = list.stacked.type();
  list.item.shape->erase(list.item.shape->begin());
  if (const auto* cell = args.values[0].get<ScriptValue::Tensor>()) list.shares.Add(Cell::RootOf(*cell));
  return MakeRuntimeList(in, std::move(list));
}

constexpr struct {
  std::string_view name;
  Function call;
} kFunctions[] = {
    {"size", Size},
    {"numel", Count},
    {"unbind", Unbind},
    {"dim", Rank},
    {"len", LenOfTensor},
    {"_shape_as_tensor", ShapeTensor},
    {"is_floating_point", IsFloatingPoint},
    {"is_complex", IsComplexTensor},
    {"contiguous", Contiguous},
    {"cpu", Same},
    {"cuda", Same},
    {"requires_grad_", Same},
    {"detach", Same},
    {"detach_", Same},
    {"device", Device},
    {"warn", Nothing},
    {"manual_seed", Nothing},
    {"set_grad_enabled", Nothing},
    {"is_grad_enabled", Yes},
    {"is_autocast_enabled", No},
    {"is_autocast_cpu_enabled", No},
    {"to", To},
    {"tensor", MakeTensor<false>},
    {"as_tensor", MakeTensor<true>},
    {"scalar_tensor", ScalarTensor},
    {"quantize_per_tensor", QuantizePerTensor},
    {"dequantize", Same},
};

constexpr struct {
  DType dtype;
  int64_t number;
} kNumbers[] = {
    {DType::kUInt8, 0},       {DType::kInt8, 1},          {DType::kInt16, 2},           {DType::kInt32, 3},
    {DType::kInt64, 4},       {DType::kFloat16, 5},       {DType::kFloat, 6},           {DType::kDouble, 7},
    {DType::kComplex64, 9},   {DType::kComplex128, 10},   {DType::kBool, 11},           {DType::kBFloat16, 15},
    {DType::kFloat8E5M2, 23}, {DType::kFloat8E4M3FN, 24}, {DType::kFloat8E5M2FNUZ, 25}, {DType::kFloat8E4M3FNUZ, 26},
    {DType::kUInt16, 27},     {DType::kUInt32, 28},       {DType::kUInt64, 29},
};

}  // namespace

DType DTypeOf(const ScriptValue& number) {
  const Scalar* scalar = number.get<Scalar>();
  if (!scalar) Fail(ErrorCode::kInvalidModel, "an element type is ", number.KindName());
  DType dtype = DTypeFromScalarType(scalar->AsInt());
  if (dtype == DType::kUndefined)
    Fail(ErrorCode::kUnsupported, "it asks for element type ", scalar->AsInt(), ", which ONNX lacks");
  return dtype;
}

Scalar NumberOfDType(DType dtype) {
  for (const auto& known : kNumbers)
    if (known.dtype == dtype) return Scalar(known.number);
  Fail(ErrorCode::kUnsupported, "PyTorch has no number for ", dtype);
}

std::optional<ScriptValue> CallTensorFunction(Interpreter& in, std::string_view name, const Arguments& args) {
  for (const auto& function : kFunctions)
    if (function.name == name) return function.call(in, args);
  return std::nullopt;
}

ScriptValue Interpreter::CallPrim(const std::string& name, const Arguments& args) {
  if (name == "RaiseException") throw Raised{args.values.empty() ? std::string() : ShowValue(args.values[0])};
  if (name == "NumToTensor" && args.values.size() == 1) return NumberTensor{ScalarOf(args.values[0])};
  if (name == "rangelist") return *CallContainerFunction(*this, name, args);
  if (name == "Print") return {};
  if (OnTensor(args)) {
    if (name == "dtype") return NumberOfDType(TensorOf(args.values[0]).dtype());
    if (name == "device") return DeviceName{"cpu"};
    if (name == "layout") return Scalar(0);
    if (name == "shape") return SizesOf(*this, args.values[0]);
    if (name == "ndim") return *Rank(*this, args);
    if (name == "data") return args.values[0];
    if (name == "grad") return {};
    if (name == "is_cpu") return Scalar(true);
    if (name == "requires_grad") return Scalar(IsTrained(args.values[0]));
    if (name == "T") return CallAten("numpy_T", args);
    if (name == "mT" || name == "mH" || name == "H") return CallAten(name == "H" ? "matrix_H" : name, args);
    static constexpr std::string_view kNever[] = {"is_cuda",   "is_sparse", "is_quantized", "is_mkldnn", "is_meta",
                                                  "is_nested", "is_mps",    "is_xla",       "is_vulkan"};
    for (std::string_view never : kNever)
      if (name == never) return Scalar(false);
  }
  if (name == "type" && args.values.size() == 1 && args.values[0].is<DeviceName>())
    return args.values[0].get<DeviceName>()->name;
  if (name == "min" || name == "max" || name == "abs") return CallTorch(name, args);
  if (name == "unchecked_unwrap_optional" && args.values.size() == 1) return args.values[0];
  Fail(ErrorCode::kUnsupported, "there is no export for ops.prim.", Printable(name));
}

}  // namespace ferry::torch::script
