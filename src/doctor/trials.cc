#include "doctor/trials.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>
#include <unordered_set>

#include "base/directory.h"
#include "base/error.h"
#include "graph/standard.h"
#include "measure/elements.h"
#include "measure/random_input.h"
#include "measure/recording.h"
#include "ops/traits.h"

namespace ferry {
namespace {

Tensor Filled(const Tensor& like, float number) {
  Tensor floats(DType::kFloat, like.shape());
  std::fill_n(floats.MutableData<float>(), floats.size(), number);
  return floats;
}

// The random inputs, with every floating-point element set to one number.
std::vector<NamedValue> WithFloatsSet(const std::vector<NamedValue>& inputs, float number) {
  std::vector<NamedValue> set = inputs;
  for (NamedValue& input : set)
    if (input.second.is_tensor() && input.second.tensor().dtype() == DType::kFloat)
      input.second = Filled(input.second.tensor(), number);
  return set;
}

bool AnyFloat(const std::vector<NamedValue>& inputs) {
  return std::any_of(inputs.begin(), inputs.end(), [](const NamedValue& input) {
    return input.second.is_tensor() && input.second.tensor().dtype() == DType::kFloat;
  });
}

// Nobody wants gigabytes of made-up numbers.
bool CanMakeUp(const Session& session) {
  constexpr double kMostElements = 1 << 26;
  double elements = 0;
  for (const ValueInfo& input : session.inputs()) {
    double of_one = 1;
    for (const Dim& dim : input.type.shape.value_or(SymbolicShape{}))
      if (dim.known()) of_one *= static_cast<double>(*dim.value);
    elements += of_one;
  }
  return elements <= kMostElements;
}

void RefuseNan(const std::string& name, const Tensor& tensor) {
  if (IsFloating(tensor.dtype()) && Count(tensor).nans > 0)
    Fail(ErrorCode::kInvalidArgument, "input '", Printable(name), "' holds NaN");
}

// Whether recorded inputs have the shapes that the model declares. Another batch size is no mistake of the recording.
bool Fits(const Session& session, const std::vector<NamedValue>& inputs) {
  bool fits = true;
  for (const ValueInfo& declared : session.inputs()) {
    auto given = std::find_if(inputs.begin(), inputs.end(),
                              [&](const NamedValue& input) { return input.first == declared.name; });
    if (given == inputs.end())
      Fail(ErrorCode::kInvalidArgument, "input '", Printable(declared.name), "' is not recorded in it");
    if (!given->second.is_tensor() || !declared.type.is_tensor() || !declared.type.has_rank()) continue;
    const Tensor& tensor = given->second.tensor();
    RefuseNan(declared.name, tensor);
    const SymbolicShape& shape = *declared.type.shape;
    auto differs = [&](size_t axis) { return shape[axis].known() && *shape[axis].value != tensor.dim(axis); };
    bool same = tensor.rank() == shape.size();
    for (size_t axis = 1; same && axis < shape.size(); ++axis) same = !differs(axis);
    if (!same)
      Fail(ErrorCode::kInvalidArgument, "input '", Printable(declared.name), "' must be ", declared.type, ", got ",
           tensor.dtype(), tensor.shape());
    if (!shape.empty() && differs(0)) fits = false;
  }
  return fits;
}

struct QuantizedRange {
  double low, high;
  bool cuts_at_zero;  // the lower end is the real number 0, as a fused Relu has it
};

// What a QuantizeLinear with one scale for the whole tensor can express.
std::optional<QuantizedRange> RangeOf(const Node& node, const Graph& graph) {
  const StoredTensor* scale = node.HasInput(1) ? graph.FindInitializer(node.inputs[1]) : nullptr;
  const StoredTensor* zero = node.HasInput(2) ? graph.FindInitializer(node.inputs[2]) : nullptr;
  if (!scale || !scale->problem.empty() || !scale->tensor.defined() || scale->tensor.size() != 1) return std::nullopt;
  if (node.HasInput(2) && (!zero || !zero->tensor.defined() || zero->tensor.size() != 1)) return std::nullopt;
  DType type = zero ? zero->dtype : DType::kUInt8;
  if (!IsInteger(type) || BitWidth(type) > 16) return std::nullopt;
  int bits = BitWidth(type);
  double least = IsSignedInteger(type) ? -std::ldexp(1, bits - 1) : 0;
  double most = least + std::ldexp(1, bits) - 1;
  double step = ToDoubles(scale->tensor)[0], offset = zero ? ToDoubles(zero->tensor)[0] : 0;
  return QuantizedRange{(least - 0.5 - offset) * step, (most + 0.5 - offset) * step, offset == least};
}

double ShareOutside(const Tensor& tensor, const QuantizedRange& range) {
  std::vector<double> numbers = ToDoubles(tensor);
  int64_t outside = 0;
  for (double number : numbers) outside += number > range.high || (number < range.low && !range.cuts_at_zero);
  return numbers.empty() ? 0 : static_cast<double>(outside) / static_cast<double>(numbers.size());
}

// What can be said about a graph's values before it runs.
class ValueNames {
 public:
  explicit ValueNames(const Graph& graph) {
    for (const Node& node : graph.nodes) {
      if (HasSameElements(node)) same_as_[node.outputs[0]] = RootOf(node.inputs[0]);
      for (const std::string& input : node.inputs) read_.insert(input);
      for (const std::string& output : node.outputs)
        if (!output.empty()) made_.push_back(output);
      std::optional<QuantizedRange> range;
      if (node.op_type == "QuantizeLinear" && node.HasOutput(0)) range = RangeOf(node, graph);
      if (range) quantized_[RootOf(node.inputs[0])].emplace_back(node.outputs[0], *range);
    }
    for (const ValueInfo& output : graph.outputs) read_.erase(output.name);
  }

