// Arithmetic and comparisons of Python's numbers. Those that are only known while the model runs become nodes.
#include <cmath>
#include <iterator>

#include "base/error.h"
#include "torch/lower/ops/support.h"
#include "torch/script/builtins.h"
#include "torch/script/runtime_list.h"

namespace ferry::torch::script {
namespace {

using Kind = Scalar::Kind;

const Scalar* NumberAt(const Arguments& args, size_t position) {
  return position < args.values.size() ? args.values[position].get<Scalar>() : nullptr;
}

// Where names of sizes say what the result is, it is known, or has a name itself.
Scalar WithDim(const Scalar& result, const Dim& dim) {
  if (result.is_known() || dim.unknown() || result.kind() != Kind::kInt) return result;
  return dim.known() ? Scalar(*dim.value) : Scalar(Kind::kInt, result.computed(), dim);
}

constexpr struct {
  std::string_view name;
  const char* target;
} kBinary[] = {
    {"add", "_operator.add"},
    {"sub", "_operator.sub"},
    {"mul", "_operator.mul"},
    {"floordiv", "_operator.floordiv"},
    {"floor_divide", "_operator.floordiv"},
    {"remainder", "_operator.mod"},
    {"div", "_operator.truediv"},
    {"pow", "_operator.pow"},
    {"lt", "_operator.lt"},
    {"le", "_operator.le"},
    {"gt", "_operator.gt"},
    {"ge", "_operator.ge"},
};

Dim DimOf(std::string_view name, const Scalar& a, const Scalar& b) {
  if (a.kind() != Kind::kInt || b.kind() != Kind::kInt) return {};
  if (name == "add") return a.AsDim() + b.AsDim();
  if (name == "sub") return a.AsDim() - b.AsDim();
  if (name == "mul") return a.AsDim() * b.AsDim();
  if (name == "floordiv" || name == "floor_divide") return FloorDivide(a.AsDim(), b.AsDim());
  return {};
}

Scalar Remainder(double a, double b) {
  if (b == 0) throw Raised{"ZeroDivisionError"};
  double rest = std::fmod(a, b);
  return Scalar(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}

// What a comparison with a number says of a size that is not 0; nothing when that depends on the size.
std::optional<bool> AnswerIfNotEmpty(std::string_view name, const Scalar& a, const Scalar& b) {
  static constexpr std::pair<std::string_view, std::string_view> kMirrored[] = {
      {"lt", "gt"}, {"gt", "lt"}, {"le", "ge"}, {"ge", "le"}, {"eq", "eq"}, {"ne", "ne"}};
  if (a.is_known() && !b.is_known())
    for (const auto& [own, mirrored] : kMirrored)
      if (own == name) return AnswerIfNotEmpty(mirrored, b, a);
  if (a.is_known() || !a.is_size() || !b.is_known() || b.kind() != Kind::kInt) return std::nullopt;
  int64_t with = b.AsInt();
  if ((name == "gt" && with == 0) || (name == "ge" && with == 1) || (name == "ne" && with == 0)) return true;
  if ((name == "eq" && with == 0) || (name == "lt" && with == 1) || (name == "le" && with == 0)) return false;
  return std::nullopt;
}

Scalar Compared(std::string_view name, const Scalar& a, const Scalar& b, const Scalar& result) {
  bool keeps_size = (name == "add" || name == "mul") && a.is_size() && b.is_size() && result.kind() == Kind::kInt;
  if (result.is_known()) return result;
  return keeps_size ? result.AsSize() : result.WithAnswer(AnswerIfNotEmpty(name, a, b));
}

std::optional<Scalar> Binary(Interpreter& in, std::string_view name, const Scalar& a, const Scalar& b) {
  bool known = a.is_known() && b.is_known(), integral = a.is_integral() && b.is_integral();
  if ((name == "floordiv" || name == "remainder" || name == "div") && b.is_known() && b.AsDouble() == 0)
    throw Raised{"ZeroDivisionError"};
  if (name == "remainder" && known && !integral) return Remainder(a.AsDouble(), b.AsDouble());
  // TorchScript has powers of integers in floats.
  if (name == "pow" && known) return Scalar(std::pow(a.AsDouble(), b.AsDouble()));
  if (name == "pow") return in.Run("_operator.pow", {in.Run("torch.sym_float", {a}), in.Run("torch.sym_float", {b})});
  // Sizes that are the same need not be compared while running.
  if (!known && SameDim(a.AsDim(), b.AsDim()) && (name == "le" || name == "ge" || name == "lt" || name == "gt"))
    return Scalar(name[1] == 'e');
  for (const auto& known_name : kBinary)
    if (known_name.name == name)
      return Compared(name, a, b, WithDim(in.Run(known_name.target, {a, b}), DimOf(name, a, b)));
  return std::nullopt;
}

// Functions of one number that is known; integers stay integers where Python's do.
struct UnaryFunction {
  std::string_view name;
  double (*compute)(double);
  bool gives_integer = false;
};
constexpr UnaryFunction kUnary[] = {
    {"sqrt", [](double x) { return std::sqrt(x); }},       {"exp", [](double x) { return std::exp(x); }},
    {"log", [](double x) { return std::log(x); }},         {"log2", [](double x) { return std::log2(x); }},
    {"log10", [](double x) { return std::log10(x); }},     {"log1p", [](double x) { return std::log1p(x); }},
    {"sin", [](double x) { return std::sin(x); }},         {"cos", [](double x) { return std::cos(x); }},
    {"tan", [](double x) { return std::tan(x); }},         {"tanh", [](double x) { return std::tanh(x); }},
    {"round", [](double x) { return std::nearbyint(x); }}, {"floor", [](double x) { return std::floor(x); }, true},
    {"ceil", [](double x) { return std::ceil(x); }, true}, {"trunc", [](double x) { return std::trunc(x); }, true},
};

// Of a number that only the running model knows.
std::optional<Scalar> OpenUnary(Interpreter& in, std::string_view name, const Scalar& a) {
  static constexpr std::pair<std::string_view, const char*> kSame[] = {
      {"exp", "Exp"}, {"log", "Log"},   {"sin", "Sin"},    {"cos", "Cos"},
      {"tan", "Tan"}, {"tanh", "Tanh"}, {"round", "Round"}};
  Builder& b = in.builder();
  if (name == "trunc") return in.Run("math.trunc", {a});
  if (name == "abs" && a.kind() != Kind::kBool) return Scalar(a.kind(), b.Abs(a.computed()));
  Operand x = b.Cast(a.computed(), DType::kDouble);
  for (const auto& [own, op_type] : kSame)
    if (own == name) return Scalar(Kind::kFloat, b.Widened(op_type, {x}));
  if (name == "log2") return Scalar(Kind::kFloat, b.Div(b.Log(x), std::log(2.0)));
  if (name == "log10") return Scalar(Kind::kFloat, b.Div(b.Log(x), std::log(10.0)));
  if (name == "log1p") return Scalar(Kind::kFloat, Log1pOf(b, x));
  return std::nullopt;
}

std::optional<Scalar> Unary(Interpreter& in, std::string_view name, const Scalar& a) {
  if (name == "neg") return in.Run("_operator.neg", {a});
  if (name == "abs" && a.is_known())
    return a.is_integral() ? Scalar(a.AsInt() == INT64_MIN ? INT64_MAX : std::abs(a.AsInt()))
                           : Scalar(std::abs(a.AsDouble()));
  if (name == "floor" && !a.is_known()) return in.Run("math.floor", {a});
  if (name == "ceil" && !a.is_known()) return in.Run("math.ceil", {a});
  if (name == "sqrt" && !a.is_known())
    return Scalar(Kind::kFloat, in.builder().Sqrt(in.builder().Cast(a.computed(), DType::kDouble)));
  if (!a.is_known()) return OpenUnary(in, name, a);
  for (const UnaryFunction& function : kUnary) {
    if (function.name != name) continue;
    double result = function.compute(a.AsDouble());
    if (!function.gives_integer) return Scalar(result);
    if (!(std::abs(result) < 0x1p62)) Fail(ErrorCode::kUnsupported, "the number ", result, " is no integer");
    return Scalar(static_cast<int64_t>(result));
  }
  return std::nullopt;
}

std::optional<ScriptValue> Convert(Interpreter& in, std::string_view name, const ScriptValue& value) {
  if (const std::string* text = value.get<std::string>()) {
    if (name == "str") return value;
    char* end = nullptr;
    double number = std::strtod(text->c_str(), &end);
    if (text->empty() || *end != '\0') throw Raised{"ValueError"};
    return name == "float" || name == "Float" ? Scalar(number) : Scalar(Scalar(number).AsInt());
  }
  if (name == "str") return ScriptValue(ShowValue(value));
  if (name == "bool" || name == "Bool") return ScriptValue(TruthOf(in, value));
  if (!value.is_tensor() && !value.is<Scalar>()) return std::nullopt;
  Scalar number = in.ScalarOf(value);
  if (name == "float" || name == "Float" || name == "FloatImplicit") return in.Run("torch.sym_float", {number});
  if (name == "int" || name == "Int" || name == "IntImplicit") return in.Run("torch.sym_int", {number});
  return ScriptValue(number);  // ScalarImplicit, item
}

bool IsConversion(std::string_view name) {
  static constexpr std::string_view kNames[] = {
      "int", "float", "bool", "str", "Int", "Float", "Bool", "IntImplicit", "FloatImplicit", "item", "ScalarImplicit"};
  for (std::string_view known : kNames)
    if (name == known) return true;
  return false;
}

Scalar Logical(Interpreter& in, std::string_view name, const Scalar& a, const Scalar& b) {
  if (name == "__and__" && a.kind() == Kind::kBool) return Both(in, a, b);
  if (a.kind() == Kind::kBool && name == "__or__") {
    for (const Scalar* side : {&a, &b})
      if (side->is_known()) return side->AsBool() ? Scalar(true) : side == &a ? b : a;
    Builder& builder = in.builder();
    return Scalar(Kind::kBool, builder.Or(builder.Of(a, DType::kBool), builder.Of(b, DType::kBool)));
  }
  int64_t x = a.AsInt(), y = b.AsInt();
  int64_t result = name == "__and__" ? x & y : name == "__or__" ? x | y : x ^ y;
  return a.kind() == Kind::kBool ? Scalar(result != 0) : Scalar(result);
}

// Sizes that tracing keeps as tensors are computed with like the numbers they are.
std::optional<Scalar> SizeLike(const ScriptValue& value) {
  if (const NumberTensor* number = value.get<NumberTensor>()) return number->number;
  if (const Scalar* scalar = value.get<Scalar>()) return *scalar;
  const auto* cell = value.get<ScriptValue::Tensor>();
  if (!cell) return std::nullopt;
  Operand operand = (*cell)->Read();
  const Tensor* constant = operand.constant();
  if (!constant || constant->shape().rank() != 0 || constant->dtype() != DType::kInt64) return std::nullopt;
  return Scalar(*constant->Data<int64_t>());
}

std::optional<ScriptValue> OnTracedSizes(Interpreter& in, std::string_view name, const Arguments& args) {
  static constexpr std::string_view kNames[] = {"add", "sub", "mul", "floor_divide", "remainder", "neg", "rsub"};
  bool is_one = false;
  for (std::string_view known : kNames) is_one = is_one || known == name;
  if (!is_one || !args.named.empty() || args.values.empty() || args.values.size() > 2) return std::nullopt;
  std::vector<Scalar> numbers;
  bool traced = false;
  for (const ScriptValue& value : args.values) {
    traced = traced || value.is<NumberTensor>();
    std::optional<Scalar> number = SizeLike(value);
    if (!number || number->kind() != Kind::kInt) return std::nullopt;
    numbers.push_back(*number);
  }
  if (!traced) return std::nullopt;
  if (name == "neg") return ScriptValue(NumberTensor{in.Run("_operator.neg", numbers)});
  if (numbers.size() != 2) return std::nullopt;
  if (name == "rsub") std::swap(numbers[0], numbers[1]);
  std::optional<Scalar> result = Binary(in, name == "rsub" ? "sub" : name, numbers[0], numbers[1]);
  if (!result) return std::nullopt;
  return ScriptValue(NumberTensor{*result});
}

Scalar Negated(Interpreter& in, const Scalar& truth) {
  std::optional<bool> answer = truth.if_not_empty();
  if (answer) answer = !*answer;
  return in.Run("_operator.not_", {truth}).WithAnswer(answer);
}

}  // namespace

Scalar Both(Interpreter& in, const Scalar& a, const Scalar& b) {
  for (const Scalar* side : {&a, &b})
    if (side->is_known()) return !side->AsBool() ? Scalar(false) : side == &a ? b : a;
  Builder& builder = in.builder();
  return Scalar(Kind::kBool, builder.And(builder.Of(a, DType::kBool), builder.Of(b, DType::kBool)));
}

Scalar TruthOf(Interpreter& in, const ScriptValue& value) {
  if (value.is_none()) return Scalar(false);
  if (const std::string* text = value.get<std::string>()) return Scalar(!text->empty());
  if (const auto* dict = value.get<ScriptValue::Dict>()) return Scalar(!(*dict)->items.empty());
  if (const RuntimeList* list = value.runtime_list())
    return in.Run("_operator.gt", {LengthOf(in, *list), Scalar(0)}).WithAnswer(true);
  if (const std::vector<ScriptValue>* items = value.items()) return Scalar(!items->empty());
  Scalar number = in.ScalarOf(value);
  if (number.kind() == Kind::kBool) return number;
  if (number.is_known()) return Scalar(number.AsBool());
  return Scalar(Kind::kBool, in.builder().Cast(number.computed(), DType::kBool));
}

Scalar AreEqual(Interpreter& in, const ScriptValue& a, const ScriptValue& b) {
  const Scalar *x = a.get<Scalar>(), *y = b.get<Scalar>();
  if (x && y) {
    bool known = x->is_known() && y->is_known();
    if (!known && SameDim(x->AsDim(), y->AsDim())) return Scalar(true);
    return in.Run("_operator.eq", {*x, *y}).WithAnswer(AnswerIfNotEmpty("eq", *x, *y));
  }
  const std::vector<ScriptValue>*left = a.items(), *right = b.items();
  if (left && right) {
    Scalar equal(left->size() == right->size());
    in.Spend(left->size());
    for (size_t i = 0; i < left->size(); ++i) {
      if (equal.is_known() && !equal.AsBool()) break;
      equal = Both(in, equal, AreEqual(in, (*left)[i], (*right)[i]));
    }
    return equal;
  }
  if (a.is_tensor() && b.is_tensor()) Fail(ErrorCode::kUnsupported, "lists of tensors are compared");
  return Scalar(SameKey(a, b));
}

std::optional<ScriptValue> CallNumberFunction(Interpreter& in, std::string_view name, const Arguments& args) {
  if (args.values.empty()) return std::nullopt;
  const ScriptValue& first = args.values[0];
  if (args.values.size() == 1 && IsConversion(name)) return Convert(in, name, first);
  if (args.values.size() >= 2) {
    const ScriptValue& second = args.values[1];
    if (name == "__is__" || name == "__isnot__") {
      bool same = first.is_none() || second.is_none() ? first.is_none() && second.is_none() : SameKey(first, second);
      return ScriptValue(Scalar(same == (name == "__is__")));
    }
    bool tensors = first.is_tensor() || second.is_tensor();
    if ((name == "eq" || name == "ne") && !tensors) {
      Scalar equal = AreEqual(in, first, second);
      return ScriptValue(name == "eq" ? equal : Negated(in, equal));
    }
  }
  if (std::optional<ScriptValue> traced = OnTracedSizes(in, name, args)) return traced;
  const Scalar *a = NumberAt(args, 0), *b = NumberAt(args, 1);
  if (!a) return std::nullopt;
  if (name == "__not__") return ScriptValue(Negated(in, TruthOf(in, first)));
  if (args.size() == 1) {
    std::optional<Scalar> result = Unary(in, name, *a);
    return result ? std::optional<ScriptValue>(*result) : std::nullopt;
  }
  if (!b || args.size() != 2) return std::nullopt;
  if (name == "__and__" || name == "__or__" || name == "__xor__") return ScriptValue(Logical(in, name, *a, *b));
  std::optional<Scalar> result = Binary(in, name, *a, *b);
  return result ? std::optional<ScriptValue>(*result) : std::nullopt;
}

}  // namespace ferry::torch::script
