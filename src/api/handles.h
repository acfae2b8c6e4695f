// What stands behind the handles of ferry.h, and the one place where exceptions end.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/profile.h"
#include "engine/runtime.h"
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

struct ferry_runtime {
  std::shared_ptr<ferry::Runtime> runtime;
};

struct ferry_value_info {
  std::string name;
  ferry::Type type;
  std::string type_text;
  std::unique_ptr<ferry_value_info> element;
};

struct ferry_session {
  std::shared_ptr<ferry::Session> session;
  std::vector<ferry_value_info> inputs, overridable, outputs;
};

struct ferry_profile {
  ferry::Profile profile;
};

struct ferry_run_options {
  std::atomic<bool> cancelled{false};
  ferry::Profile* profile = nullptr;
  std::optional<ferry_allocator> allocator;
  std::chrono::nanoseconds time_limit{0};
  size_t max_bytes = 0;
  int64_t max_iterations = 0;
  ferry::MemorySpace* space = nullptr;  // where results lie; null: on the host
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

// A time limit in seconds; 0 is none.
inline std::chrono::nanoseconds ToTimeLimit(double seconds) {
  constexpr double kMost = 1e9;  // as long as nanoseconds can be counted, and some
  Require(seconds >= 0 && seconds <= kMost, "a time limit must be 0 to ", kMost, " seconds, got ", seconds);
  const std::chrono::nanoseconds limit(static_cast<int64_t>(seconds * 1e9));
  return seconds > 0 ? std::max(limit, std::chrono::nanoseconds(1)) : limit;
}

inline Shape ToShape(const int64_t* dims, size_t rank) {
  if (rank > 0) RequirePointer(dims, "dims");
  return Shape(std::span<const int64_t>(dims, rank));
}

// "cpu", "cuda" or "cuda:0"; throws where it cannot be had.
MemorySpace& SpaceNamed(const char* device);

inline void Give(ferry_value** out, Value value) {
  RequirePointer(out, "out");
  *out = new ferry_value{std::move(value)};
}

}  // namespace ferry::api
