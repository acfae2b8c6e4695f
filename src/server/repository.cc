#include "server/repository.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "base/directory.h"
#include "base/file_identity.h"
#include "base/mapped_file.h"
#include "base/process.h"

namespace ferry::server {
namespace {

namespace fs = std::filesystem;

std::optional<int64_t> VersionNumber(std::string_view text) {
  int64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0 || text.empty()) return std::nullopt;
  return number;
}

// "model.onnx" may be a folder that holds model.onnx and its external data.
std::string FileIn(const std::string& folder, const std::string& name) {
  const std::string path = JoinPath(folder, name);
  if (IsDirectory(path) && IsFile(JoinPath(path, name))) return JoinPath(path, name);
  return IsFile(path) ? path : std::string();
}

std::string IdentityOf(const std::string& path) {
  try {
    return FileIdentity(path);
  } catch (const std::exception&) {
    return {};
  }
}

void CheckName(const std::string& name) {
  if (name.empty()) Refuse(Code::kInvalidArgument, "Model name cannot be empty. Please enter a valid name to deploy.");
  if (name == "." || name == ".." || name.find('/') != std::string::npos || name.find('\0') != std::string::npos)
    Refuse(Code::kInvalidArgument, "invalid model name '", Printable(name),
           "', model name must not contain path traversal characters");
}

}  // namespace

Repository::Repository(RepositoryOptions options, ModelHost& host) : options_(std::move(options)), host_(host) {
  for (const std::string& folder : options_.folders)
    if (!IsDirectory(folder)) Refuse(Code::kInvalidArgument, "the model repository '", folder, "' is no folder");
}

