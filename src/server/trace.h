// Spans of requests (request, queue, compute) in OpenTelemetry's JSON form, one batch a line, into a file.
#pragma once

#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>

#include "base/json.h"
#include "server/infer.h"

namespace ferry::server {

class Tracer {
 public:
  struct Settings {
    bool on = false;
    uint64_t rate = 1000;  // one request in so many
    int64_t count = -1;    // that are still traced; -1: any number
    uint64_t log_frequency = 0;
    std::string file;
  };
  explicit Tracer(Settings settings);
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  bool Wants(const std::string& trace_parent);
  void Add(const Job& job, const std::string& model, const std::string& version, const char* protocol);

  // As the protocol's trace extension has them: every value a text, the level a list. Throws Refusal.
  void Change(const Json& settings);
  Json ToJson() const;

 private:
  mutable std::mutex mutex_;
  Settings settings_;
  std::atomic<bool> on_;
  std::atomic<uint64_t> seen_{0};
  std::FILE* file_ = nullptr;
};

}  // namespace ferry::server
