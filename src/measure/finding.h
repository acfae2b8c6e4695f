// What the doctor says about a model: one finding per fault, with what it was seen by and what to do.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "onnx/checker/checker.h"

namespace ferry {

struct Finding {
  std::string_view lint;  // the name of an entry in AllLints(): "training-mode"
  Severity severity = Severity::kWarning;
  std::string message;
  Place place;
  std::vector<std::pair<std::string, std::string>> evidence;  // {"ratio", "0.5"}
  std::string remedy;
  bool fixable = false;  // 'ferry doctor --fix' knows how; whether it may is decided by the proof
};

std::string ToText(const Finding& finding);  // "warning: node 'drop' (Dropout): … [training-mode]"
Json ToJson(const Finding& finding);
// For reports that speak of problems (SARIF): the lint's name is the rule, the evidence is part of the message.
Problem ToProblem(const Finding& finding);

// True when something was found that should keep a model from being deployed: a warning or an error.
bool HasFaults(std::span<const Finding> findings);

}  // namespace ferry