Repository::~Repository() {
  {
    std::lock_guard lock(stop_mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  if (housekeeper_.joinable()) housekeeper_.join();
  entries_.clear();
  retired_.clear();
  for (const auto& [name, folder] : uploads_) {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
}

std::optional<Repository::Source> Repository::FindSource(const std::string& name) const {
  if (auto uploaded = uploads_.find(name); uploaded != uploads_.end()) return Source{uploaded->second, {}};
  for (const auto& [known, path] : options_.models)
    if (known == name) {
      if (!IsDirectory(path)) return Source{fs::path(path).parent_path().string(), path};
      return Source{path, {}};
    }
  for (const std::string& folder : options_.folders)
    if (const std::string path = JoinPath(folder, name); IsDirectory(path)) return Source{path, {}};
  return std::nullopt;
}

std::vector<std::string> Repository::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, path] : options_.models) names.push_back(name);
  for (const std::string& folder : options_.folders)
    for (const std::string& name : ListDirectory(folder))
      if (name.front() != '.' && IsDirectory(JoinPath(folder, name))) names.push_back(name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Json Repository::ReadConfig(const std::string& folder) const {
  std::string path = JoinPath(folder, "config.pbtxt");
  if (!options_.config_name.empty()) {
    const std::string other = JoinPath(JoinPath(folder, "configs"), options_.config_name + ".pbtxt");
    if (IsFile(other)) path = other;
  }
  if (!IsFile(path)) return Json::Object{};
  return ReadConfigText(MappedFile::Open(path)->text(), std::string(LastPart(path)));
}

// Files of the versions that the policy wants.
std::map<int64_t, std::string> Repository::FindVersions(const Source& source, const LoadConfig& load) const {
  if (!source.file.empty()) return {{1, source.file}};
  std::map<int64_t, std::string> found;
  for (const std::string& name : ListDirectory(source.folder)) {
    const std::optional<int64_t> version = VersionNumber(name);
    if (!version || !IsDirectory(JoinPath(source.folder, name))) continue;
    const bool wanted = load.versions != LoadConfig::Versions::kSpecific ||
                        std::count(load.specific.begin(), load.specific.end(), *version) > 0;
    if (wanted) found[*version] = FileIn(JoinPath(source.folder, name), load.file);
  }
  // A folder that holds the model itself, as KServe downloads it.
  if (found.empty())
    if (const std::string file = FileIn(source.folder, load.file); !file.empty()) found[1] = file;
  if (load.versions == LoadConfig::Versions::kLatest)
    while (found.size() > load.latest) found.erase(found.begin());
  return found;
}

bool Repository::LoadVersion(const std::string& name, int64_t version, const Source& source, const std::string& file,
                             const Json& config, const std::string& identity) {
  bool is_replacement;
  {
    std::unique_lock lock(mutex_);
    VersionState& state = entries_[name].versions[version];
    is_replacement = !entries_[name].versions.empty() && state.model;
    for (const auto& [number, other] : entries_[name].versions) is_replacement |= other.model != nullptr;
    if (!state.model) {
      state.state = "LOADING";
      state.reason.clear();
    }
  }
  std::shared_ptr<ServedModel> made;
  std::string reason;
  try {
    if (file.empty()) Refuse(Code::kInvalidArgument, "version ", version, " has no file ", LoadConfigOf(config).file);
    made = std::make_shared<ServedModel>(name, version, source.folder, file, config, host_);
    if (is_replacement) made->WarmUp();
  } catch (...) {
    reason = CurrentRefusal().message();
  }
  std::shared_ptr<ServedModel> old;
  {
    std::unique_lock lock(mutex_);
    VersionState& state = entries_[name].versions[version];
    state.identity = identity;
    state.reason = reason;
    if (made) {
      old = std::move(state.model);
      state.model = made;
    }
    state.state = state.model ? "READY" : "UNAVAILABLE";
  }
  if (old) Retire(std::move(old));
  if (!reason.empty() && host_.log)
    host_.log->Write(LogLevel::kError, Cat("failed to load '", name, "' version ", version, ": ", reason));
  return made != nullptr;
}

void Repository::DropVersions(const std::string& name, const std::map<int64_t, std::string>& keep) {
  std::vector<std::shared_ptr<ServedModel>> dropped;
  {
    std::unique_lock lock(mutex_);
    for (auto& [version, state] : entries_[name].versions)
      if (!keep.count(version) && (state.model || state.state != "UNAVAILABLE")) {
        dropped.push_back(std::move(state.model));
        state = {nullptr, "UNAVAILABLE", "unloaded", {}};
      }
  }
  for (auto& model : dropped)
    if (model) Retire(std::move(model));
}

void Repository::LoadFrom(const std::string& name, const Source& source, const std::optional<Json>& config,
                          bool only_changed) {
  std::string error;
  try {
    const Json given = config ? *config : ReadConfig(source.folder);
    const std::map<int64_t, std::string> versions = FindVersions(source, LoadConfigOf(given));
    if (versions.empty())
      Refuse(Code::kInvalidArgument, "at least one version must be available under the version policy of model '", name,
             "'");
    const std::string config_identity = IdentityOf(JoinPath(source.folder, "config.pbtxt"));
    size_t failed = 0;
    for (const auto& [version, file] : versions) {
      const std::string identity = Cat(config_identity, "|", IdentityOf(file));
      if (only_changed) {
        std::shared_lock lock(mutex_);
        auto entry = entries_.find(name);
        if (entry != entries_.end())
          if (auto known = entry->second.versions.find(version);
              known != entry->second.versions.end() && known->second.identity == identity)
            continue;
      }
      if (!LoadVersion(name, version, source, file, given, identity)) {
        ++failed;
        std::shared_lock lock(mutex_);
        error = entries_[name].versions[version].reason;
      }
    }
    // What is no longer wanted goes when what replaces it is there.
    if (failed < versions.size()) DropVersions(name, versions);
  } catch (...) {
    error = CurrentRefusal().message();
  }
  std::unique_lock lock(mutex_);
  entries_[name].error = error;
}

bool Repository::LoadAtStart() {
  std::vector<std::string> names = options_.mode == ControlMode::kExplicit ? options_.load : Names();
  if (names.size() == 1 && names[0] == "*") names = Names();
  if (options_.mode == ControlMode::kExplicit)
    for (const auto& [name, path] : options_.models)
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  if (names.empty() && host_.log)
    host_.log->Write(LogLevel::kWarning, options_.mode == ControlMode::kExplicit
                                             ? "no model is loaded until it is asked for, or named by --load-model"
                                             : "the repository has no models: one is a folder NAME/VERSION/model.onnx");
  bool all = true;
  for (const std::string& name : names) {
    std::lock_guard loading(loading_);
    CheckName(name);
    if (const std::optional<Source> source = FindSource(name)) {
      LoadFrom(name, *source, std::nullopt, false);
    } else {
      std::unique_lock lock(mutex_);
      entries_[name].error = "model not found in any model repository";
    }
    std::shared_lock lock(mutex_);
    if (const std::string& error = entries_[name].error; !error.empty()) {
      all = false;
      if (host_.log) host_.log->Write(LogLevel::kError, Cat("failed to load '", name, "': ", error));
    }
  }
  housekeeper_ = std::thread([this] { Housekeep(); });
  return all;
}

std::shared_ptr<ServedModel> Repository::Find(std::string_view name, std::string_view version) const {
  std::shared_lock lock(mutex_);
  auto entry = entries_.find(name);
  if (entry == entries_.end() || entry->second.versions.empty())
    Refuse(Code::kNotFound, "Request for unknown model: '", Printable(name), "' is not found");
  if (version.empty() || version == "-1") {
    for (auto state = entry->second.versions.rbegin(); state != entry->second.versions.rend(); ++state)
      if (state->second.model) return state->second.model;
    Refuse(Code::kNotFound, "Request for unknown model: '", Printable(name), "' has no available versions");
  }
  const std::optional<int64_t> number = VersionNumber(version);
  if (!number)
    Refuse(Code::kInvalidArgument, "failed to get model version from specified version string '", Printable(version),
           "' (details: stoll), version should be an integral value > 0");
  auto state = entry->second.versions.find(*number);
  if (state == entry->second.versions.end())
    Refuse(Code::kNotFound, "Request for unknown model: '", Printable(name), "' version ", *number, " is not found");
  if (!state->second.model)
    Refuse(Code::kUnavailable, "Request for unknown model: '", Printable(name), "' version ", *number,
           " is not at ready state");
  return state->second.model;
}

bool Repository::IsReady(std::string_view name, std::string_view version) const {
  try {
    return Find(name, version) != nullptr;
  } catch (const Refusal& refusal) {
    if (refusal.code() == Code::kInvalidArgument) throw;
    return false;
  }
}

bool Repository::AllReady() const {
  if (!options_.strict_readiness) return true;
  std::shared_lock lock(mutex_);
  for (const auto& [name, entry] : entries_) {
    bool any = entry.versions.empty() ? entry.error.empty() : false;
    for (const auto& [version, state] : entry.versions) any |= state.model || state.reason == "unloaded";
    if (!any) return false;
  }
  return true;
}

std::vector<std::shared_ptr<ServedModel>> Repository::All() const {
  std::vector<std::shared_ptr<ServedModel>> all;
  std::shared_lock lock(mutex_);
  for (const auto& [name, entry] : entries_)
    for (const auto& [version, state] : entry.versions)
      if (state.model) all.push_back(state.model);
  return all;
}

std::vector<std::string> Repository::VersionsOf(std::string_view name) const {
  std::vector<std::string> versions;
  std::shared_lock lock(mutex_);
  auto entry = entries_.find(name);
  if (entry == entries_.end()) return versions;
  for (const auto& [version, state] : entry->second.versions)
    if (state.model) versions.push_back(Cat(version));
  return versions;
}

Json Repository::Index(bool only_ready) const {
  std::vector<std::string> names;
  try {
    names = Names();
  } catch (const std::exception&) {  // a folder that went away: what is loaded is still shown
  }
  Json list = Json::Array{};
  std::shared_lock lock(mutex_);
  for (const auto& [name, entry] : entries_) {
    std::erase(names, name);
    if (entry.versions.empty() && !only_ready)
      list.Add(Json().Set("name", name).Set("state", "UNAVAILABLE").Set("reason", entry.error));
    for (const auto& [version, state] : entry.versions)
      if (state.model || !only_ready)
        list.Add(Json()
                     .Set("name", name)
                     .Set("version", Cat(version))
                     .Set("state", state.state)
                     .Set("reason", state.reason));
  }
  for (const std::string& name : names)
    if (!only_ready) list.Add(Json().Set("name", name));
  return list;
}

void Repository::RequireExplicit() const {
  if (options_.mode == ControlMode::kNone)
    Refuse(Code::kUnavailable, "explicit model load / unload is not allowed if --model-control-mode is not explicit");
  if (options_.mode == ControlMode::kPoll)
    Refuse(Code::kUnavailable, "explicit model load / unload is not allowed if polling is enabled");
}

void Repository::Load(const std::string& name, const std::string& config, const std::vector<UploadedFile>& files) {
  RequireExplicit();
  CheckName(name);
  std::lock_guard loading(loading_);
  if (!files.empty() && config.empty())
    Refuse(Code::kInvalidArgument, "Load parameter 'config' must be specified for model file override");
  if (!files.empty()) {
    static std::atomic<int> serial{0};
    const fs::path folder = fs::temp_directory_path() / Cat("ferry-server-", ProcessNumber(), "-", ++serial);
    for (const UploadedFile& file : files) {
      const fs::path relative = fs::path(file.path).lexically_normal();
      if (relative.empty() || relative.is_absolute() || *relative.begin() == ".." ||
          file.path.find('\0') != std::string::npos)
        Refuse(Code::kInvalidArgument, "Invalid file parameter 'file:", Printable(file.path),
               "' must stay within model directory.");
      fs::create_directories((folder / relative).parent_path());
      std::ofstream out(folder / relative, std::ios::binary);
      out.write(file.bytes.data(), static_cast<std::streamsize>(file.bytes.size()));
      if (!out.flush()) Refuse(Code::kInternal, "the files of model '", Printable(name), "' cannot be written");
    }
    if (auto before = uploads_.find(name); before != uploads_.end()) {
      std::error_code ignored;
      fs::remove_all(before->second, ignored);
    }
    uploads_[name] = folder.string();
  }
  const std::optional<Source> source = FindSource(name);
  if (!source) Refuse(Code::kInternal, "failed to load '", Printable(name), "', failed to poll from model repository");
  std::optional<Json> given;
  if (!config.empty()) given = ReadConfigText(config, "config");
  LoadFrom(name, *source, given, false);
  std::shared_lock lock(mutex_);
  if (const std::string& error = entries_[name].error; !error.empty())
    Refuse(Code::kInternal, "failed to load '", Printable(name), "', ", error);
}

void Repository::Unload(const std::string& name) {
  RequireExplicit();
  CheckName(name);
  std::lock_guard loading(loading_);
  {
    std::shared_lock lock(mutex_);
    if (!entries_.count(name)) return;
  }
  DropVersions(name, {});
  if (auto uploaded = uploads_.find(name); uploaded != uploads_.end()) {
    std::error_code ignored;
    fs::remove_all(uploaded->second, ignored);
    uploads_.erase(uploaded);
  }
  if (host_.log) host_.log->Write(LogLevel::kInfo, Cat("unloaded model '", name, "'"));
}

void Repository::Poll() {
  std::lock_guard loading(loading_);
  const std::vector<std::string> names = Names();
  for (const std::string& name : names)
    if (const std::optional<Source> source = FindSource(name)) LoadFrom(name, *source, std::nullopt, true);
  std::vector<std::string> gone;
  {
    std::shared_lock lock(mutex_);
    for (const auto& [name, entry] : entries_)
      if (std::find(names.begin(), names.end(), name) == names.end()) gone.push_back(name);
  }
  for (const std::string& name : gone) {
    DropVersions(name, {});
    std::unique_lock lock(mutex_);
    entries_.erase(name);
  }
}

void Repository::Retire(std::shared_ptr<ServedModel> model) {
  std::unique_lock lock(mutex_);
  retired_.push_back(std::move(model));
}

// Models that nobody uses any more are freed here: their last request must not have to wait for its own thread.
void Repository::Housekeep() {
  auto next_poll = Clock::now() + std::chrono::seconds(options_.poll_seconds);
  std::unique_lock lock(stop_mutex_);
  while (!stop_.wait_for(lock, std::chrono::milliseconds(100), [&] { return stopping_; })) {
    std::vector<std::shared_ptr<ServedModel>> unused;
    {
      std::unique_lock entries(mutex_);
      auto used =
          std::partition(retired_.begin(), retired_.end(), [](const auto& model) { return model.use_count() > 1; });
      std::move(used, retired_.end(), std::back_inserter(unused));
      retired_.erase(used, retired_.end());
    }
    unused.clear();
    if (options_.mode != ControlMode::kPoll || Clock::now() < next_poll) continue;
    try {
      Poll();
    } catch (const std::exception& error) {
      if (host_.log) host_.log->Write(LogLevel::kError, Cat("polling failed: ", error.what()));
    }
    next_poll = Clock::now() + std::chrono::seconds(options_.poll_seconds);
  }
}

}  // namespace ferry::server
