#include "engine/loaded_model.h"

#include <algorithm>

#include "base/run_scope.h"
#include "engine/packed_weights.h"
#include "engine/prepare.h"
#include "engine/program.h"
#include "engine/runtime.h"
#include "graph/name_table.h"

namespace ferry {
namespace {

uint64_t NextNumber() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

bool IsOpen(const OpenAxes& open, const std::string& input, size_t axis) {
  const auto found = open.find(input);
  return found != open.end() && std::find(found->second.begin(), found->second.end(), axis) != found->second.end();
}

// Two runs may share a program when this text is the same for both.
std::string ProgramKey(const std::vector<const NamedValue*>& given, const std::vector<std::string>& results,
                       const OpenAxes& open, bool is_as_told) {
  std::string key = is_as_told ? "" : "!";
  for (const NamedValue* input : given) {
    key += input->first;
    const Value& value = input->second;
    if (value.is_tensor()) {
      key += static_cast<char>('A' + static_cast<int>(value.tensor().dtype()));
      for (size_t axis = 0; axis < value.tensor().rank(); ++axis) {
        if (!IsOpen(open, input->first, axis)) AppendInteger(key, value.tensor().dim(axis));
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

// Takes the sizes of open axes out of a type; what the model calls them stays, so that equal ones are known to be
// equal, where they are.
void OpenAxesOf(const NamedValue& input, const OpenAxes& open, const Model& model, bool is_as_told, Type& type) {
  if (open.empty() || !type.shape) return;
  const ValueInfo* declared = is_as_told ? model.graph.FindInput(input.first) : nullptr;
  for (size_t axis = 0; axis < type.shape->size(); ++axis) {
    if (!IsOpen(open, input.first, axis)) continue;
    const bool named = declared && declared->type.shape && axis < declared->type.shape->size() &&
                       (*declared->type.shape)[axis].named();
    (*type.shape)[axis] = named ? (*declared->type.shape)[axis] : Dim();
  }
}

bool AreOutputsOf(const Graph& graph, const std::vector<std::string>& results) {
  return std::equal(results.begin(), results.end(), graph.outputs.begin(), graph.outputs.end(),
                    [](const std::string& name, const ValueInfo& output) { return name == output.name; });
}

bool MentionsHalves(const Graph& graph) {
  bool found = false;
  ForEachGraph(graph, [&](const Graph& inner) {
    for (const ValueInfo& input : inner.inputs) found |= input.type.dtype == DType::kFloat16;
    for (const StoredTensor& stored : inner.initializers) found |= stored.dtype == DType::kFloat16;
    for (const Node& node : inner.nodes) found |= node.Int("to", 0) == static_cast<int64_t>(DType::kFloat16);
  });
  return found;
}

bool Makes(const Graph& graph, const std::vector<std::string>& results) {
  NameTable there(graph.initializers.size() + graph.nodes.size());
  for (const ValueInfo& info : graph.inputs) there.Add(info.name);
  for (const StoredTensor& tensor : graph.initializers) there.Add(tensor.name);
  for (const Node& node : graph.nodes)
    for (const std::string& output : node.outputs) there.Add(output);
  return std::all_of(results.begin(), results.end(), [&](const std::string& name) { return there.Has(name); });
}

// Inside, halves may be computed as floats, which a caller who asks for a value there is not to see.
bool MayShowWideHalves(const Graph& graph, const std::vector<std::string>& results, const GraphFacts& facts) {
  return std::any_of(results.begin(), results.end(), [&](const std::string& name) {
    const bool leaves = std::any_of(graph.outputs.begin(), graph.outputs.end(),
                                    [&](const ValueInfo& output) { return output.name == name; });
    const ValueFacts* found = leaves || graph.FindInput(name) ? nullptr : facts.Find(name);
    return found && found->type.dtype == DType::kFloat;
  });
}

}  // namespace

ProviderOptions ProviderOptionsFrom(const SessionOptions& options) {
  return {options.exact, options.tune, options.precision, options.device_memory};
}

LoadedModel::LoadedModel(Model model, const SessionOptions& options)
    : model_(std::move(model)),
      threads_(options.threads),
      compilers_(ProvidersFor(options), ProviderOptionsFrom(options)),
      number_(NextNumber()),
      packs_in_place_(options.packs_in_place) {
  Graph graph = PrepareGraph(model_, threads_, options.optimize ? Weights::kAsTheyLie : Weights::kReadable);
  NameTable has_default(graph.initializers.size());
  for (const StoredTensor& initializer : graph.initializers) has_default.Add(initializer.name);
  for (const ValueInfo& input : model_.graph.inputs)
    (has_default.Has(input.name) ? overridable_ : inputs_).push_back(input);
  if (options.cache_folder.empty()) weights_.DeferPacking();
  if (options.optimize) {
    compilers_.first().Rewrite(graph);
    fast_graph_ = std::move(graph);
  } else {
    as_written_once_.Do([&] { as_written_ = std::move(graph); });
  }
}

LoadedModel::~LoadedModel() {
  const InScope no_run(nullptr);  // which could end in here
  weights_.Save();
}

// Every default is as it was, and dimensions of one name have one size.
bool LoadedModel::IsAsFirstTold(const std::vector<const NamedValue*>& given) const {
  if (given.size() > inputs_.size()) return false;
  NameTable names;
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i]->second.is_tensor() || !inputs_[i].type.shape) continue;
    const Shape& shape = given[i]->second.tensor().shape();
    for (size_t axis = 0; axis < shape.rank(); ++axis) {
      const Dim& dim = (*inputs_[i].type.shape)[axis];
      if (!dim.named()) continue;
      const uint32_t number = names.Add(dim.symbol);
      if (number == sizes.size()) sizes.push_back(shape[axis]);
      if (sizes[number] != shape[axis]) return false;
    }
  }
  return true;
}

const Graph& LoadedModel::AsWritten() {
  as_written_once_.Do([&] { as_written_ = PrepareGraph(model_, threads_); });
  return *as_written_;
}

const Graph& LoadedModel::FastForAny() {
  fast_for_any_once_.Do([&] {
    Graph graph = PrepareGraph(model_, threads_, Weights::kAsTheyLie);
    std::vector<StoredTensor> defaults;
    for (ValueInfo& input : graph.inputs)
      if (input.type.shape)
        for (Dim& dim : *input.type.shape)
          if (dim.named()) dim = Dim();
    std::erase_if(graph.initializers, [&](StoredTensor& stored) {
      if (!graph.FindInput(stored.name)) return false;
      defaults.push_back(std::move(stored));
      return true;
    });
    compilers_.first().Rewrite(graph);
    for (StoredTensor& stored : defaults) graph.initializers.push_back(std::move(stored));
    fast_for_any_ = std::move(graph);
  });
  return *fast_for_any_;
}

std::shared_ptr<const Program> LoadedModel::Build(const std::vector<const NamedValue*>& given,
                                                  const std::vector<std::string>& results, const OpenAxes& open,
                                                  bool is_as_told, ThreadPool* pool) {
  const Uncounted of_the_model;
  weights_.PutBack();
  FactsByName known;
  std::vector<std::string> names;
  std::vector<MemorySpace*> spaces;
  for (const NamedValue* input : given) {
    names.push_back(input->first);
    spaces.push_back(input->second.is_tensor() ? &input->second.tensor().space() : &HostMemory());
    Type type = TypeOf(input->second);
    OpenAxesOf(*input, open, model_, is_as_told, type);
    known[input->first].type = input->second.is_tensor() ? std::move(type) : Type{};
  }
  // A contradiction that inference finds is met again by the kernel, which knows the values and says more.
  InferOptions infer;
  infer.on_error = [](const Node&, const Error&) {};
  infer.weights_anywhere = true;
  const Graph* chosen = !fast_graph_ ? nullptr : is_as_told ? &*fast_graph_ : &FastForAny();
  const bool is_fast = chosen && Makes(*chosen, results);
  if (!is_fast) chosen = &AsWritten();
  GraphFacts facts;
  std::shared_ptr<const Graph> special;
  if (is_fast && AreOutputsOf(model_.graph, results))
    special = compilers_.first().RewriteForShapes(*chosen, known, facts);
  if (!special) facts = InferGraph(*chosen, known, infer);
  if (is_fast && MayShowWideHalves(model_.graph, results, facts) && MentionsHalves(model_.graph)) {
    chosen = &AsWritten();
    facts = InferGraph(*chosen, known, infer);
  }
  for (const std::string& name : results) {
    if (facts.Find(name)) continue;
    std::vector<std::string> there;
    for (const auto& value : facts.values) there.push_back(value.first);
    FailUnknownName("value", name, there);
  }
  using Addresses = WeightCache::Addresses;
  WeightCache::PackingBatch batch(weights_);
  std::unique_ptr<Program> program = BuildProgram(
      {special ? *special : *chosen, facts, std::move(names), results, compilers_, weights_, std::move(spaces)});
  program->Keep(std::move(special));
  batch.Finish(pool);
  if (packs_in_place_) replaceable_ = has_program_.exchange(true) ? Addresses() : WeightsReadPacked(program->plan());
  for (const CompilerList::Entry& entry : compilers_.entries) entry.compiler->Save();
  weights_.Save();
  return program;
}

std::shared_ptr<const ProgramCache::Entry> LoadedModel::ProgramFor(const std::vector<const NamedValue*>& given,
                                                                   const std::vector<std::string>& results,
                                                                   const OpenAxes& open, ThreadPool* pool) {
  const bool is_as_told = IsAsFirstTold(given);
  return programs_.Get(ProgramKey(given, results, open, is_as_told),
                       [&] { return Build(given, results, open, is_as_told, pool); });
}

}  // namespace ferry
