// What stands behind the handles of ferry.h, and the one place where exceptions end.
#pragma once

#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/session.h"
#include "ferry/ferry.h"

struct ferry_status {
  ferry_code code;
  std::string message;
};

struct ferry_value {
  ferry::Value value;
};

struct ferry_options {
  ferry::SessionOptions options;
};

struct ferry_value_info {
  ferry::ValueInfo info;
  std::string type_text;
};

struct ferry_session {
  std::shared_ptr<ferry::Session> session;
  std::vector<ferry_value_info> inputs, outputs;
};

struct ferry_report {
  bool valid;
  std::vector<std::string> problems;
};

namespace ferry::api {

// Both never throw; without memory even for the status, they give one that was made beforehand.
ferry_status* MakeStatus(ferry_code code, const char* message) noexcept;
ferry_code ToCode(ErrorCode code) noexcept;

// Runs the body of a C function and turns whatever it throws into a status.
template <class Body>
ferry_status* Guard(const Body& body) noexcept {
  try {
    body();
    return nullptr;
  } catch (const Error& error) {
    return MakeStatus(ToCode(error.code()), error.what());
  } catch (const std::bad_alloc&) {
    return MakeStatus(FERRY_LIMIT, "there is not enough memory");
  } catch (const std::exception& error) {
    return MakeStatus(FERRY_INTERNAL, error.what());
  } catch (...) {
    return MakeStatus(FERRY_INTERNAL, "an unknown fault inside Ferry");
  }
}

// Refuses null where a pointer must stand: RequirePointer(path, "path").
inline void RequirePointer(const void* pointer, const char* name) {
  if (!pointer) Fail(ErrorCode::kInvalidArgument, "'", name, "' must not be NULL");
}

}  // namespace ferry::api
