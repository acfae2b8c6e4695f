// A timeline of runs in Chrome's trace format, which chrome://tracing and ui.perfetto.dev open: one bar per run and one
// per step, with the step's node, operator, types, shapes and bytes. Many threads may add to one profile at once.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/json.h"
#include "graph/model.h"
#include "tensor/value.h"

namespace ferry {

class Profile {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr size_t kMostEvents = 500'000;  // what comes later is counted, not kept

  struct Span {
    Clock::time_point begin, end;
  };

  void AddStep(const Node& node, std::span<const Value* const> inputs, std::span<Value* const> outputs, Span span);
  // Something that is no step: a run as a whole, the making of a session.
  void AddSpan(std::string_view name, Span span);

  size_t size() const;
  int64_t start_ns() const;  // on the steady clock
  std::string ToChromeTrace() const;
  void Write(const std::string& path) const;

 private:
  void Add(std::string_view name, std::string_view category, Span span, Json arguments);
  int ThreadNumber();

  const Clock::time_point start_ = Clock::now();
  mutable std::mutex mutex_;
  std::vector<std::string> events_;  // as they are written
  size_t dropped_ = 0;
  std::map<std::thread::id, int> threads_;
};

}  // namespace ferry
