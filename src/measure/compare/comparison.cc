#include "measure/compare/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "measure/elements.h"
#include "ops/infer_graph.h"
#include "passes/widen_floats.h"
#include "tensor/npz.h"

namespace ferry {
namespace {

// How far off an output is when outputs are put in order: beyond tolerance by how much, then by how much at all.
double Badness(const Difference& difference) {
  if (!difference.mismatch.empty()) return std::numeric_limits<double>::infinity();
  double share =
      difference.elements > 0 ? static_cast<double>(difference.outside) / static_cast<double>(difference.elements) : 0;
  return (difference.outside > 0 ? 1e6 * (1 + share) : 0) + difference.max_abs / (1 + difference.max_abs);
}

double Badness(const ComparedSample& sample) {
  if (!sample.only_one.empty()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (const ComparedOutput& output : sample.outputs) worst = std::max(worst, Badness(output.difference));
  return worst;
}

void AddToTotals(std::vector<ComparedOutput>& totals, const ComparedOutput& output, const std::string& sample) {
  auto total = std::find_if(totals.begin(), totals.end(), [&](const auto& t) { return t.name == output.name; });
  if (total == totals.end()) {
    totals.push_back(output);
    if (!output.difference.within()) totals.back().difference.first = Cat(sample, ": ", output.difference.first);
    return;
  }
  if (output.agreement && !total->agreement) total->agreement = Agreement{};
  if (output.agreement)
    total->agreement->Include(*output.agreement, total->difference.elements, output.difference.elements);
  Include(total->difference, output.difference, Cat(sample, ":"));
}

void Finish(Comparison& comparison) {
  double worst = 0;
  for (size_t i = 0; i < comparison.samples.size(); ++i) {
    const ComparedSample& sample = comparison.samples[i];
    for (const ComparedOutput& output : sample.outputs) AddToTotals(comparison.totals, output, sample.name);
    double badness = Badness(sample);
    if (badness > worst) comparison.worst = i, worst = badness;
  }
  bool compared = std::any_of(comparison.samples.begin(), comparison.samples.end(),
                              [](const ComparedSample& sample) { return sample.refused.empty(); });
  if (!compared && !comparison.samples.empty())
    Fail(ErrorCode::kInvalidArgument, "no sample could be compared: ", comparison.samples[0].refused);
}

bool MixesFloats(const Value& a, const Value& b) {
  return a.is_tensor() && b.is_tensor() && a.tensor().dtype() != b.tensor().dtype() &&
         IsWidenedToDouble(a.tensor().dtype()) + (a.tensor().dtype() == DType::kDouble) > 0 &&
         IsWidenedToDouble(b.tensor().dtype()) + (b.tensor().dtype() == DType::kDouble) > 0;
}

ComparedOutput CompareOutput(const std::string& name, const Value& actual, const Value& expected,
                             const CompareOptions& options, TypeRule rule) {
  ComparedOutput output{name, ToText(TypeOf(actual)), {}, Agree(actual, expected, options.k)};
  output.difference = rule == TypeRule::kSame && MixesFloats(actual, expected)
                          ? Compare(WidenToDouble(actual), WidenToDouble(expected), options.tolerance)
                          : Compare(actual, expected, options.tolerance, rule);
  return output;
}

std::vector<std::string> NamesOf(const std::vector<ValueInfo>& infos) {
  std::vector<std::string> names;
  for (const ValueInfo& info : infos) names.push_back(info.name);
  return names;
}

// Inputs or outputs of two models that belong together: by name where all names are on both sides, else by position.
std::vector<std::string> PartnersOf(const std::vector<ValueInfo>& actual, const std::vector<ValueInfo>& expected,
                                    const char* what) {
  std::vector<std::string> names = NamesOf(actual), others = NamesOf(expected);
  if (names.size() != others.size())
    Fail(ErrorCode::kInvalidArgument, "the models can't be compared: one has ", names.size(), " ", what,
         names.size() == 1 ? "" : "s", ", the other ", others.size());
  std::unordered_set<std::string> there(others.begin(), others.end());
  bool by_name =
      std::all_of(names.begin(), names.end(), [&](const std::string& name) { return there.count(name) > 0; });
  return by_name ? names : others;
}

// The absolute tolerance is meant for numbers around 1. Inputs that were made large on purpose give large answers,
// whose rounding is as much larger.
Tolerance ToleranceFor(const Sample& sample, const Value& expected, Tolerance tolerance) {
  bool scaled = sample.kind == Sample::Kind::kEdgeCase && expected.is_tensor() && IsFloating(expected.tensor().dtype());
  if (!scaled) return tolerance;
  double largest = 1;
  for (double x : ToDoubles(expected.tensor()))
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  return {tolerance.rtol, tolerance.atol * largest};
}

struct Outcome {
  std::vector<Value> outputs;
  std::string problem;
};

Outcome TryToRun(const Side& side, const std::vector<NamedValue>& inputs, const std::vector<std::string>& names) {
  try {
    return {side.Run(inputs, names), {}};
  } catch (const Error& error) {
    return {{}, error.message()};
  }
}

class TwoSides {
 public:
  TwoSides(const Side& actual, const Side& expected, const CompareOptions& options)
      : actual_(actual), expected_(expected), options_(options), outputs_(NamesOf(actual.session().outputs())) {
    other_inputs_ = PartnersOf(actual.session().inputs(), expected.session().inputs(), "input");
    other_outputs_ = PartnersOf(actual.session().outputs(), expected.session().outputs(), "output");
  }

  std::vector<NamedValue> ForExpected(const std::vector<NamedValue>& inputs) const {
    std::vector<NamedValue> renamed;
    const std::vector<ValueInfo>& infos = actual_.session().inputs();
    for (const NamedValue& input : inputs) {
      auto it = std::find_if(infos.begin(), infos.end(), [&](const ValueInfo& i) { return i.name == input.first; });
      auto place = static_cast<size_t>(it - infos.begin());
      renamed.emplace_back(it == infos.end() ? input.first : other_inputs_[place], input.second);
    }
    return renamed;
  }

  const std::vector<std::string>& outputs() const { return outputs_; }

  Outcome RunExpected(const std::vector<NamedValue>& inputs) const {
    return TryToRun(expected_, ForExpected(inputs), other_outputs_);
  }

  ComparedSample CompareSample(const Sample& sample) const {
    ComparedSample compared{sample.name, sample.kind, {}, {}, {}};
    Outcome left = TryToRun(actual_, sample.inputs, outputs_), right = RunExpected(sample.inputs);
    if (!left.problem.empty() && !right.problem.empty()) {
      if (sample.kind == Sample::Kind::kRecorded) Fail(ErrorCode::kInvalidArgument, sample.name, ": ", left.problem);
      compared.refused = left.problem;
    } else if (!left.problem.empty()) {
      compared.only_one = Cat("only ", expected_.label(), " answers: ", left.problem);
    } else if (!right.problem.empty()) {
      compared.only_one = Cat("only ", actual_.label(), " answers: ", right.problem);
    }
    if (!compared.refused.empty() || !compared.only_one.empty()) return compared;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      CompareOptions options = options_;
      options.tolerance = ToleranceFor(sample, right.outputs[i], options.tolerance);
      compared.outputs.push_back(
          CompareOutput(outputs_[i], left.outputs[i], right.outputs[i], options, TypeRule::kSame));
    }
    return compared;
  }

 private:
  const Side& actual_;
  const Side& expected_;
  const CompareOptions& options_;
  std::vector<std::string> outputs_, other_inputs_, other_outputs_;
};

// Where names must survive, both sides run as they are written: rewriting for speed differs from model to model.
Side AsWritten(const Side& side) {
  Side::How how = side.how();
  how.options.optimize = false;
  return side.With(how);
}

void Trace(Comparison& comparison, const Side& actual, const Side& expected, NameTrust trust, const Sample& sample) {
  try {
    bool as_written = trust == NameTrust::kHints;
    comparison.trace = as_written ? TraceLayers(AsWritten(actual), AsWritten(expected), trust, sample.inputs)
                                  : TraceLayers(actual, expected, trust, sample.inputs);
    comparison.trace->sample = sample.name;
  } catch (const Error& error) {
    comparison.notes.push_back(Cat("the layers could not be compared: ", error.message()));
  }
}

void NoteKeptNarrow(Comparison& comparison, const Side& reference) {
  const std::vector<std::string>& kept = reference.kept_narrow();
  if (kept.empty()) return;
  std::vector<std::string> some(kept.begin(),
                                kept.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(kept.size(), 5)));
  comparison.notes.push_back(Cat(kept.size(), kept.size() == 1 ? " node has" : " nodes have",
                                 " no double form in the standard and kept the model's precision in the float64 run: ",
                                 Join(some, ", "), kept.size() > some.size() ? " …" : ""));
}

// How the recordings look from a run in double: does it answer as recorded where the model itself does not?
void ExplainRecordings(Comparison& comparison, const Side& side, const std::vector<Sample>& samples,
                       const CompareOptions& options) {
  const Sample& sample = samples[*comparison.worst];
  try {
    Side reference = side.With({"float64", true, side.how().options});
    std::vector<std::string> names;
    for (const NamedValue& output : sample.recorded_outputs) names.push_back(output.first);
    std::vector<Value> exact = reference.Run(sample.inputs, names);
    std::vector<Value> ours = side.Run(sample.inputs, names);
    bool exact_fits = true, ours_fits = true;
    for (size_t i = 0; i < names.size(); ++i) {
      Value rounded = WithFloatsLike(exact[i], TypeOf(ours[i]));
      exact_fits = exact_fits &&
                   Compare(rounded, sample.recorded_outputs[i].second, options.tolerance, TypeRule::kRecorded).within();
      ours_fits = ours_fits && Compare(ours[i], rounded, options.tolerance).within();
    }
    comparison.cause = exact_fits  ? RecordedCause::kPrecision
                       : ours_fits ? RecordedCause::kOtherNetwork
                                   : RecordedCause::kUnknown;
    NoteKeptNarrow(comparison, reference);
    if (!ours_fits) Trace(comparison, side, reference, NameTrust::kSameModel, sample);
  } catch (const Error& error) {
    comparison.cause = RecordedCause::kUnknown;
    comparison.notes.push_back(Cat("the float64 run failed: ", error.message()));
  }
}

}  // namespace

