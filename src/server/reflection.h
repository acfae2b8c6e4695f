// gRPC's reflection: clients like grpcurl ask which services there are, and for their descriptions.
#pragma once

#include <memory>

#include "server/http_message.h"
#include "server/proto_schema.h"

namespace ferry::server {

std::unique_ptr<GrpcCall> MakeReflectionCall(const ProtoMethod& types, std::shared_ptr<GrpcSink> sink);

}  // namespace ferry::server
