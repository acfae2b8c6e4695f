#include "server/refusal.h"

#include <new>

#include "base/error.h"

namespace ferry::server {

int HttpStatus(Code code) {
  switch (code) {
    case Code::kOk: return 200;
    case Code::kNotFound: return 404;
    case Code::kPermissionDenied: return 403;
    case Code::kUnauthenticated: return 401;
    case Code::kUnimplemented: return 501;
    case Code::kInternal: return 500;
    case Code::kExhausted:
    case Code::kUnavailable: return 503;
    default: return 400;
  }
}

namespace {

Code CodeOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return Code::kInvalidArgument;
    case ErrorCode::kNotFound: return Code::kNotFound;
    case ErrorCode::kUnsupported: return Code::kUnimplemented;
    case ErrorCode::kCancelled: return Code::kCancelled;
    case ErrorCode::kDeadline: return Code::kUnavailable;
    case ErrorCode::kLimit: return Code::kExhausted;
    default: return Code::kInternal;
  }
}

}  // namespace

Refusal CurrentRefusal() {
  try {
    throw;
  } catch (const Refusal& refusal) {
    return refusal;
  } catch (const Error& error) {
    return {CodeOf(error.code()), error.message()};
  } catch (const std::bad_alloc&) {
    return {Code::kExhausted, "there is not enough memory"};
  } catch (const std::exception& error) {
    return {Code::kInternal, error.what()};
  }
}

}  // namespace ferry::server
