#include "onnx/schema.h"

#include <algorithm>

#include "onnx/schemas/tables.h"

namespace ferry {
namespace {

std::string_view Text(uint16_t offset) { return kSchemaTexts + offset; }

std::span<const Schema> SchemasOfDomain(std::string_view domain) {
  domain = CanonicalDomain(domain);
  for (size_t i = 0; i < kSchemaDomainCount; ++i)
    if (Text(kSchemaDomains[i].name_at) == domain)
      return {kSchemas + kSchemaDomains[i].first_schema, kSchemaDomains[i].schema_count};
  return {};
}

const SchemaParameter* ParameterAt(std::span<const SchemaParameter> formal, size_t i) {
  if (i < formal.size()) return &formal[i];
  if (!formal.empty() && formal.back().option == SchemaParameter::Option::kVariadic) return &formal.back();
  return nullptr;
}

}  // namespace

SchemaTypeId FindSchemaType(std::string_view name) {
  for (size_t id = 1; id < kSchemaTypeCount; ++id)
    if (Text(kSchemaTypeNames[id]) == name) return static_cast<SchemaTypeId>(id);
  return 0;
}

SchemaTypeId FindSchemaType(const Type& type) {
  if (type.is_tensor()) return static_cast<SchemaTypeId>(type.dtype);
  return type.known() ? FindSchemaType(OnnxTypeName(type)) : 0;
}

std::string_view SchemaTypeName(SchemaTypeId id) { return Text(kSchemaTypeNames[id < kSchemaTypeCount ? id : 0]); }
size_t SchemaTypeCount() { return kSchemaTypeCount; }

std::string_view SchemaParameter::name() const { return Text(name_at); }
std::string_view SchemaParameter::type() const { return Text(type_at); }

std::string_view SchemaAttribute::name() const { return Text(name_at); }
int64_t SchemaAttribute::DefaultInt() const { return kSchemaInts[default_at]; }
float SchemaAttribute::DefaultFloat() const { return kSchemaFloats[default_at]; }
std::string_view SchemaAttribute::DefaultString() const { return Text(default_at); }

Attribute::Held SchemaAttribute::Default() const {
  if (!has_default()) return {};
  switch (type) {
    case AttributeType::kInt: return DefaultInt();
    case AttributeType::kFloat: return DefaultFloat();
    case AttributeType::kString: return std::string(DefaultString());
    case AttributeType::kInts:
      return std::vector<int64_t>(kSchemaInts + default_at, kSchemaInts + default_at + default_count);
    case AttributeType::kFloats:
      return std::vector<float>(kSchemaFloats + default_at, kSchemaFloats + default_at + default_count);
    case AttributeType::kStrings: {
      std::vector<std::string> texts;
      for (size_t i = 0; i < default_count; ++i) texts.emplace_back(Text(kSchemaStrings[default_at + i]));
      return texts;
    }
    default: return {};
  }
}

std::string_view SchemaTypeConstraint::name() const { return Text(name_at); }
const SchemaTypeSet& SchemaTypeConstraint::types() const { return kSchemaTypeSets[set]; }

std::string_view Schema::name() const { return Text(name_at); }
std::string_view Schema::domain() const { return Text(kSchemaDomains[domain_number].name_at); }
std::span<const SchemaParameter> Schema::inputs() const { return {kSchemaParameters + first_input, input_count}; }
std::span<const SchemaParameter> Schema::outputs() const { return {kSchemaParameters + first_output, output_count}; }
std::span<const SchemaAttribute> Schema::attributes() const {
  return {kSchemaAttributes + first_attribute, attribute_count};
}
std::span<const SchemaTypeConstraint> Schema::constraints() const {
  return {kSchemaConstraints + first_constraint, constraint_count};
}

const SchemaAttribute* Schema::FindAttribute(std::string_view wanted) const {
  for (const SchemaAttribute& attribute : attributes())
    if (attribute.name() == wanted) return &attribute;
  return nullptr;
}

const SchemaParameter* Schema::InputAt(size_t i) const { return ParameterAt(inputs(), i); }
const SchemaParameter* Schema::OutputAt(size_t i) const { return ParameterAt(outputs(), i); }

SchemaTypeSet Schema::TypesOf(const SchemaParameter& parameter) const {
  for (const SchemaTypeConstraint& constraint : constraints())
    if (constraint.name_at == parameter.type_at) return constraint.types();
  SchemaTypeSet one{};
  if (SchemaTypeId id = FindSchemaType(parameter.type())) one.bits[id / 64] |= uint64_t{1} << (id % 64);
  return one;
}

std::span<const Schema> SchemaVersions(std::string_view domain, std::string_view op_type) {
  std::span<const Schema> all = SchemasOfDomain(domain);
  auto first = std::lower_bound(all.begin(), all.end(), op_type,
                                [](const Schema& schema, std::string_view name) { return schema.name() < name; });
  auto last = first;
  while (last != all.end() && last->name() == op_type) ++last;
  return {first, last};
}

const Schema* FindSchema(std::string_view domain, std::string_view op_type, int64_t opset) {
  const Schema* newest = nullptr;
  for (const Schema& schema : SchemaVersions(domain, op_type))
    if (schema.since_version <= opset) newest = &schema;
  return newest;
}

std::span<const Schema> AllSchemas() { return {kSchemas, kSchemaCount}; }

int64_t NewestOpset(std::string_view domain) {
  domain = CanonicalDomain(domain);
  for (size_t i = 0; i < kSchemaDomainCount; ++i)
    if (Text(kSchemaDomains[i].name_at) == domain) return kSchemaDomains[i].newest;
  return 0;
}

}  // namespace ferry
