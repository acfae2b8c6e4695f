// Is this model what the ONNX standard says a model is? Every fault in one run, each with its place and its remedy.
//
// This is all that can be said from the model's structure and the operators' schemas. What types and shapes come out of
// the operators, held against what is declared, is engine/check_inference.h.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/model.h"

namespace ferry {

enum class Severity : uint8_t {
  kNote,     // worth knowing
  kWarning,  // allowed by the standard, and likely to hurt
  kError,    // against the standard
};
const char* Name(Severity severity);

// Where in a model. Empty parts do not apply.
struct Place {
  std::string graph;  // "" the main graph; else "then_branch of node 'x' (If)", "function 'f'"
  std::string node;   // the node's name, or its first output's when it has none
  std::string op_type;
  std::string value;  // a value, tensor, attribute or metadata key
};
std::string ToText(const Place& place);

struct Problem {
  std::string_view rule;  // "node.unknown-operator": the id of an entry in AllRules()
  Severity severity = Severity::kError;
  std::string message;
  Place place;
  std::string remedy;
};
std::string ToText(const Problem& problem);

struct RuleInfo {
  std::string_view id;
  std::string_view meaning;  // what must hold
  std::string_view remedy;
  Severity severity = Severity::kError;
};
std::span<const RuleInfo> AllRules();
const RuleInfo* FindRule(std::string_view id);

struct CheckOptions {
  size_t most_problems = 500;  // a hopeless model is not described to the end
};

std::vector<Problem> CheckModel(const Model& model, const CheckOptions& options = {});

bool HasErrors(std::span<const Problem> problems);

}  // namespace ferry
