// Calls of ATen operators: which overload is meant, and its arguments as the rules take them.
#include <algorithm>

#include "base/error.h"
#include "base/one_of.h"
#include "torch/lower/rule.h"
#include "torch/script/builtins.h"
#include "torch/script/runtime_list.h"

namespace ferry::torch::script {
namespace {

using NamedArgs = std::vector<std::pair<std::string, Arg>>;

// Arguments about memory and devices, which have no counterpart in ONNX.
constexpr std::string_view kIgnored[] = {"layout",        "device",    "pin_memory",   "memory_format",
                                         "requires_grad", "generator", "non_blocking", "cudnn_enabled"};

// Operators that give a list, even of one tensor.
constexpr std::string_view kGiveLists[] = {
    "split",        "split_with_sizes",        "chunk",        "unbind",        "tensor_split",
    "unsafe_split", "unsafe_split_with_sizes", "hsplit",       "vsplit",        "dsplit",
    "meshgrid",     "broadcast_tensors",       "unsafe_chunk", "nonzero_numpy", "gradient"};

constexpr struct {
  std::string_view name, meaning;
} kOtherNames[] = {
    {"__iand__", "bitwise_and_"},
    {"__ior__", "bitwise_or_"},
    {"__ixor__", "bitwise_xor_"},
    {"feature_dropout_", "feature_dropout_"},
};

bool IsNumber(const ScriptValue& value, bool integer_only) {
  const Scalar* number = value.get<Scalar>();
  return number && (!integer_only || number->kind() == Scalar::Kind::kInt);
}

template <class Test>
bool AllItems(const ScriptValue& value, const Test& test) {
  const std::vector<ScriptValue>* items = value.items();
  return items && std::all_of(items->begin(), items->end(), test);
}

// Whether a value may stand for a parameter. `loosely`: integers for floats, tensors of one element for numbers.
bool Fits(const Parameter& parameter, const ScriptValue& value, bool loosely) {
  if (value.is_none()) return parameter.optional || parameter.type == "Generator";
  const std::string& type = parameter.type;
  if (type == "Tensor") return value.is_tensor();
  if (type == "Any") return value.is_tensor() || value.is<Scalar>();
  if (type == "Scalar" || type == "number") return value.is<Scalar>() || (loosely && value.is_tensor());
  if (type == "int" || type == "SymInt" || type == "ScalarType" || type == "Layout" || type == "MemoryFormat")
    return IsNumber(value, true) || (loosely && (value.is<NumberTensor>() || value.is<Scalar>()));
  if (type == "float") {
    const Scalar* number = value.get<Scalar>();
    return number && (loosely || number->kind() == Scalar::Kind::kFloat);
  }
  if (type == "bool") {
    const Scalar* number = value.get<Scalar>();
    return number && (loosely || number->kind() == Scalar::Kind::kBool);
  }
  if (type == "str") return value.is<std::string>();
  if (type == "Device") return value.is<DeviceName>();
  if (type == "int[]" || type == "SymInt[]")
    return AllItems(value,
                    [&](const ScriptValue& item) { return IsNumber(item, !loosely) || item.is<NumberTensor>(); }) ||
           IsNumber(value, true);
  if (type == "float[]" || type == "Scalar[]" || type == "bool[]")
    return AllItems(value, [](const ScriptValue& item) { return item.is<Scalar>(); }) ||
           (loosely && value.is<Scalar>());
  if (type == "Tensor[]") return AllItems(value, [](const ScriptValue& item) { return item.is_tensor(); });
  if (type == "Tensor?[]" || type == "Any[]" || type == "Tensor[]?")
    return AllItems(value, [](const ScriptValue& item) { return item.is_tensor() || item.is_none(); });
  return false;
}

struct Bound {
  const Signature* signature = nullptr;
  std::vector<std::pair<const Parameter*, const ScriptValue*>> arguments;
};

bool Bind(const Signature& signature, const Arguments& args, bool loosely, Bound& bound) {
  bound = {&signature, {}};
  const std::vector<Parameter>& parameters = signature.parameters;
  if (args.values.size() > parameters.size()) return false;
  for (size_t i = 0; i < args.values.size(); ++i) {
    if (parameters[i].keyword_only || !Fits(parameters[i], args.values[i], loosely)) return false;
    bound.arguments.emplace_back(&parameters[i], &args.values[i]);
  }
  for (const auto& [name, value] : args.named) {
    auto found = std::find_if(parameters.begin(), parameters.end(),
                              [&, &wanted = name](const Parameter& p) { return p.name == wanted; });
    if (found == parameters.end()) {
      if (IsOneOf(name, kIgnored) || value.is_none()) continue;
      return false;
    }
    if (static_cast<size_t>(found - parameters.begin()) < args.values.size()) return false;
    if (IsOneOf(name, kIgnored)) continue;
    if (!Fits(*found, value, loosely)) return false;
    bound.arguments.emplace_back(&*found, &value);
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    bool given = std::any_of(bound.arguments.begin(), bound.arguments.end(),
                             [&](const auto& argument) { return argument.first == &parameters[i]; });
    if (!given && !parameters[i].has_default && !parameters[i].optional) return false;
  }
  return true;
}

Arg ToArg(Interpreter& in, const Parameter& parameter, const ScriptValue& value) {
  if (value.is_none() || value.is<DeviceName>()) return {};
  if (parameter.type == "ScalarType") return DTypeOf(value);
  if (parameter.type == "MemoryFormat") return {};
  if (parameter.type == "Layout") {
    if (in.ScalarOf(value).AsInt() != 0) Fail(ErrorCode::kUnsupported, "sparse tensors have no export");
    return {};
  }
  if (const std::vector<ScriptValue>* items = value.items()) {
    Parameter element;
    element.type = parameter.type.substr(0, parameter.type.find_first_of("?["));
    Arg::List list;
    for (const ScriptValue& item : *items) list.push_back(ToArg(in, element, item));
    return list;
  }
  if (const std::string* text = value.get<std::string>()) return *text;
  bool wants_tensor = parameter.type == "Tensor" || parameter.type == "Any";
  if (const auto* cell = value.get<ScriptValue::Tensor>(); cell && wants_tensor) return *cell;
  const NumberTensor* number = value.get<NumberTensor>();
  if (number && number->number.kind() == Scalar::Kind::kFloat && parameter.type == "Any") return number->number;
  if (number && wants_tensor) return in.lowerer().MakeCell(in.TensorOf(value));
  return in.ScalarOf(value);
}

std::string ShowKinds(const Arguments& args) {
  std::string text;
  for (const ScriptValue& value : args.values) text += Cat(text.empty() ? "" : ", ", value.KindName());
  for (const auto& [name, value] : args.named)
    text += Cat(text.empty() ? "" : ", ", Printable(name), "=", value.KindName());
  return text;
}

// Files before version 4 mean the division of their time: integers stay integers.
bool DividesIntegers(Interpreter& in, const std::string& name, const Arguments& args) {
  if ((name != "div" && name != "div_") || in.library().version() >= 4 || args.size() != 2 || !args.named.empty())
    return false;
  for (const ScriptValue& value : args.values) {
    if (value.is_tensor() && !IsInteger(in.TensorOf(value).dtype())) return false;
    if (value.is<Scalar>() && !value.get<Scalar>()->is_integral()) return false;
  }
  return true;
}

ScriptValue FromResults(Interpreter& in, const std::string& name, const std::vector<Arg>& results) {
  std::vector<ScriptValue> values;
  for (const Arg& result : results) values.push_back(Interpreter::FromArg(result));
  if (IsOneOf(name, kGiveLists)) return in.MakeList(std::move(values));
  if (values.empty()) return {};
  return values.size() == 1 ? values[0] : MakeTuple(std::move(values));
}

}  // namespace

ScriptValue Interpreter::FromArg(const Arg& arg) {
  if (const auto* cell = arg.get<std::shared_ptr<Cell>>()) return *cell;
  if (const Scalar* number = arg.get<Scalar>()) return *number;
  return {};
}

Operand Interpreter::TensorOf(const ScriptValue& value) {
  if (const auto* cell = value.get<ScriptValue::Tensor>()) return (*cell)->Read();
  const NumberTensor* number = value.get<NumberTensor>();
  if (!number) Fail(ErrorCode::kInvalidModel, "a tensor is needed where there is ", value.KindName());
  static constexpr DType kTypes[] = {DType::kBool, DType::kInt64, DType::kDouble, DType::kComplex128};
  return builder().Of(number->number, kTypes[static_cast<size_t>(number->number.kind())]);
}

Scalar Interpreter::ScalarOf(const ScriptValue& value) {
  if (const Scalar* number = value.get<Scalar>()) return *number;
  if (const NumberTensor* number = value.get<NumberTensor>()) return number->number;
  if (!value.is<ScriptValue::Tensor>())
    Fail(ErrorCode::kInvalidModel, "a number is needed where there is ", value.KindName());
  Operand tensor = TensorOf(value);
  if (const Tensor* constant = tensor.constant(); constant && constant->size() == 1 && !tensor.is_complex()) {
    switch (constant->dtype()) {
      case DType::kInt64: return Scalar(*constant->Data<int64_t>());
      case DType::kInt32: return Scalar(int64_t{*constant->Data<int32_t>()});
      case DType::kDouble: return Scalar(*constant->Data<double>());
      case DType::kFloat: return Scalar(double{*constant->Data<float>()});
      case DType::kBool: return Scalar(*constant->Data<bool>());
      default: break;
    }
  }
  lowerer_.SetMetas({});
  std::vector<Arg> results = lowerer_.Run("aten.item", {{"", Arg(*value.get<ScriptValue::Tensor>())}});
  return *results.at(0).get<Scalar>();
}

Scalar Interpreter::Run(const std::string& target, const std::vector<Scalar>& numbers) {
  NamedArgs arguments;
  for (const Scalar& number : numbers) arguments.emplace_back("", Arg(number));
  lowerer_.SetMetas({});
  std::vector<Arg> results = lowerer_.Run(target, arguments);
  const Scalar* number = results.empty() ? nullptr : results[0].get<Scalar>();
  if (!number) Fail(ErrorCode::kInternal, target, " gave no number");
  return *number;
}

ScriptValue Interpreter::CallTorch(const std::string& name, const Arguments& arguments) {
  Spend(1);
  if (std::optional<ScriptValue> value = CallRuntimeListFunction(*this, name, arguments)) return *value;
  if (std::optional<ScriptValue> value = CallNumberFunction(*this, name, arguments)) return *value;
  if (std::optional<ScriptValue> value = CallContainerFunction(*this, name, arguments)) return *value;
  if (std::optional<ScriptValue> value = CallTensorFunction(*this, name, arguments)) return *value;
  return CallAten(name, arguments);
}

ScriptValue Interpreter::CallAten(const std::string& written, const Arguments& arguments) {
  std::string name = written;
  for (const auto& other : kOtherNames)
    if (name == other.name) name = other.meaning;
  if (DividesIntegers(*this, name, arguments)) {
    Arguments rounded = arguments;
    rounded.named.emplace_back("rounding_mode", std::string("trunc"));
    return CallAten(name, rounded);
  }
  bool in_place = name.ends_with('_') && !name.ends_with("__");
  std::string plain = in_place ? name.substr(0, name.size() - 1) : name;
  std::span<const Signature> candidates = FindSignatures(name);
  if (candidates.empty() && in_place) candidates = FindSignatures(plain);
  if (candidates.empty()) Fail(ErrorCode::kUnsupported, "there is no export for torch.", Printable(name));

  Bound bound;
  bool found = false;
  for (bool loosely : {false, true})
    for (const Signature& candidate : candidates)
      if (!found) found = Bind(candidate, arguments, loosely, bound);
  if (!found)
    Fail(ErrorCode::kUnsupported, "there is no export for torch.", Printable(name), " of (", ShowKinds(arguments), ")");

  NamedArgs args;
  for (const auto& [parameter, value] : bound.arguments)
    args.emplace_back(parameter->name, ToArg(*this, *parameter, *value));
  const std::string& overload = bound.signature->overloads.at(0);
  bool is_foreign = name.find('.') != std::string::npos;
  std::string target = is_foreign ? name : overload.empty() ? Cat("aten.", name) : Cat("aten.", name, ".", overload);
  std::string path = frame_ && frame_->module ? frame_->module->path : std::string();
  std::string origin = path.empty() ? plain : Cat(path, "/", plain);
  Metadata metadata;
  if (lowerer_.keep_trace && frame_)
    metadata.emplace_back("pkg.torch.onnx.stack_trace", Cat(frame_->function->file, ":", frame_->line));
  builder().SetOrigin(origin, std::move(metadata));
  lowerer_.SetMetas({});
  try {
    std::vector<Arg> results = lowerer_.Run(target, args);
    for (const Arg& result : results)
      if (const auto* cell = result.get<std::shared_ptr<Cell>>()) builder().Name((*cell)->Read(), origin);
    if (plain == "where" && bound.signature->parameters.size() == 1) plain = "nonzero_numpy";
    return FromResults(*this, plain, results);
  } catch (Error& error) {
    throw error.At(Cat("torch.", name));
  }
}

}  // namespace ferry::torch::script
