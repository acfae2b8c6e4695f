// A comparison written down: as JSON whose keys docs/compare.md explains, and as one HTML page that needs nothing else.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "measure/compare/comparison.h"

namespace ferry {

Json ToJson(const Comparison& comparison);
std::string ToHtml(const Comparison& comparison);

// Sentences that both reports and the terminal say: what the float64 run tells about a mismatch with recordings.
std::string CauseText(const Comparison& comparison);
std::string VerdictText(const Comparison& comparison);
// "node 'fc1' (Gemm) makes 'y': wrong by 0.25 where its inputs agree".
std::string FaultText(const FaultyLayer& layer);
// Why no layer is named although the answers differ; empty when one is, or nothing was traced.
std::string NoFaultText(const Comparison& comparison);
std::string ShortNumber(double value);                                 // three significant digits
std::string CosineText(double cosine);                                 // "1", or "1 - 2e-07" where it is nearly 1
std::string AgreementText(const std::optional<Decisions>& decisions);  // "3/4", or "" when it does not apply

}  // namespace ferry
