#include "server/datatype.h"

namespace ferry::server {
namespace {

struct Row {
  DType type;
  std::string_view name, config_name;
  size_t bytes;
};

constexpr Row kRows[] = {
    {DType::kBool, "BOOL", "TYPE_BOOL", 1},       {DType::kUInt8, "UINT8", "TYPE_UINT8", 1},
    {DType::kUInt16, "UINT16", "TYPE_UINT16", 2}, {DType::kUInt32, "UINT32", "TYPE_UINT32", 4},
    {DType::kUInt64, "UINT64", "TYPE_UINT64", 8}, {DType::kInt8, "INT8", "TYPE_INT8", 1},
    {DType::kInt16, "INT16", "TYPE_INT16", 2},    {DType::kInt32, "INT32", "TYPE_INT32", 4},
    {DType::kInt64, "INT64", "TYPE_INT64", 8},    {DType::kFloat16, "FP16", "TYPE_FP16", 2},
    {DType::kFloat, "FP32", "TYPE_FP32", 4},      {DType::kDouble, "FP64", "TYPE_FP64", 8},
    {DType::kString, "BYTES", "TYPE_STRING", 0},  {DType::kBFloat16, "BF16", "TYPE_BF16", 2},
};

}  // namespace

std::string_view DatatypeName(DType type) {
  for (const Row& row : kRows)
    if (row.type == type) return row.name;
  return {};
}

DType DatatypeFromName(std::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name) return row.type;
  return DType::kUndefined;
}

std::string_view ConfigTypeName(DType type) {
  for (const Row& row : kRows)
    if (row.type == type) return row.config_name;
  return "TYPE_INVALID";
}

DType DTypeFromConfigName(std::string_view name) {
  for (const Row& row : kRows)
    if (row.config_name == name) return row.type;
  return DType::kUndefined;
}

size_t ElementBytes(DType type) {
  for (const Row& row : kRows)
    if (row.type == type) return row.bytes;
  return 0;
}

}  // namespace ferry::server
