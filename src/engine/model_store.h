// The models of this process that sessions have open, by file and options: a second session on the same file shares
// what the first one loaded. While a model is loaded, only threads that want the same one wait.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "base/single_flight.h"
#include "engine/loaded_model.h"

namespace ferry {

class ModelStore {
 public:
  static ModelStore& OfThisProcess();

  // A model and the files beside it that it was made from. It is not shared when its file changed meanwhile.
  struct Loaded {
    std::shared_ptr<LoadedModel> model;
    std::vector<std::string> data_files;
    bool is_shared = true;
  };
  // The model with this key that is open and whose files have not changed, or what load() gives. A load that fails
  // leaves nothing behind.
  std::shared_ptr<LoadedModel> Get(const std::string& key, FunctionRef<Loaded()> load);

  // The same for an .onnx file.
  std::shared_ptr<LoadedModel> Open(const std::string& path, const SessionOptions& options);

 private:
  struct Entry {
    std::weak_ptr<LoadedModel> model;
    std::vector<std::pair<std::string, std::string>> data_files;  // path, identity
  };
  std::shared_ptr<LoadedModel> Find(const std::string& key) const;
  void Keep(const std::string& key, const Loaded& loaded);

  mutable std::mutex mutex_;
  std::unordered_map<std::string, Entry> entries_;
  SingleFlight<std::shared_ptr<LoadedModel>> flights_;
};

// A model that comes from no file; nobody shares it.
std::shared_ptr<LoadedModel> LoadFromMemory(Model model, const SessionOptions& options);

}  // namespace ferry
