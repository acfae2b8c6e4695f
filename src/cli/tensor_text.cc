#include "cli/tensor_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/text.h"
#include "measure/elements.h"
#include "ops/infer_graph.h"

namespace ferry::cli {
namespace {

constexpr int64_t kPrintedWhole = 100;
constexpr int64_t kJsonWhole = 10000;
constexpr int64_t kCorner = 3;

// One element of a plain tensor (see PlainElements) as JSON.
Json Element(const Tensor& tensor, int64_t i) {
  auto complex = [](auto z) { return Json(Json::Array{Json(z.real()), Json(z.imag())}); };
  switch (tensor.dtype()) {
    case DType::kFloat: return tensor.Data<float>()[i];
    case DType::kDouble: return tensor.Data<double>()[i];
    case DType::kString: return tensor.Data<std::string>()[i];
    case DType::kBool: return tensor.Data<bool>()[i];
    case DType::kUInt64: return tensor.Data<uint64_t>()[i];
    case DType::kComplex64: return complex(tensor.Data<std::complex<float>>()[i]);
    case DType::kComplex128: return complex(tensor.Data<std::complex<double>>()[i]);
    default: return ToInt64Vector(tensor.Reshaped({tensor.size()}).Rows(i, 1))[0];
  }
}

std::string ElementText(const Tensor& tensor, int64_t i) {
  if (tensor.dtype() == DType::kString) return Cat("'", Printable(tensor.Data<std::string>()[i], 60), "'");
  Json element = Element(tensor, i);
  if (!element.is_number()) return element.Dump(-1);
  if (element.is_integer()) return element.Dump(-1);
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", element.AsDouble());
  return text;
}

void AppendNested(std::string& out, const Tensor& tensor, size_t axis, int64_t begin, int64_t count,
                  std::string_view indent) {
  if (axis == tensor.rank()) {
    out += ElementText(tensor, begin);
    return;
  }
  int64_t rows = tensor.dim(axis);
  int64_t row = rows == 0 ? 0 : count / rows;
  bool only_corners = tensor.size() > kPrintedWhole && rows > 2 * kCorner;
  bool is_last = axis + 1 == tensor.rank();
  out += '[';
  for (int64_t i = 0; i < rows; ++i) {
    if (i > 0) out += is_last ? std::string(", ") : Cat(",\n", indent, std::string(axis + 1, ' '));
    if (only_corners && i == kCorner) {
      out += is_last ? std::string("…, ") : Cat("…,\n", indent, std::string(axis + 1, ' '));
      i = rows - kCorner;
    }
    AppendNested(out, tensor, axis + 1, begin + i * row, row, indent);
  }
  out += ']';
}

struct Spread {
  double least = 0, most = 0, mean = 0;
};

Spread SpreadOf(const Tensor& tensor) {
  Spread spread{INFINITY, -INFINITY, 0};
  for (double value : ToDoubles(tensor)) {
    spread.least = std::min(spread.least, value);
    spread.most = std::max(spread.most, value);
    spread.mean += value / static_cast<double>(tensor.size());
  }
  return spread;
}

bool HasSpread(const Tensor& tensor) { return IsFloating(tensor.dtype()) || IsInteger(tensor.dtype()); }

std::string FormatTensor(const Tensor& tensor, std::string_view indent) {
  if (tensor.size() == 0) return Cat(indent, "(no elements)\n");
  Tensor plain = PlainElements(tensor);
  std::string out(indent);
  AppendNested(out, plain, 0, 0, plain.size(), indent);
  out += '\n';
  if (plain.size() > kPrintedWhole && HasSpread(plain)) {
    Spread spread = SpreadOf(plain);
    out += Cat(indent, "least ", spread.least, ", largest ", spread.most, ", mean ", spread.mean, "\n");
  }
  return out;
}

}  // namespace

std::string FormatValue(const Value& value, std::string_view indent) {
  if (value.is_tensor()) return FormatTensor(value.tensor(), indent);
  std::string deeper = Cat(indent, "  ");
  std::string out;
  if (value.is_sequence()) {
    for (const Value& element : value.sequence().elements) out += FormatValue(element, deeper);
    return out.empty() ? Cat(indent, "(an empty sequence)\n") : out;
  }
  if (value.is_map()) return FormatTensor(value.map().keys, indent) + FormatTensor(value.map().values, indent);
  if (value.is_sparse())
    return FormatTensor(value.sparse().indices, indent) + FormatTensor(value.sparse().values, indent);
  return Cat(indent, "(", value.KindName(), ")\n");
}

Json ValueToJson(const Value& value) {
  Json json;
  json.Set("type", ToText(TypeOf(value)));
  if (value.is_tensor()) {
    json.Set("shape", Json::List(value.tensor().shape().ToVector()));
    Tensor plain = PlainElements(value.tensor());
    if (plain.size() <= kJsonWhole) {
      Json values = Json::Array{};
      for (int64_t i = 0; i < plain.size(); ++i) values.Add(Element(plain, i));
      json.Set("values", std::move(values));
    } else if (HasSpread(plain)) {
      Spread spread = SpreadOf(plain);
      json.Set("least", spread.least).Set("largest", spread.most).Set("mean", spread.mean);
    }
  } else if (value.is_sequence()) {
    Json elements = Json::Array{};
    for (const Value& element : value.sequence().elements) elements.Add(ValueToJson(element));
    json.Set("elements", std::move(elements));
  } else if (value.is_map()) {
    json.Set("keys", ValueToJson(value.map().keys)).Set("values", ValueToJson(value.map().values));
  } else if (value.is_sparse()) {
    json.Set("shape", Json::List(value.sparse().shape.ToVector()));
    json.Set("indices", ValueToJson(value.sparse().indices)).Set("values", ValueToJson(value.sparse().values));
  }
  return json;
}

}  // namespace ferry::cli
