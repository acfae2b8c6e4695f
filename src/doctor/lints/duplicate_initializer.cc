#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_map>

#include "doctor/lint.h"

namespace ferry {
namespace {

constexpr uint64_t kWorthAWarning = uint64_t{1} << 20, kWorthANote = 16;  // bytes

uint64_t Hash(const Tensor& tensor) {
  uint64_t hash = 0x9e3779b97f4a7c15u + static_cast<uint64_t>(tensor.dtype());
  const std::byte* bytes = tensor.raw();
  size_t count = tensor.bytes();
  for (; count >= 8; bytes += 8, count -= 8) {
    uint64_t word;
    std::memcpy(&word, bytes, 8);
    hash = (hash ^ word) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 29;
  }
  for (; count > 0; ++bytes, --count) hash = (hash ^ static_cast<uint64_t>(*bytes)) * 0x100000001b3u;
  return hash;
}

// Later initializers of the main graph with the same type, shape and bytes as an earlier one: (later, earlier).
std::vector<std::pair<const StoredTensor*, const StoredTensor*>> FindPairs(const Graph& graph) {
  std::map<std::pair<uint64_t, uint64_t>, std::vector<const StoredTensor*>> candidates;
  std::map<uint64_t, int> sizes;
  auto counts = [&](const StoredTensor& tensor) {
    return tensor.tensor.defined() && tensor.dtype != DType::kString && tensor.tensor.bytes() >= kWorthANote &&
           !graph.FindInput(tensor.name);
  };
  for (const StoredTensor& tensor : graph.initializers)
    if (counts(tensor)) ++sizes[tensor.tensor.bytes()];
  std::vector<std::pair<const StoredTensor*, const StoredTensor*>> pairs;
  for (const StoredTensor& tensor : graph.initializers) {
    if (!counts(tensor) || sizes[tensor.tensor.bytes()] < 2) continue;
    auto& same_hash = candidates[{tensor.tensor.bytes(), Hash(tensor.tensor)}];
    auto first = std::find_if(same_hash.begin(), same_hash.end(),
                              [&](const StoredTensor* other) { return Identical(other->tensor, tensor.tensor); });
    if (first != same_hash.end())
      pairs.emplace_back(&tensor, *first);
    else
      same_hash.push_back(&tensor);
  }
  return pairs;
}

void Look(const Patient& patient, FindingList& findings) {
  for (const auto& [later, earlier] : FindPairs(patient.model().graph)) {
    Finding& finding = findings.Add({.value = later->name},
                                    Cat("initializer with the same elements as '", Printable(earlier->name), "'"));
    finding.evidence.emplace_back("bytes", Cat(later->tensor.bytes()));
    if (later->tensor.bytes() >= kWorthAWarning) finding.severity = Severity::kWarning;
  }
}

void Fix(const Patient&, Model& model, FixLog& log) {
  Graph& graph = model.graph;
  std::unordered_map<std::string, std::string> replaced;
  for (const auto& [later, earlier] : FindPairs(graph)) {
    bool is_output = std::any_of(graph.outputs.begin(), graph.outputs.end(),
                                 [&, name = &later->name](const ValueInfo& output) { return output.name == *name; });
    if (is_output) continue;
    replaced[later->name] = earlier->name;
    log.changes.push_back(Cat("'", Printable(later->name), "' is '", Printable(earlier->name), "'"));
  }
  internal::ForEachNodeIn(graph.nodes, "", [&](Node& node, const std::string&) {
    for (std::string& input : node.inputs)
      if (auto it = replaced.find(input); it != replaced.end()) input = it->second;
  });
  auto& stored = graph.initializers;
  stored.erase(std::remove_if(stored.begin(), stored.end(),
                              [&](const StoredTensor& tensor) { return replaced.count(tensor.name) > 0; }),
               stored.end());
}

}  // namespace

extern const Lint lint_duplicate_initializer;
constinit const Lint lint_duplicate_initializer = {
    .name = "duplicate-initializer",
    .meaning = "No two initializers hold the same elements.",
    .severity = Severity::kNote,
    .remedy = "Let 'ferry doctor --fix' keep one of them.",
    .look = Look,
    .stage = 71,
    .fix = Fix,
};

}  // namespace ferry
