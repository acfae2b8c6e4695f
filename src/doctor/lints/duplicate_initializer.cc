#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_map>

#include "doctor/lint.h"

namespace ferry {
namespace {

constexpr uint64_t kWorthAWarning = uint64_t{1} << 20, kWorthANote = 16;  // bytes

uint64_t Mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0xff51afd7ed558ccdu;
  return hash ^ (hash >> 29);
}

uint64_t Hash(const std::byte* bytes, size_t count, uint64_t start) {
  constexpr size_t kLanes = 4;  // of their own, so that no step waits for the one before it
  uint64_t lanes[kLanes] = {start, start + 1, start + 2, start + 3};
  for (; count >= 8 * kLanes; bytes += 8 * kLanes, count -= 8 * kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) {
      uint64_t word;
      std::memcpy(&word, bytes + 8 * lane, 8);
      lanes[lane] = Mix(lanes[lane], word);
    }
  uint64_t hash = start;
  for (uint64_t lane : lanes) hash = Mix(hash, lane);
  for (; count > 0; ++bytes, --count) hash = Mix(hash, static_cast<uint64_t>(*bytes));
  return hash;
}

uint64_t HashOfAll(const Tensor& tensor) { return Hash(tensor.raw(), tensor.bytes(), 0x9e3779b97f4a7c15u); }

// Differs for nearly all tensors that differ, without reading them.
uint64_t Fingerprint(const Tensor& tensor) {
  constexpr size_t kSampleBytes = 64, kSamples = 8;
  uint64_t hash = Mix(tensor.bytes(), static_cast<uint64_t>(tensor.dtype()));
  for (size_t axis = 0; axis < tensor.rank(); ++axis) hash = Mix(hash, static_cast<uint64_t>(tensor.dim(axis)));
  if (tensor.bytes() <= kSampleBytes * kSamples) return Hash(tensor.raw(), tensor.bytes(), hash);
  size_t stride = (tensor.bytes() - kSampleBytes) / (kSamples - 1);
  for (size_t i = 0; i < kSamples; ++i) hash = Hash(tensor.raw() + i * stride, kSampleBytes, hash);
  return hash;
}

using Pairs = std::vector<std::pair<const StoredTensor*, const StoredTensor*>>;

// Of tensors with one fingerprint. Bytes are compared where even the hashes of all bytes agree.
void AddPairs(const std::vector<const StoredTensor*>& tensors, Pairs& pairs) {
  std::map<uint64_t, std::vector<const StoredTensor*>> distinct;
  for (const StoredTensor* tensor : tensors) {
    auto& same_hash = distinct[HashOfAll(tensor->tensor)];
    auto first = std::find_if(same_hash.begin(), same_hash.end(),
                              [&](const StoredTensor* other) { return Identical(other->tensor, tensor->tensor); });
    if (first != same_hash.end())
      pairs.emplace_back(tensor, *first);
    else
      same_hash.push_back(tensor);
  }
}

// Later initializers of the main graph with the same type, shape and bytes as an earlier one: (later, earlier).
Pairs FindPairs(const Graph& graph) {
  std::unordered_map<uint64_t, std::vector<const StoredTensor*>> alike;
  for (const StoredTensor& tensor : graph.initializers)
    if (tensor.tensor.defined() && tensor.dtype != DType::kString && tensor.tensor.bytes() >= kWorthANote &&
        !graph.FindInput(tensor.name))
      alike[Fingerprint(tensor.tensor)].push_back(&tensor);
  Pairs pairs;
  for (const auto& [fingerprint, tensors] : alike)
    if (tensors.size() > 1) AddPairs(tensors, pairs);
  std::sort(pairs.begin(), pairs.end());  // in the order of the file: initializers lie in one array
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
