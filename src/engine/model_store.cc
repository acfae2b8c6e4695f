#include "engine/model_store.h"

#include <cstdio>
#include <unordered_set>

#include "base/file_identity.h"
#include "engine/runtime.h"
#include "onnx/reader.h"

namespace ferry {
namespace {

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
  for (const Provider* provider : ProvidersFor(options))
    text += Cat(provider->name(), " (", provider->Fingerprint(ProviderOptionsFrom(options)), ") ");
  return text;
}

// Where the packed weights of a model lie: one file for each model, and for each instruction set that would pack
// otherwise.
std::string CachePath(const SessionOptions& options, const std::string& model) {
  const std::string& folder = options.cache_folder;
  if (!EnsureDirectory(folder))
    Fail(ErrorCode::kIo, Printable(folder), ": is no folder for packed weights and cannot be made one");
  std::string text = Cat(model, "|", FingerprintOf(options), "|", options.optimize);
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(Checksum(text.data(), text.size())));
  return Cat(folder, "/", digits, ".ferry-weights");
}

ModelStore::Loaded Load(const std::string& path, const std::string& identity, const SessionOptions& options) {
  ModelStore::Loaded loaded;
  try {
    loaded.model = std::make_shared<LoadedModel>(ReadModel(path), options);
    if (!options.cache_folder.empty())
      loaded.model->weights().UseFile(CachePath(options, WholePath(path)), Cat(FingerprintOf(options), identity));
  } catch (Error& error) {
    if (error.message().find(path) == std::string::npos) error.At(path);
    throw;
  }
  std::unordered_set<std::string> locations;
  CollectLocations(loaded.model->model().graph, locations);
  const std::string folder = path.substr(0, path.find_last_of('/') + 1);
  for (const std::string& location : locations) loaded.data_files.push_back(folder + location);
  loaded.is_shared = FileIdentity(path) == identity;
  return loaded;
}

}  // namespace

ModelStore& ModelStore::OfThisProcess() {
  static ModelStore store;
  return store;
}

std::shared_ptr<LoadedModel> ModelStore::Find(const std::string& key) const {
  Entry entry;
  {
    std::lock_guard lock(mutex_);
    auto found = entries_.find(key);
    if (found == entries_.end()) return nullptr;
    entry = found->second;
  }
  for (const auto& [path, identity] : entry.data_files)
    if (FileIdentity(path) != identity) return nullptr;
  return entry.model.lock();
}

void ModelStore::Keep(const std::string& key, const Loaded& loaded) {
  Entry entry{loaded.model, {}};
  for (const std::string& path : loaded.data_files) entry.data_files.emplace_back(path, FileIdentity(path));
  std::lock_guard lock(mutex_);
  std::erase_if(entries_, [](const auto& item) { return item.second.model.expired(); });
  entries_[key] = std::move(entry);
}

std::shared_ptr<LoadedModel> ModelStore::Get(const std::string& key, FunctionRef<Loaded()> load) {
  return flights_.Do(key, [&] {
    if (std::shared_ptr<LoadedModel> open = Find(key)) return open;
    const Loaded loaded = load();
    if (loaded.is_shared) Keep(key, loaded);
    return loaded.model;
  });
}

std::shared_ptr<LoadedModel> ModelStore::Open(const std::string& path, const SessionOptions& options) {
  const std::string identity = FileIdentity(path);
  std::string key = Cat(identity, "|", options.optimize, options.exact, options.packs_in_place,
                        static_cast<int>(options.precision), "|", options.cache_folder, "|", options.tune, "|");
  for (const Provider* provider : ProvidersFor(options))
    key += Cat(provider->name(), "@", reinterpret_cast<uintptr_t>(provider), ",");
  return Get(key, [&] { return Load(path, identity, options); });
}

std::shared_ptr<LoadedModel> LoadFromMemory(Model model, const SessionOptions& options) {
  auto loaded = std::make_shared<LoadedModel>(std::move(model), options);
  if (!options.cache_folder.empty())
    loaded->weights().UseFile(CachePath(options, StructureOf(loaded->model().graph)),
                              Cat(FingerprintOf(options), "a model in memory"));
  return loaded;
}

}  // namespace ferry
