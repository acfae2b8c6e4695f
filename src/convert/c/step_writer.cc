#include "convert/c/step_writer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace ferry::c {

void Nest::Collapse() {
  std::vector<int64_t> kept;
  std::vector<std::vector<int64_t>> kept_strides(strides.size());
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] == 1) continue;
    bool joins = !kept.empty();
    for (size_t o = 0; o < strides.size() && joins; ++o)
      joins = kept_strides[o].back() == strides[o][axis] * dims[axis];
    if (joins) {
      kept.back() *= dims[axis];
      for (size_t o = 0; o < strides.size(); ++o) kept_strides[o].back() = strides[o][axis];
    } else {
      kept.push_back(dims[axis]);
      for (size_t o = 0; o < strides.size(); ++o) kept_strides[o].push_back(strides[o][axis]);
    }
  }
  dims = std::move(kept);
  strides = std::move(kept_strides);
}

std::vector<int64_t> BroadcastStrides(const Shape& from, const Shape& to) {
  std::vector<int64_t> own = from.Strides(), strides(to.rank());
  Require(from.rank() <= to.rank(), "shape ", from, " cannot be spread to ", to);
  const size_t shift = to.rank() - from.rank();
  for (size_t axis = 0; axis < from.rank(); ++axis) strides[shift + axis] = from[axis] == 1 ? 0 : own[axis];
  return strides;
}

const Tensor& StepWriter::Constant(size_t i) const {
  Require(Has(i), Describe(node), ": input ", i, " is missing");
  if (!in[i].constant) throw NeedsValue{in[i].name};
  return *in[i].constant;
}

std::vector<int64_t> StepWriter::ConstantInts(size_t i) const { return ToInt64Vector(Constant(i)); }

void StepWriter::Refuse(std::string_view reason) const { Fail(ErrorCode::kUnsupported, Describe(node), ": ", reason); }

void StepWriter::AddLine(std::string_view line) {
  text.append(static_cast<size_t>(2 * depth_), ' ');
  text += line;
  text += '\n';
}

void StepWriter::Close(int count) {
  for (; count > 0; --count) {
    --depth_;
    AddLine("}");
  }
}

std::vector<std::string> StepWriter::OpenNest(const Nest& nest, std::string_view letter, int& opened) {
  opened = 0;
  for (size_t axis = 0; axis < nest.dims.size(); ++axis, ++opened) For(Cat(letter, axis), nest.dims[axis]);
  std::vector<std::string> indices;
  for (const std::vector<int64_t>& strides : nest.strides) {
    std::string index;
    for (size_t axis = 0; axis < strides.size(); ++axis) {
      if (strides[axis] == 0) continue;
      if (!index.empty()) index += " + ";
      index += strides[axis] == 1 ? Cat(letter, axis) : Cat(letter, axis, " * ", strides[axis]);
    }
    indices.push_back(index.empty() ? "0" : index);
  }
  return indices;
}

void StepWriter::Use(std::string_view helper) {
  if (std::find(helpers.begin(), helpers.end(), helper) == helpers.end()) helpers.emplace_back(helper);
}

std::string StepWriter::Scratch(DType type, int64_t count) {
  scratch.push_back({Cat("s", scratch.size()), type, Shape{std::max<int64_t>(count, 1)}, nullptr, {}});
  return scratch.back().c;
}

std::string StepWriter::Table(Tensor tensor) {
  tables.push_back({Cat("t", tables.size()), tensor.dtype(), tensor.shape(), nullptr, {}});
  table_tensors.push_back(std::move(tensor));
  return tables.back().c;
}

std::string_view StoredType(DType type) {
  switch (type) {
    case DType::kFloat:
    case DType::kComplex64: return "float";
    case DType::kDouble:
    case DType::kComplex128: return "double";
    case DType::kInt8: return "int8_t";
    case DType::kInt16: return "int16_t";
    case DType::kUInt16:
    case DType::kFloat16:
    case DType::kBFloat16: return "uint16_t";
    case DType::kInt32: return "int32_t";
    case DType::kInt64: return "int64_t";
    case DType::kUInt32: return "uint32_t";
    case DType::kUInt64: return "uint64_t";
    default: return "uint8_t";
  }
}

DType ArithmeticType(DType type) {
  if (IsSmallFloat(type)) return DType::kFloat;
  if (IsPacked(type)) return IsSignedInteger(type) ? DType::kInt8 : DType::kUInt8;
  return type;
}

bool IsFloatType(DType type) { return IsFloating(type); }

