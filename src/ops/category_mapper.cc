#include <unordered_map>

#include "ops/operator.h"

namespace ferry {
namespace {

struct Mapping {
  std::unordered_map<std::string, int64_t> to_int;
  std::unordered_map<int64_t, std::string> to_string;
  int64_t default_int = -1;
  std::string default_string;
};

Mapping ReadMapping(const Node& node) {
  std::vector<int64_t> ints = node.Ints("cats_int64s");
  std::vector<std::string> strings = node.Strings("cats_strings");
  Require(ints.size() == strings.size(),
          "attributes 'cats_int64s' and 'cats_strings' have different lengths: ", ints.size(), " and ", strings.size());
  Mapping mapping{.default_int = node.Int("default_int64", -1),
                  .default_string = node.String("default_string", "_Unused")};
  for (size_t i = 0; i < ints.size(); ++i) {
    mapping.to_int[strings[i]] = ints[i];
    mapping.to_string[ints[i]] = strings[i];
  }
  return mapping;
}

template <class From, class To>
void MapAll(const Tensor& x, Tensor& y, const std::unordered_map<From, To>& table, const To& otherwise) {
  const From* from = x.Data<From>();
  To* to = y.MutableData<To>();
  for (int64_t i = 0; i < x.size(); ++i) {
    auto it = table.find(from[i]);
    to[i] = it == table.end() ? otherwise : it->second;
  }
}

DType MappedType(DType from) {
  if (from == DType::kString) return DType::kInt64;
  if (from == DType::kInt64) return DType::kString;
  Fail(ErrorCode::kInvalidArgument, "the input must hold strings or int64, is ", from);
}

void ComputeCategoryMapper(OpContext& context) {
  const Tensor& x = context.Input(0);
  auto mapping = context.Prepared<Mapping>([&] { return ReadMapping(context.node()); });
  Tensor& y = context.Output(0, MappedType(x.dtype()), x.shape());
  if (x.dtype() == DType::kString)
    MapAll(x, y, mapping->to_int, mapping->default_int);
  else
    MapAll(x, y, mapping->to_string, mapping->default_string);
}

void InferCategoryMapper(InferContext& context) {
  Type type = context.InputType(0);
  if (!type.is_tensor()) return;
  type.dtype = MappedType(type.dtype);
  context.SetOutput(0, std::move(type));
}

}  // namespace

FERRY_OPERATOR_IN(ml, CategoryMapper,
                  {.compute = ComputeCategoryMapper, .infer = InferCategoryMapper, .elementwise = Elementwise::kOfOne});

}  // namespace ferry
