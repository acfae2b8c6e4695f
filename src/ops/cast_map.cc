#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "ops/operator.h"

namespace ferry {
namespace {

DType TargetType(const Node& node) {
  std::string name = node.String("cast_to", "TO_FLOAT");
  if (name == "TO_FLOAT") return DType::kFloat;
  if (name == "TO_STRING") return DType::kString;
  if (name == "TO_INT64") return DType::kInt64;
  Fail(ErrorCode::kInvalidModel, "attribute 'cast_to' must be TO_FLOAT, TO_STRING or TO_INT64, is '", Printable(name),
       "'");
}

bool IsSparse(const Node& node) {
  std::string form = node.String("map_form", "DENSE");
  if (form != "DENSE" && form != "SPARSE")
    Fail(ErrorCode::kInvalidModel, "attribute 'map_form' must be DENSE or SPARSE, is '", Printable(form), "'");
  return form == "SPARSE";
}

// The shortest decimal that reads back as the same float.
std::string FloatText(float value) {
  char text[40];
  for (int digits = 6; digits <= 9; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, static_cast<double>(value));
    if (std::strtof(text, nullptr) == value) break;
  }
  return text;
}

template <class Number, class Parse>
Number ParseNumber(const std::string& text, const Parse& parse) {
  char* end = nullptr;
  errno = 0;
  Number value = parse(text.c_str(), &end);
  Require(!text.empty() && *end == '\0' && errno == 0, "'", Printable(text), "' is not a number of the asked type");
  return value;
}

void Store(Tensor& y, int64_t place, const std::string& value) {
  switch (y.dtype()) {
    case DType::kString: y.MutableData<std::string>()[place] = value; break;
    case DType::kInt64:
      y.MutableData<int64_t>()[place] =
          ParseNumber<int64_t>(value, [](const char* text, char** end) { return std::strtoll(text, end, 10); });
      break;
    default: y.MutableData<float>()[place] = ParseNumber<float>(value, std::strtof); break;
  }
}

void Store(Tensor& y, int64_t place, float value) {
  switch (y.dtype()) {
    case DType::kString: y.MutableData<std::string>()[place] = FloatText(value); break;
    case DType::kInt64:
      Require(std::abs(value) < 9.2e18f, value, " does not fit in int64");
      y.MutableData<int64_t>()[place] = static_cast<int64_t>(value);
      break;
    default: y.MutableData<float>()[place] = value; break;
  }
}

Tensor ZeroVector(DType type, int64_t length) {
  return type == DType::kString ? Tensor(type, {length}) : Tensor::Zeros(type, {length});
}

void ComputeCastMap(OpContext& context) {
  const Map& map = context.InputValue(0).map();
  const Node& node = context.node();
  const int64_t* keys = map.keys.Data<int64_t>();
  bool sparse = IsSparse(node);
  int64_t length = sparse ? node.Int("max_map", 1) : map.keys.size();
  Require(length >= 0, "attribute 'max_map' must not be negative, is ", length);
  Require(map.values.size() == map.keys.size(), "the map has ", map.keys.size(), " keys and ", map.values.size(),
          " values");
  std::vector<int64_t> order(static_cast<size_t>(map.keys.size()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return keys[a] < keys[b]; });
  Tensor y = ZeroVector(TargetType(node), length);
  for (size_t i = 0; i < order.size(); ++i) {
    int64_t key = keys[order[i]];
    Require(!sparse || (key >= 0 && key < length), "key ", key, " is outside [0, max_map = ", length, ")");
    int64_t place = sparse ? key : static_cast<int64_t>(i);
    if (map.values.dtype() == DType::kString)
      Store(y, place, map.values.Data<std::string>()[order[i]]);
    else
      Store(y, place, map.values.Data<float>()[order[i]]);
  }
  context.SetOutput(0, std::move(y));
}

void InferCastMap(InferContext& context) {
  Dim length = IsSparse(context.node()) ? Dim(context.node().Int("max_map", 1)) : Dim();
  context.SetOutput(0, TargetType(context.node()), {length});
}

}  // namespace

FERRY_OPERATOR_IN(ml, CastMap, {.compute = ComputeCastMap, .infer = InferCastMap});

}  // namespace ferry