bool ComparedSample::within() const {
  return only_one.empty() && std::all_of(outputs.begin(), outputs.end(),
                                         [](const ComparedOutput& output) { return output.difference.within(); });
}

bool Comparison::within() const {
  return std::all_of(samples.begin(), samples.end(), [](const ComparedSample& sample) { return sample.within(); });
}

double Comparison::max_abs() const {
  double largest = 0;
  for (const ComparedOutput& total : totals) largest = std::max(largest, total.difference.max_abs);
  return largest;
}

Comparison CompareWithRecordings(const Side& side, const std::vector<Sample>& samples, const CompareOptions& options) {
  Comparison comparison;
  comparison.actual = side.label();
  comparison.expected = "recorded outputs";
  comparison.tolerance = options.tolerance;
  comparison.k = options.k;
  for (const Sample& sample : samples) {
    if (options.progress) options.progress(comparison.samples.size() + 1, sample.name);
    std::vector<std::string> names;
    for (const NamedValue& output : sample.recorded_outputs) names.push_back(output.first);
    if (names.empty())
      Fail(ErrorCode::kInvalidArgument, sample.name, ": there is no recorded output in it to compare with");
    ComparedSample compared{sample.name, sample.kind, {}, {}, {}};
    try {
      std::vector<Value> results = side.session().Run(sample.inputs, names);
      for (size_t i = 0; i < results.size(); ++i)
        compared.outputs.push_back(
            CompareOutput(names[i], results[i], sample.recorded_outputs[i].second, options, TypeRule::kRecorded));
    } catch (Error& error) {
      throw error.At(sample.name);
    }
    comparison.samples.push_back(std::move(compared));
  }
  Finish(comparison);
  if (!comparison.within()) ExplainRecordings(comparison, side, samples, options);
  return comparison;
}

