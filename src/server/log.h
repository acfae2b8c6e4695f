// The server's log: lines on standard error or in a file, in Triton's form or as one JSON object each.
#pragma once

#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>

#include "base/json.h"

namespace ferry::server {

enum class LogLevel { kError, kWarning, kInfo, kVerbose };

class Log {
 public:
  struct Settings {
    std::string file;  // empty: standard error
    bool info = true, warning = true, error = true;
    uint32_t verbose = 0;
    std::string format = "default";  // or ISO8601, json
  };

  explicit Log(Settings settings);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  bool IsOn(LogLevel level) const { return (mask_.load(std::memory_order_relaxed) >> static_cast<int>(level)) & 1; }
  // `fields` stand beside the message in JSON, and behind it as key=value elsewhere.
  void Write(LogLevel level, std::string_view message, const Json& fields = {});

  Settings settings() const;
  // What the protocol's logging extension may change; throws Refusal and changes nothing when something is wrong.
  void Change(const Json& settings);
  Json ToJson() const;

 private:
  void SetMask();

  mutable std::mutex mutex_;
  Settings settings_;
  std::atomic<int> mask_{0};
  std::FILE* file_ = nullptr;
};

}  // namespace ferry::server
