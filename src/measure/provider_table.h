// One model on every provider that can be used here, in every precision that it has: how fast, in how much memory, and
// how far from float64.
#pragma once

#include <string>
#include <vector>

#include "measure/benchmark.h"

namespace ferry {

struct ProviderRow {
  std::string provider, precision;
  std::string problem;  // why there are no numbers; empty: there are
  double first_ms = 0, median_ms = 0, p90_ms = 0;
  double runs_per_second = 0;
  size_t bytes = 0;           // weights and arena, where the provider has them
  double max_abs_error = 0;   // against the same model in float64
  double relative_error = 0;  // of the largest output
};

struct ProviderTable {
  std::vector<NamedValue> inputs;
  std::vector<ProviderRow> rows;
  std::string reference_problem;  // why nothing could be held against float64; empty: it could
};

// `told`: before each row, which it is. Options name no provider and no precision.
ProviderTable MeasureProviders(const std::string& path, const BenchmarkOptions& options,
                               const std::function<void(const std::string&)>& told);

}  // namespace ferry
