// The protocol's names for element types: "FP32" in requests, "TYPE_FP32" in a model's configuration.
#pragma once

#include <cstddef>
#include <string_view>

#include "tensor/dtype.h"

namespace ferry::server {

std::string_view DatatypeName(DType type);      // empty: the protocol has none for it
DType DatatypeFromName(std::string_view name);  // kUndefined: unknown
std::string_view ConfigTypeName(DType type);    // "TYPE_STRING"; "TYPE_INVALID" where there is none
DType DTypeFromConfigName(std::string_view name);
size_t ElementBytes(DType type);  // 0 for BYTES

}  // namespace ferry::server
