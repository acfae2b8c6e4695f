// Problems for machines: plain JSON, and SARIF 2.1.0 for the code-scanning pages of CI systems.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "onnx/checker/checker.h"

namespace ferry {

Json ToJson(const Problem& problem);

// `rules` are those the problems may speak of; `uri` is the file that was looked at.
Json ToSarif(std::span<const Problem> problems, std::span<const RuleInfo> rules, std::string_view uri,
             std::string_view version);

}  // namespace ferry
