#include "server/service.h"

#include "base/process.h"
#include "base/version.h"

namespace ferry::server {

Service::Service(ServiceOptions options, Repository& repository, ModelHost& host, SharedMemory& memory, Log& log,
                 Tracer& tracer)
    : options_(std::move(options)), repository_(repository), host_(host), memory_(memory), log_(log), tracer_(tracer) {
  worker_ = std::thread([this] { Work(); });
}

Service::~Service() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  worker_.join();
}

void Service::DoLater(std::function<void()> work) {
  constexpr size_t kMostWaiting = 1000;
  {
    std::lock_guard lock(mutex_);
    if (later_.size() >= kMostWaiting) Refuse(Code::kUnavailable, "too many requests to load models are waiting");
    later_.push_back(std::move(work));
  }
  wake_.notify_one();
}

void Service::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stopping_ || !later_.empty(); });
    if (stopping_) return;
    std::function<void()> work = std::move(later_.front());
    later_.erase(later_.begin());
    lock.unlock();
    work();
    lock.lock();
  }
}

Json Service::ServerMetadata() const {
  static const std::vector<std::string> kExtensions = {"classification",
                                                       "sequence",
                                                       "model_repository",
                                                       "model_repository(unload_dependents)",
                                                       "schedule_policy",
                                                       "model_configuration",
                                                       "system_shared_memory",
                                                       "cuda_shared_memory",
                                                       "binary_tensor_data",
                                                       "parameters",
                                                       "statistics",
                                                       "trace",
                                                       "logging"};
  return Json().Set("name", options_.name).Set("version", kVersion).Set("extensions", Json::List(kExtensions));
}

Json Service::ModelMetadata(const std::string& name, const std::string& version) const {
  const std::shared_ptr<ServedModel> model = repository_.Find(name, version);
  Json out = Json::Object{};
  const Json metadata = model->Metadata();
  for (const auto& [key, value] : metadata.AsObject())
    out.Set(key, key != "versions" ? value
                 : version.empty() ? Json::List(repository_.VersionsOf(name))
                                   : Json(Json::Array{model->version_text()}));
  return out;
}

Json Service::Statistics(const std::string& name, const std::string& version) const {
  Json list = Json::Array{};
  auto add = [&](ServedModel& model) {
    Json one = Json().Set("name", model.name()).Set("version", model.version_text());
    const Json statistics = StatisticsJson(model.stats().Snapshot());
    for (const auto& [key, value] : statistics.AsObject()) one.Set(key, value);
    list.Add(std::move(one));
  };
  if (!name.empty()) {
    if (!repository_.IsReady(name, ""))
      Refuse(Code::kInvalidArgument, "requested model '", Printable(name), "' is not available");
    if (!repository_.IsReady(name, version))
      Refuse(Code::kInvalidArgument, "requested model version is not available for model '", Printable(name), "'");
    for (const auto& model : repository_.All())
      if (model->name() == name && (version.empty() || model->version_text() == version)) add(*model);
  } else {
    for (const auto& model : repository_.All()) add(*model);
  }
  return Json().Set("model_stats", std::move(list));
}

Json Service::State() const {
  Json models = Json::Array{};
  for (const auto& model : repository_.All()) {
    const ModelStats::Data data = model->stats().Snapshot();
    models.Add(Json()
                   .Set("name", model->name())
                   .Set("version", model->version_text())
                   .Set("pending", model->pending())
                   .Set("requests", data.success.count)
                   .Set("failures", data.fail.count)
                   .Set("rows", data.inference_count)
                   .Set("runs", data.execution_count)
                   .Set("p50_us", data.request.Quantile(0.5))
                   .Set("p99_us", data.request.Quantile(0.99))
                   .Set("metadata", model->Metadata()));
  }
  return Json()
      .Set("server", ServerMetadata())
      .Set("ready", IsReady())
      .Set("in_flight", in_flight_.load())
      .Set("peak_memory_kb", PeakMemoryKilobytes())
      .Set("models", std::move(models))
      .Set("index", repository_.Index(false));
}

namespace {

int Base64Digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+' || c == '-') return 62;
  if (c == '/' || c == '_') return 63;
  return -1;
}

}  // namespace

