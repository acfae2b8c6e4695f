// The generated tables behind onnx/schema.h. Texts are offsets into kSchemaTexts, each ending in a zero byte.
#pragma once

#include "onnx/schema.h"

namespace ferry {

struct SchemaDomain {
  uint16_t name_at;
  uint8_t newest;
  uint16_t first_schema, schema_count;
};

extern const char kSchemaTexts[];
extern const SchemaDomain kSchemaDomains[];
extern const size_t kSchemaDomainCount;
extern const uint16_t kSchemaTypeNames[];
extern const size_t kSchemaTypeCount;
extern const SchemaTypeSet kSchemaTypeSets[];
extern const SchemaTypeConstraint kSchemaConstraints[];
extern const SchemaParameter kSchemaParameters[];
extern const SchemaAttribute kSchemaAttributes[];
extern const int64_t kSchemaInts[];
extern const float kSchemaFloats[];
extern const uint16_t kSchemaStrings[];
extern const Schema kSchemas[];
extern const size_t kSchemaCount;

}  // namespace ferry
