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

bool IsVersion(const fs::path& path) { return VersionNumber(path.filename().string()).has_value(); }

// Of all files in a folder, but for its versions; changes when one of them does. Of a folder that is no model's alone
// not every file is looked at.
std::string TreeIdentity(const std::string& folder) {
  constexpr int kMostDepth = 8;
  constexpr size_t kMostFiles = 10'000;
  std::vector<std::string> files;
  std::error_code error;
  const auto options = fs::directory_options::follow_directory_symlink | fs::directory_options::skip_permission_denied;
  for (auto entry = fs::recursive_directory_iterator(folder, options, error);
       !error && entry != fs::end(entry) && files.size() < kMostFiles; entry.increment(error)) {
    std::error_code unknown;
    const bool is_folder = entry->is_directory(unknown);
    if (is_folder && ((entry.depth() == 0 && IsVersion(entry->path())) || entry.depth() >= kMostDepth))
      entry.disable_recursion_pending();
    if (!is_folder) files.push_back(Cat(entry->path().string(), "=", FileIdentity(entry->path().string())));
  }
  std::sort(files.begin(), files.end());
  return Cat(folder, "|", std::hash<std::string>()(Join(files, "|")));
}

std::string IdentityOf(const std::string& folder, const std::string& file) {
  if (file.empty()) return {};
  const std::string inside = fs::path(file).parent_path().string();
  return Cat(file, "=", FileIdentity(file), inside == folder ? "" : TreeIdentity(inside));
}

void CheckName(const std::string& name) {
  if (name.find_first_not_of(" \t\r\n\v\f") == std::string::npos)
    Refuse(Code::kInvalidArgument, "Model name cannot be empty. Please enter a valid name to deploy.");
  const size_t first = name.find_first_not_of(" \t\r\n\v\f"), last = name.find_last_not_of(" \t\r\n\v\f");
  const std::string_view trimmed = std::string_view(name).substr(first, last - first + 1);
  if (trimmed == "." || trimmed == ".." || name.find('/') != std::string::npos || name.find('\0') != std::string::npos)
    Refuse(Code::kInvalidArgument, "invalid model name '", Printable(name),
           "', model name must not contain path traversal characters");
}

