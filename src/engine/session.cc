#include "engine/session.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "base/directory.h"
#include "base/thread_pool.h"
#include "engine/prepare.h"
#include "engine/profile.h"
#include "engine/program.h"
#include "graph/name_table.h"
#include "onnx/reader.h"

namespace ferry {
namespace {

// Programs for this many sets of shapes are kept; a server that sees more of them rebuilds the rarest.
constexpr size_t kMostPrograms = 32;

// The call that a thread made last and the program it led to: the next one like it needs no lock and no text.
class LastCall {
 public:
  std::shared_ptr<const Program> Find(uint64_t owner, std::span<const NamedValue> given,
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
                const std::vector<const NamedValue*>& ordered, const std::shared_ptr<const Program>& program) {
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
  std::weak_ptr<const Program> program_;
};

thread_local LastCall last_call;

uint64_t NextNumber() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

ProviderOptions ProviderOptionsFrom(const SessionOptions& options) {
  return {options.exact, options.tune, options.precision};
}

}  // namespace

// What sessions on one file have in common.
struct Session::Shared {
  Model model;
  const int threads;
  std::optional<Graph> fast_graph;          // rewritten for speed: some values are gone
  mutable std::optional<Graph> as_written;  // made when one of those is asked for
  std::vector<ValueInfo> inputs, overridable;
  const CompilerList compilers;
  mutable WeightCache weights;
  const uint64_t number = NextNumber();  // no other has it, ever

  std::atomic<bool> has_run = false;
  std::mutex mutex;
  std::list<std::pair<std::string, std::shared_ptr<const Program>>> programs;  // most recently used first

  ~Shared() { weights.Save(); }
  Shared(Model read, const SessionOptions& options)
      : model(std::move(read)),
        threads(options.threads),
        compilers(FindProviders(options.provider, options.more_providers), ProviderOptionsFrom(options)) {
    Graph graph = PrepareGraph(model, threads, options.optimize ? Weights::kAsTheyLie : Weights::kReadable);
    NameTable has_default(graph.initializers.size());
    for (const StoredTensor& initializer : graph.initializers) has_default.Add(initializer.name);
    for (const ValueInfo& input : model.graph.inputs)
      (has_default.Has(input.name) ? overridable : inputs).push_back(input);
    if (options.cache_folder.empty()) weights.Defer();
    if (options.optimize) compilers.first().Rewrite(graph);
    (options.optimize ? fast_graph : as_written) = std::move(graph);
  }

  bool FastGraphMakes(const std::vector<std::string>& results) const {
    if (!fast_graph) return false;
    NameTable there(fast_graph->initializers.size() + fast_graph->nodes.size());
    for (const ValueInfo& info : fast_graph->inputs) there.Add(info.name);
    for (const StoredTensor& tensor : fast_graph->initializers) there.Add(tensor.name);
    for (const Node& node : fast_graph->nodes)
      for (const std::string& output : node.outputs) there.Add(output);
    return std::all_of(results.begin(), results.end(), [&](const std::string& name) { return there.Has(name); });
  }

