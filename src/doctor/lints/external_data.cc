// Weights in files beside the model: missing, outside the model's folder, misaligned, or shared.
#include <algorithm>
#include <cstdlib>
#include <map>

#include "doctor/lint.h"
#include "doctor/proof.h"
#include "graph/stored_tensors.h"

namespace ferry {
namespace {

constexpr uint64_t kAlignment = 64;  // below it, runtimes that map the file must copy

std::string Entry(const StoredTensor& tensor, std::string_view key) {
  for (const auto& [name, value] : tensor.external.entries)
    if (name == key) return value;
  return {};
}

struct Piece {
  uint64_t begin = 0, end = 0;
  const StoredTensor* tensor = nullptr;
};

void LookForOverlaps(std::vector<Piece>& pieces, FindingList& findings) {
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < pieces.size(); ++i) {
    const Piece &a = pieces[i - 1], &b = pieces[i];
    if (b.begin >= a.end || b.begin == b.end) continue;
    bool same = a.begin == b.begin && a.end == b.end;
    Finding& finding = findings.Add({.value = b.tensor->name}, Cat("external data ", same ? "is" : "overlaps",
                                                                   " that of '", Printable(a.tensor->name), "'"));
    finding.evidence.emplace_back("bytes", Cat(b.begin, " to ", b.end));
    finding.severity = same ? Severity::kNote : Severity::kWarning;
  }
}

void LookAtOne(const StoredTensor& tensor, FindingList& findings) {
  uint64_t offset = std::strtoull(Entry(tensor, "offset").c_str(), nullptr, 10);
  uint64_t element = static_cast<uint64_t>(std::max(8, BitWidth(tensor.dtype)) / 8);
  if (!tensor.problem.empty()) {
    Finding& finding = findings.Add({.value = tensor.name}, Cat("external data cannot be used: ", tensor.problem));
    finding.evidence.emplace_back("location", Entry(tensor, "location"));
    finding.severity = Severity::kError;
    finding.fixable = false;
    finding.remedy = "Put the data file beside the model, or export the model again with its data.";
  } else if (offset % kAlignment != 0) {
    Finding& finding = findings.Add({.value = tensor.name}, "external data is misaligned: runtimes must copy it");
    finding.evidence.emplace_back("offset", Cat(offset));
    finding.severity = offset % element == 0 ? Severity::kNote : Severity::kWarning;
  }
}

void Look(const Patient& patient, FindingList& findings) {
  std::map<std::string, std::vector<Piece>> files;
  ForEachStoredTensor(patient.model(), [&](const StoredTensor& tensor) {
    if (tensor.storage != StoredTensor::Storage::kExternal) return;
    LookAtOne(tensor, findings);
    uint64_t offset = std::strtoull(Entry(tensor, "offset").c_str(), nullptr, 10);
    uint64_t length = std::strtoull(Entry(tensor, "length").c_str(), nullptr, 10);
    if (tensor.tensor.defined()) length = tensor.tensor.bytes();
    if (offset + length >= offset) files[Entry(tensor, "location")].push_back({offset, offset + length, &tensor});
  });
  for (auto& [location, pieces] : files) LookForOverlaps(pieces, findings);
}

// The writer places what is loaded anew: aligned, each tensor with bytes of its own.
void Fix(const Patient&, Model& model, FixLog& log) {
  int64_t placed = 0;
  ForEachStoredTensor(model, [&](StoredTensor& tensor) {
    if (tensor.storage != StoredTensor::Storage::kExternal || !tensor.tensor.defined()) return;
    tensor.storage = StoredTensor::Storage::kRaw;
    tensor.external.entries.clear();
    ++placed;
  });
  if (placed) log.changes.push_back(Cat("the data of ", placed, " tensors is placed anew"));
}

}  // namespace

extern const Lint lint_external_data;
constinit const Lint lint_external_data = {
    .name = "external-data",
    .meaning = "External data is there, inside the model's folder, aligned, and not shared by accident.",
    .remedy = "Let 'ferry doctor --fix' write the data anew.",
    .look = Look,
    .stage = 95,
    .fix = Fix,
    .prove = ProveSameWhereItRuns,
};

}  // namespace ferry
