// Every operator, given inputs and attributes of any kind, answers or refuses. What it must not do is read outside a
// tensor, divide by zero or run away: the sanitizer builds see that.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <climits>
#include <cmath>
#include <new>
#include <optional>
#include <random>

#include "onnx/schema.h"
#include "ops/infer_graph.h"
#include "tests/support/nodes.h"

namespace ferry {
namespace {

class AnyInput {
 public:
  explicit AnyInput(uint64_t seed) : random_(seed) {}

  // Mostly what the schema allows, so that kernels are reached, with any rank and small sizes.
  Value MakeValue(const Schema& schema, const SchemaParameter& parameter) {
    SchemaTypeSet types = schema.TypesOf(parameter);
    std::vector<DType> allowed;
    for (int i = 1; i < kDTypeCount; ++i)
      if (types.Contains(static_cast<SchemaTypeId>(i))) allowed.push_back(static_cast<DType>(i));
    if (allowed.empty()) return Sequence{};
    DType type =
        common_type_ != DType::kUndefined && types.Contains(static_cast<SchemaTypeId>(common_type_)) && Chance(9)
            ? common_type_
            : allowed[random_() % allowed.size()];
    common_type_ = type;
    Shape shape = common_shape_ && Chance(5) ? *common_shape_ : AnyShape();
    common_shape_ = shape;
    Tensor tensor = Tensor::Zeros(type, shape);
    if (type == DType::kInt64)
      for (int64_t i = 0; i < tensor.size(); ++i) tensor.MutableData<int64_t>()[i] = AnyInt();
    else if (type == DType::kInt32)
      for (int64_t i = 0; i < tensor.size(); ++i) tensor.MutableData<int32_t>()[i] = static_cast<int32_t>(AnyInt());
    else if (type == DType::kFloat)
      for (int64_t i = 0; i < tensor.size(); ++i) tensor.MutableData<float>()[i] = AnyFloat();
    return tensor;
  }

  Node MakeNode(const Schema& schema) {
    size_t most_inputs = std::min<size_t>(schema.max_inputs, schema.inputs().size() + 2);
    size_t inputs = most_inputs > schema.min_inputs && !Chance(5)
                        ? schema.min_inputs + random_() % (most_inputs - schema.min_inputs + 1)
                        : schema.min_inputs;
    size_t outputs = std::max<size_t>(1, std::min<size_t>(schema.max_outputs, schema.outputs().size()));
    std::vector<Attribute> attributes;
    for (const SchemaAttribute& attribute : schema.attributes())
      if (attribute.required || Chance(3)) AddAttribute(attribute, attributes);
    return testing::OneNode(std::string(schema.name()), inputs, std::move(attributes), schema.domain(), outputs);
  }

  bool Chance(int in_ten) { return static_cast<int>(random_() % 10) < in_ten; }

 private:
  Shape AnyShape() {
    Shape shape;
    for (size_t rank = random_() % 6; rank > 0; --rank) shape.push_back(static_cast<int64_t>(random_() % 5));
    return shape;
  }

  int64_t AnyInt() {
    static constexpr int64_t kExtremes[] = {INT64_MIN, INT64_MAX, INT32_MIN, INT32_MAX, -1, 0, 1, 1 << 20, -7};
    return Chance(2) ? kExtremes[random_() % std::size(kExtremes)] : static_cast<int64_t>(random_() % 6) - 1;
  }

  float AnyFloat() {
    static constexpr float kExtremes[] = {0.0f, -0.0f, 1e38f, -1e38f, 1e-38f, HUGE_VALF, -HUGE_VALF};
    return Chance(2) ? kExtremes[random_() % std::size(kExtremes)] : static_cast<float>(random_() % 100) / 10 - 5;
  }

  void AddAttribute(const SchemaAttribute& attribute, std::vector<Attribute>& attributes) {
    std::string name(attribute.name());
    size_t count = random_() % 5;
    switch (attribute.type) {
      case AttributeType::kInt: attributes.emplace_back(name, AnyInt()); break;
      case AttributeType::kFloat: attributes.emplace_back(name, AnyFloat()); break;
      case AttributeType::kString:
        if (attribute.has_default() && Chance(7))
          attributes.emplace_back(name, std::string(attribute.DefaultString()));
        else
          attributes.emplace_back(name, std::string("linear"));
        break;
      case AttributeType::kInts: {
        std::vector<int64_t> values(count);
        for (int64_t& value : values) value = AnyInt();
        attributes.emplace_back(name, std::move(values));
        break;
      }
      case AttributeType::kFloats: {
        std::vector<float> values(count);
        for (float& value : values) value = AnyFloat();
        attributes.emplace_back(name, std::move(values));
        break;
      }
      case AttributeType::kStrings: attributes.emplace_back(name, std::vector<std::string>(count, "a")); break;
      default: break;
    }
  }