Comparison CompareSides(const Side& actual, const Side& expected, NameTrust trust, const std::vector<Sample>& samples,
                        const CompareOptions& options) {
  Comparison comparison;
  comparison.actual = actual.label();
  comparison.expected = expected.label();
  comparison.tolerance = options.tolerance;
  comparison.k = options.k;
  TwoSides sides(actual, expected, options);
  for (const Sample& sample : samples) {
    if (options.progress) options.progress(comparison.samples.size() + 1, sample.name);
    comparison.samples.push_back(sides.CompareSample(sample));
  }
  Finish(comparison);
  for (const Side* side : {&actual, &expected})
    if (side->how().widen) NoteKeptNarrow(comparison, *side);
  size_t traced = comparison.worst.value_or(0);
  bool trace = (options.always_trace || !comparison.within()) && !comparison.samples.empty() &&
               comparison.samples[traced].only_one.empty() && comparison.samples[traced].refused.empty();
  if (trace) Trace(comparison, actual, expected, trust, samples[traced]);
  if (trace && trust == NameTrust::kHints && comparison.trace && !comparison.trace->first && !comparison.within())
    comparison.notes.push_back(
        "no layer differs when both models run as they are written: "
        "try 'ferry compare MODEL --against unoptimised'");
  return comparison;
}

void SaveWorst(const std::string& path, const Comparison& comparison, const std::vector<Sample>& samples,
               const Side& actual, const Side* expected) {
  const Sample& sample = samples[comparison.worst.value_or(0)];
  NamedTensors tensors;
  auto add = [&](const std::string& name, const Value& value) {
    if (!value.is_tensor())
      Fail(ErrorCode::kUnsupported, path, ": '", Printable(name), "' is ", value.KindName(), ", which .npz can't hold");
    for (const auto& taken : tensors)
      if (taken.first == name) return;
    tensors.emplace_back(name, value.tensor());
  };
  for (const NamedValue& input : sample.inputs) add(input.first, input.second);
  for (const NamedValue& output : sample.recorded_outputs)
    if (!expected) add(output.first, output.second);
  if (expected) {
    TwoSides sides(actual, *expected, {});
    Outcome outcome = sides.RunExpected(sample.inputs);
    for (size_t i = 0; i < outcome.outputs.size(); ++i) {
      Type declared = actual.session().outputs()[i].type;
      add(sides.outputs()[i], WithFloatsLike(outcome.outputs[i], declared));
    }
  }
  WriteNpz(path, tensors);
}

}  // namespace ferry
