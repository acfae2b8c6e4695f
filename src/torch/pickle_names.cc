#include "torch/pickle_names.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace ferry::torch {
namespace {

using Kind = PickleValue::Kind;
using Arguments = std::vector<PickleValue*>;

constexpr struct {
  std::string_view storage;
  std::string_view element;
  DType dtype;
} kElementTypes[] = {
    {"FloatStorage", "float32", DType::kFloat},
    {"DoubleStorage", "float64", DType::kDouble},
    {"HalfStorage", "float16", DType::kFloat16},
    {"BFloat16Storage", "bfloat16", DType::kBFloat16},
    {"LongStorage", "int64", DType::kInt64},
    {"IntStorage", "int32", DType::kInt32},
    {"ShortStorage", "int16", DType::kInt16},
    {"CharStorage", "int8", DType::kInt8},
    {"ByteStorage", "uint8", DType::kUInt8},
    {"BoolStorage", "bool", DType::kBool},
    {"ComplexFloatStorage", "complex64", DType::kComplex64},
    {"ComplexDoubleStorage", "complex128", DType::kComplex128},
    {"UntypedStorage", "", DType::kUInt8},
    {"QInt8Storage", "", DType::kInt8},
    {"QUInt8Storage", "", DType::kUInt8},
    {"QInt32Storage", "", DType::kInt32},
    {"", "uint16", DType::kUInt16},
    {"", "uint32", DType::kUInt32},
    {"", "uint64", DType::kUInt64},
    {"", "float8_e4m3fn", DType::kFloat8E4M3FN},
    {"", "float8_e4m3fnuz", DType::kFloat8E4M3FNUZ},
    {"", "float8_e5m2", DType::kFloat8E5M2},
    {"", "float8_e5m2fnuz", DType::kFloat8E5M2FNUZ},
    {"", "float8_e8m0fnu", DType::kFloat8E8M0},
};

const PickleValue& Argument(const Arguments& arguments, size_t index, std::string_view name) {
  if (index >= arguments.size())
    Fail(ErrorCode::kInvalidModel, "the pickle calls ", name, " with ", arguments.size(), " arguments");
  return *arguments[index];
}

std::vector<int64_t> Integers(const PickleValue& value) {
  std::vector<int64_t> numbers;
  for (const PickleValue* item : value.AsSequence()) numbers.push_back(item->AsInt());
  return numbers;
}

// (storage, offset, sizes, strides, requires_grad, hooks, [dtype of untyped storage])
void MakeTensor(std::string_view name, const Arguments& arguments, PickleValue& made) {
  const PickleValue& storage = Argument(arguments, 0, name);
  if (storage.kind != Kind::kStorage) Fail(ErrorCode::kInvalidModel, "a pickled tensor has no storage");
  auto recipe = std::make_unique<TensorRecipe>();
  recipe->storage = *storage.storage;
  recipe->offset = Argument(arguments, 1, name).AsInt();
  recipe->sizes = Integers(Argument(arguments, 2, name));
  recipe->strides = Integers(Argument(arguments, 3, name));
  recipe->requires_grad = Argument(arguments, 4, name).AsBool();
  recipe->dtype = storage.storage->dtype;
  if (name.ends_with("_v3")) {
    const PickleValue& dtype = Argument(arguments, 6, name);
    recipe->dtype = DTypeFromTorchName(dtype.text);
    if (dtype.kind != Kind::kGlobal || recipe->dtype == DType::kUndefined)
      Fail(ErrorCode::kUnsupported, "a pickled tensor has elements of type '", Printable(dtype.text),
           "', which ONNX lacks");
  }
  if (recipe->sizes.size() != recipe->strides.size() || recipe->offset < 0)
    Fail(ErrorCode::kInvalidModel, "a pickled tensor contradicts itself: ", recipe->sizes.size(), " sizes, ",
         recipe->strides.size(), " strides, offset ", recipe->offset);
  made.kind = Kind::kTensor;
  made.tensor = std::move(recipe);
}

// (storage, offset, sizes, strides, quantizer, requires_grad, hooks)
void MakeQuantised(std::string_view name, const Arguments& arguments, PickleValue& made) {
  const Arguments& about = Argument(arguments, 4, name).AsSequence();
  Argument(arguments, 5, name);
  MakeTensor(name, {arguments[0], arguments[1], arguments[2], arguments[3], arguments[5]}, made);
  Quantizer quantizer;
  if (Argument(about, 0, name).text == "torch.per_channel_affine") {
    quantizer.scales = &Argument(about, 1, name);
    quantizer.zeros = &Argument(about, 2, name);
    quantizer.axis = Argument(about, 3, name).AsInt();
    if (!quantizer.scales->is(Kind::kTensor) || !quantizer.zeros->is(Kind::kTensor))
      Fail(ErrorCode::kInvalidModel, "a quantised tensor has no tensor of scales");
  } else {
    quantizer.scale = Argument(about, 1, name).number;
    quantizer.zero = Argument(about, 2, name).AsInt();
  }
  made.tensor->quantizer = quantizer;
}

void MakeWrapped(std::string_view name, const Arguments& arguments, PickleValue& made) {
  Argument(arguments, 0, name);
  made.kind = Kind::kGlobal;
  made.items = {arguments[0]};
}

// Lists of pairs, as OrderedDict is called by old pickles; usually there are none.
void MakeDict(std::string_view name, const Arguments& arguments, PickleValue& made) {
  made.kind = Kind::kDict;
  if (arguments.empty() || name == "collections.defaultdict") return;
  for (const PickleValue* pair : arguments[0]->AsSequence()) {
    const Arguments& parts = pair->AsSequence();
    if (parts.size() != 2) Fail(ErrorCode::kInvalidModel, "a pickled dict is made of things that are no pairs");
    made.items.insert(made.items.end(), parts.begin(), parts.end());
  }
}

void MakeDevice(std::string_view name, const Arguments& arguments, PickleValue& made) {
  made.kind = Kind::kDevice;
  made.text = Argument(arguments, 0, name).AsString();
  if (arguments.size() > 1) made.text += Cat(":", arguments[1]->AsInt());
}

void MakeSequence(Kind kind, const Arguments& arguments, PickleValue& made) {
  made.kind = kind;
  if (!arguments.empty()) made.items = arguments[0]->AsSequence();
}
void MakeTuple(std::string_view, const Arguments& arguments, PickleValue& made) {
  MakeSequence(Kind::kTuple, arguments, made);
}
void MakeSet(std::string_view, const Arguments& arguments, PickleValue& made) {
  MakeSequence(Kind::kSet, arguments, made);
}

// A tensor of a Python subclass, or one with attributes: (function, class, arguments, state).
void MakeFromType(std::string_view name, const Arguments& arguments, PickleValue& made) {
  const PickleValue& function = Argument(arguments, 0, name);
  const PickleValue& type = Argument(arguments, 1, name);
  bool plain = type.text == "torch.Tensor" || type.text == "torch.nn.parameter.Parameter";
  if (function.kind != Kind::kGlobal || type.kind != Kind::kGlobal || !plain || function.text == name)
    Fail(ErrorCode::kUnsupported, "the pickle holds a tensor of class '", Printable(type.text), "'");
  CallKnownGlobal(function.text, Argument(arguments, 2, name).AsSequence(), made);
}

constexpr struct {
  std::string_view name;
  void (*make)(std::string_view, const Arguments&, PickleValue&);
} kCallables[] = {
    {"torch._utils._rebuild_tensor_v2", MakeTensor},
    {"torch._utils._rebuild_tensor_v3", MakeTensor},
    {"torch._utils._rebuild_qtensor", MakeQuantised},
    {"torch._utils._rebuild_parameter", MakeWrapped},
    {"torch._utils._rebuild_parameter_with_state", MakeWrapped},
    {"torch._tensor._rebuild_from_type_v2", MakeFromType},
    {"torch.jit._pickle.restore_type_tag", MakeWrapped},
    {"torch.jit._pickle.build_intlist", MakeWrapped},
    {"torch.jit._pickle.build_doublelist", MakeWrapped},
    {"torch.jit._pickle.build_boollist", MakeWrapped},
    {"torch.jit._pickle.build_tensorlist", MakeWrapped},
    {"collections.OrderedDict", MakeDict},
    {"collections.defaultdict", MakeDict},
    {"builtins.set", MakeSet},
    {"torch.device", MakeDevice},
    {"torch.Size", MakeTuple},
};

// Classes of a TorchScript archive: their code is text beside the pickle and is not run by loading it.
bool IsScriptClass(std::string_view name) { return name.starts_with("__torch__."); }

}  // namespace