  const std::vector<std::string>& made() const { return made_; }
  // All that must be asked for so that every node runs.
  std::vector<std::string> Last() const {
    std::vector<std::string> last;
    for (const std::string& name : made_)
      if (!read_.count(name)) last.push_back(name);
    return last;
  }
  // The value whose elements these are.
  const std::string& RootOf(const std::string& name) const {
    auto found = same_as_.find(name);
    return found == same_as_.end() ? name : found->second;
  }
  // Outputs of QuantizeLinear that a value is the input of, with what they can express.
  std::span<const std::pair<std::string, QuantizedRange>> QuantizedFrom(const std::string& root) const {
    auto found = quantized_.find(root);
    if (found == quantized_.end()) return {};
    return found->second;
  }

 private:
  static bool HasSameElements(const Node& node) {
    if (!node.HasInput(0) || node.outputs.size() != 1) return false;
    return TraitsOf(node).is_view || IsStandard(node, "Transpose");
  }

  std::vector<std::string> made_;
  std::unordered_set<std::string> read_;
  std::unordered_map<std::string, std::string> same_as_;
  std::unordered_map<std::string, std::vector<std::pair<std::string, QuantizedRange>>> quantized_;
};

// Values are counted as they come: all of them together may be more than memory holds.
TrialNumbers RunOne(const Session& session, const Trial& trial, const ValueNames& names, ThreadPool& pool) {
  TrialNumbers numbers{.trial = &trial};
  std::unordered_set<std::string> others;  // of another type
  auto take = [&](const std::string& name, const Value& value) {
    if (names.RootOf(name) != name) return;
    if (!value.is_tensor() || !IsFloating(value.tensor().dtype())) {
      others.insert(name);
      return;
    }
    numbers.values.emplace(name, Count(value.tensor(), &pool));
    for (const auto& [output, range] : names.QuantizedFrom(name))
      numbers.clipped[output] = ShareOutside(value.tensor(), range);
  };
  for (const NamedValue& input : trial.inputs) take(input.first, input.second);
  RunOptions options;
  options.watch = take;
  session.Run(trial.inputs, names.Last(), options);

  std::vector<std::string> unseen;  // weights, and constants that no step makes
  for (const std::string& name : names.made()) {
    const std::string& root = names.RootOf(name);
    if (numbers.values.count(root) || !others.insert(root).second) continue;
    const StoredTensor* stored = session.model().graph.FindInitializer(root);
    if (stored && stored->problem.empty() && stored->tensor.defined())
      take(root, stored->tensor);
    else
      unseen.push_back(root);
  }
  if (!unseen.empty()) {
    std::vector<Value> results = session.Run(trial.inputs, unseen);
    for (size_t i = 0; i < unseen.size(); ++i) take(unseen[i], results[i]);
  }
  for (const std::string& name : names.made())
    if (auto root = numbers.values.find(names.RootOf(name)); root != numbers.values.end())
      numbers.values.emplace(name, Numbers(root->second));
  return numbers;
}

}  // namespace

std::vector<Trial> GatherTrials(const Session& session, const std::vector<std::string>& paths,
                                const std::map<std::string, int64_t>& sizes) {
  std::vector<Trial> trials;
  bool any_fits = false;
  for (const std::string& path : paths) {
    Recording recording = ReadRecording(path, session);
    try {
      bool fits = Fits(session, recording.inputs);
      trials.push_back({std::string(LastPart(path)), recording.inputs, recording.outputs, true, fits});
      any_fits = any_fits || fits;
    } catch (Error& error) {
      throw error.At(path);
    }
  }
  if (any_fits || !CanMakeUp(session)) return trials;
  std::vector<NamedValue> random = MakeRandomInputs(session, {.dimensions = sizes});
  std::string at;
  for (const auto& [name, size] : sizes) at += Cat(", ", name, "=", size);
  trials.push_back({"random" + at, random, {}, false, true});
  if (AnyFloat(random)) {
    trials.push_back({"zeros" + at, WithFloatsSet(random, 0), {}, false, true});
    trials.push_back({"ones" + at, WithFloatsSet(random, 1), {}, false, true});
  }
  return trials;
}

std::vector<TrialNumbers> RunTrials(const Session& session, const std::vector<Trial>& trials, double budget_ms,
                                    ThreadPool& pool) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now();
  auto used_ms = [&] { return std::chrono::duration<double, std::milli>(Clock::now() - start).count(); };
  const ValueNames names(session.model().graph);
  std::vector<TrialNumbers> all;
  double longest_ms = 0;
  for (const Trial& trial : trials) {
    if (!trial.fits) continue;
    double before_ms = used_ms();
    if (!trial.recorded && before_ms + longest_ms > budget_ms) break;
    try {
      all.push_back(RunOne(session, trial, names, pool));
    } catch (const Error& error) {
      if (trial.recorded) throw Error(error).At(trial.name);
    }
    longest_ms = std::max(longest_ms, used_ms() - before_ms);
  }
  return all;
}

}  // namespace ferry
