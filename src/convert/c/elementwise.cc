// Functions of one element, or of several at the same place after broadcasting.
#include <cmath>
#include <cstring>

#include "convert/c/kernels.h"

namespace ferry::c {
namespace {

// The number x of arithmetic type `type` under a function of one variable; empty where there is none of this name.
std::string Unary(const StepWriter& w, const std::string& op, const std::string& x, DType type) {
  const Node& node = w.node;
  auto call = [&](const char* name) { return Cat(Math(name, type), "(", x, ")"); };
  auto number = [&](double value) { return Literal(value, type); };
  auto attribute = [&](const char* name, float otherwise) { return Literal(node.Float(name, otherwise), type); };
  const bool is_float = IsFloatType(type), is_signed = is_float || IsSignedInteger(type);
  if (op == "Abs") return is_float ? call("fabs") : is_signed ? Cat("(", x, " < 0 ? -", x, " : ", x, ")") : x;
  if (op == "Neg")
    return is_float                ? Cat("-", x)
           : type == DType::kInt64 ? Cat("(int64_t)(0u - (uint64_t)", x, ")")
           : type == DType::kInt32 ? Cat("(int32_t)(0u - (uint32_t)", x, ")")
                                   : Cat("-", x);
  if (op == "Sign")
    return is_signed ? Cat(is_float ? Cat(x, " != ", x, " ? ", x, " : ") : "",
                           Cat("(", ArithmeticC(type), ")((", x, " > 0) - (", x, " < 0))"))
                     : Cat("(", x, " > 0)");
  if (op == "Relu") return Cat("(", x, " < 0 ? 0 : ", x, ")");
  if (op == "Not") return Cat("!", x);
  if (op == "BitwiseNot") return Cat("~", x);
  if (op == "Floor") return is_float ? call("floor") : x;
  if (op == "Ceil") return is_float ? call("ceil") : x;
  if (op == "Round") return is_float ? call("rint") : x;
  if (op == "IsNaN") return Cat("(", x, " != ", x, ")");
  if (op == "IsInf") {
    const bool positive = node.Int("detect_positive", 1) != 0, negative = node.Int("detect_negative", 1) != 0;
    if (!positive && !negative) return "0";
    return Cat("(isinf(", x, ") != 0",
               positive && negative ? ""
               : positive           ? Cat(" && ", x, " > 0")
                                    : Cat(" && ", x, " < 0"),
               ")");
  }
  if (!is_float) return {};
  const std::string one = number(1), half = number(0.5);
  static constexpr const char* kLibrary[][2] = {
      {"Exp", "exp"},     {"Log", "log"},     {"Sqrt", "sqrt"},   {"Sin", "sin"},   {"Cos", "cos"},   {"Tan", "tan"},
      {"Asin", "asin"},   {"Acos", "acos"},   {"Atan", "atan"},   {"Sinh", "sinh"}, {"Cosh", "cosh"}, {"Tanh", "tanh"},
      {"Asinh", "asinh"}, {"Acosh", "acosh"}, {"Atanh", "atanh"}, {"Erf", "erf"}};
  for (const auto& [name, function] : kLibrary)
    if (op == name) return call(function);
  const std::string exp = Math("exp", type);
  if (op == "Reciprocal") return Cat(one, " / ", x);
  if (op == "Sigmoid") return Cat(one, " / (", one, " + ", exp, "(-", x, "))");
  if (op == "Softplus")
    return Cat("(", x, " > 0 ? ", x, " + ", Math("log1p", type), "(", exp, "(-", x, ")) : ", Math("log1p", type), "(",
               exp, "(", x, ")))");
  if (op == "Softsign") return Cat(x, " / (", one, " + ", Math("fabs", type), "(", x, "))");
  if (op == "LeakyRelu") return Cat("(", x, " < 0 ? ", x, " * ", attribute("alpha", 0.01f), " : ", x, ")");
  if (op == "ThresholdedRelu") return Cat("(", x, " > ", attribute("alpha", 1), " ? ", x, " : 0)");
  if (op == "Elu")
    return Cat("(", x, " < 0 ? ", attribute("alpha", 1), " * ", Math("expm1", type), "(", x, ") : ", x, ")");
  if (op == "Celu")
    return Cat("(", x, " < 0 ? ", attribute("alpha", 1), " * ", Math("expm1", type), "(", x, " / ",
               attribute("alpha", 1), ") : ", x, ")");
  if (op == "Selu")
    return Cat(attribute("gamma", 1.05070102214813232421875f), " * (", x, " > 0 ? ", x, " : ",
               attribute("alpha", 1.67326319217681884765625f), " * ", Math("expm1", type), "(", x, "))");
  if (op == "HardSigmoid")
    return Cat(Math("fmax", type), "(0, ", Math("fmin", type), "(1, ", attribute("alpha", 0.2f), " * ", x, " + ",
               attribute("beta", 0.5f), "))");
  if (op == "HardSwish")
    return Cat(x, " * ", Math("fmax", type), "(0, ", Math("fmin", type), "(1, ", x, " / 6 + ", half, "))");
  if (op == "Swish") return Cat(x, " / (", one, " + ", exp, "(-", attribute("alpha", 1), " * ", x, "))");
  if (op == "Mish")
    return Cat(x, " * ", Math("tanh", type), "(", x, " > 20 ? ", x, " : ", Math("log1p", type), "(", exp, "(", x,
               ")))");
  if (op == "Gelu") {
    if (node.String("approximate", "none") == "tanh")
      return Cat(half, " * ", x, " * (", one, " + ", Math("tanh", type), "(", number(0.7978845608028654), " * (", x,
                 " + ", number(0.044715), " * ", x, " * ", x, " * ", x, ")))");
    return Cat(half, " * ", x, " * (", one, " + ", Math("erf", type), "(", x, " * ", number(0.7071067811865476), "))");
  }
  if (op == "Shrink")
    return Cat("(", x, " < -", attribute("lambd", 0.5f), " ? ", x, " + ", attribute("bias", 0), " : ", x, " > ",
               attribute("lambd", 0.5f), " ? ", x, " - ", attribute("bias", 0), " : 0)");
  return {};
}

std::string Wrapping(const std::string& a, const char* op, const std::string& b, DType type) {
  if (type == DType::kInt32) return Cat("(int32_t)((uint32_t)", a, " ", op, " (uint32_t)", b, ")");
  if (type == DType::kInt64) return Cat("(int64_t)((uint64_t)", a, " ", op, " (uint64_t)", b, ")");
  return Cat(a, " ", op, " ", b);
}

std::string Binary(StepWriter& w, const std::string& op, const std::string& a, const std::string& b, DType type,
                   DType b_type) {
  const bool is_float = IsFloatType(type);
  if (op == "Add" || op == "Sum") return Wrapping(a, "+", b, type);
  if (op == "Sub") return Wrapping(a, "-", b, type);
  if (op == "Mul") return Wrapping(a, "*", b, type);
  if (op == "Div")
    return is_float ? Cat(a, " / ", b)
           : IsSignedInteger(type)
               ? Cat("(", b, " == 0 ? 0 : ", b, " == -1 ? ", Unary(w, "Neg", a, type), " : ", a, " / ", b, ")")
               : Cat("(", b, " == 0 ? 0 : ", a, " / ", b, ")");
  if (op == "Max")
    return is_float ? Cat("(", a, " != ", a, " || ", a, " > ", b, " ? ", a, " : ", b, ")")
                    : Cat("(", a, " > ", b, " ? ", a, " : ", b, ")");
  if (op == "Min")
    return is_float ? Cat("(", a, " != ", a, " || ", a, " < ", b, " ? ", a, " : ", b, ")")
                    : Cat("(", a, " < ", b, " ? ", a, " : ", b, ")");
  if (op == "PRelu") return Cat("(", a, " < 0 ? ", a, " * ", b, " : ", a, ")");
  static constexpr const char* kOperators[][2] = {
      {"Equal", "=="}, {"Less", "<"}, {"LessOrEqual", "<="}, {"Greater", ">"},   {"GreaterOrEqual", ">="}, {"And", "&"},
      {"Or", "|"},     {"Xor", "^"},  {"BitwiseAnd", "&"},   {"BitwiseOr", "|"}, {"BitwiseXor", "^"}};
  for (const auto& [name, symbol] : kOperators)
    if (op == name) return Cat("(", a, " ", symbol, " ", b, ")");
  if (op == "BitShift") {
    const bool left = w.node.String("direction", "") == "LEFT", is_signed = IsSignedInteger(type);
    const std::string beyond = !left && is_signed ? Cat("(", a, " < 0 ? -1 : 0)") : std::string("0");
    const std::string shifted = left && is_signed ? Cat("(uint64_t)", a) : a;
    return Cat("((uint64_t)", b, " >= ", BitWidth(type), " ? ", beyond, " : (", StoredType(type), ")(", shifted,
               left ? " << " : " >> ", b, "))");
  }
  if (op == "Mod") {
    if (w.node.Int("fmod", 0) != 0)
      return is_float ? Cat(Math("fmod", type), "(", a, ", ", b, ")")
                      : Cat("(", b, " == 0 || (int64_t)", b, " == -1 ? 0 : ", a, " % ", b, ")");
    if (is_float) {
      w.Use("mod_real");
      return Cat("(", ArithmeticC(type), ")mod_real((double)", a, ", (double)", b, ")");
    }
    if (!IsSignedInteger(type)) return Cat("(", b, " == 0 ? 0 : ", a, " % ", b, ")");
    w.Use("mod_int");
    return Cat("mod_int(", a, ", ", b, ")");
  }
  if (op == "Pow") {
    if (is_float) return Cat(Math("pow", type), "(", a, ", (", ArithmeticC(type), ")", b, ")");
    if (!IsFloatType(b_type)) {
      w.Use("pow_int");
      return Cat("pow_int((int64_t)", a, ", (int64_t)", b, ")");
    }
    return Converted(w, Cat("pow((double)", a, ", (double)", b, ")"), DType::kDouble, type);
  }
  return {};
}

// One loop nest over the output; the body is given the operands' elements in variables p0, p1 …
template <class Body>
void EachElement(StepWriter& w, const std::vector<size_t>& operands, const Body& body) {
  const Operand& y = w.out[0];
  Nest nest{y.shape.ToVector(), {y.shape.Strides()}};
  for (size_t i : operands) {
    nest.strides.push_back(BroadcastStrides(w.in[i].shape, y.shape));
    if (w.in[i].shape == y.shape) w.MayOverwrite(i);
  }
  nest.Collapse();
  int opened = 0;
  std::vector<std::string> index = w.OpenNest(nest, "i", opened);
  std::vector<std::string> names;
  for (size_t k = 0; k < operands.size(); ++k) {
    const Operand& x = w.in[operands[k]];
    names.push_back(Cat("p", k));
    w.Line("const ", ArithmeticC(x.type), " p", k, " = ", w.Load(x, index[k + 1]), ";");
  }
  w.Line(w.Store(y, index[0], body(names)));
  w.Close(opened);
}

void WriteUnary(StepWriter& w) {
  EachElement(w, {0}, [&](const std::vector<std::string>& p) {
    std::string text = Unary(w, w.node.op_type, p[0], ArithmeticType(w.in[0].type));
    if (text.empty()) w.Refuse(Cat("not for ", Name(w.in[0].type)));
    return text;
  });
}

void WriteBinary(StepWriter& w) {
  EachElement(w, {0, 1}, [&](const std::vector<std::string>& p) {
    std::string text =
        Binary(w, w.node.op_type, p[0], p[1], ArithmeticType(w.in[0].type), ArithmeticType(w.in[1].type));
    if (text.empty()) w.Refuse(Cat("not for ", Name(w.in[0].type)));
    return text;
  });
}

void WriteVariadic(StepWriter& w) {
  std::vector<size_t> all;
  for (size_t i = 0; i < w.in.size(); ++i) all.push_back(i);
  const DType type = ArithmeticType(w.in[0].type);
  const std::string op = w.node.op_type == "Mean" ? "Sum" : w.node.op_type;
  EachElement(w, all, [&](const std::vector<std::string>& p) {
    std::string text = p[0];
    for (size_t i = 1; i < p.size(); ++i) {
      w.Line("const ", ArithmeticC(type), " q", i, " = (", ArithmeticC(type), ")(",
             Binary(w, op, text, p[i], type, type), ");");
      text = Cat("q", i);
    }
    return w.node.op_type == "Mean" ? Cat(text, " / ", p.size()) : text;
  });
}

void WriteWhere(StepWriter& w) {
  EachElement(w, {0, 1, 2}, [](const std::vector<std::string>& p) { return Cat(p[0], " ? ", p[1], " : ", p[2]); });
}

void WriteClip(StepWriter& w) {
  std::vector<size_t> operands = {0};
  if (w.Has(1)) operands.push_back(1);
  if (w.Has(2)) operands.push_back(2);
  EachElement(w, operands, [&](const std::vector<std::string>& p) {
    const std::string type(ArithmeticC(w.in[0].type));
    w.Line(type, " q = ", p[0], ";");
    size_t next = 1;
    if (w.Has(1)) w.Line("if (q < ", p[next], ") q = ", p[next], ";"), ++next;
    if (w.Has(2)) w.Line("if (q > ", p[next], ") q = ", p[next], ";");
    return std::string("q");
  });
}

void WriteCast(StepWriter& w) {
  const bool saturate = w.node.Int("saturate", 1) != 0;
  const DType from = w.in[0].type, to = w.out[0].type;
  if (IsComplex(from) || IsComplex(to) || from == DType::kString) w.Refuse("not between these types");
  EachElement(w, {0}, [&](const std::vector<std::string>& p) { return Converted(w, p[0], from, to, saturate); });
  if (const std::string mode = w.node.String("round_mode", "up");
      to == DType::kFloat8E8M0 && (mode != "up" || !saturate)) {
    w.Use("e8m0_round");
    const std::string call = Cat("e8m0_round(",
                                 mode == "down"      ? 1
                                 : mode == "nearest" ? 2
                                                     : 0,
                                 ", ", saturate ? 1 : 0, ", ");
    for (size_t at = w.text.find("e8m0_put("); at != std::string::npos; at = w.text.find("e8m0_put("))
      w.text.replace(at, 9, call);
  }
  if (!saturate)
    for (const char* name : {"e4m3_put", "e4m3z_put", "e5m2_put", "e5m2z_put"})
      for (size_t at = w.text.find(name); at != std::string::npos; at = w.text.find(name)) {
        std::string raw = std::string(name).substr(0, std::string_view(name).size() - 3) + "raw";
        w.text.replace(at, std::string_view(name).size(), raw);
        w.Use(raw);
      }
}

void WriteBitCast(StepWriter& w) {
  w.MayOverwrite(0);
  w.Line("memmove(", w.out[0].c, ", ", w.in[0].c, ", ", StorageBytes(w.out[0].type, w.out[0].size()), ");");
}

void WriteCopy(StepWriter& w) {
  if (w.out[0].size() > 0)
    w.Line("memcpy(", w.out[0].c, ", ", w.in[0].c, ", ", StorageBytes(w.out[0].type, w.out[0].size()), ");");
}

}  // namespace

std::string Converted(StepWriter& w, const std::string& number, DType from, DType to, bool) {
  if (to == DType::kBool) return Cat("(", number, " != 0)");
  const DType target = ArithmeticType(to);
  if (IsFloatType(from) && !IsFloatType(target)) {
    const bool wide = target == DType::kUInt32 || BitWidth(target) == 64;
    const char* helper = target == DType::kUInt64 ? "to_uint64" : wide ? "to_int64" : "to_int32";
    w.Use(helper);
    return Cat(helper, "((double)", number, ")");
  }
  if (IsSmallFloat(to) && !IsFloatType(from)) return Cat("(float)", number);
  if (IsSmallFloat(to)) return Cat("(float)", number);
  return number;
}

std::string ActivationText(StepWriter& w, const Activation& activation, const std::string& x) {
  Node node;
  switch (activation.kind) {
    case ActivationKind::kNone: return x;
    case ActivationKind::kRelu: return Cat("(", x, " < 0.0f ? 0.0f : ", x, ")");
    case ActivationKind::kClip: {
      const std::string low = Literal(activation.alpha, DType::kFloat), high = Literal(activation.beta, DType::kFloat);
      return Cat("(", x, " < ", low, " ? ", low, " : ", x, " > ", high, " ? ", high, " : ", x, ")");
    }
    case ActivationKind::kLeakyRelu: node.op_type = "LeakyRelu"; break;
    case ActivationKind::kSigmoid: node.op_type = "Sigmoid"; break;
    case ActivationKind::kSilu: node.op_type = "Swish"; break;
    case ActivationKind::kHardSigmoid: node.op_type = "HardSigmoid"; break;
    case ActivationKind::kHardSwish: node.op_type = "HardSwish"; break;
    case ActivationKind::kTanh: node.op_type = "Tanh"; break;
    case ActivationKind::kGelu: node.op_type = "Gelu"; break;
    case ActivationKind::kGeluTanh:
      node.op_type = "Gelu";
      node.Set("approximate", std::string("tanh"));
      break;
  }
  node.Set("alpha", activation.alpha);
  node.Set("beta", activation.beta);
  const StepWriter inner(node, w.options);
  return Unary(inner, node.op_type, x, DType::kFloat);
}

std::string UnaryText(const StepWriter& w, const std::string& op, const std::string& x, DType type) {
  return Unary(w, op, x, type);
}
std::string BinaryText(StepWriter& w, const std::string& op, const std::string& a, const std::string& b, DType type) {
  return Binary(w, op, a, b, type, type);
}

const std::vector<KernelEntry>& ElementwiseKernels() {
  static const std::vector<KernelEntry> kernels = [] {
    std::vector<KernelEntry> entries;
    for (const char* name : {"Abs",         "Neg",       "Sign",
                             "Relu",        "Not",       "BitwiseNot",
                             "Floor",       "Ceil",      "Round",
                             "IsNaN",       "IsInf",     "Exp",
                             "Log",         "Sqrt",      "Sin",
                             "Cos",         "Tan",       "Asin",
                             "Acos",        "Atan",      "Sinh",
                             "Cosh",        "Tanh",      "Asinh",
                             "Acosh",       "Atanh",     "Erf",
                             "Reciprocal",  "Sigmoid",   "Softplus",
                             "Softsign",    "LeakyRelu", "ThresholdedRelu",
                             "Elu",         "Celu",      "Selu",
                             "HardSigmoid", "HardSwish", "Swish",
                             "Mish",        "Gelu",      "Shrink"})
      entries.push_back({name, WriteUnary});
    for (const char* name :
         {"Add", "Sub", "Mul", "Div", "PRelu", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or",
          "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift", "Mod", "Pow"})
      entries.push_back({name, WriteBinary});
    for (const char* name : {"Sum", "Mean", "Max", "Min"}) entries.push_back({name, WriteVariadic});
    entries.insert(entries.end(), {{"Where", WriteWhere},
                                   {"Clip", WriteClip},
                                   {"Cast", WriteCast},
                                   {"CastLike", WriteCast},
                                   {"BitCast", WriteBitCast},
                                   {"Identity", WriteCopy},
                                   {"Reshape", WriteCopy}});
    return entries;
  }();
  return kernels;
}

}  // namespace ferry::c
