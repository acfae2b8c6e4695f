// Protobuf's text format (config.pbtxt) as a JSON value, by the message's schema.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "server/proto_schema.h"

namespace ferry::server {

// Throws Refusal (invalid argument) as "config.pbtxt:LINE: …"; `name` is what it calls the text.
Json ParseProtoText(std::string_view text, const ProtoMessage& message, const std::string& name);

}  // namespace ferry::server
