#include "doctor/lint.h"
#include "doctor/proof.h"
#include "graph/stored_tensors.h"

namespace ferry {
namespace {

// A protobuf message ends at 2 GiB; graph and names need room beside the weights.
constexpr uint64_t kLimit = uint64_t{1} << 31, kNear = kLimit / 8 * 7;

void Look(const Patient& patient, FindingList& findings) {
  uint64_t inside = 0;
  ForEachStoredTensor(patient.model(), [&](const StoredTensor& tensor) {
    if (tensor.storage != StoredTensor::Storage::kExternal && tensor.tensor.defined()) inside += tensor.tensor.bytes();
  });
  if (inside < kNear) return;
  Finding& finding =
      findings.Add({}, "weights inside the model file come near the 2 GiB at which a protobuf file ends");
  finding.evidence.emplace_back("bytes", Cat(inside));
  finding.evidence.emplace_back("limit", Cat(kLimit));
}

void Fix(const Patient&, Model&, FixLog& log) {
  log.changes.push_back("weights go to a file beside the model when it is written");
}

}  // namespace

extern const Lint lint_file_size;
constinit const Lint lint_file_size = {
    .name = "file-size",
    .meaning = "The file stays well below protobuf's limit of 2 GiB.",
    .remedy = "Keep the weights in a file beside the model; 'ferry doctor --fix' writes them there.",
    .look = Look,
    .stage = 99,
    .fix = Fix,
    .prove = ProveSameWhereItRuns,
};

}  // namespace ferry
