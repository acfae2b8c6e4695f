// Spans of requests (request, queue, compute) in OpenTelemetry's JSON form: one batch a line into a file, or to a
// collector.
#pragma once

#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "server/infer.h"
#include "server/otlp_exporter.h"

namespace ferry::server {

class Tracer {
 public:
  struct Settings {
    bool timestamps = false, tensors = false;  // the level: spans; names, types and shapes of tensors on them
    uint64_t rate = 1000;                      // one request in so many
    int64_t count = -1;                        // that are still traced; -1: any number
    uint64_t log_frequency = 0;
    std::string mode = "triton";  // as clients are told; "opentelemetry" with a collector
    std::string file;
    std::string url;  // of a collector: http://HOST:PORT/v1/traces
    std::vector<std::pair<std::string, std::string>> resource;
  };
  explicit Tracer(Settings settings);
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  bool Wants(const std::string& model, const std::string& trace_parent);
  void Add(const Job& job, const std::string& model, const std::string& version, const char* protocol);
  void Flush();  // what the collector has not got yet

  // As the protocol's trace extension has them: every value a text, the level a list; null or nothing takes a change
  // back. An empty model stands for all that have no settings of their own. Throws Refusal.
  void Change(const std::string& model, const Json& settings);
  Json ToJson(const std::string& model) const;

 private:
  enum Level : unsigned { kTimestamps = 1, kTensors = 2 };
  // What was changed for a model, or for all.
  struct Scope {
    std::optional<unsigned> level;
    std::optional<uint64_t> rate, log_frequency;
    std::optional<int64_t> count;
    uint64_t seen = 0;
  };
  const Scope* Find(const std::string& model) const;
  template <class T>
  const T& Of(const Scope* scope, std::optional<T> Scope::*field) const {
    return scope && scope->*field ? *(scope->*field) : *(all_.*field);
  }
  static void Apply(const Json& changes, Scope& scope);
  Json SpansOf(const Job& job, const std::string& model, const std::string& version, const char* protocol,
               bool with_tensors) const;

  const Settings start_;
  mutable std::mutex mutex_;
  Scope all_;  // has every field
  std::map<std::string, Scope> models_;
  std::atomic<bool> on_{false};
  std::FILE* file_ = nullptr;
  std::unique_ptr<OtlpExporter> exporter_;
  Json resource_;
};

}  // namespace ferry::server