std::string Literal(double number, DType type) {
  type = ArithmeticType(type);
  if (!IsFloating(type)) {
    if (type == DType::kUInt64) return Cat("UINT64_C(", static_cast<uint64_t>(number), ")");
    return IntegerLiteral(static_cast<int64_t>(number));
  }
  const bool is_float = type == DType::kFloat;
  if (std::isnan(number)) return is_float ? "NAN" : "(double)NAN";
  if (std::isinf(number)) return Cat(is_float ? "" : "(double)", number < 0 ? "(-INFINITY)" : "INFINITY");
  char text[64];
  for (int digits = 6; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, number);
    const double back = std::strtod(text, nullptr);
    if (is_float ? static_cast<float>(back) == static_cast<float>(number) : back == number) break;
  }
  if (!std::strpbrk(text, ".en")) std::strcat(text, ".0");
  if (is_float) std::strcat(text, "f");
  return number < 0 ? Cat("(", text, ")") : text;
}

std::string IntegerLiteral(int64_t number) {
  if (number == INT64_MIN) return "INT64_MIN";
  if (number > INT32_MAX || number < -INT32_MAX) return Cat("INT64_C(", number, ")");
  return number < 0 ? Cat("(", number, ")") : Cat(number);
}

std::string Math(std::string_view name, DType type) {
  return ArithmeticType(type) == DType::kDouble ? std::string(name) : Cat(name, "f");
}

namespace {

struct SmallFloat {
  DType type;
  const char *get, *put;
};
constexpr SmallFloat kSmallFloats[] = {
    {DType::kFloat16, "half_get", "half_put"},      {DType::kBFloat16, "bfloat_get", "bfloat_put"},
    {DType::kFloat8E4M3FN, "e4m3_get", "e4m3_put"}, {DType::kFloat8E4M3FNUZ, "e4m3z_get", "e4m3z_put"},
    {DType::kFloat8E5M2, "e5m2_get", "e5m2_put"},   {DType::kFloat8E5M2FNUZ, "e5m2z_get", "e5m2z_put"},
    {DType::kFloat8E8M0, "e8m0_get", "e8m0_put"},
};

const SmallFloat* FindSmallFloat(DType type) {
  for (const SmallFloat& small : kSmallFloats)
    if (small.type == type) return &small;
  return nullptr;
}

}  // namespace

std::string StepWriter::Load(const Operand& operand, std::string_view index) {
  if (const SmallFloat* small = FindSmallFloat(operand.type)) {
    Use(small->get);
    return Cat(small->get, "(", operand.c, "[", index, "])");
  }
  switch (operand.type) {
    case DType::kInt4: Use("int4_get"); return Cat("int4_get(", operand.c, ", ", index, ")");
    case DType::kUInt4: Use("uint4_get"); return Cat("uint4_get(", operand.c, ", ", index, ")");
    case DType::kInt2: Use("int2_get"); return Cat("int2_get(", operand.c, ", ", index, ")");
    case DType::kUInt2: Use("uint2_get"); return Cat("uint2_get(", operand.c, ", ", index, ")");
    case DType::kFloat4E2M1: Use("float4_get"); return Cat("float4_get(", operand.c, ", ", index, ")");
    case DType::kFloat6E2M3:
    case DType::kFloat6E3M2: Refuse("6-bit floats are not written as C");
    default: return Cat(operand.c, "[", index, "]");
  }
}

std::string StepWriter::Rounded(const std::string& number, DType type) {
  const SmallFloat* small = FindSmallFloat(type);
  if (!small) return number;
  Use(small->get), Use(small->put);
  return Cat(small->get, "(", small->put, "(", number, "))");
}

std::string StepWriter::Store(const Operand& operand, std::string_view index, std::string_view number) {
  if (const SmallFloat* small = FindSmallFloat(operand.type)) {
    Use(small->put);
    return Cat(operand.c, "[", index, "] = ", small->put, "(", number, ");");
  }
  switch (operand.type) {
    case DType::kInt4:
    case DType::kUInt4:
      Use("nibble_put");
      return Cat("nibble_put(", operand.c, ", ", index, ", (uint8_t)(", number, "));");
    case DType::kInt2:
    case DType::kUInt2:
      Use("crumb_put");
      return Cat("crumb_put(", operand.c, ", ", index, ", (uint8_t)(", number, "));");
    case DType::kFloat4E2M1:
      Use("float4_put");
      return Cat("nibble_put(", operand.c, ", ", index, ", float4_put(", number, "));");
    case DType::kFloat6E2M3:
    case DType::kFloat6E3M2: Refuse("6-bit floats are not written as C");
    default: return Cat(operand.c, "[", index, "] = (", StoredType(operand.type), ")(", number, ");");
  }
}

}  // namespace ferry::c
