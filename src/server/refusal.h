// What a client is told when its request is not served: a code of gRPC, which also decides HTTP's status, and a
// sentence.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "base/text.h"

namespace ferry::server {

enum class Code : int {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadline = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kExhausted = 8,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kUnauthenticated = 16,
};

int HttpStatus(Code code);

class Refusal : public std::exception {
 public:
  Refusal(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  Code code_;
  std::string message_;
};

template <class... Parts>
[[noreturn]] void Refuse(Code code, const Parts&... parts) {
  throw Refusal(code, Cat(parts...));
}

// Of the exception that is being handled: a Refusal as it is, Ferry's own errors by their code.
Refusal CurrentRefusal();

}  // namespace ferry::server