// Of a load that did not get so far as to try a version.
Refusal PollFailure(const std::string& name, const std::string& why) {
  return {Code::kInternal, Cat("failed to load '", Printable(name), "', failed to poll from model repository",
                               why.empty() ? "" : ": ", why)};
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

bool Repository::IsLoaded(const std::string& name, int64_t version, const std::string& identity, Again again) const {
  if (again == Again::kAll) return false;
  std::shared_lock lock(mutex_);
  auto entry = entries_.find(name);
  if (entry == entries_.end()) return false;
  auto known = entry->second.versions.find(version);
  if (known == entry->second.versions.end() || known->second.identity != identity) return false;
  return again == Again::kChanged || (known->second.model && known->second.reason.empty());
}

std::string Repository::FailuresOf(const std::string& name, const std::map<int64_t, std::string>& versions) const {
  std::string text;
  std::shared_lock lock(mutex_);
  for (const auto& [version, state] : entries_.at(name).versions)
    if (versions.count(version) && !state.reason.empty())
      text += Cat("version ", version, " is at UNAVAILABLE state: ", state.reason, ";");
  return text;
}

std::optional<Refusal> Repository::LoadFrom(const std::string& name, const Source& source,
                                            const std::optional<Json>& config, Again again) {
  std::optional<Refusal> refusal;
  std::string error;
  try {
    const Json given = config ? *config : ReadConfig(source.folder);
    CheckConfig(given, name);
    const std::map<int64_t, std::string> versions = FindVersions(source, LoadConfigOf(given));
    if (versions.empty()) {
      error = Cat("at least one version must be available under the version policy of model '", name, "'");
      refusal.emplace(Code::kInvalidArgument, Cat("load failed for model '", name, "': ", error));
    }
    // What lies beside a file that is a model by itself is not the model's.
    const std::string shared = source.file.empty() ? TreeIdentity(source.folder) : std::string();
    size_t failed = 0;
    for (const auto& [version, file] : versions) {
      const std::string identity = Cat(shared, "|", IdentityOf(source.folder, file), "|", config ? given.Dump(-1) : "");
      if (!IsLoaded(name, version, identity, again) && !LoadVersion(name, version, source, file, given, identity))
        ++failed;
    }
    // What is no longer wanted goes when what replaces it is there.
    if (versions.size() > failed) DropVersions(name, versions);
    if (failed > 0) {
      error = FailuresOf(name, versions);
      refusal.emplace(Code::kInvalidArgument, Cat("load failed for model '", name, "': ", error));
    }
  } catch (...) {
    error = CurrentRefusal().message();
    refusal = PollFailure(name, error);
  }
  std::unique_lock lock(mutex_);
  entries_[name].error = error;
  return refusal;
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
      LoadFrom(name, *source, std::nullopt, Again::kAll);
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
  if (version.empty()) {
    for (auto state = entry->second.versions.rbegin(); state != entry->second.versions.rend(); ++state)
      if (state->second.model) return state->second.model;
    Refuse(Code::kNotFound, "Request for unknown model: '", Printable(name), "' has no available versions");
  }
  const std::optional<int64_t> number = VersionNumber(version);
  if (!number && version.size() > 1 && version[0] == '-' && VersionNumber(version.substr(1)))
    Refuse(Code::kInvalidArgument, "invalid model version specified '", Printable(version),
           "' , version should be an integral value > 0");
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
    auto add = [&](Json one, const std::string& state, const std::string& reason) {
      one.Set("state", state);
      if (!reason.empty()) one.Set("reason", reason);
      list.Add(std::move(one));
    };
    if (entry.versions.empty() && !only_ready) add(Json().Set("name", name), "UNAVAILABLE", entry.error);
    for (const auto& [version, state] : entry.versions)
      if (state.model || !only_ready)
        add(Json().Set("name", name).Set("version", Cat(version)), state.state, state.reason);
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

namespace {

// Writes them below a new folder, which is the model's then.
std::string WriteFiles(const std::vector<UploadedFile>& files) {
  for (const UploadedFile& file : files) {
    const fs::path relative = fs::path(file.path).lexically_normal();
    if (relative.empty() || relative.is_absolute() || *relative.begin() == ".." ||
        file.path.find('\0') != std::string::npos)
      Refuse(Code::kInvalidArgument, "Invalid file parameter 'file:", Printable(file.path),
             "' must stay within model directory.");
  }
  static std::atomic<int> serial{0};
  const fs::path folder = fs::temp_directory_path() / Cat("ferry-server-", ProcessNumber(), "-", ++serial);
  for (const UploadedFile& file : files) {
    const fs::path path = folder / fs::path(file.path).lexically_normal();
    fs::create_directories(path.parent_path());
    std::ofstream out(path, std::ios::binary);
    out.write(file.bytes.data(), static_cast<std::streamsize>(file.bytes.size()));
    if (!out.flush()) Refuse(Code::kInternal, "the files that came cannot be written");
  }
  return folder.string();
}

}  // namespace

void Repository::DropUpload(const std::string& name) {
  auto uploaded = uploads_.find(name);
  if (uploaded == uploads_.end()) return;
  std::error_code ignored;
  fs::remove_all(uploaded->second, ignored);
  uploads_.erase(uploaded);
}

void Repository::Load(const std::string& name, const std::string& config, const std::vector<UploadedFile>& files) {
  RequireExplicit();
  CheckName(name);
  std::lock_guard loading(loading_);
  if (!files.empty() && config.empty())
    throw PollFailure(name, "Load parameter 'config' must be specified for model file override");
  std::optional<Json> given;
  std::optional<Source> source;
  try {
    if (!config.empty()) given = ReadConfigText(config, "config");
    source = files.empty() ? FindSource(name) : Source{WriteFiles(files), {}};
  } catch (...) {
    throw PollFailure(name, CurrentRefusal().message());
  }
  if (!source) throw PollFailure(name, "");
  // A configuration that comes with the request is always a change; and so may be anything beside a single file.
  const bool may_be_known = !given && source->file.empty();
  if (const std::optional<Refusal> refusal =
          LoadFrom(name, *source, given, may_be_known ? Again::kChangedOrFailed : Again::kAll)) {
    std::error_code ignored;
    if (!files.empty()) fs::remove_all(source->folder, ignored);
    throw *refusal;
  }
  DropUpload(name);
  if (!files.empty()) uploads_[name] = source->folder;
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
  DropUpload(name);
  if (host_.log) host_.log->Write(LogLevel::kInfo, Cat("unloaded model '", name, "'"));
}

void Repository::Poll() {
  std::lock_guard loading(loading_);
  const std::vector<std::string> names = Names();
  for (const std::string& name : names)
    if (const std::optional<Source> source = FindSource(name)) LoadFrom(name, *source, std::nullopt, Again::kChanged);
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
