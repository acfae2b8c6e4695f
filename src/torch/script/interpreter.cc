#include "torch/script/interpreter.h"

#include <algorithm>

#include "base/error.h"
#include "torch/export_support.h"
#include "torch/script/quantized.h"

namespace ferry::torch::script {
namespace {

constexpr size_t kDeepestCall = 200;
constexpr uint64_t kMostWork = 200'000;  // statements, calls and elements of lists

// Where a tensor's elements lie: tensors that share them are one weight.
std::string PlaceOf(const TensorRecipe& recipe, bool is_constant) {
  return Cat(is_constant ? "c" : "d", recipe.storage.key, ":", recipe.offset, ":", recipe.dtype, ":",
             Join(recipe.sizes, ","), ":", Join(recipe.strides, ","));
}

std::string Below(const std::string& path, const std::string& name) {
  return path.empty() ? name : Cat(path, ".", name);
}

}  // namespace

const ScriptValue* Arguments::Find(size_t position, std::string_view name) const {
  if (position < values.size()) return &values[position];
  for (const auto& [own, value] : named)
    if (own == name) return &value;
  return nullptr;
}

Interpreter::Interpreter(Library& library, Lowerer& lowerer)
    : library_(library), lowerer_(lowerer), outermost_(lowerer.builder()) {
  std::set<const PickleValue*> seen;
  NameWeights(library.root(), "", seen);
}

void Interpreter::Spend(size_t work) {
  work_ += work;
  if (work_ > kMostWork)
    Fail(ErrorCode::kLimit, "the program takes more than ", kMostWork, " steps before the graph is made");
}

ScriptValue Interpreter::MakeList(std::vector<ScriptValue> items) {
  Spend(items.size());
  auto list = std::make_shared<ListValue>();
  for (const ScriptValue& item : items) list->WillHold(item);
  list->items = std::move(items);
  list->level = level();
  return ScriptValue(std::move(list));
}

ScriptValue Interpreter::MakeDict(std::vector<std::pair<ScriptValue, ScriptValue>> items) {
  Spend(items.size());
  auto dict = std::make_shared<DictValue>();
  for (const auto& [key, value] : items) dict->WillHold(value);
  dict->items = std::move(items);
  dict->level = level();
  return ScriptValue(std::move(dict));
}

// --- objects

// Parameters are called by the module that holds them, not by the list of weights that an LSTM keeps beside them.
void Interpreter::NameWeights(const PickleValue& object, const std::string& path, std::set<const PickleValue*>& seen) {
  if (!object.is(PickleValue::Kind::kObject) || object.items.empty() || !seen.insert(&object).second) return;
  const PickleValue& state = *object.items[0];
  if (!state.is(PickleValue::Kind::kDict)) return;
  for (size_t i = 0; i + 1 < state.items.size(); i += 2) {
    if (!state.items[i]->is(PickleValue::Kind::kString)) continue;
    const PickleValue& value = *state.items[i + 1];
    std::string name = Below(path, state.items[i]->text);
    if (value.is(PickleValue::Kind::kTensor))
      weight_names_.emplace(PlaceOf(*value.tensor, false), name);
    else
      NameWeights(value, name, seen);
  }
}

ScriptValue Interpreter::WeightFrom(const PickleValue& value, const std::string& path, bool is_constant) {
  std::string place = PlaceOf(*value.tensor, is_constant);
  auto known = weights_.find(place);
  if (known != weights_.end()) return known->second;
  if (value.tensor->quantizer)
    return weights_.emplace(place, QuantisedWeight(*value.tensor, path, is_constant)).first->second;
  Tensor tensor = library_.ReadTensor(*value.tensor, is_constant);
  // What tracing makes of Python's floats; they leave the types of tensors beside them alone.
  if (is_constant && tensor.dtype() == DType::kDouble && tensor.shape().rank() == 0)
    return weights_.emplace(place, NumberTensor{Scalar(*tensor.Data<double>())}).first->second;
  Tensor stored = AsPairs(tensor);
  constexpr int64_t kSmall = 256;
  Operand operand;
  if (is_constant && tensor.size() <= kSmall) {
    operand = builder().Constant(stored);
  } else {
    auto name = weight_names_.find(place);
    operand = builder().Weight(name == weight_names_.end() ? path : name->second, stored);
  }
  auto cell = std::make_shared<Cell>(IsComplex(tensor.dtype()) ? operand.AsComplex() : operand);
  if (value.tensor->requires_grad) trained_.insert(cell.get());
  return weights_.emplace(place, ScriptValue(cell)).first->second;
}

ScriptValue Interpreter::FromPickle(const PickleValue& value, const std::string& path, bool is_constant) {
  auto known = made_.find(&value);
  if (known != made_.end()) return known->second;
  Spend(1);
  using Kind = PickleValue::Kind;
  ScriptValue made;
  auto items = [&] {
    std::vector<ScriptValue> list;
    for (size_t i = 0; i < value.items.size(); ++i)
      list.push_back(FromPickle(*value.items[i], Cat(path, ".", i), is_constant));
    return list;
  };
  switch (value.kind) {
    case Kind::kNone: return {};
    case Kind::kBool: return Scalar(value.integer != 0);
    case Kind::kInt: return Scalar(value.integer);
    case Kind::kFloat: return Scalar(value.number);
    case Kind::kString: return value.text;
    case Kind::kDevice: return DeviceName{value.text};
    case Kind::kTensor: made = WeightFrom(value, path, is_constant); break;
    case Kind::kTuple: made = MakeTuple(items()); break;
    case Kind::kList:
      made = MakeList(items());
      (*made.get<ScriptValue::List>())->level = 0;
      break;
    case Kind::kDict: {
      std::vector<std::pair<ScriptValue, ScriptValue>> pairs;
      for (size_t i = 0; i + 1 < value.items.size(); i += 2)
        pairs.emplace_back(FromPickle(*value.items[i], path, is_constant),
                           FromPickle(*value.items[i + 1], Cat(path, ".", i / 2), is_constant));
      made = MakeDict(std::move(pairs));
      (*made.get<ScriptValue::Dict>())->level = 0;
      break;
    }
    case Kind::kObject: {
      auto object = std::make_shared<ObjectValue>();
      object->class_name = value.text;
      if (IsPackedParams(value.text) && !value.items.empty())
        return made_.emplace(&value, UnpackedParams(FromPickle(*value.items[0], path, is_constant), value.text))
            .first->second;
      object->type = library_.FindClass(value.text);
      if (!object->type) Fail(ErrorCode::kInvalidModel, "the archive has no code for '", Printable(value.text), "'");
      object->path = path;
      object->stored = value.items.empty() ? nullptr : value.items[0];
      made = ScriptValue(std::move(object));
      break;
    }
    default: Fail(ErrorCode::kUnsupported, "the attribute '", Printable(path), "' holds ", value.KindName());
  }
  return made_.emplace(&value, made).first->second;
}

ScriptValue Interpreter::Attribute(const ScriptValue::Object& object, const std::string& name) {
  auto known = object->attributes.find(name);
  if (known != object->attributes.end()) return known->second;
  if (name == "training" && lowerer_.options().training == LowerOptions::Training::kConvert) return Scalar(false);
  const Function* set_state = object->type->FindMethod("__setstate__");
  if (object->stored && !object->stored->is(PickleValue::Kind::kDict) && set_state && !object->takes_state) {
    object->takes_state = true;
    CallFunction(*set_state, object, {{FromPickle(*object->stored, object->path, false)}, {}});
    object->takes_state = false;
    known = object->attributes.find(name);
    if (known != object->attributes.end()) return known->second;
  }
  if (object->stored && !set_state) {
    if (!object->stored->is(PickleValue::Kind::kDict))
      Fail(ErrorCode::kUnsupported, "an object of class '", Printable(object->class_name), "' has a state of its own (",
           object->stored->KindName(), "), which has no export");
  }
  if (object->stored && object->stored->is(PickleValue::Kind::kDict))
    if (const PickleValue* stored = object->stored->Find(name))
      return object->attributes.emplace(name, FromPickle(*stored, Below(object->path, name), false)).first->second;
  if (const Class::Field* field = object->type->FindField(name); field && field->value) return Evaluate(*field->value);
  if (const Function* method = object->type->FindMethod(name)) return BoundMethod{method, object};
  Fail(ErrorCode::kInvalidModel, "'", Printable(object->class_name), "' has no attribute '", Printable(name), "'");
}

// --- calls

const Function& Interpreter::ForwardOf(const ScriptValue& module) const {
  const auto* object = module.get<ScriptValue::Object>();
  if (!object) Fail(ErrorCode::kInvalidModel, "the archive holds ", module.KindName(), ", not a module");
  const Function* forward = (*object)->type->FindMethod("forward");
  if (!forward || forward->parameters.empty())
    Fail(ErrorCode::kInvalidModel, "'", Printable((*object)->class_name), "' has no method 'forward'");
  return *forward;
}

ScriptValue Interpreter::CallForward(const ScriptValue& module, const Arguments& inputs) {
  try {
    return CallMethod(*module.get<ScriptValue::Object>(), "forward", inputs);
  } catch (const Raised& raised) {
    Fail(ErrorCode::kUnsupported, "with inputs of these types the program ends with the exception '",
         Printable(raised.message), "'");
  }
}

ScriptValue Interpreter::CallMethod(const ScriptValue::Object& object, const std::string& name,
                                    const Arguments& arguments) {
  if (name == "forward" && !object->type->hooks.empty())
    Fail(ErrorCode::kUnsupported, "module '", Printable(object->path), "' has the hook '",
         Printable(object->type->hooks[0]), "'; remove hooks before the program is captured");
  const Function* method = object->type->FindMethod(name);
  if (!method)
    Fail(ErrorCode::kInvalidModel, "'", Printable(object->class_name), "' has no method '", Printable(name), "'");
  return CallFunction(*method, object, arguments);
}

void Interpreter::BindArguments(Frame& frame, const ScriptValue::Object& self, const Arguments& arguments) {
  const std::vector<FunctionParameter>& parameters = frame.function->parameters;
  size_t first = 0;
  if (self) {
    if (parameters.empty()) Fail(ErrorCode::kInvalidModel, "a method takes no 'self'");
    frame.variables[parameters[first++].name] = self;
  }
  if (first + arguments.size() > parameters.size())
    Fail(ErrorCode::kInvalidModel, "'", frame.function->name, "' takes ", parameters.size() - first,
         " arguments, is given ", arguments.size());
  for (size_t i = first; i < parameters.size(); ++i) {
    const ScriptValue* given = arguments.Find(i - first, parameters[i].name);
    if (!given && !parameters[i].default_value)
      Fail(ErrorCode::kInvalidModel, "'", frame.function->name, "' is called without '", parameters[i].name, "'");
    frame.variables[parameters[i].name] = given ? *given : Evaluate(*parameters[i].default_value);
  }
}

ScriptValue Interpreter::CallFunction(const Function& function, const ScriptValue::Object& self,
                                      const Arguments& arguments) {
  if (frames_.size() >= kDeepestCall) Fail(ErrorCode::kLimit, "calls nest more than ", kDeepestCall, " deep");
  bool is_module = self && self->type->base == "Module";
  Frame frame{&function, is_module ? self.get() : frame_ ? frame_->module : nullptr, {}, {}, function.line};
  BindArguments(frame, self, arguments);
  struct Enter {
    Interpreter& interpreter;
    Enter(Interpreter& i, Frame& frame) : interpreter(i) {
      i.frames_.push_back(&frame);
      i.frame_ = &frame;
    }
    ~Enter() {
      interpreter.frames_.pop_back();
      interpreter.frame_ = interpreter.frames_.empty() ? nullptr : interpreter.frames_.back();
    }
  } enter(*this, frame);
  try {
    Execute(function.body);
  } catch (Error& error) {
    if (located_) throw;
    located_ = true;
    bool named = frame.module && !frame.module->path.empty();
    throw error.At(
        Cat(named ? Cat("module '", Printable(frame.module->path), "' (", Printable(frame.module->class_name), "), ")
                  : std::string(),
            Printable(function.file), " line ", frame.line));
  }
  return frame.result;
}

ScriptValue Interpreter::Construct(const Class& type, const std::string& name, const Arguments& arguments) {
  if (type.base == "NamedTuple") {
    std::vector<ScriptValue> items;
    for (size_t i = 0; i < type.fields.size(); ++i) {
      const ScriptValue* given = arguments.Find(i, type.fields[i].name);
      if (!given && !type.fields[i].value)
        Fail(ErrorCode::kInvalidModel, "'", Printable(name), "' is made without '", type.fields[i].name, "'");
      items.push_back(given ? *given : Evaluate(*type.fields[i].value));
    }
    return MakeTuple(std::move(items), &type);
  }
  ScriptValue::Object object = MakeObject(type, name);
  if (const Function* init = type.FindMethod("__init__")) CallFunction(*init, object, arguments);
  return object;
}

ScriptValue::Object Interpreter::MakeObject(const Class& type, const std::string& name) const {
  auto object = std::make_shared<ObjectValue>();
  object->type = &type;
  object->class_name = name;
  object->level = level();
  return object;
}

ScriptValue Interpreter::CallNamed(const std::string& name, const Arguments& arguments) {
  auto after = [&](std::string_view prefix) { return name.substr(prefix.size()); };
  if (name == "torch.jit._unwrap_optional" || name == "torch._unwrap_optional") {
    const ScriptValue* value = arguments.Find(0, "optional");
    if (!value || value->is_none()) throw Raised{"an optional value that is None is used"};
    return *value;
  }
  if (name.starts_with("ops.prim.")) return CallPrim(after("ops.prim."), arguments);
  if (name.starts_with("ops.quantized.")) return CallQuantized(*this, after("ops.quantized."), arguments);
  if (name.starts_with("ops.torchvision.")) return CallAten(after("ops."), arguments);
  if (name.starts_with("ops.aten.")) return CallTorch(after("ops.aten."), arguments);
  if (name.starts_with("torch.")) {
    std::string own = after("torch.");
    if (own.find('.') == std::string::npos) return CallTorch(own, arguments);
  }
  if (name.starts_with("__torch__.")) {
    constexpr std::string_view kNew = ".__new__";
    if (name.ends_with(kNew))
      if (const Class* type = library_.FindClass(name.substr(0, name.size() - kNew.size())))
        return MakeObject(*type, name.substr(0, name.size() - kNew.size()));
    if (const Function* function = library_.FindFunction(name)) return CallFunction(*function, nullptr, arguments);
    if (const Class* type = library_.FindClass(name)) return Construct(*type, name, arguments);
    Fail(ErrorCode::kInvalidModel, "the archive has no code for '", Printable(name), "'");
  }
  Fail(ErrorCode::kUnsupported, "there is no export for ", Printable(name));
}

}  // namespace ferry::torch::script
