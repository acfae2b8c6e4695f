#include "torch/script/script_inputs.h"

#include <algorithm>

#include "base/error.h"
#include "torch/export_support.h"

namespace ferry::torch::script {
namespace {

const Tensor* FindSample(const ExportOptions::Samples& samples, const std::string& name, size_t position) {
  for (const std::string& wanted : {name, Cat("in", position)})
    for (const auto& [own, tensor] : samples)
      if (own == wanted) return &tensor;
  return nullptr;
}

const PickleValue* ItemOf(const PickleValue* traced, size_t index) {
  if (!traced || !traced->is_sequence() || index >= traced->items.size()) return nullptr;
  return traced->items[index];
}

Type StoredType(DType dtype, SymbolicShape shape) {
  if (!IsComplex(dtype)) return Type::Tensor(dtype, std::move(shape));
  shape.push_back(Dim(2));
  return Type::Tensor(dtype == DType::kComplex128 ? DType::kDouble : DType::kFloat, std::move(shape));
}

}  // namespace

// A size that differs between recordings is open, and the same wherever it differs in the same way. One recording says
// less: its first sizes are taken for that of a batch.
Dim ScriptInputs::DimFor(const std::vector<int64_t>& sizes, size_t axis) {
  bool varies = std::any_of(sizes.begin(), sizes.end(), [&](int64_t size) { return size != sizes[0]; });
  if (varies) {
    auto [it, is_new] = names_of_sizes_.emplace(sizes, "");
    if (is_new) it->second = names_of_sizes_.size() == 1 ? "batch" : Cat("dim_", names_of_sizes_.size() - 1);
    return Dim::Named(it->second);
  }
  bool asked = !options_.dynamic.empty() || sizes.size() > 1;
  if (asked || !open_batch_ || axis != 0) return Dim(sizes[0]);
  if (batch_ < 0) batch_ = sizes[0];
  if (sizes[0] != batch_) return Dim(sizes[0]);
  opened_batch_ = true;
  return Dim::Named("batch");
}

bool ScriptInputs::DescribeFromSamples(const std::string& name, Described& described) {
  for (const ExportOptions::Samples& recording : options_.samples) {
    const Tensor* sample = FindSample(recording, name, position_);
    if (!sample) return false;
    if (!described.samples.empty() && (sample->dtype() != described.samples[0].dtype() ||
                                       sample->shape().rank() != described.samples[0].shape().rank()))
      Fail(ErrorCode::kInvalidArgument, "the recordings disagree on the type of '", Printable(name), "'");
    described.samples.push_back(*sample);
  }
  return !described.samples.empty();
}

bool ScriptInputs::Describe(const std::string& name, const PickleValue* traced, Described& described) {
  std::string given = position_ < options_.input_names.size() ? options_.input_names[position_] : name;
  known_names_.push_back(name);
  if (given != name) known_names_.push_back(given);
  for (const InputType& input : options_.input_types)
    if (input.name == name || input.name == given) {
      described.type = StoredType(input.dtype, input.shape);
      described.is_complex = IsComplex(input.dtype);
      return true;
    }
  std::vector<std::vector<int64_t>> shapes;
  DType dtype = DType::kUndefined;
  if (DescribeFromSamples(name, described)) {
    dtype = described.samples[0].dtype();
    for (const Tensor& sample : described.samples) shapes.push_back(sample.shape().ToVector());
  } else {
    // Archives keep the shapes of what was traced, not the elements.
    if (!traced || !traced->is(PickleValue::Kind::kTensor)) return false;
    dtype = traced->tensor->dtype;
    shapes = {traced->tensor->sizes};
  }
  SymbolicShape shape;
  for (size_t axis = 0; axis < shapes[0].size(); ++axis) {
    std::vector<int64_t> sizes;
    for (const std::vector<int64_t>& sample : shapes) sizes.push_back(sample[axis]);
    if (sizes[0] < 0) Fail(ErrorCode::kInvalidModel, "an input was traced with a size of ", sizes[0]);
    shape.push_back(DimFor(sizes, axis));
  }
  described.type = StoredType(dtype, std::move(shape));
  described.is_complex = IsComplex(dtype);
  ApplyDynamic(name, given, described.type);
  return true;
}

void ScriptInputs::ApplyDynamic(const std::string& own, const std::string& name, Type& type) {
  for (const DynamicAxis& dynamic : options_.dynamic) {
    if (dynamic.input != own && dynamic.input != name) continue;
    auto rank = static_cast<int64_t>(type.shape->size());
    Require(dynamic.axis >= 0 && dynamic.axis < rank, options_.is_python ? "dynamic_axes" : "--dynamic", " names axis ",
            dynamic.axis, " of '", Printable(dynamic.input), "', which has ", rank, " dimensions");
    (*type.shape)[static_cast<size_t>(dynamic.axis)] = Dim::Named(dynamic.dimension);
  }
}

bool ScriptInputs::BindLeaf(const std::string& kind, const std::string& name, const PickleValue* traced,
                            ScriptValue& value) {
  Described described;
  if (!Describe(name, traced, described)) return false;
  std::string given = position_ < options_.input_names.size() ? options_.input_names[position_] : name;
  Builder& builder = interpreter_.builder();
  Operand input = builder.AddInput(given, described.type);
  ++position_;
  if (!described.samples.empty()) samples_.emplace_back(given, AsPairs(described.samples[0]));
  if (kind == "Tensor") {
    value = interpreter_.TensorValue(described.is_complex ? input.AsComplex() : input);
  } else {
    if (input.rank() != 0)
      Fail(ErrorCode::kInvalidArgument, "input '", Printable(name), "' is a number of type ", kind,
           ", not a tensor of shape ", input.shape());
    value = interpreter_.ScalarOf(interpreter_.TensorValue(input));
  }
  return true;
}

// The keys of a dict are those that somebody speaks of: NAME.KEY in --input and recordings, or what was traced.
std::vector<std::string> ScriptInputs::KeysOf(const std::string& name, const PickleValue* traced) const {
  std::vector<std::string> keys;
  auto add = [&](std::string_view full) {
    if (!full.starts_with(Cat(name, "."))) return;
    std::string key(full.substr(name.size() + 1));
    if (!key.empty() && std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  };
  for (const InputType& input : options_.input_types) add(input.name);
  for (const ExportOptions::Samples& recording : options_.samples)
    for (const auto& [own, tensor] : recording) add(own);
  if (keys.empty() && traced && traced->is(PickleValue::Kind::kDict))
    for (size_t i = 0; i + 1 < traced->items.size(); i += 2)
      if (traced->items[i]->is(PickleValue::Kind::kString)) keys.push_back(traced->items[i]->text);
  return keys;
}

bool ScriptInputs::BindDict(const Expression& type, const std::string& name, const PickleValue* traced,
                            ScriptValue& value) {
  const Expression& inner = *type.parts[1];
  if (inner.kind != Expression::Kind::kTuple || inner.parts.size() != 2 || inner.parts[0]->text != "str") return false;
  std::vector<std::pair<ScriptValue, ScriptValue>> items;
  for (const std::string& key : KeysOf(name, traced)) {
    const PickleValue* of_key = traced && traced->is(PickleValue::Kind::kDict) ? traced->Find(key) : nullptr;
    ScriptValue item;
    if (!BindValue(*inner.parts[1], Cat(name, ".", key), of_key, item)) return false;
    items.emplace_back(key, std::move(item));
  }
  if (items.empty()) return false;
  value = interpreter_.MakeDict(std::move(items));
  return true;
}

bool ScriptInputs::BindItems(const Expression& type, const std::string& name, const PickleValue* traced,
                             ScriptValue& value) {
  const std::string& kind = type.parts[0]->text;
  const Expression& inner = *type.parts[1];
  bool is_list = kind == "List";
  bool several = !is_list && inner.kind == Expression::Kind::kTuple;
  std::vector<ScriptValue> items;
  // A type for the list itself is that of its only item.
  bool alone = is_list && std::any_of(options_.input_types.begin(), options_.input_types.end(),
                                      [&](const InputType& input) { return input.name == name; });
  if (ScriptValue item; alone && BindValue(inner, name, nullptr, item)) {
    value = interpreter_.MakeList({item});
    return true;
  }
  size_t count = is_list ? 1000 : several ? inner.parts.size() : 1;
  for (size_t i = 0; i < count; ++i) {
    ScriptValue item;
    if (!BindValue(several ? *inner.parts[i] : inner, Cat(name, ".", i), ItemOf(traced, i), item)) {
      if (is_list && i > 0) break;
      return false;
    }
    items.push_back(std::move(item));
  }
  value = is_list ? interpreter_.MakeList(std::move(items)) : MakeTuple(std::move(items));
  return true;
}

// False when nothing is known of the input.
bool ScriptInputs::BindValue(const Expression& type, const std::string& name, const PickleValue* traced,
                             ScriptValue& value) {
  if (type.kind == Expression::Kind::kName) {
    const std::string& kind = type.text;
    if (kind == "Tensor" || kind == "int" || kind == "float" || kind == "bool" || kind == "number")
      return BindLeaf(kind, name, traced, value);
  }
  if (type.kind == Expression::Kind::kSubscript) {
    const std::string& kind = type.parts[0]->text;
    if (kind == "Optional") return BindValue(*type.parts[1], name, traced, value);
    if (kind == "List" || kind == "Tuple") return BindItems(type, name, traced, value);
    if (kind == "Dict") return BindDict(type, name, traced, value);
  }
  return false;
}

Arguments ScriptInputs::Bind(const Function& forward) {
  Arguments arguments;
  const PickleValue* traced = library_.traced_inputs();
  for (size_t i = 1; i < forward.parameters.size(); ++i) {
    const FunctionParameter& parameter = forward.parameters[i];
    static const Expression kTensor = [] {
      Expression tensor;
      tensor.kind = Expression::Kind::kName;
      tensor.text = "Tensor";
      return tensor;
    }();
    const Expression& type = parameter.type ? *parameter.type : kTensor;
    ScriptValue value;
    if (BindValue(type, parameter.name, ItemOf(traced, i - 1), value)) {
      arguments.named.emplace_back(parameter.name, std::move(value));
    } else if (!parameter.default_value) {
      bool optional = type.kind == Expression::Kind::kSubscript && type.parts[0]->text == "Optional";
      if (!optional) AskFor(parameter, forward);
      arguments.named.emplace_back(parameter.name, ScriptValue());
    }
  }
  CheckAllUsed();
  return arguments;
}

// Nothing is known of an input: perhaps it was given under another name.
void ScriptInputs::AskFor(const FunctionParameter& parameter, const Function& forward) const {
  std::vector<std::string> names;
  for (size_t i = 1; i < forward.parameters.size(); ++i) names.push_back(forward.parameters[i].name);
  for (const InputType& input : options_.input_types) {
    std::string own = input.name.substr(0, input.name.find('.'));
    bool known =
        std::find(names.begin(), names.end(), own) != names.end() ||
        std::find(options_.input_names.begin(), options_.input_names.end(), input.name) != options_.input_names.end();
    if (known) continue;
    std::string near = ClosestName(own, names);
    Fail(ErrorCode::kInvalidArgument, "the program has no input '", Printable(input.name), "'",
         near.empty() ? std::string(".") : Cat("; did you mean '", Printable(near), "'?"), " Its inputs are ",
         Printable(Join(names, ", ")));
  }
  const Expression* type = parameter.type.get();
  std::string kind = type && type->kind == Expression::Kind::kSubscript ? type->parts[0]->text : "Tensor";
  std::string name = Cat(parameter.name, kind == "List" || kind == "Tuple" ? ".0" : kind == "Dict" ? ".KEY" : "");
  if (options_.is_python)
    Fail(ErrorCode::kInvalidArgument, "TorchScript does not say what type and shape the input '",
         Printable(parameter.name), "' has: give example inputs as args");
  Fail(ErrorCode::kInvalidArgument, "TorchScript does not say what type and shape the input '",
       Printable(parameter.name), "' (", kind, ") has: give it with --input ", Printable(name),
       ":float32[D,D], or give recorded inputs with --data FILE.npz",
       name == parameter.name ? "" : "; each item is an input of its own");
}

void ScriptInputs::CheckAllUsed() const {
  auto require = [&](const char* option, const std::string& name) {
    if (std::find(known_names_.begin(), known_names_.end(), name) == known_names_.end())
      Fail(ErrorCode::kInvalidArgument, option, " names the input '", Printable(name), "', which the program lacks",
           ClosestName(name, known_names_).empty()
               ? std::string(".")
               : Cat("; did you mean '", Printable(ClosestName(name, known_names_)), "'?"),
           " It has ", Join(known_names_, ", "));
  };
  for (const DynamicAxis& dynamic : options_.dynamic)
    require(options_.is_python ? "dynamic_axes" : "--dynamic", dynamic.input);
  for (const InputType& input : options_.input_types) require("--input", input.name);
  CheckUnusedNames("input", options_.input_names, position_);
}

}  // namespace ferry::torch::script
