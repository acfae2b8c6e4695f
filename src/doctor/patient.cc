#include "doctor/patient.h"

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "doctor/lint.h"
#include "engine/check_inference.h"
#include "onnx/upgrade/upgrade.h"
#include "passes/inline_functions.h"

namespace ferry {
namespace {

// What one look at a model may spend on running it with made-up inputs.
constexpr double kGeneratedBudgetMs = 250;
constexpr int kMostThreads = 8;  // for looking at weights: more wait for memory
constexpr int64_t kLargestFolded = int64_t{1} << 20;

// Whether inference has something to stand on: it finds shapes that are missing, and nodes are sorted for it.
bool IsSound(const Model& model) {
  for (const Problem& problem : CheckModel(model))
    if (problem.severity == Severity::kError && !IsOneOf(problem.rule, {"value.shape-missing", "graph.order"}))
      return false;
  return true;
}

std::unique_ptr<InferredGraph> Infer(const Model& model) {
  try {
    Model copy = CopyDeep(model);
    UpgradeToNewest(copy);
    InlineFunctions(copy);
    auto inferred = std::make_unique<InferredGraph>();
    inferred->graph = std::move(copy.graph);
    InferOptions options;
    options.largest_computed = kLargestFolded;
    options.defaults_may_change = true;
    options.on_error = [](const Node&, const Error&) {};  // the lint for the standard speaks of them
    inferred->facts = InferGraph(inferred->graph, {}, options);
    return inferred;
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace

Patient::Patient(const Model& model, const DoctorOptions& options) : model_(model), options_(options) {
  for (const std::string& name : options.targets) targets_.push_back(FindTarget(name));
}

Patient::~Patient() = default;

const std::vector<Problem>& Patient::problems() const {
  if (!problems_) problems_ = CheckFully(model_);
  return *problems_;
}

const InferredGraph* Patient::inferred() const {
  if (!inferred_) inferred_ = IsSound(model_) ? Infer(model_) : nullptr;
  return inferred_->get();
}

namespace {

// Bodies beside each other may use a name for different things, of which nothing is known then.
const ValueFacts* FindFacts(const InferredGraph* inferred, const std::string& name) {
  if (!inferred) return nullptr;
  if (const ValueFacts* found = inferred->facts.Find(name)) return found;
  const ValueFacts* only = nullptr;
  for (const auto& [body, values] : inferred->facts.bodies) {
    auto it = values.find(name);
    if (it == values.end()) continue;
    if (only && (ToText(only->type) != ToText(it->second.type) || only->constant || it->second.constant))
      return nullptr;
    only = &it->second;
  }
  return only;
}

}  // namespace

const Tensor* Patient::ConstantOf(const std::string& name) const {
  if (const StoredTensor* stored = model_.graph.FindInitializer(name))
    return stored->problem.empty() && stored->tensor.defined() ? &stored->tensor : nullptr;
  const ValueFacts* facts = FindFacts(inferred(), name);
  return facts && facts->constant ? &*facts->constant : nullptr;
}

const Type* Patient::TypeOf(const std::string& name) const {
  const ValueFacts* facts = FindFacts(inferred(), name);
  return facts ? &facts->type : nullptr;
}

const RunnableSizes& Patient::runnable_sizes() const {
  if (!runnable_sizes_) runnable_sizes_ = inferred() ? FindRunnableSizes(inferred()->graph) : RunnableSizes{};
  return *runnable_sizes_;
}

const std::shared_ptr<Session>& Patient::session() const {
  if (session_) return *session_;
  session_.emplace();
  try {
    *session_ = Session::FromModel(CopyDeep(model_), {.optimize = false});
  } catch (const Error& error) {
    why_no_session_ = error.message();
  }
  return *session_;
}

const std::vector<Trial>& Patient::trials() const {
  if (trials_) return *trials_;
  trials_.emplace();
  if (!session()) {
    if (!options_.data.empty()) Fail(ErrorCode::kUnsupported, why_no_session_);
    return *trials_;
  }
  try {
    *trials_ = GatherTrials(*session(), options_.data, runnable_sizes().sizes);
  } catch (const Error&) {
    if (!options_.data.empty()) throw;
  }
  return *trials_;
}

const std::vector<TrialNumbers>& Patient::numbers() const {
  if (!numbers_)
    numbers_ =
        trials().empty() ? std::vector<TrialNumbers>{} : RunTrials(*session(), trials(), kGeneratedBudgetMs, pool());
  return *numbers_;
}

ThreadPool& Patient::pool() const {
  if (!pool_) pool_.emplace(std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMostThreads));
  return *pool_;
}

}  // namespace ferry
