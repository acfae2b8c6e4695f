// Values in files of their own: ONNX's TensorProto, SequenceProto, OptionalProto, MapProto and SparseTensorProto, as
// the standard's test data have them. Such a file does not say which of these it is.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "graph/type.h"
#include "tensor/value.h"

namespace ferry {

// `expected` is the type of the input or output the value belongs to; null reads a tensor.
Value ReadValueFile(const std::string& path, const Type* expected);
Value ReadValueFromMemory(std::span<const std::byte> bytes, std::shared_ptr<const void> keep_alive,
                          const Type* expected);

// `expected` tells a value inside an optional from the plain value; null writes the value as what it is.
std::string SerializeValue(const Value& value, const std::string& name = {}, const Type* expected = nullptr);

}  // namespace ferry
