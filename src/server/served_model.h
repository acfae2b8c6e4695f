// One version of a model, loaded and ready: its session, configuration, queue and statistics.
#pragma once

#include <memory>
#include <string>

#include "engine/runtime.h"
#include "server/infer.h"
#include "server/log.h"
#include "server/model_config.h"
#include "server/model_stats.h"
#include "server/scheduler.h"

namespace ferry::server {

// What all models are loaded and run with.
struct ModelHost {
  std::shared_ptr<Runtime> wide, narrow;
  RunPolicy policy;
  ConfigDefaults defaults;
  std::string provider = "cpu";
  std::string cache_folder;
  Log* log = nullptr;
};

class ServedModel {
 public:
  // `folder` is the model's, where labels and warm-up data lie; `file` the .onnx. Throws Refusal.
  ServedModel(const std::string& name, int64_t version, const std::string& folder, const std::string& file,
              const Json& given_config, ModelHost& host);

  const std::string& name() const { return name_; }
  int64_t version() const { return version_; }
  const std::string& version_text() const { return version_text_; }
  const ModelConfig& config() const { return config_; }
  ModelStats& stats() { return stats_; }
  size_t pending() const { return scheduler_->pending(); }
  double load_seconds() const { return load_seconds_; }
  Json Metadata() const;  // without the list of versions

  // Checks the request against the configuration; throws Refusal with the messages that users know.
  std::unique_ptr<Job> MakeJob(InferRequest request) const;
  void Submit(std::unique_ptr<Job> job, bool may_run_here) { scheduler_->Submit(std::move(job), may_run_here); }
  // Outputs leave under the shapes that the configuration shows.
  void ReshapeOutputs(Job& job) const;
  // Runs zeros through it, so that the first request finds it ready. False: its sizes are not known.
  bool WarmUp();

 private:
  void ReadLabels(const std::string& folder);
  void RunWarmups(const std::string& folder);
  Tensor WarmupSample(const WarmupInput& input, const TensorConfig& config, const Shape& shape,
                      const std::string& folder) const;
  NamedValue WarmupValue(const Warmup& warmup, const WarmupInput& input, const std::string& folder) const;
  int64_t CheckBatch(const InferRequest& request) const;
  void CheckInputs(const InferRequest& request) const;
  void CheckShape(const TensorConfig& config, const Tensor& tensor) const;
  [[noreturn]] void FailMissing(const InferRequest& request) const;

  const std::string name_;
  const int64_t version_;
  const std::string version_text_;
  ModelConfig config_;
  std::shared_ptr<Session> wide_, narrow_;
  bool has_reshapes_ = false;
  std::vector<std::string> all_outputs_;
  double load_seconds_ = 0;
  ModelStats stats_;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace ferry::server
