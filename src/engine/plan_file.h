// A model made ready for one kind of machine, in a file: the model itself, and what its providers compiled and measured
// for it, so that another process starts without doing so again. Files come from anywhere: nothing in one is believed
// before it is checked.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/session.h"

namespace ferry {

struct PlanFile {
  std::string version;                          // of the Ferry that wrote it
  std::string provider;                         // as SessionOptions has it
  std::string precision;                        // by name
  std::string machine;                          // fingerprints of the providers
  std::vector<std::string> states;              // of each provider, in order
  std::string_view model;                       // an .onnx file
  std::shared_ptr<const void> keep_alive = {};  // owns the model's bytes
};

// Whether the file begins as plans do.
bool IsPlanFile(const std::string& path);
// Everything but the model's bytes is copied; throws kInvalidModel when a length or the checksum is wrong.
PlanFile ParsePlan(std::string_view bytes, std::shared_ptr<const void> keep_alive);
std::string ToBytes(const PlanFile& plan);

// What a session that has run a while knows, as a plan.
PlanFile MakePlanFile(const Session& session);
void WritePlan(const PlanFile& plan, const std::string& path);
// Refuses a plan of another version or another machine, with both sides named. Options may name the plan's provider and
// precision or leave them as they usually are.
std::shared_ptr<Session> OpenPlan(const std::string& path, const SessionOptions& options);

}  // namespace ferry
