// The plan of a model for people and programs: its steps in order, who runs each and how, and the memory they take.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/session.h"

namespace ferry {

struct PlannedValue {
  std::string name;
  std::string type;   // "float[1, 64, 56, 56]"; "?" where it is known only while running
  std::string place;  // "arena", "result", "dynamic"
  std::string space;  // whose memory
  std::optional<size_t> offset;
  std::optional<size_t> bytes;
};

struct PlannedStep {
  size_t depth = 0;  // inside how many bodies and chains
  std::string node, op;
  std::string provider, algorithm;
  std::vector<std::string> inputs;
  std::vector<PlannedValue> outputs;
};

struct PlanSummary {
  std::map<std::string, int64_t> dimensions;
  std::vector<PlannedStep> steps;
  std::map<std::string, size_t> arena_bytes;   // by memory space
  std::map<std::string, size_t> weight_bytes;  // by memory space, as they lie in the model
  std::map<std::string, size_t> steps_by_provider;
  size_t dynamic_values = 0;
};

// For the sizes of named dimensions given, 1 for the others. Nothing is run and no weight is packed.
PlanSummary SummarizePlan(const Model& model, const std::map<std::string, int64_t>& dimensions,
                          const SessionOptions& options = {});

Json ToJson(const PlanSummary& plan);

}  // namespace ferry
