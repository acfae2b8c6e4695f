// What the ONNX standard says about every version of every operator: the facts, not the meaning.
//
// The records lie in constant tables (src/onnx/schemas/, written by scripts/generate-schemas) that refer to each other
// by offsets: nothing is built or relocated when a program starts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "graph/model.h"

namespace ferry {

// One entry in the list of types that schemas speak of: "tensor(float)", "seq(tensor(int64))". For dense tensors the
// number is the DType's; other types follow. 0 means a type no schema names.
using SchemaTypeId = uint8_t;
SchemaTypeId FindSchemaType(const Type& type);
SchemaTypeId FindSchemaType(std::string_view name);
std::string_view SchemaTypeName(SchemaTypeId id);
size_t SchemaTypeCount();  // ids are below this

struct SchemaTypeSet {
  uint64_t bits[2];

  bool Contains(SchemaTypeId id) const { return id != 0 && id < 128 && (bits[id / 64] >> (id % 64) & 1); }
};

// A formal input or output.
struct SchemaParameter {
  enum class Option : uint8_t { kSingle, kOptional, kVariadic };

  std::string_view name() const;
  std::string_view type() const;  // the name of a type constraint ("T") or a type itself ("tensor(int64)")

  uint16_t name_at;
  uint16_t type_at;
  Option option;
  bool homogeneous;   // variadic: all of one type
  uint8_t min_arity;  // variadic: how many at least
};

struct SchemaAttribute {
  std::string_view name() const;
  bool has_default() const { return default_count != kNoDefault; }
  // The default, each for its own type; to be called only when there is one.
  int64_t DefaultInt() const;
  float DefaultFloat() const;
  std::string_view DefaultString() const;
  // The default as an attribute's value: monostate when there is none.
  Attribute::Held Default() const;

  static constexpr uint8_t kNoDefault = 255;
  uint16_t name_at;
  AttributeType type;
  bool required;
  uint16_t default_at;
  uint8_t default_count;
};

struct SchemaTypeConstraint {
  std::string_view name() const;
  const SchemaTypeSet& types() const;

  uint16_t name_at;
  uint16_t set;
};

struct Schema {
  static constexpr uint32_t kUnlimited = UINT16_MAX;

  std::string_view name() const;
  std::string_view domain() const;
  std::span<const SchemaParameter> inputs() const;
  std::span<const SchemaParameter> outputs() const;
  std::span<const SchemaAttribute> attributes() const;
  std::span<const SchemaTypeConstraint> constraints() const;
  const SchemaAttribute* FindAttribute(std::string_view name) const;
  // The formal parameter that an actual input or output stands for; null when there are more than the schema has.
  const SchemaParameter* InputAt(size_t i) const;
  const SchemaParameter* OutputAt(size_t i) const;
  // The types a parameter may have.
  SchemaTypeSet TypesOf(const SchemaParameter& parameter) const;

  uint16_t name_at;
  uint8_t domain_number;
  uint8_t since_version;
  bool deprecated;
  bool is_function;  // the standard gives a body made of other operators
  uint8_t input_count, output_count, attribute_count, constraint_count;
  uint16_t first_input, first_output, first_attribute, first_constraint;
  uint16_t min_inputs, max_inputs, min_outputs, max_outputs;
};

// The schema in force for an operator at an opset: the newest not newer than `opset`. Null when the operator is unknown
// or younger. "ai.onnx" is the same domain as "".
const Schema* FindSchema(std::string_view domain, std::string_view op_type, int64_t opset);
// Every version of one operator, oldest first.
std::span<const Schema> SchemaVersions(std::string_view domain, std::string_view op_type);
// Everything, sorted by domain, name and version.
std::span<const Schema> AllSchemas();

// The newest opset of a domain that these tables know; 0 for a domain they do not know.
int64_t NewestOpset(std::string_view domain);

}  // namespace ferry
