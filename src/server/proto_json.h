// Protobuf messages as JSON values and back, by their schema. Field names are the proto's, integers are numbers, enums
// their names, maps objects, bytes strings of any bytes.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "server/proto_schema.h"

namespace ferry::server {

// Throws Refusal for bytes that are no such message.
Json DecodeMessage(std::string_view bytes, const ProtoMessage& message);
// What is null or absent is left out; a value of the wrong kind throws Refusal naming its field.
std::string EncodeMessage(const Json& value, const ProtoMessage& message);
// A value with every field that is a number, text, list or map, as Triton shows configurations; fields it already has
// come in the schema's order. A field that the message does not have, or of the wrong kind, throws Refusal naming it.
Json WithDefaults(const Json& value, const ProtoMessage& message);
// The same without what it leaves out: protobuf's JSON forms (integers as strings or 4.0, null, numbers or any case for
// enums, lowerCamelCase names) become those of this file.
Json Normalized(const Json& value, const ProtoMessage& message);

// FileDescriptorProto of one of the schema's files, for reflection.
std::string DescribeFile(const ProtoFile& file);

}  // namespace ferry::server
