// One error type for the whole house: a code, a sentence, and the places it passed on its way up.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "base/text.h"

namespace ferry {

enum class ErrorCode {
  kInvalidArgument,  // the caller asked for something that cannot be (wrong input, wrong option)
  kInvalidModel,     // the model or data file breaks its format or the standard
  kNotFound,         // a file or a name does not exist
  kUnsupported,      // valid, but not something Ferry can do
  kIo,               // the operating system refused
  kLimit,            // a limit was reached (size, depth, memory, iterations)
  kCancelled,        // the caller asked to stop
  kDeadline,         // it took longer than the caller allowed
  kInternal,         // a fault in Ferry itself
};

const char* ErrorCodeName(ErrorCode code);

// Thrown inside the library; the C ABI turns it into a status and never lets it out.
class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const char* what() const noexcept override { return message_.c_str(); }

  // Puts the place where it happened in front: "model.onnx: node 'fc1' (Gemm): …".
  Error& At(std::string_view place);

 private:
  ErrorCode code_;
  std::string message_;
};

template <class... Parts>
[[noreturn]] void Fail(ErrorCode code, const Parts&... parts) {
  throw Error(code, Cat(parts...));
}

// The checks that operators and readers are made of: Require(rank == 2, "needs a matrix, got ", shape).
template <class... Parts>
inline void Require(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]]
    Fail(ErrorCode::kInvalidArgument, parts...);
}

}  // namespace ferry
