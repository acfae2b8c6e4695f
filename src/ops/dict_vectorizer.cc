#include <unordered_map>

#include "ops/operator.h"
#include "ops/support/dispatch.h"
#include "ops/support/ml.h"

namespace ferry {
namespace {

template <class Key>
std::vector<int64_t> PlacesOf(const Tensor& keys, const std::vector<Key>& vocabulary) {
  std::unordered_map<Key, int64_t> place_of;
  for (size_t i = 0; i < vocabulary.size(); ++i) place_of[vocabulary[i]] = static_cast<int64_t>(i);
  std::vector<int64_t> places;
  for (const Key& key : keys.Span<Key>()) {
    auto it = place_of.find(key);
    if (it == place_of.end()) Fail(ErrorCode::kInvalidArgument, "key '", key, "' is not in the vocabulary");
    places.push_back(it->second);
  }
  return places;
}

void ComputeDictVectorizer(OpContext& context) {
  const Map& map = context.InputValue(0).map();
  ClassLabels vocabulary = ReadClassLabels(context.node(), "int64_vocabulary", "string_vocabulary");
  Require(map.keys.dtype() == vocabulary.dtype(), "the vocabulary is of type ", vocabulary.dtype(),
          ", the keys of type ", map.keys.dtype());
  Require(map.values.size() == map.keys.size(), "the map has ", map.keys.size(), " keys and ", map.values.size(),
          " values");
  std::vector<int64_t> places =
      vocabulary.strings.empty() ? PlacesOf(map.keys, vocabulary.ints) : PlacesOf(map.keys, vocabulary.strings);
  Tensor& y = context.Output(0, map.values.dtype(), {1, static_cast<int64_t>(vocabulary.size())});
  Dispatch(TypeList<int64_t, float, double, std::string>{}, y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* to = y.MutableData<T>();
    std::fill_n(to, y.size(), T{});
    for (size_t i = 0; i < places.size(); ++i) to[places[i]] = map.values.Data<T>()[i];
  });
}

void InferDictVectorizer(InferContext& context) {
  const Type& map = context.InputType(0);
  if (map.kind != Type::Kind::kMap || !map.element) return;
  auto length = static_cast<int64_t>(ReadClassLabels(context.node(), "int64_vocabulary", "string_vocabulary").size());
  context.SetOutput(0, map.element->dtype, {1, length});
}

}  // namespace

FERRY_OPERATOR_IN(ml, DictVectorizer, {.compute = ComputeDictVectorizer, .infer = InferDictVectorizer});

}  // namespace ferry