  std::mt19937_64 random_;
  DType common_type_ = DType::kUndefined;
  std::optional<Shape> common_shape_;
};

// Larger results are right but slow to make, and say nothing new.
bool IsLarge(const std::vector<ValueFacts>& facts) {
  for (const ValueFacts& fact : facts) {
    if (!fact.type.shape) continue;
    Dim count = CountElements(*fact.type.shape);
    if (count.known() && *count.value > 100'000) return true;
  }
  return false;
}

void TryOnce(const Schema& schema, const Operator& op, uint64_t seed) {
  AnyInput any(seed);
  Node node = any.MakeNode(schema);
  std::vector<Value> values;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const SchemaParameter* parameter = schema.InputAt(i);
    if (!parameter) break;
    values.push_back(any.MakeValue(schema, *parameter));
  }
  std::vector<ValueFacts> facts;
  for (const Value& value : values) {
    ValueFacts fact{.type = TypeOf(value)};
    if (value.is_tensor() && any.Chance(5)) fact = FactsOf(value.tensor());
    facts.push_back(std::move(fact));
  }
  try {
    if (op.infer && IsLarge(testing::InferNode(node, facts))) return;
    testing::RunNode(node, values);
  } catch (const Error&) {
  } catch (const std::bad_alloc&) {
  }
}

std::vector<const Operator*> PlainOperators() {
  std::vector<const Operator*> plain;
  for (const Operator* op : AllOperators())
    if (!op->has_subgraphs && op->compute && FindSchema(op->domain, op->name, NewestOpset(op->domain)))
      plain.push_back(op);
  return plain;
}

// A result that is larger than the machine is refused by whoever gives out memory. A sanitizer keeps its own limit, and
// cannot live with this one.
class MemoryLimit {
 public:
  MemoryLimit() {
#if !defined(FERRY_SANITIZE_ADDRESS) && !defined(FERRY_SANITIZE_THREAD)
    getrlimit(RLIMIT_AS, &before_);
    rlimit limit = before_;
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, rlim_t{4} << 30);
    setrlimit(RLIMIT_AS, &limit);
  }
  ~MemoryLimit() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
#else
  }
#endif
};

class EveryOperator : public ::testing::TestWithParam<const Operator*> {
  MemoryLimit limit_;
};

TEST_P(EveryOperator, AnswersOrRefuses) {
  const Operator& op = *GetParam();
  const Schema& schema = *FindSchema(op.domain, op.name, NewestOpset(op.domain));
  for (uint64_t seed = 0; seed < 300; ++seed) TryOnce(schema, op, seed);
}

TEST_P(EveryOperator, AnswersOrRefusesAnyNumberOfInputsAndOutputs) {
  const Operator& op = *GetParam();
  std::vector<Value> numbers{Tensor::FromVector<float>({1, 2}), Tensor::FromVector<int64_t>({1, 0}),
                             Tensor::Zeros(DType::kBool, {})};
  for (const Value& value : numbers)
    for (size_t inputs = 0; inputs < 5; ++inputs)
      for (size_t outputs = 0; outputs < 4; ++outputs) {
        Node node = testing::OneNode(std::string(op.name), inputs, {}, op.domain, outputs);
        std::vector<ValueFacts> facts(inputs, FactsOf(value.tensor()));
        try {
          if (op.infer) testing::InferNode(node, facts);
        } catch (const Error&) {
        }
        testing::ErrorOf([&] { testing::RunNode(node, std::vector<Value>(inputs, value)); });
      }
}

INSTANTIATE_TEST_SUITE_P(AnyInput, EveryOperator, ::testing::ValuesIn(PlainOperators()), [](const auto& info) {
  return Cat(info.param->domain == kMicrosoftDomain ? "Microsoft" : "", info.param->name);
});

}  // namespace
}  // namespace ferry
