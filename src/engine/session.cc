#include "engine/session.h"

#include <algorithm>

#include "base/run_scope.h"
#include "engine/loaded_model.h"
#include "engine/model_store.h"
#include "engine/plan_file.h"
#include "engine/profile.h"
#include "engine/runtime.h"
#include "ops/infer_graph.h"

namespace ferry {
namespace {

// The call that a thread made last and the program it led to: the next one like it needs no lock and no text.
class LastCall {
 public:
  std::shared_ptr<const ProgramCache::Entry> Find(uint64_t owner, std::span<const NamedValue> given,
                                                  std::span<const std::string> outputs) const {
    bool same = owner == owner_ && given.size() == inputs_.size() &&
                std::equal(outputs.begin(), outputs.end(), outputs_.begin(), outputs_.end());
    for (size_t i = 0; i < given.size() && same; ++i) {
      same = given[i].first == inputs_[i].name && given[i].second.is_tensor();
      if (!same) break;
      const Tensor& tensor = given[i].second.tensor();
      same = tensor.on_host() && tensor.dtype() == inputs_[i].dtype && tensor.shape() == inputs_[i].shape;
    }
    return same ? program_.lock() : nullptr;
  }

  // Where the program wants the i-th input of the call.
  size_t place(size_t i) const { return inputs_[i].place; }

  void Remember(uint64_t owner, std::span<const NamedValue> given, std::span<const std::string> outputs,
                const std::vector<const NamedValue*>& ordered,
                const std::shared_ptr<const ProgramCache::Entry>& program) {
    owner_ = 0;
    inputs_.clear();
    for (const NamedValue& input : given) {
      if (!input.second.is_tensor() || !input.second.tensor().on_host()) return;
      auto at = std::find(ordered.begin(), ordered.end(), &input);
      inputs_.push_back({input.first, input.second.tensor().dtype(), input.second.tensor().shape(),
                         static_cast<size_t>(at - ordered.begin())});
    }
    outputs_.assign(outputs.begin(), outputs.end());
    program_ = program;
    owner_ = owner;
  }

 private:
  struct Input {
    std::string name;
    DType dtype;
    Shape shape;
    size_t place;
  };
  uint64_t owner_ = 0;  // 0: nobody
  std::vector<Input> inputs_;
  std::vector<std::string> outputs_;
  std::weak_ptr<const ProgramCache::Entry> program_;
};

thread_local LastCall last_call;

void CheckType(const Type& declared, const Value& value, const std::string& what) {
  auto fail = [&](const std::string& why) {
    Fail(ErrorCode::kInvalidArgument, what, " must be ", declared, ", got ", TypeOf(value), ": ", why);
  };
  if (!declared.known()) return;
  if (declared.kind == Type::Kind::kOptional) {
    if (!value.is_nothing() && declared.element) CheckType(*declared.element, value, what);
    return;
  }
  bool kind_fits = declared.kind == Type::Kind::kTensor         ? value.is_tensor()
                   : declared.kind == Type::Kind::kSequence     ? value.is_sequence()
                   : declared.kind == Type::Kind::kMap          ? value.is_map()
                   : declared.kind == Type::Kind::kSparseTensor ? value.is_sparse()
                                                                : true;
  if (!kind_fits) fail(Cat("it is ", value.KindName()));
  if (!value.is_tensor()) return;
  const Tensor& tensor = value.tensor();
  if (declared.dtype != DType::kUndefined && tensor.dtype() != declared.dtype) fail("the element type differs");
  if (!declared.shape) return;
  if (tensor.rank() != declared.shape->size())
    fail(Cat("it has ", tensor.rank(), " dimensions where the model has ", declared.shape->size()));
  for (size_t axis = 0; axis < tensor.rank(); ++axis) {
    const Dim& dim = (*declared.shape)[axis];
    if (dim.known() && *dim.value >= 0 && *dim.value != tensor.dim(axis))
      fail(Cat("dimension ", axis, " is fixed to ", *dim.value, " in the model"));
  }
}

void CheckFreeDimensions(const std::map<std::string, int64_t>& sizes, const Type& declared, const Value& value,
                         const std::string& name) {
  if (sizes.empty() || !value.is_tensor() || !declared.shape) return;
  for (size_t axis = 0; axis < declared.shape->size(); ++axis) {
    auto fixed = sizes.find((*declared.shape)[axis].symbol);
    if (fixed != sizes.end() && value.tensor().dim(axis) != fixed->second)
      Fail(ErrorCode::kInvalidArgument, "input '", Printable(name), "' has ", value.tensor().dim(axis),
           " for dimension '", Printable(fixed->first), "', which the session's options fix to ", fixed->second);
  }
}

std::vector<std::string> NamesOf(const std::vector<ValueInfo>& infos) {
  std::vector<std::string> names;
  for (const ValueInfo& info : infos) names.push_back(info.name);
  return names;
}

}  // namespace

void FailUnknownName(const char* what, const std::string& name, const std::vector<std::string>& there) {
  std::string closest = ClosestName(name, there);
  Fail(ErrorCode::kInvalidArgument, "the model has no ", what, " '", Printable(name), "'",
       closest.empty() && there.size() > 20 ? std::string()
       : closest.empty()                    ? Cat("; it has: ", Printable(Join(there, ", "), 400))
                                            : Cat("; did you mean '", closest, "'?"));
}

struct Session::State {
  SessionOptions options;
  std::shared_ptr<Runtime> runtime;
  std::shared_ptr<LoadedModel> model;

