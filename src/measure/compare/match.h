// Which values of two graphs correspond, by name where names can be trusted and by structure where they differ.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/model.h"

namespace ferry {

struct GraphMatch {
  // Values and nodes (by index) of the first graph to those of the second.
  std::unordered_map<std::string, std::string> values;
  std::unordered_map<size_t, size_t> nodes;
  // Values that correspond by what reads them, or by name, while what makes them differs.
  std::unordered_set<std::string> by_use;

  const std::string* Find(const std::string& value) const {
    auto it = values.find(value);
    return it == values.end() ? nullptr : &it->second;
  }
};

enum class NameTrust : uint8_t {
  kSameModel,  // the same model in two forms: equal names are equal values
  kHints,      // two models: a name counts where the structure around it agrees
};

GraphMatch MatchGraphs(const Graph& a, const Graph& b, NameTrust trust);

// What two corresponding nodes say differently: operator, attributes, weights. Empty when they are equal.
std::vector<std::string> NodeDifferences(const Graph& a, const Node& node_a, const Graph& b, const Node& node_b);

}  // namespace ferry