DType DTypeFromTorchName(std::string_view name) {
  if (!name.starts_with("torch.")) return DType::kUndefined;
  for (const auto& known : kElementTypes)
    if (!known.element.empty() && name.substr(6) == known.element) return known.dtype;
  return DType::kUndefined;
}

DType StorageDType(std::string_view name) {
  std::string_view plain = name.substr(name.rfind('.') + 1);
  for (const auto& known : kElementTypes)
    if (!known.storage.empty() && plain == known.storage) return known.dtype;
  Fail(ErrorCode::kUnsupported, "a pickled storage is of type '", Printable(name), "', which ONNX lacks");
}

bool IsKnownGlobal(std::string_view name) {
  if (IsScriptClass(name) || DTypeFromTorchName(name) != DType::kUndefined) return true;
  for (const auto& known : kCallables)
    if (name == known.name) return true;
  for (const auto& known : kElementTypes)
    if (!known.storage.empty() &&
        (name == Cat("torch.", known.storage) || name == Cat("torch.storage.", known.storage)))
      return true;
  static constexpr std::string_view kOthers[] = {"torch.Tensor",
                                                 "torch.nn.parameter.Parameter",
                                                 "torch.per_tensor_affine",
                                                 "torch.per_channel_affine",
                                                 "torch.qint8",
                                                 "torch.quint8",
                                                 "torch.qint32"};
  return std::find(std::begin(kOthers), std::end(kOthers), name) != std::end(kOthers);
}

