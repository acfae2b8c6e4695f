#include "base/error.h"

namespace ferry {

const char* ErrorCodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "invalid argument";
    case ErrorCode::kInvalidModel: return "invalid model";
    case ErrorCode::kNotFound: return "not found";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kIo: return "input/output error";
    case ErrorCode::kLimit: return "limit reached";
    case ErrorCode::kCancelled: return "cancelled";
    case ErrorCode::kDeadline: return "deadline passed";
    case ErrorCode::kInternal: return "internal error";
  }
  return "unknown error";
}

Error& Error::At(std::string_view place) {
  message_ = Cat(place, ": ", message_);
  return *this;
}

}  // namespace ferry
