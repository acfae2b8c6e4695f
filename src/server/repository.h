// The models that are served: found in folders, loaded, replaced without a lost request, unloaded.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/served_model.h"

namespace ferry::server {

enum class ControlMode { kNone, kPoll, kExplicit };

struct RepositoryOptions {
  std::vector<std::string> folders;
  // Models given by themselves: name and path of an .onnx file, or of a folder that holds one or versions.
  std::vector<std::pair<std::string, std::string>> models;
  ControlMode mode = ControlMode::kNone;
  std::vector<std::string> load;  // in explicit mode; "*": all
  int poll_seconds = 15;
  bool strict_readiness = true;
  std::string config_name;  // configs/NAME.pbtxt instead of config.pbtxt
};

// A file that came with a load request, in place of those on the disk.
struct UploadedFile {
  std::string path;  // "1/model.onnx"
  std::string bytes;
};

class Repository {
 public:
  Repository(RepositoryOptions options, ModelHost& host);
  ~Repository();

  // Loads what the control mode says; false: some model failed.
  bool LoadAtStart();

  // version empty: the newest that is ready. Throws Refusal.
  std::shared_ptr<ServedModel> Find(std::string_view name, std::string_view version) const;
  bool IsReady(std::string_view name, std::string_view version) const;
  bool AllReady() const;
  std::vector<std::shared_ptr<ServedModel>> All() const;
  std::vector<std::string> VersionsOf(std::string_view name) const;
  Json Index(bool only_ready) const;

  // In explicit mode; both block until it is done. config: text of a ModelConfig, or empty.
  void Load(const std::string& name, const std::string& config, const std::vector<UploadedFile>& files);
  void Unload(const std::string& name);
  void Poll();  // looks for what changed in the folders

 private:
  struct VersionState {
    std::shared_ptr<ServedModel> model;  // null: it is not served
    std::string state, reason, identity;
  };
  struct Entry {
    std::map<int64_t, VersionState> versions;
    std::string error;  // why the last load failed
  };
  struct Source {
    std::string folder;
    std::string file;  // of a model that is one file
  };

  std::optional<Source> FindSource(const std::string& name) const;
  std::vector<std::string> Names() const;
  Json ReadConfig(const std::string& folder) const;
  std::map<int64_t, std::string> FindVersions(const Source& source, const LoadConfig& load) const;
  // Which versions that are there already are loaded again.
  enum class Again { kAll, kChanged, kChangedOrFailed };
  // Why it, or one of its versions, is not loaded.
  std::optional<Refusal> LoadFrom(const std::string& name, const Source& source, const std::optional<Json>& config,
                                  Again again);
  bool IsLoaded(const std::string& name, int64_t version, const std::string& identity, Again again) const;
  std::string FailuresOf(const std::string& name, const std::map<int64_t, std::string>& versions) const;
  void DropUpload(const std::string& name);
  bool LoadVersion(const std::string& name, int64_t version, const Source& source, const std::string& file,
                   const Json& config, const std::string& identity);
  void Retire(std::shared_ptr<ServedModel> model);
  void DropVersions(const std::string& name, const std::map<int64_t, std::string>& keep);
  void Housekeep();
  void RequireExplicit() const;

  const RepositoryOptions options_;
  ModelHost& host_;
  std::mutex loading_;  // one change at a time
  mutable std::shared_mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::vector<std::shared_ptr<ServedModel>> retired_;
  std::map<std::string, std::string> uploads_;  // folders of models that came with requests

  std::mutex stop_mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  std::thread housekeeper_;
};

}  // namespace ferry::server
