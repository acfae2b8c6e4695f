// One inference on its way through the server, whichever protocol it came by.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/session.h"
#include "server/refusal.h"
#include "server/shared_memory.h"
#include "tensor/value.h"

namespace ferry::server {

using Clock = std::chrono::steady_clock;

struct RequestedOutput {
  std::string name;
  int64_t classes = 0;                // 0: the tensor itself
  bool binary = false;                // over HTTP
  std::optional<MemoryRange> memory;  // where it is to be written
};

struct InferRequest {
  std::string id;
  std::vector<NamedValue> inputs;
  std::vector<RequestedOutput> outputs;  // empty: all
  bool binary_output = false;            // over HTTP, for outputs that do not say
  uint64_t priority = 0, timeout_us = 0;
  std::shared_ptr<const void> keep_alive;        // what the inputs' memory belongs to
  std::shared_ptr<std::atomic<bool>> cancelled;  // set when nobody waits for the answer any more
  std::string trace_parent;                      // W3C's, or empty
};

// A request, and when it is done its outputs in the order of output_names, or why there are none.
struct Job {
  InferRequest request;
  int64_t rows = 1;
  std::vector<std::string> output_names;
  std::vector<Value> outputs;
  std::optional<Refusal> error;
  Clock::time_point received, queued, started, run_begun, run_ended;
  Clock::time_point deadline = Clock::time_point::max();
  int64_t batch = 1;               // rows of the run that it was part of
  std::function<void(Job&)> done;  // called once, by any thread
};

}  // namespace ferry::server
