// Expressions and statements.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "torch/script/builtins.h"
#include "torch/script/interpreter.h"
#include "torch/script/runtime_list.h"

namespace ferry::torch::script {
namespace {

constexpr int64_t kMostUnrolled = 1024;  // repetitions; loops that take more stay loops

}  // namespace

std::vector<ScriptValue> Interpreter::EvaluateAll(const std::vector<ExpressionPtr>& expressions) {
  std::vector<ScriptValue> values;
  values.reserve(expressions.size());
  for (const ExpressionPtr& expression : expressions) values.push_back(Evaluate(*expression));
  return values;
}

ScriptValue Interpreter::Evaluate(const Expression& expression) {
  using Kind = Expression::Kind;
  switch (expression.kind) {
    case Kind::kNone: return {};
    case Kind::kTrue: return Scalar(true);
    case Kind::kFalse: return Scalar(false);
    case Kind::kInteger: return Scalar(expression.integer);
    case Kind::kFloat: return Scalar(expression.number);
    case Kind::kImaginary: return Scalar(std::complex<double>(0, expression.number));
    case Kind::kString: return expression.text;
    case Kind::kName: return EvaluateName(expression);
    case Kind::kAttribute: return MemberOf(Evaluate(*expression.parts[0]), expression.text);
    case Kind::kSubscript: return EvaluateSubscript(expression);
    case Kind::kCall: return EvaluateCall(expression);
    case Kind::kList: return MakeList(EvaluateAll(expression.parts));
    case Kind::kTuple: return MakeTuple(EvaluateAll(expression.parts));
    case Kind::kDict: return EvaluateDict(expression);
    case Kind::kOperator: return CallTorch(expression.text, {EvaluateAll(expression.parts), {}});
    case Kind::kConditional: {
      Scalar condition = TruthOf(*this, Evaluate(*expression.parts[1]));
      return Evaluate(*expression.parts[condition.AsBool() ? 0 : 2]);
    }
  }
  return {};
}

ScriptValue Interpreter::EvaluateName(const Expression& expression) {
  const std::string& name = expression.text;
  if (frame_) {
    auto it = frame_->variables.find(name);
    if (it != frame_->variables.end()) {
      if (const Missing* missing = it->second.get<Missing>(); missing && !missing->reason.empty())
        Fail(ErrorCode::kUnsupported, "'", Printable(name), "' ", missing->reason);
      return it->second;
    }
  }
  if (name == "inf") return Scalar(std::numeric_limits<double>::infinity());
  if (name == "nan") return Scalar(std::numeric_limits<double>::quiet_NaN());
  if (name == "infj") return Scalar(std::complex<double>(0, std::numeric_limits<double>::infinity()));
  if (name == "torch" || name == "ops" || name == "CONSTANTS" || name == "__torch__") return Namespace{name};
  Fail(ErrorCode::kInvalidModel, "the variable '", Printable(name), "' is used before it is set");
}

ScriptValue Interpreter::MemberOf(const ScriptValue& base, const std::string& name) {
  if (const Namespace* space = base.get<Namespace>()) {
    if (space->name != "CONSTANTS") return Namespace{Cat(space->name, ".", name)};
    int64_t index = 0;
    for (char c : name.substr(1)) {
      if (c < '0' || c > '9' || index > 1'000'000)
        Fail(ErrorCode::kInvalidModel, "there is no constant ", Printable(name));
      index = index * 10 + (c - '0');
    }
    return FromPickle(library_.Constant(static_cast<size_t>(index)), Cat("constants.", index), true);
  }
  if (const auto* object = base.get<ScriptValue::Object>()) return Attribute(*object, name);
  if (const auto* tuple = base.get<ScriptValue::Tuple>(); tuple && (*tuple)->type) {
    const std::vector<Class::Field>& fields = (*tuple)->type->fields;
    for (size_t i = 0; i < fields.size() && i < (*tuple)->items.size(); ++i)
      if (fields[i].name == name) return (*tuple)->items[i];
  }
  if (base.is_tensor() || base.is<DeviceName>()) return CallPrim(name, {{base}, {}});
  Fail(ErrorCode::kInvalidModel, base.KindName(), " has no attribute '", Printable(name), "'");
}

ScriptValue Interpreter::EvaluateSubscript(const Expression& expression) {
  ScriptValue base = Evaluate(*expression.parts[0]);
  ScriptValue key = Evaluate(*expression.parts[1]);
  if (const auto* dict = base.get<ScriptValue::Dict>()) {
    if (const ScriptValue* found = FindKey(**dict, key)) return *found;
    throw Raised{"KeyError"};
  }
  if (base.is_tensor()) return CallAten("select", {{base, Scalar(0), key}, {}});
  const Scalar* number = key.get<Scalar>();
  if (!number) Fail(ErrorCode::kInvalidModel, base.KindName(), " is indexed with ", key.KindName());
  if (const std::string* text = base.get<std::string>()) {
    size_t at = ItemIndex(number->AsInt(), text->size());
    return text->substr(at, 1);
  }
  if (const RuntimeList* list = base.runtime_list()) return ItemAt(*this, *list, *number);
  const std::vector<ScriptValue>* items = base.items();
  if (!items) Fail(ErrorCode::kInvalidModel, base.KindName(), " has no items");
  if (!number->is_known()) return ItemAt(*this, *items, *number);
  return (*items)[ItemIndex(number->AsInt(), items->size())];
}

ScriptValue Interpreter::EvaluateDict(const Expression& expression) {
  std::vector<std::pair<ScriptValue, ScriptValue>> items;
  for (size_t i = 0; i + 1 < expression.parts.size(); i += 2) {
    ScriptValue key = Evaluate(*expression.parts[i]);
    items.emplace_back(std::move(key), Evaluate(*expression.parts[i + 1]));
  }
  return MakeDict(std::move(items));
}

Arguments Interpreter::EvaluateArguments(const Expression& call) {
  Arguments arguments;
  size_t positional = call.parts.size() - call.names.size();
  for (size_t i = 1; i < call.parts.size(); ++i) {
    ScriptValue value = Evaluate(*call.parts[i]);
    if (i < positional)
      arguments.values.push_back(std::move(value));
    else
      arguments.named.emplace_back(call.names[i - positional], std::move(value));
  }
  return arguments;
}

ScriptValue Interpreter::EvaluateCall(const Expression& expression) {
  const Expression& callee = *expression.parts[0];
  if (callee.kind == Expression::Kind::kName && !(frame_ && frame_->variables.count(callee.text)))
    return CallWord(callee.text, expression);
  ScriptValue function;
  if (callee.kind == Expression::Kind::kAttribute) {
    ScriptValue base = Evaluate(*callee.parts[0]);
    if (const auto* object = base.get<ScriptValue::Object>(); object && (*object)->type->FindMethod(callee.text))
      return CallMethod(*object, callee.text, EvaluateArguments(expression));
    function = MemberOf(base, callee.text);
  } else {
    function = Evaluate(callee);
  }
  Arguments arguments = EvaluateArguments(expression);
  if (const Namespace* name = function.get<Namespace>()) return CallNamed(name->name, arguments);
  if (const BoundMethod* method = function.get<BoundMethod>())
    return CallFunction(*method->function, method->self, arguments);
  if (const auto* object = function.get<ScriptValue::Object>()) return CallMethod(*object, "__call__", arguments);
  Fail(ErrorCode::kInvalidModel, function.KindName(), " is called");
}

// The words that TorchScript has beside the functions of torch and ops.
ScriptValue Interpreter::CallWord(const std::string& word, const Expression& call) {
  const std::vector<ExpressionPtr>& parts = call.parts;
  auto need = [&](size_t count) {
    if (parts.size() != count + 1)
      Fail(ErrorCode::kInvalidModel, "'", Printable(word), "' takes ", count, " arguments, is given ",
           parts.size() - 1);
  };
  if (word == "annotate" || word == "unchecked_cast") {
    need(2);
    ScriptValue value = Evaluate(*parts[2]);
    if (!value.is_tensor() || parts[1]->kind != Expression::Kind::kName) return value;
    const std::string& type = parts[1]->text;
    if (type == "int" || type == "float" || type == "bool") return CallTorch(type, {{value}, {}});
    return type == "number" ? ScriptValue(ScalarOf(value)) : value;
  }
  if (word == "uninitialized") return Missing{};
  if (word == "getattr") {
    need(2);
    ScriptValue base = Evaluate(*parts[1]);
    const auto* object = base.get<ScriptValue::Object>();
    if (!object || parts[2]->kind != Expression::Kind::kString)
      Fail(ErrorCode::kInvalidModel, "getattr is asked for an attribute of ", base.KindName());
    return Attribute(*object, parts[2]->text);
  }
  if (word == "isinstance") {
    need(2);
    return Scalar(IsInstance(Evaluate(*parts[1]), *parts[2]));
  }
  return CallTorch(word, EvaluateArguments(call));
}

// --- statements

Interpreter::Flow Interpreter::Execute(const Block& block) {
  for (const auto& statement : block) {
    Spend(1);
    frame_->line = statement->line;
    Flow flow = ExecuteOne(*statement);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::ExecuteOne(const Statement& statement) {
  using Kind = Statement::Kind;
  switch (statement.kind) {
    case Kind::kPass: return Flow::kNext;
    case Kind::kBreak: return Flow::kBreak;
    case Kind::kContinue: return Flow::kContinue;
    case Kind::kExpression: Evaluate(*statement.value); return Flow::kNext;
    case Kind::kReturn:
      if (statement.value) frame_->result = Evaluate(*statement.value);
      return Flow::kReturn;
    case Kind::kAssign: {
      ScriptValue value = Evaluate(*statement.value);
      for (const ExpressionPtr& target : statement.targets) Assign(*target, value);
      return Flow::kNext;
    }
    case Kind::kIf: return ExecuteIf(statement);
    case Kind::kWhile: return ExecuteWhile(statement);
    case Kind::kFor: return ExecuteFor(statement);
    case Kind::kRaise: throw Raised{ShowValue(Evaluate(*statement.value))};
    case Kind::kAssert: {
      ScriptValue value = Evaluate(*statement.value);
      const std::vector<ScriptValue>* parts = value.items();
      Scalar truth = TruthOf(*this, parts && !parts->empty() ? (*parts)[0] : value);
      if (truth.is_known() && !truth.AsBool()) throw Raised{"AssertionError"};
      return Flow::kNext;
    }
    case Kind::kWith:
      // What is entered is about gradients or profiling, which have no counterpart.
      return Execute(statement.body);
  }
  return Flow::kNext;
}

void Interpreter::Assign(const Expression& target, const ScriptValue& value) {
  switch (target.kind) {
    case Expression::Kind::kName: frame_->variables[target.text] = value; return;
    case Expression::Kind::kTuple:
    case Expression::Kind::kList: {
      const std::vector<ScriptValue>* items = value.items();
      if (!items || items->size() != target.parts.size())
        Fail(ErrorCode::kInvalidModel, value.KindName(), " cannot be taken apart into ", target.parts.size(), " parts");
      std::vector<ScriptValue> copies = *items;
      for (size_t i = 0; i < copies.size(); ++i) Assign(*target.parts[i], copies[i]);
      return;
    }
    case Expression::Kind::kAttribute: {
      ScriptValue base = Evaluate(*target.parts[0]);
      const auto* object = base.get<ScriptValue::Object>();
      if (!object) Fail(ErrorCode::kInvalidModel, "an attribute of ", base.KindName(), " is set");
      WillChange(base, target.text);
      (*object)->WillHold(value);
      (*object)->attributes[target.text] = value;
      return;
    }
    case Expression::Kind::kSubscript: {
      ScriptValue base = Evaluate(*target.parts[0]);
      AssignItem(base, Evaluate(*target.parts[1]), value);
      return;
    }
    default: Fail(ErrorCode::kInvalidModel, "something is set that is no variable");
  }
}

void Interpreter::AssignItem(const ScriptValue& container, const ScriptValue& key, const ScriptValue& value) {
  if (const auto* dict = container.get<ScriptValue::Dict>()) {
    WillChange(container);
    (*dict)->WillHold(value);
    for (auto& [own, held] : (*dict)->items)
      if (SameKey(own, key)) {
        held = value;
        return;
      }
    Spend(1);
    (*dict)->items.emplace_back(key, value);
    return;
  }
  const auto* list = container.get<ScriptValue::List>();
  const Scalar* index = key.get<Scalar>();
  if (!list || !index) Fail(ErrorCode::kInvalidModel, "an item of ", container.KindName(), " is set");
  if ((*list)->runtime) RefuseRuntimeList(*(*list)->runtime, "_set_item");
  WillChange(container);
  (*list)->WillHold(value);
  (*list)->items[ItemIndex(index->AsInt(), (*list)->items.size())] = value;
}

Interpreter::Flow Interpreter::ExecuteIf(const Statement& statement) {
  Scalar condition = TruthOf(*this, Evaluate(*statement.value));
  if (condition.is_known()) return Execute(condition.AsBool() ? statement.body : statement.otherwise);
  // An assertion about data has no counterpart in ONNX: the model goes on where the program does not raise.
  if (AlwaysRaises(statement.body)) return Execute(statement.otherwise);
  if (AlwaysRaises(statement.otherwise)) return Execute(statement.body);
  BranchInGraph(condition, statement);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::ExecuteWhile(const Statement& statement) {
  for (int64_t round = 0;; ++round) {
    Spend(1);
    Scalar condition = TruthOf(*this, Evaluate(*statement.value));
    if (condition.is_known() && !condition.AsBool()) return Flow::kNext;
    if (!condition.is_known()) {
      LoopInGraph(statement, nullptr);
      return Flow::kNext;
    }
    Flow flow = Execute(statement.body);
    if (flow == Flow::kReturn) return flow;
    if (flow == Flow::kBreak) return Flow::kNext;
  }
}

Interpreter::Flow Interpreter::ExecuteFor(const Statement& statement) {
  const Expression& over = *statement.value;
  bool is_range = over.kind == Expression::Kind::kCall && over.parts[0]->kind == Expression::Kind::kName &&
                  over.parts[0]->text == "range" && over.parts.size() == 2;
  std::vector<ScriptValue> items;
  if (is_range) {
    Scalar count = ScalarOf(Evaluate(*over.parts[1]));
    if (!count.is_known() || count.AsInt() > kMostUnrolled) {
      LoopInGraph(statement, &count);
      return Flow::kNext;
    }
    for (int64_t i = 0; i < count.AsInt(); ++i) items.emplace_back(Scalar(i));
  } else {
    ScriptValue list = Evaluate(over);
    if (!list.items()) Fail(ErrorCode::kUnsupported, "a loop goes over ", list.KindName());
    items = *list.items();
  }
  for (const ScriptValue& item : items) {
    Spend(1);
    Assign(*statement.targets[0], item);
    Flow flow = Execute(statement.body);
    if (flow == Flow::kReturn) return flow;
    if (flow == Flow::kBreak) break;
  }
  return Flow::kNext;
}

}  // namespace ferry::torch::script