void CallKnownGlobal(std::string_view name, const Arguments& arguments, PickleValue& made) {
  if (IsScriptClass(name)) {
    made.kind = Kind::kObject;
    made.text = name;
    return;
  }
  for (const auto& known : kCallables)
    if (name == known.name) return known.make(name, arguments, made);
  Fail(ErrorCode::kInvalidModel, "the pickle calls '", Printable(name), "', which is not a function");
}

DType DTypeFromScalarType(int64_t number) {
  static constexpr DType kTypes[] = {
      DType::kUInt8,          DType::kInt8,           DType::kInt16,     DType::kInt32,      DType::kInt64,
      DType::kFloat16,        DType::kFloat,          DType::kDouble,    DType::kUndefined,  DType::kComplex64,
      DType::kComplex128,     DType::kBool,           DType::kUndefined, DType::kUndefined,  DType::kUndefined,
      DType::kBFloat16,       DType::kUndefined,      DType::kUndefined, DType::kUndefined,  DType::kUndefined,
      DType::kUndefined,      DType::kUndefined,      DType::kUndefined, DType::kFloat8E5M2, DType::kFloat8E4M3FN,
      DType::kFloat8E5M2FNUZ, DType::kFloat8E4M3FNUZ, DType::kUInt16,    DType::kUInt32,     DType::kUInt64,
  };
  return number >= 0 && number < static_cast<int64_t>(std::size(kTypes)) ? kTypes[number] : DType::kUndefined;
}

}  // namespace ferry::torch
