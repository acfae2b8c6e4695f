#include "onnx/scope.h"

#include "graph/standard.h"
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

SchemaTypeId TensorOf(int64_t number) { return IsValidDType(number) ? static_cast<SchemaTypeId>(number) : 0; }
SchemaTypeId TensorOf(DType dtype) { return TensorOf(static_cast<int64_t>(dtype)); }

template <class T>
const T* ValueOf(const Node& node, std::string_view name) {
  const Attribute* attribute = node.Find(name);
  return attribute ? std::get_if<T>(&attribute->held) : nullptr;
}

// The one type of a set that has no other.
SchemaTypeId OnlyType(const SchemaTypeSet& types) {
  if (__builtin_popcountll(types.bits[0]) + __builtin_popcountll(types.bits[1]) != 1) return 0;
  int bit = types.bits[0] ? __builtin_ctzll(types.bits[0]) : 64 + __builtin_ctzll(types.bits[1]);
  return static_cast<SchemaTypeId>(bit);
}

}  // namespace

int64_t OpsetOf(const std::vector<OpsetImport>& opsets, std::string_view domain) {
  for (const OpsetImport& import : opsets)
    if (CanonicalDomain(import.domain) == CanonicalDomain(domain)) return import.version;
  return 0;
}

void Scope::Declare(const std::vector<ValueInfo>& values) {
  for (const ValueInfo& value : values)
    if (SchemaTypeId id = FindSchemaType(value.type)) declared_.emplace(value.name, id);
}

void Scope::Declare(const Graph& graph) {
  for (const StoredTensor& tensor : graph.initializers) {
    if (SchemaTypeId id = TensorOf(tensor.dtype)) types_.emplace(tensor.name, id);
    initializers_.emplace(tensor.name, &tensor);
  }
  for (const ValueInfo& input : graph.inputs) initializers_.erase(input.name);
  Declare(graph.inputs);
  Declare(graph.value_infos);
  Declare(graph.outputs);
}

void Scope::CatchUp() {
  if (catching_up_) return;
  catching_up_ = true;
  while (visited_ < entered_) Visit(nodes_[visited_++]);
  catching_up_ = false;
}

SchemaTypeId Scope::TypeIdOf(const std::string& name) {
  CatchUp();
  auto it = types_.find(name);
  if (it != types_.end()) return it->second;
  if (SchemaTypeId id = DeclaredIdOf(name)) return id;
  return outer_ ? outer_->TypeIdOf(name) : SchemaTypeId{0};
}

SchemaTypeId Scope::DeclaredIdOf(const std::string& name) const {
  auto it = declared_.find(name);
  return it != declared_.end() ? it->second : SchemaTypeId{0};
}

DType Scope::TypeOf(const std::string& name) {
  SchemaTypeId id = TypeIdOf(name);
  return id < kDTypeCount ? static_cast<DType>(id) : DType::kUndefined;
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
    if (IsStandard(node, "Constant")) constants_.emplace(node.outputs[i], &node);
    if (types_.count(node.outputs[i])) continue;
    if (SchemaTypeId id = TypeOfOutput(node, i)) types_.emplace(node.outputs[i], id);
  }
}

SchemaTypeId Scope::TypeOfOutput(const Node& node, size_t i) {
  const Schema* schema = FindSchema(node.domain, node.op_type, OpsetOf(opsets_, node.domain));
  const SchemaParameter* output = schema ? schema->OutputAt(i) : nullptr;
  if (!output || !output->homogeneous) return 0;
  for (auto [op, attribute] : kTypeAttributes)
    if (op == node.op_type)
      if (const int64_t* number = ValueOf<int64_t>(node, attribute)) return TensorOf(*number);
  if (const auto* value = ValueOf<std::shared_ptr<StoredTensor>>(node, "value"); value && *value)
    return TensorOf((*value)->dtype);
  if (node.op_type == "Constant" && (node.Has("value_int") || node.Has("value_ints"))) return TensorOf(DType::kInt64);
  if (node.op_type == "Constant" && (node.Has("value_float") || node.Has("value_floats")))
    return TensorOf(DType::kFloat);
  if (node.op_type == "ConstantOfShape") return TensorOf(DType::kFloat);
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    const SchemaParameter* input = schema->InputAt(k);
    if (!input || input->type_at != output->type_at || node.inputs[k].empty()) continue;
    SchemaTypeId id = TypeIdOf(node.inputs[k]);
    if (id) return schema->TypesOf(*output).Contains(id) ? id : SchemaTypeId{0};
  }
  return OnlyType(schema->TypesOf(*output));
}

}  // namespace ferry
