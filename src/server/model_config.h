// What a model's configuration says, completed by what the model itself says, in the form that the server works with.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "graph/model.h"
#include "tensor/dtype.h"

namespace ferry::server {

struct TensorConfig {
  std::string name;
  DType dtype = DType::kUndefined;
  std::vector<int64_t> dims;                    // without the batch; -1: any size
  std::optional<std::vector<int64_t>> reshape;  // what the model has in their place
  bool optional = false;
  bool has_dims = true;  // false: the model does not say its rank
  std::vector<std::string> labels;
};

struct QueuePolicy {
  bool delays = false;  // what waited too long goes behind the others instead of being refused
  uint64_t default_timeout_us = 0;
  bool allow_override = false;
  uint32_t max_queue_size = 0;  // 0: the server's own bound
};

struct WarmupInput {
  std::string name;
  DType dtype = DType::kUndefined;
  std::vector<int64_t> dims;
  enum class Data { kNone, kZero, kRandom, kFile } data = Data::kNone;
  std::string file;  // in the model's folder warmup/
};

struct Warmup {
  std::string name;
  int64_t batch_size = 0;
  int64_t count = 1;
  std::vector<WarmupInput> inputs;
};

struct ModelConfig {
  Json json;  // complete, as clients see it
  std::string name;
  int64_t max_batch_size = 0;     // 0: no batch dimension
  bool is_batch_assumed = false;  // read from the model: to be proven before requests are joined, and no limit
  std::vector<TensorConfig> inputs, outputs;

  bool dynamic_batching = false;
  std::string no_batching_reason;  // for the log
  std::vector<int64_t> preferred_sizes;
  uint64_t queue_delay_us = 0;
  bool preserve_ordering = false;
  uint64_t priority_levels = 0, default_priority = 0;
  QueuePolicy default_policy;
  std::map<uint64_t, QueuePolicy> policies;  // by priority

  int instances = 0;
  std::vector<Warmup> warmups;
  std::map<std::string, std::string> metric_tags;
  bool decoupled = false;

  const TensorConfig* FindInput(std::string_view input) const;
  const TensorConfig* FindOutput(std::string_view output) const;
  const QueuePolicy& PolicyOf(uint64_t priority) const;
};

struct ConfigDefaults {
  int64_t max_batch_size = 32;  // of models whose batch dimension was found
  int instances = 1;
  bool auto_complete = true;
};

// Version policy and file name, which decide what is loaded at all.
struct LoadConfig {
  enum class Versions { kLatest, kAll, kSpecific } versions = Versions::kLatest;
  uint32_t latest = 1;
  std::vector<int64_t> specific;
  std::string file = "model.onnx";
};

// config.pbtxt, a JSON form of it, or nothing. Throws Refusal.
Json ReadConfigText(std::string_view text, const std::string& name);
// What is wrong with it whatever the model is: throws Refusal.
void CheckConfig(const Json& given, const std::string& name);
void CheckPreferredSizes(const std::vector<int64_t>& sizes, int64_t max_batch_size, const std::string& name);
LoadConfig LoadConfigOf(const Json& given);
// `given` as it was read, completed and held against the model. Throws Refusal saying which tensor is at odds.
ModelConfig CompleteConfig(const Json& given, const std::string& name, const std::vector<ValueInfo>& inputs,
                           const std::vector<ValueInfo>& optional_inputs, const std::vector<ValueInfo>& outputs,
                           const ConfigDefaults& defaults);

std::string DimsText(const std::vector<int64_t>& dims);  // "[-1,10]", as the protocol's messages have it

}  // namespace ferry::server
