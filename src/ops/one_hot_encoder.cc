#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "ops/operator.h"
#include "ops/support/ml.h"

namespace ferry {
namespace {

struct Categories {
  std::unordered_map<std::string, int64_t> strings;
  std::unordered_map<int64_t, int64_t> ints;
  int64_t count = 0;
};

Categories ReadCategories(const Node& node) {
  ClassLabels listed = ReadClassLabels(node, "cats_int64s", "cats_strings");
  Categories categories;
  categories.count = static_cast<int64_t>(listed.size());
  for (size_t i = 0; i < listed.strings.size(); ++i) categories.strings[listed.strings[i]] = static_cast<int64_t>(i);
  for (size_t i = 0; i < listed.ints.size(); ++i) categories.ints[listed.ints[i]] = static_cast<int64_t>(i);
  return categories;
}

template <class Key>
int64_t Find(const std::unordered_map<Key, int64_t>& places, const Key& key) {
  auto it = places.find(key);
  return it == places.end() ? -1 : it->second;
}

// The place of each element among the categories, -1 for none.
std::vector<int64_t> Places(const Tensor& x, const Categories& categories) {
  std::vector<int64_t> places;
  places.reserve(static_cast<size_t>(x.size()));
  if (x.dtype() == DType::kString) {
    Require(!categories.strings.empty() || categories.count == 0, "strings need the attribute 'cats_strings'");
    for (const std::string& value : x.Span<std::string>()) places.push_back(Find(categories.strings, value));
    return places;
  }
  Require(categories.strings.empty(), "the categories are strings, the input is of type ", x.dtype());
  if (x.dtype() == DType::kInt64) {
    for (int64_t value : x.Span<int64_t>()) places.push_back(Find(categories.ints, value));
    return places;
  }
  constexpr double kLimit = 9.2e18;
  for (double value : AsDoubles(x))
    places.push_back(std::abs(value) < kLimit ? Find(categories.ints, static_cast<int64_t>(value)) : -1);
  return places;
}

void ComputeOneHotEncoder(OpContext& context) {
  const Tensor& x = context.Input(0);
  auto categories = context.Prepared<Categories>([&] { return ReadCategories(context.node()); });
  bool zeros_allowed = context.node().Int("zeros", 1) != 0;
  std::vector<int64_t> places = Places(x, *categories);
  Shape shape = x.shape();
  shape.push_back(categories->count);
  Tensor& y = context.Output(0, DType::kFloat, shape);
  float* to = y.MutableData<float>();
  std::fill_n(to, y.size(), 0.0f);
  for (size_t i = 0; i < places.size(); ++i) {
    Require(places[i] >= 0 || zeros_allowed, "element ", i, " is none of the categories, and 'zeros' is 0");
    if (places[i] >= 0) to[static_cast<int64_t>(i) * categories->count + places[i]] = 1.0f;
  }
}

void InferOneHotEncoder(InferContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  if (!x) return context.SetOutput(0, DType::kFloat);
  SymbolicShape shape = *x;
  shape.push_back(static_cast<int64_t>(ReadClassLabels(context.node(), "cats_int64s", "cats_strings").size()));
  context.SetOutput(0, DType::kFloat, std::move(shape));
}

}  // namespace

FERRY_OPERATOR_IN(ml, OneHotEncoder, {.compute = ComputeOneHotEncoder, .infer = InferOneHotEncoder});

}  // namespace ferry
