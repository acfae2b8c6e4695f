#include "providers/cuda/chain_operators.h"

#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/text.h"
#include "providers/cuda/chain.h"

namespace ferry::cuda {
namespace {

enum Kinds : uint8_t { kFloats = 1, kIntegers = 2, kBools = 4, kNumbers = 3, kAll = 7 };

Kinds KindOf(DType type) {
  if (type == DType::kBool) return kBools;
  return IsInteger(type) ? kIntegers : kFloats;
}

// $0, $1 … are the inputs, T the type that is computed in, [name=default] an attribute. A rule holds for inputs of the
// given kinds; the first that fits counts.
struct Rule {
  std::string_view name;
  Kinds kinds;
  std::string_view text;
};

constexpr Rule kRules[] = {
    {"Identity", kAll, "$0"},
    {"Add", kFloats, "$0 + $1"},
    {"Add", kIntegers, "T(uint64($0) + uint64($1))"},
    {"Sub", kFloats, "$0 - $1"},
    {"Sub", kIntegers, "T(uint64($0) - uint64($1))"},
    {"Mul", kFloats, "$0 * $1"},
    {"Mul", kIntegers, "T(uint64($0) * uint64($1))"},
    {"Div", kFloats, "$0 / $1"},
    {"PRelu", kNumbers, "$0 < T(0) ? T($1 * $0) : $0"},
    {"Neg", kFloats, "-$0"},
    {"Neg", kIntegers, "T(-uint64($0))"},
    {"Abs", kNumbers, "$0 < T(0) ? T(-$0) : $0 == T(0) ? T(0) : $0"},
    {"Sign", kNumbers, "$0 > T(0) ? T(1) : $0 < T(0) ? T(-1) : $0"},
    {"Relu", kNumbers, "$0 < T(0) ? T(0) : $0"},
    {"Sqrt", kFloats, "sqrt($0)"},
    {"Reciprocal", kFloats, "T(1) / $0"},
    {"Exp", kFloats, "exp($0)"},
    {"Log", kFloats, "log($0)"},
    {"Floor", kFloats, "floor($0)"},
    {"Ceil", kFloats, "ceil($0)"},
    {"Round", kFloats, "rint($0)"},
    {"Erf", kFloats, "erf($0)"},
    {"Sin", kFloats, "sin($0)"},
    {"Cos", kFloats, "cos($0)"},
    {"Tan", kFloats, "tan($0)"},
    {"Asin", kFloats, "asin($0)"},
    {"Acos", kFloats, "acos($0)"},
    {"Atan", kFloats, "atan($0)"},
    {"Sinh", kFloats, "sinh($0)"},
    {"Cosh", kFloats, "cosh($0)"},
    {"Tanh", kFloats, "tanh($0)"},
    {"Asinh", kFloats, "asinh($0)"},
    {"Acosh", kFloats, "acosh($0)"},
    {"Atanh", kFloats, "atanh($0)"},
    {"Sigmoid", kFloats, "T(1) / (T(1) + exp(-$0))"},
    {"Softplus", kFloats, "Softplus($0)"},
    {"Softsign", kFloats, "$0 / (T(1) + fabs($0))"},
    {"Mish", kFloats, "$0 * tanh(Softplus($0))"},
    {"HardSwish", kFloats, "$0 * Clamp($0 / T(6) + T(0.5), T(0), T(1))"},
    {"HardSigmoid", kFloats, "Clamp(T([alpha=0.2]) * $0 + T([beta=0.5]), T(0), T(1))"},
    {"Celu", kFloats, "$0 > T(0) ? $0 : T([alpha=1]) * expm1($0 / T([alpha=1]))"},
    {"Elu", kFloats, "$0 < T(0) ? T([alpha=1]) * expm1($0) : $0"},
    {"Selu", kFloats,
     "T([gamma=1.05070102214813232421875]) * ($0 < T(0) ? T([alpha=1.67326319217681884765625]) * expm1($0) : $0)"},
    {"LeakyRelu", kFloats, "$0 < T(0) ? T([alpha=0.01]) * $0 : $0"},
    {"ThresholdedRelu", kFloats, "$0 > T([alpha=1]) ? $0 : T(0)"},
    {"Swish", kFloats, "$0 / (T(1) + exp(-T([alpha=1]) * $0))"},
    {"Shrink", kFloats, "$0 < -T([lambd=0.5]) ? $0 + T([bias=0]) : $0 > T([lambd=0.5]) ? $0 - T([bias=0]) : T(0)"},
    {"Equal", kAll, "$0 == $1"},
    {"Greater", kNumbers, "$0 > $1"},
    {"GreaterOrEqual", kNumbers, "$0 >= $1"},
    {"Less", kNumbers, "$0 < $1"},
    {"LessOrEqual", kNumbers, "$0 <= $1"},
    {"And", kBools, "$0 && $1"},
    {"Or", kBools, "$0 || $1"},
    {"Xor", kBools, "$0 != $1"},
    {"Not", kBools, "!$0"},
    {"IsNaN", kFloats, "$0 != $0"},
    {"BitwiseAnd", kIntegers, "T($0 & $1)"},
    {"BitwiseOr", kIntegers, "T($0 | $1)"},
    {"BitwiseXor", kIntegers, "T($0 ^ $1)"},
    {"BitwiseNot", kIntegers, "T(~$0)"},
};

// The rule's text with names and attributes in their places; empty when an argument that it needs is omitted.
std::string Fill(std::string_view rule, const Node& node, std::span<const ChainArgument> arguments,
                 std::string_view type) {
  std::string out;
  for (size_t i = 0; i < rule.size(); ++i) {
    if (rule[i] == '$') {
      auto index = static_cast<size_t>(rule[++i] - '0');
      if (index >= arguments.size() || arguments[index].name.empty()) return {};
      out += arguments[index].name;
    } else if (rule[i] == '[') {
      const size_t equals = rule.find('=', i), end = rule.find(']', i);
      const std::string name(rule.substr(i + 1, equals - i - 1));
      const std::string standard(rule.substr(equals + 1, end - equals - 1));
      out += NumberText(node.Float(name, std::strtof(standard.c_str(), nullptr)));
      i = end;
    } else if (rule[i] == 'T' && i + 1 < rule.size() && rule[i + 1] == '(' && (i == 0 || !isalnum(rule[i - 1]))) {
      out += type;
    } else {
      out += rule[i];
    }
  }
  return out;
}

bool SameTypes(std::span<const ChainArgument> arguments, size_t from = 0) {
  for (size_t i = from; i < arguments.size(); ++i)
    if (!arguments[i].name.empty() && arguments[i].type != arguments[from].type) return false;
  return true;
}

std::string Pow(const ChainArgument& base, const ChainArgument& exponent) {
  if (KindOf(base.type) != kFloats || KindOf(exponent.type) == kBools) return {};
  const std::string& x = base.name;
  const double known = exponent.constant ? *exponent.constant : 0;
  if (known == 2) return Cat(x, " * ", x);
  if (known == 3) return Cat(x, " * ", x, " * ", x);
  if (known == 0.5) return Cat("sqrt(", x, ")");
  return Cat("pow(", x, ", ", ComputeTypeName(base.type), "(", exponent.name, "))");
}

// Max, Min, Sum and Mean of any number of inputs. NaN wins.
std::string OfMany(std::string_view name, std::span<const ChainArgument> arguments) {
  const Kinds kind = KindOf(arguments[0].type);
  const bool compares = name == "Max" || name == "Min";
  if (!SameTypes(arguments) || kind == kBools || (!compares && kind != kFloats)) return {};
  std::string text = arguments[0].name;
  for (size_t i = 1; i < arguments.size(); ++i)
    text = compares ? Cat(name == "Max" ? "Larger(" : "Smaller(", text, ", ", arguments[i].name, ")")
                    : Cat(text, " + ", arguments[i].name);
  if (name == "Mean") text = Cat("(", text, ") / ", ComputeTypeName(arguments[0].type), "(", arguments.size(), ")");
  return text;
}

std::string Clip(std::span<const ChainArgument> arguments) {
  if (KindOf(arguments[0].type) == kBools || !SameTypes(arguments)) return {};
  std::string text = arguments[0].name;
  if (arguments.size() > 1 && !arguments[1].name.empty()) text = Cat("AtLeast(", text, ", ", arguments[1].name, ")");
  if (arguments.size() > 2 && !arguments[2].name.empty()) text = Cat("AtMost(", text, ", ", arguments[2].name, ")");
  return text;
}

std::string Convert(const ChainArgument& from, DType to) {
  const char* stored = TypeName(to);
  if (!stored) return {};
  return Cat("Load(Stored<", stored, ">::From(", from.name, "))");
}

std::string Special(const Node& node, std::span<const ChainArgument> arguments, DType type) {
  const std::string& op = node.op_type;
  if (op == "Cast" || op == "CastLike") return Convert(arguments[0], type);
  if (op == "Clip") return Clip(arguments);
  if (op == "Max" || op == "Min" || op == "Sum" || op == "Mean") return OfMany(op, arguments);
  if (op == "Pow" && arguments.size() == 2) return Pow(arguments[0], arguments[1]);
  if (op == "Where" && arguments.size() == 3 && arguments[0].type == DType::kBool && SameTypes(arguments, 1))
    return Cat(arguments[0].name, " ? ", arguments[1].name, " : ", arguments[2].name);
  if (op == "Gelu" && KindOf(arguments[0].type) == kFloats) {
    const std::string way = node.String("approximate", "none");
    const bool rounds = type == DType::kFloat16 || type == DType::kBFloat16 || node.Int("rounds", 0) != 0;
    if (way == "none") return Cat(rounds ? "GeluShort(" : "Gelu(", arguments[0].name, ")");
    if (way == "tanh") return Cat("GeluTanh(", arguments[0].name, ")");
  }
  if (op == "IsInf" && KindOf(arguments[0].type) == kFloats) {
    const bool above = node.Int("detect_positive", 1) != 0, below = node.Int("detect_negative", 1) != 0;
    return Cat("isinf(", arguments[0].name, ") && (", arguments[0].name, " > 0 ? ", above, " : ", below, ")");
  }
  if (op == "BitShift" && KindOf(arguments[0].type) == kIntegers && SameTypes(arguments)) {
    const bool left = node.String("direction", "") == "LEFT";
    const std::string &x = arguments[0].name, &by = arguments[1].name;
    const std::string gone = left ? "0" : Cat(x, " < 0 ? -1 : 0");
    return Cat(TypeName(type), "(", by, " >= ", BitWidth(type), " ? ", gone, " : ", x, left ? " << " : " >> ", by, ")");
  }
  return {};
}

}  // namespace

std::string NumberText(double number) {
  if (number != number) return "__longlong_as_double(0x7ff8000000000000ll)";
  if (std::isinf(number)) return Cat(number < 0 ? "-" : "", "__longlong_as_double(0x7ff0000000000000ll)");
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", number);
  return std::string_view(text).find_first_of(".e") == std::string_view::npos ? Cat(text, ".0") : text;
}

std::string ElementExpression(const Node& node, std::span<const ChainArgument> arguments, DType type) {
  if (!node.domain.empty() && node.domain != "ai.onnx") return {};
  if (arguments.empty() || arguments[0].name.empty() || !TypeName(type)) return {};
  if (std::string text = Special(node, arguments, type); !text.empty()) return text;
  const Kinds kind = KindOf(arguments[0].type);
  for (const Rule& rule : kRules)
    if (rule.name == node.op_type && rule.kinds & kind && SameTypes(arguments))
      return Fill(rule.text, node, arguments, ComputeTypeName(arguments[0].type));
  return {};
}

}  // namespace ferry::cuda
