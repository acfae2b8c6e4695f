// Everything that a comparison finds: each output of each sample, the verdict, and the layer where things go wrong.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "measure/compare/agreement.h"
#include "measure/compare/sample.h"
#include "measure/compare/trace.h"
#include "measure/difference.h"
#include "measure/finding.h"

namespace ferry {

struct ComparedOutput {
  std::string name;
  std::string type;
  Difference difference;
  std::optional<Agreement> agreement;  // floats only
};

struct ComparedSample {
  std::string name;
  Sample::Kind kind = Sample::Kind::kRecorded;
  std::vector<ComparedOutput> outputs;
  // Why it was not compared: both sides refuse a sample that was made up.
  std::string refused;
  // Only one side gives an answer: which one, and why the other does not. This is a difference.
  std::string only_one;

  bool within() const;
};

// Where a mismatch with a recording comes from, as far as the model alone can tell.
enum class RecordedCause : uint8_t { kNotAsked, kPrecision, kOtherNetwork, kUnknown };

struct Comparison {
  std::string actual, expected;  // labels of the sides
  Tolerance tolerance;
  int64_t k = 5;
  std::vector<ComparedSample> samples;
  std::vector<ComparedOutput> totals;  // over all samples, an entry for each output
  std::optional<size_t> worst;         // the sample that is furthest off; none when everything is equal
  std::optional<LayerTrace> trace;
  RecordedCause cause = RecordedCause::kNotAsked;
  std::vector<std::string> notes;
  std::vector<Finding> findings;  // what the doctor says about the model, where it was asked

  bool within() const;
  double max_abs() const;
};

struct CompareOptions {
  Tolerance tolerance;
  int64_t k = 5;
  bool always_trace = false;  // also when everything is within tolerance
  std::function<void(size_t done, const std::string& sample)> progress;
};

// Each sample's recorded outputs. On a mismatch the model is also run in double, which tells rounding from a network
// that means something else.
Comparison CompareWithRecordings(const Side& side, const std::vector<Sample>& samples, const CompareOptions& options);

// Both sides on each sample; samples are in the names of the first one.
Comparison CompareSides(const Side& actual, const Side& expected, NameTrust trust, const std::vector<Sample>& samples,
                        const CompareOptions& options);

// The worst sample with the outputs that were expected of it, for `compare --data`.
void SaveWorst(const std::string& path, const Comparison& comparison, const std::vector<Sample>& samples,
               const Side& actual, const Side* expected);

}  // namespace ferry