std::string DecodeBase64(std::string_view text) {
  std::string out;
  out.reserve(text.size() / 4 * 3);
  uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    if (c == '=' || c == '\n' || c == '\r') continue;
    const int digit = Base64Digit(c);
    if (digit < 0) Refuse(Code::kInvalidArgument, "the file is not base64");
    bits = bits << 6 | static_cast<uint32_t>(digit);
    if (++count == 4) {
      out += static_cast<char>(bits >> 16);
      out += static_cast<char>(bits >> 8);
      out += static_cast<char>(bits);
      bits = 0;
      count = 0;
    }
  }
  if (count == 1) Refuse(Code::kInvalidArgument, "the file is not base64");
  if (count >= 2) out += static_cast<char>(bits >> (count == 2 ? 4 : 10));
  if (count == 3) out += static_cast<char>(bits >> 2);
  return out;
}

void Service::Load(const std::string& name, const Json& parameters, bool files_are_base64) {
  std::string config;
  std::vector<UploadedFile> files;
  if (parameters.is_object())
    for (const auto& [key, value] : parameters.AsObject()) {
      if (key == "config") {
        if (!value.is_string())
          Refuse(Code::kInvalidArgument, "Unable to parse 'config': attempt to access JSON non-string as string");
        config = value.AsString();
      } else if (key.compare(0, 5, "file:") == 0) {
        if (!value.is_string())
          Refuse(Code::kInvalidArgument, "Unable to parse '", Printable(key),
                 "': attempt to access JSON non-string as string");
        files.push_back({key.substr(5), files_are_base64 ? DecodeBase64(value.AsString()) : value.AsString()});
      } else {
        Refuse(Code::kInvalidArgument, "Unrecognized load parameter '", Printable(key), "'");
      }
    }
  repository_.Load(name, config, files);
}

void Service::RequireToken(const std::string* authorization) const {
  if (options_.tokens.empty()) return;
  constexpr std::string_view kBearer = "Bearer ";
  bool known = false;
  if (authorization && authorization->compare(0, kBearer.size(), kBearer) == 0) {
    const std::string_view given = std::string_view(*authorization).substr(kBearer.size());
    for (const std::string& token : options_.tokens) {
      // The time it takes does not tell how much of it was right.
      unsigned char difference = token.size() != given.size();
      for (size_t i = 0; i < given.size(); ++i)
        difference |= static_cast<unsigned char>(given[i] ^ token[i % token.size()]);
      known |= difference == 0;
    }
  }
  if (!known) Refuse(Code::kUnauthenticated, "a bearer token is needed in the header authorization");
}

void Service::Infer(const std::shared_ptr<ServedModel>& model, InferRequest request, bool may_run_here,
                    const char* protocol, std::function<void(Job&)> done) {
  std::unique_ptr<Job> job = model->MakeJob(std::move(request));
  const bool traced = tracer_.Wants(model->name(), job->request.trace_parent);
  ++in_flight_;
  job->done = [this, model, traced, protocol, done = std::move(done)](Job& finished) {
    if (traced) tracer_.Add(finished, model->name(), model->version_text(), protocol);
    if (options_.access_log || (finished.error && log_.IsOn(LogLevel::kVerbose))) {
      auto us = [](Clock::duration time) {
        return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
      };
      Json fields;
      fields.Set("model", model->name()).Set("version", model->version_text()).Set("id", finished.request.id);
      fields.Set("protocol", protocol).Set("status", finished.error ? static_cast<int>(finished.error->code()) : 0);
      if (finished.error) fields.Set("error", finished.error->message());
      if (finished.started.time_since_epoch().count() != 0)
        fields.Set("queue_us", us(finished.started - finished.queued))
            .Set("compute_us", us(finished.run_ended - finished.run_begun))
            .Set("batch", finished.batch);
      log_.Write(finished.error ? LogLevel::kWarning : LogLevel::kInfo, "inference", fields);
    }
    done(finished);
    --in_flight_;
  };
  model->Submit(std::move(job), may_run_here);
}

}  // namespace ferry::server
