#include "onnx/scope.h"

#include "onnx/aligned.h"
#include "onnx/schema.h"

namespace ferry {
namespace {

// Operators whose output has the element type that an attribute names.
constexpr std::pair<std::string_view, std::string_view> kTypeAttributes[] = {
    {"Cast", "to"},
    {"EyeLike", "dtype"},
    {"RandomNormal", "dtype"},
    {"RandomUniform", "dtype"},
    {"RandomNormalLike", "dtype"},
    {"RandomUniformLike", "dtype"},
    {"Multinomial", "dtype"},
    {"Bernoulli", "dtype"},
};

DType DTypeOfNumber(int64_t number) { return IsValidDType(number) ? static_cast<DType>(number) : DType::kUndefined; }

template <class T>
const T* ValueOf(const Node& node, std::string_view name) {
  const Attribute* attribute = node.Find(name);
  return attribute ? std::get_if<T>(&attribute->held) : nullptr;
}

// The one dense type of a set, if it has no other.
DType OnlyType(const SchemaTypeSet& types) {
  bool single = types.bits[1] == 0 && types.bits[0] != 0 && (types.bits[0] & (types.bits[0] - 1)) == 0;
  return single ? DTypeOfNumber(__builtin_ctzll(types.bits[0])) : DType::kUndefined;
}

}  // namespace

int64_t OpsetOf(const std::vector<OpsetImport>& opsets, std::string_view domain) {
  for (const OpsetImport& import : opsets)
    if (CanonicalDomain(import.domain) == CanonicalDomain(domain)) return import.version;
  return 0;
}

void Scope::Declare(const std::vector<ValueInfo>& values) {
  for (const ValueInfo& value : values)
    if (value.type.is_tensor() && value.type.dtype != DType::kUndefined) types_.emplace(value.name, value.type.dtype);
}

void Scope::Declare(const Graph& graph) {
  for (const StoredTensor& tensor : graph.initializers) {
    types_.emplace(tensor.name, tensor.dtype);
    initializers_.emplace(tensor.name, &tensor);
  }
  for (const ValueInfo& input : graph.inputs) initializers_.erase(input.name);
  Declare(graph.inputs);
  Declare(graph.value_infos);
  Declare(graph.outputs);
}

void Scope::CatchUp() {
  while (visited_ < entered_) Visit(nodes_[visited_++]);
}

DType Scope::TypeOf(const std::string& name) {
  CatchUp();
  auto it = types_.find(name);
  if (it != types_.end()) return it->second;
  return outer_ ? outer_->TypeOf(name) : DType::kUndefined;
}

std::optional<Tensor> Scope::ConstantOf(const std::string& name) {
  CatchUp();
  if (auto it = initializers_.find(name); it != initializers_.end()) return AlignedForUse(it->second->Get());
  auto it = constants_.find(name);
  if (it == constants_.end()) return outer_ ? outer_->ConstantOf(name) : std::nullopt;
  const Node& node = *it->second;
  if (node.attributes.size() != 1 || !node.attributes[0].ref_name.empty()) return std::nullopt;
  if (node.Has("value")) return AlignedForUse(node.TensorAttribute("value"));
  if (node.Has("value_int")) return Tensor::Scalar(node.Int("value_int", 0));
  if (node.Has("value_ints")) return Tensor::FromVector(node.Ints("value_ints"));
  if (node.Has("value_float")) return Tensor::Scalar(node.Float("value_float", 0));
  if (node.Has("value_floats")) return Tensor::FromVector(node.Floats("value_floats"));
  return std::nullopt;
}

void Scope::Visit(const Node& node) {
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    if (node.op_type == "Constant" && CanonicalDomain(node.domain).empty()) constants_.emplace(node.outputs[i], &node);
    if (types_.count(node.outputs[i])) continue;
    DType dtype = TypeOfOutput(node, i);
    if (dtype != DType::kUndefined) types_.emplace(node.outputs[i], dtype);
  }
}

DType Scope::TypeOfOutput(const Node& node, size_t i) {
  const Schema* schema = FindSchema(node.domain, node.op_type, OpsetOf(opsets_, node.domain));
  const SchemaParameter* output = schema ? schema->OutputAt(i) : nullptr;
  if (!output || !output->homogeneous) return DType::kUndefined;
  for (auto [op, attribute] : kTypeAttributes)
    if (op == node.op_type)
      if (const int64_t* number = ValueOf<int64_t>(node, attribute)) return DTypeOfNumber(*number);
  if (const auto* value = ValueOf<std::shared_ptr<StoredTensor>>(node, "value"); value && *value)
    return (*value)->dtype;
  if (node.Has("value_int") || node.Has("value_ints")) return DType::kInt64;
  if (node.Has("value_float") || node.Has("value_floats") || node.op_type == "ConstantOfShape") return DType::kFloat;
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    const SchemaParameter* input = schema->InputAt(k);
    if (!input || input->type_at != output->type_at || node.inputs[k].empty()) continue;
    auto it = types_.find(node.inputs[k]);
    DType dtype = it != types_.end() ? it->second : outer_ ? outer_->TypeOf(node.inputs[k]) : DType::kUndefined;
    if (dtype != DType::kUndefined) return dtype;
  }
  return OnlyType(schema->TypesOf(*output));
}

}  // namespace ferry
