#include "api/handles.h"
#include "base/version.h"

namespace ferry::api {
namespace {

// Given out when there is no memory left to make another; never freed.
ferry_status& OutOfMemory() {
  static ferry_status status{FERRY_LIMIT, "no memory"};
  return status;
}

}  // namespace

ferry_status* MakeStatus(ferry_code code, const char* message) noexcept {
  try {
    return new ferry_status{code, message};
  } catch (...) {
    return &OutOfMemory();
  }
}

ferry_code ToCode(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kInvalidArgument: return FERRY_INVALID_ARGUMENT;
    case ErrorCode::kInvalidModel: return FERRY_INVALID_MODEL;
    case ErrorCode::kNotFound: return FERRY_NOT_FOUND;
    case ErrorCode::kUnsupported: return FERRY_UNSUPPORTED;
    case ErrorCode::kIo: return FERRY_IO;
    case ErrorCode::kLimit: return FERRY_LIMIT;
    case ErrorCode::kCancelled: return FERRY_CANCELLED;
    case ErrorCode::kDeadline: return FERRY_DEADLINE;
    case ErrorCode::kInternal: break;
  }
  return FERRY_INTERNAL;
}

}  // namespace ferry::api

using namespace ferry;
using namespace ferry::api;

uint32_t ferry_abi_version(void) { return FERRY_ABI_VERSION; }
const char* ferry_version(void) { return kVersion; }

ferry_code ferry_status_code(const ferry_status* status) { return status ? status->code : FERRY_OK; }
const char* ferry_status_message(const ferry_status* status) { return status ? status->message.c_str() : ""; }
void ferry_status_free(ferry_status* status) {
  if (status != &OutOfMemory()) delete status;
}