  std::shared_ptr<const Program> ProgramFor(const std::vector<const NamedValue*>& given,
                                            const std::vector<std::string>& results, ThreadPool* pool);
  std::shared_ptr<const Program> Build(const std::vector<const NamedValue*>& given,
                                       const std::vector<std::string>& results, ThreadPool* pool) const;
};

struct Session::State {
  std::shared_ptr<Shared> shared;
  SessionOptions options;
  int threads = 1;
  std::unique_ptr<ThreadPool> pool;
};

namespace {

// Two runs may share a program when this text is the same for both.
std::string ProgramKey(const std::vector<const NamedValue*>& given, const std::vector<std::string>& results) {
  std::string key;
  for (const NamedValue* input : given) {
    key += input->first;
    const Value& value = input->second;
    if (value.is_tensor()) {
      key += static_cast<char>('A' + static_cast<int>(value.tensor().dtype()));
      for (int64_t dim : value.tensor().shape()) {
        AppendInteger(key, dim);
        key += ',';
      }
      if (!value.tensor().on_host()) (key += '@') += value.tensor().space().name();
    } else {
      key += value.KindName();
    }
    key += '\n';
  }
  for (const std::string& name : results) (key += '>') += name;
  return key;
}

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

[[noreturn]] void FailUnknownName(const char* what, const std::string& name, const std::vector<std::string>& there) {
  std::string closest = ClosestName(name, there);
  Fail(ErrorCode::kInvalidArgument, "the model has no ", what, " '", Printable(name), "'",
       closest.empty() && there.size() > 20 ? std::string()
       : closest.empty()                    ? Cat("; it has: ", Printable(Join(there, ", "), 400))
                                            : Cat("; did you mean '", closest, "'?"));
}

}  // namespace

std::shared_ptr<const Program> Session::Shared::Build(const std::vector<const NamedValue*>& given,
                                                      const std::vector<std::string>& results, ThreadPool* pool) const {
  FactsByName known;
  std::vector<std::string> names;
  std::vector<MemorySpace*> spaces;
  for (const NamedValue* input : given) {
    names.push_back(input->first);
    spaces.push_back(input->second.is_tensor() ? &input->second.tensor().space() : &HostMemory());
    Type type = TypeOf(input->second);
    known[input->first].type = input->second.is_tensor() ? std::move(type) : Type{};
  }
  // A contradiction that inference finds is met again by the kernel, which knows the values and says more.
  InferOptions infer;
  infer.on_error = [](const Node&, const Error&) {};
  infer.weights_anywhere = true;
  const bool is_fast = FastGraphMakes(results);
  if (!is_fast && !as_written) as_written = PrepareGraph(model, threads);
  const Graph& chosen = is_fast ? *fast_graph : *as_written;
  GraphFacts facts;
  std::shared_ptr<const Graph> special;
  if (is_fast && results == NamesOf(model.graph.outputs))
    special = compilers.first().RewriteForShapes(chosen, known, facts);
  if (!special) facts = InferGraph(chosen, known, infer);
  for (const std::string& name : results) {
    if (facts.Find(name)) continue;
    std::vector<std::string> there;
    for (const auto& value : facts.values) there.push_back(value.first);
    FailUnknownName("value", name, there);
  }
  WeightCache::Team team(weights);
  std::unique_ptr<Program> program = BuildProgram(
      {special ? *special : chosen, facts, std::move(names), results, compilers, weights, std::move(spaces)});
  program->Keep(std::move(special));
  team.Finish(pool);
  for (const CompilerList::Entry& entry : compilers.entries) entry.compiler->Save();
  return program;
}

std::shared_ptr<const Program> Session::Shared::ProgramFor(const std::vector<const NamedValue*>& given,
                                                           const std::vector<std::string>& results, ThreadPool* pool) {
  std::string key = ProgramKey(given, results);
  std::lock_guard lock(mutex);
  for (auto it = programs.begin(); it != programs.end(); ++it) {
    if (it->first != key) continue;
    programs.splice(programs.begin(), programs, it);
    return programs.front().second;
  }
  std::shared_ptr<const Program> made = Build(given, results, pool);
  weights.Save();
  programs.emplace_front(std::move(key), made);
  if (programs.size() > kMostPrograms) programs.pop_back();
  return made;
}

namespace {

// Identifies a file's content well enough to share what was made from it.
std::string FileIdentity(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return {};
  return Cat(info.st_dev, ":", info.st_ino, ":", info.st_size, ":", info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec);
}

void CollectLocations(const Graph& graph, std::unordered_set<std::string>& locations) {
  ForEachGraph(graph, [&](const Graph& inner) {
    for (const StoredTensor& tensor : inner.initializers)
      for (const auto& [key, value] : tensor.external.entries)
        if (key == "location") locations.insert(value);
  });
}

// Names and shapes of a graph's weights, for models that come from no file. What was packed is found by its bytes.
std::string StructureOf(const Graph& graph) {
  std::string structure = graph.name;
  for (const StoredTensor& tensor : graph.initializers) {
    structure += Cat("/", tensor.name);
    for (int64_t dim : tensor.dims) structure += Cat(",", dim);
  }
  return structure;
}

// Whatever packed weights depend on beside the model.
std::string FingerprintOf(const SessionOptions& options) {
  std::string text;
  for (const Provider* provider : FindProviders(options.provider, options.more_providers))
    text += Cat(provider->name(), " (", provider->Fingerprint(ProviderOptionsFrom(options)), ") ");
  return text;
}

// Where the packed weights of a model lie: one file for each model, and for each instruction set that would pack
// otherwise.
std::string CachePath(const SessionOptions& options, const std::string& model) {
  const std::string& folder = options.cache_folder;
  bool is_folder = mkdir(folder.c_str(), 0777) == 0 || IsDirectory(folder);
  if (!is_folder || folder.find('\0') != std::string::npos)
    Fail(ErrorCode::kIo, Printable(folder), ": is no folder for packed weights and cannot be made one");
  std::string text = Cat(model, "|", FingerprintOf(options), "|", options.optimize);
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(Checksum(text.data(), text.size())));
  return Cat(folder, "/", digits, ".ferry-weights");
}

std::string WholePath(const std::string& path) {
  std::unique_ptr<char, decltype(&std::free)> whole(realpath(path.c_str(), nullptr), &std::free);
  return whole ? whole.get() : path;
}

struct SharedByFile {
  std::mutex mutex;
  struct Entry {
    std::weak_ptr<void> shared;
    std::vector<std::pair<std::string, std::string>> data_files;  // path, identity
  };
  std::unordered_map<std::string, Entry> entries;
};

SharedByFile& SharedFiles() {
  static SharedByFile files;
  return files;
}

bool Unchanged(const SharedByFile::Entry& entry) {
  for (const auto& [path, identity] : entry.data_files)
    if (FileIdentity(path) != identity) return false;
  return true;
}

}  // namespace

std::shared_ptr<Session> Session::Open(const std::string& path, const SessionOptions& options) {
  auto state = std::make_unique<State>();
  state->options = options;
  std::string key = Cat(FileIdentity(path), "|", options.provider, "|", options.optimize, options.exact,
                        static_cast<int>(options.precision), "|", options.cache_folder, "|", options.tune);
  SharedByFile& files = SharedFiles();
  std::lock_guard lock(files.mutex);
  auto known = files.entries.find(key);
  if (known != files.entries.end() && Unchanged(known->second))
    state->shared = std::static_pointer_cast<Shared>(known->second.shared.lock());
  if (!state->shared) {
    try {
      state->shared = std::make_shared<Shared>(ReadModel(path), options);
      if (!options.cache_folder.empty())
        state->shared->weights.UseFile(CachePath(options, WholePath(path)),
                                       Cat(FingerprintOf(options), FileIdentity(path)));
    } catch (Error& error) {
      if (error.message().find(path) == std::string::npos) error.At(path);
      throw;
    }
    SharedByFile::Entry entry{state->shared, {}};
    std::unordered_set<std::string> locations;
    CollectLocations(state->shared->model.graph, locations);
    std::string folder = path.substr(0, path.find_last_of('/') + 1);
    for (const std::string& location : locations)
      entry.data_files.emplace_back(folder + location, FileIdentity(folder + location));
    std::erase_if(files.entries, [](const auto& item) { return item.second.shared.expired(); });
    files.entries[key] = std::move(entry);
  }
  return std::shared_ptr<Session>(new Session(std::move(state)));
}

std::shared_ptr<Session> Session::FromModel(Model model, const SessionOptions& options) {
  auto state = std::make_unique<State>();
  state->options = options;
  state->shared = std::make_shared<Shared>(std::move(model), options);
  if (!options.cache_folder.empty()) {
    const std::string structure = StructureOf(state->shared->model.graph);
    state->shared->weights.UseFile(CachePath(options, structure), Cat(FingerprintOf(options), "a model in memory"));
  }
  return std::shared_ptr<Session>(new Session(std::move(state)));
}

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {
  const SessionOptions& options = state_->options;
  Require(options.threads >= 0 && options.threads <= 1024, "threads must be 0 (all cores) to 1024, got ",
          options.threads);
  state_->threads =
      options.threads > 0 ? options.threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  if (state_->threads > 1) state_->pool = std::make_unique<ThreadPool>(state_->threads);
}

Session::~Session() = default;

const Model& Session::model() const { return state_->shared->model; }
const std::vector<ValueInfo>& Session::inputs() const { return state_->shared->inputs; }
const std::vector<ValueInfo>& Session::overridable_inputs() const { return state_->shared->overridable; }
const std::vector<ValueInfo>& Session::outputs() const { return state_->shared->model.graph.outputs; }
int Session::threads() const { return state_->threads; }

namespace {

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
  Shared& shared = *state_->shared;
  RunServices services{state_->pool.get(), state_->options.max_iterations, options.cancelled};
  RunExtras extras{options.profile, options.place_result ? &options.place_result : nullptr,
                   options.watch ? &options.watch : nullptr};
  if (std::shared_ptr<const Program> program = last_call.Find(shared.number, inputs, outputs);
      program && state_->options.free_dimensions.empty()) {
    std::vector<Value> values(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) values[last_call.place(i)] = inputs[i].second;
    shared.weights.KeepAll(services.pool);
    return RunTimed(*program, values, services, extras);
  }
  std::vector<const NamedValue*> given;
  auto take = [&](const ValueInfo& info, bool required) {
    auto is_it = [&](const NamedValue& input) { return input.first == info.name; };
    auto found = std::find_if(inputs.begin(), inputs.end(), is_it);
    if (found == inputs.end()) {
      if (required)
        Fail(ErrorCode::kInvalidArgument, "input '", Printable(info.name), "' (", info.type, ") is missing");
      return;
    }
    if (std::find_if(found + 1, inputs.end(), is_it) != inputs.end())
      Fail(ErrorCode::kInvalidArgument, "input '", Printable(info.name), "' is given twice");
    CheckType(info.type, found->second, Cat("input '", Printable(info.name), "'"));
    CheckFreeDimensions(state_->options.free_dimensions, info.type, found->second, info.name);
    given.push_back(&*found);
  };
  for (const ValueInfo& info : shared.inputs) take(info, true);
  for (const ValueInfo& info : shared.overridable) take(info, false);
  if (given.size() != inputs.size()) {
    std::vector<std::string> names = NamesOf(shared.inputs);
    for (const NamedValue& input : inputs)
      if (std::none_of(given.begin(), given.end(), [&](const NamedValue* g) { return g == &input; }))
        FailUnknownName("input", input.first, names);
  }
  std::vector<std::string> results(outputs.begin(), outputs.end());
  if (results.empty()) results = NamesOf(shared.model.graph.outputs);
  if (shared.has_run.exchange(true)) shared.weights.KeepAll(services.pool);
  std::shared_ptr<const Program> program = shared.ProgramFor(given, results, services.pool);

  last_call.Remember(shared.number, inputs, outputs, given, program);
  std::vector<Value> values;
  for (const NamedValue* input : given) values.push_back(input->second);
  return RunTimed(*program, values, services, extras);
}

}  // namespace ferry