  explicit State(const SessionOptions& given) : options(given), runtime(given.runtime) {
    Require(!runtime || options.threads == 0 || options.threads == runtime->threads(), "the session's runtime has ",
            runtime ? runtime->threads() : 0, " threads; leave those of the session at 0 instead of ", options.threads);
    if (!runtime) runtime = std::make_shared<Runtime>(options.threads);
  }
};

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {
  state_->model->programs().KeepAtLeast(static_cast<size_t>(state_->options.max_programs));
}

Session::~Session() = default;

std::shared_ptr<Session> Session::Open(const std::string& path, const SessionOptions& options) {
  if (IsPlanFile(path)) return OpenPlan(path, options);
  auto state = std::make_unique<State>(options);
  const RunScope scope("opening the model", options.limits, options.cancelled, RunScope::Memory::kNotCounted);
  state->model = ModelStore::OfThisProcess().Open(path, options);
  return std::shared_ptr<Session>(new Session(std::move(state)));
}

std::shared_ptr<Session> Session::FromModel(Model model, const SessionOptions& options) {
  auto state = std::make_unique<State>(options);
  const RunScope scope("opening the model", options.limits, options.cancelled, RunScope::Memory::kNotCounted);
  state->model = LoadFromMemory(std::move(model), options);
  return std::shared_ptr<Session>(new Session(std::move(state)));
}

const Model& Session::model() const { return state_->model->model(); }
const std::vector<ValueInfo>& Session::inputs() const { return state_->model->inputs(); }
const std::vector<ValueInfo>& Session::overridable_inputs() const { return state_->model->overridable(); }
const std::vector<ValueInfo>& Session::outputs() const { return state_->model->model().graph.outputs; }
int Session::threads() const { return state_->runtime->threads(); }
const SessionOptions& Session::options() const { return state_->options; }

namespace {

// A run may be given other limits than those of its session.
Limits LimitsOf(const RunOptions& run, Limits limits) {
  if (run.time_limit.count() > 0) limits.time = run.time_limit;
  if (run.max_bytes > 0) limits.bytes = run.max_bytes;
  if (run.max_iterations > 0) limits.iterations = run.max_iterations;
  return limits;
}

// The inputs of a run in the order of the model's, each checked against what the model says of it.
class GivenInputs {
 public:
  GivenInputs(const LoadedModel& model, const SessionOptions& options, std::span<const NamedValue> inputs)
      : options_(options), inputs_(inputs) {
    for (const ValueInfo& info : model.inputs()) Take(info, true);
    for (const ValueInfo& info : model.overridable()) Take(info, false);
    if (ordered_.size() == inputs.size()) return;
    const std::vector<std::string> names = NamesOf(model.inputs());
    for (const NamedValue& input : inputs)
      if (std::find(ordered_.begin(), ordered_.end(), &input) == ordered_.end())
        FailUnknownName("input", input.first, names);
  }

  const std::vector<const NamedValue*>& ordered() const { return ordered_; }

 private:
  void Take(const ValueInfo& info, bool required) {
    auto is_it = [&](const NamedValue& input) { return input.first == info.name; };
    auto found = std::find_if(inputs_.begin(), inputs_.end(), is_it);
    if (found == inputs_.end()) {
      if (required)
        Fail(ErrorCode::kInvalidArgument, "input '", Printable(info.name), "' (", info.type, ") is missing");
      return;
    }
    if (std::find_if(found + 1, inputs_.end(), is_it) != inputs_.end())
      Fail(ErrorCode::kInvalidArgument, "input '", Printable(info.name), "' is given twice");
    CheckType(info.type, found->second, Cat("input '", Printable(info.name), "'"));
    CheckFreeDimensions(options_.free_dimensions, info.type, found->second, info.name);
    ordered_.push_back(&*found);
  }

  const SessionOptions& options_;
  const std::span<const NamedValue> inputs_;
  std::vector<const NamedValue*> ordered_;
};

std::vector<Value> RunTimed(const Program& program, std::span<const Value> values, const RunServices& services,
                            const RunExtras& extras) {
  if (!extras.profile) return program.Run(values, services, extras);
  Profile::Clock::time_point begin = Profile::Clock::now();
  std::vector<Value> made = program.Run(values, services, extras);
  extras.profile->AddSpan("model_run", {begin, Profile::Clock::now()});
  return made;
}

}  // namespace

std::vector<Value> Session::Run(std::span<const NamedValue> inputs, std::span<const std::string> outputs,
                                const RunOptions& options) const {
  LoadedModel& model = *state_->model;
  const RunScope scope("the run", LimitsOf(options, state_->options.limits), options.cancelled);
  const RunServices services{state_->runtime->pool(), scope.limits().iterations};
  const RunExtras extras{options.profile, options.place_result ? &options.place_result : nullptr,
                         options.watch ? &options.watch : nullptr, options.homes};
  if (std::shared_ptr<const ProgramCache::Entry> program = last_call.Find(model.number(), inputs, outputs);
      program && state_->options.free_dimensions.empty()) {
    std::vector<Value> values(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) values[last_call.place(i)] = inputs[i].second;
    model.BeginRun(services.pool);
    return RunTimed(program->Use(), values, services, extras);
  }
  const GivenInputs given(model, state_->options, inputs);
  std::vector<std::string> results(outputs.begin(), outputs.end());
  if (results.empty()) results = NamesOf(model.model().graph.outputs);
  std::shared_ptr<const ProgramCache::Entry> program =
      model.ProgramFor(given.ordered(), results, state_->options.open_axes, services.pool);
  model.BeginRun(services.pool);
  last_call.Remember(model.number(), inputs, outputs, given.ordered(), program);
  std::vector<Value> values;
  for (const NamedValue* input : given.ordered()) values.push_back(input->second);
  return RunTimed(program->Use(), values, services, extras);
}

}  // namespace ferry
