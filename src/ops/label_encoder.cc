#include <cmath>
#include <cstring>
#include <unordered_map>

#include "base/poll.h"
#include "ops/operator.h"
#include "ops/support/dispatch.h"
#include "ops/support/ml.h"
#include "ops/support/text.h"

namespace ferry {
namespace {

using KeyAndValueTypes = TypeList<std::string, int64_t, float, int32_t, int16_t, double>;

// The one attribute of the family PREFIX_tensor, PREFIX_strings, PREFIX_int64s, PREFIX_floats that is given, as a
// tensor.
Tensor ReadFamily(const Node& node, const std::string& prefix) {
  std::vector<Tensor> given;
  if (node.Has(prefix + "_tensor")) given.push_back(node.TensorAttribute(prefix + "_tensor"));
  if (auto strings = node.Strings(prefix + "_strings"); !strings.empty()) given.push_back(Tensor::FromVector(strings));
  if (auto ints = node.Ints(prefix + "_int64s"); !ints.empty()) given.push_back(Tensor::FromVector(ints));
  if (auto floats = node.Floats(prefix + "_floats"); !floats.empty()) given.push_back(Tensor::FromVector(floats));
  if (given.size() != 1)
    Fail(ErrorCode::kInvalidModel, "exactly one of the attributes '", prefix, "_*' must be given, got ", given.size());
  return given[0];
}

Tensor ReadDefault(const Node& node, DType type) {
  if (node.Has("default_tensor")) {
    const Tensor& given = node.TensorAttribute("default_tensor");
    Require(given.dtype() == type && given.size() == 1, "attribute 'default_tensor' must hold one ", type, ", holds ",
            given.size(), " of type ", given.dtype());
    return given;
  }
  switch (type) {
    case DType::kString: return Tensor::FromVector<std::string>({node.String("default_string", "_Unused")});
    case DType::kInt64: return Tensor::FromVector<int64_t>({node.Int("default_int64", -1)});
    case DType::kInt32: return Tensor::FromVector<int32_t>({-1});
    case DType::kInt16: return Tensor::FromVector<int16_t>({-1});
    case DType::kFloat: return Tensor::FromVector<float>({node.Float("default_float", -0.0f)});
    case DType::kDouble: return Tensor::FromVector<double>({-0.0});
    default: Fail(ErrorCode::kInvalidModel, "values of type ", type, " are not possible");
  }
}

// Keys of every type but string are looked up as double or int64, which hold them exactly.
struct Encoder {
  DType key_type;
  Tensor values;
  Tensor otherwise;
  std::unordered_map<std::string, int64_t> strings;
  std::unordered_map<int64_t, int64_t> ints;
  std::unordered_map<double, int64_t> floats;
  int64_t nan = -1;

  void Add(const std::string& key, int64_t place) { strings[key] = place; }
  void Add(int64_t key, int64_t place) { ints[key] = place; }
  void Add(double key, int64_t place) {
    if (std::isnan(key))
      nan = place;
    else
      floats[key] = place;
  }

  int64_t Find(const std::string& key) const { return FindIn(strings, key); }
  int64_t Find(int64_t key) const { return FindIn(ints, key); }
  int64_t Find(double key) const { return std::isnan(key) ? nan : FindIn(floats, key); }

  template <class Key>
  static int64_t FindIn(const std::unordered_map<Key, int64_t>& table, const Key& key) {
    auto it = table.find(key);
    return it == table.end() ? -1 : it->second;
  }
};

template <class T>
decltype(auto) AsKey(const T& value) {
  if constexpr (std::is_same_v<T, std::string>)
    return (value);
  else if constexpr (std::is_floating_point_v<T>)
    return static_cast<double>(value);
  else
    return static_cast<int64_t>(value);
}

Encoder ReadEncoder(const Node& node) {
  Tensor keys = ReadFamily(node, "keys");
  Encoder encoder{.key_type = keys.dtype(), .values = ReadFamily(node, "values")};
  encoder.otherwise = ReadDefault(node, encoder.values.dtype());
  Require(keys.size() == encoder.values.size(), "there are ", keys.size(), " keys and ", encoder.values.size(),
          " values");
  Dispatch(KeyAndValueTypes{}, keys.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < keys.size(); ++i) encoder.Add(AsKey(keys.Data<T>()[i]), i);
  });
  return encoder;
}

void ComputeLabelEncoder(OpContext& context) {
  const Tensor& x = context.Input(0);
  auto encoder = context.Prepared<Encoder>([&] { return ReadEncoder(context.node()); });
  Require(x.dtype() == encoder->key_type, "the keys are of type ", encoder->key_type, ", the input of type ",
          x.dtype());
  std::vector<int64_t> places(static_cast<size_t>(x.size()));
  Dispatch(KeyAndValueTypes{}, x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = x.Data<T>();
    Poll poll;
    for (size_t i = 0; i < places.size(); ++i, poll()) places[i] = encoder->Find(AsKey(from[i]));
  });
  Tensor& y = context.Output(0, encoder->values.dtype(), x.shape());
  Dispatch(KeyAndValueTypes{}, y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* values = encoder->values.Data<T>();
    const T& otherwise = *encoder->otherwise.Data<T>();
    T* to = y.MutableData<T>();
    Poll poll;
    for (size_t i = 0; i < places.size(); ++i, poll()) {
      const T& value = places[i] < 0 ? otherwise : values[places[i]];
      if constexpr (std::is_same_v<T, std::string>) ChargeText(y, value.size());
      to[i] = value;
    }
  });
}

void InferLabelEncoder(InferContext& context) {
  DType type = ReadFamily(context.node(), "values").dtype();
  const SymbolicShape* shape = context.InputShape(0);
  context.SetOutput(0, shape ? Type::Tensor(type, *shape) : Type::Tensor(type));
}

}  // namespace

FERRY_OPERATOR_IN(ml, LabelEncoder,
                  {.compute = ComputeLabelEncoder, .infer = InferLabelEncoder, .elementwise = Elementwise::kOfOne});

}  // namespace ferry
