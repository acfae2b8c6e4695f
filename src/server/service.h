// What the server does when it is asked, apart from how: both protocols call it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/infer.h"
#include "server/log.h"
#include "server/repository.h"
#include "server/shared_memory.h"
#include "server/trace.h"

namespace ferry::server {

struct ServiceOptions {
  std::string name = "ferry";  // --id
  size_t most_body = size_t{64} << 20;
  std::vector<std::string> tokens;  // bearer tokens; empty: nobody is asked for one
  // Triton's restricted APIs: a header and its value for a kind of request ("model-repository").
  struct Restriction {
    std::string api, header, value;
  };
  std::vector<Restriction> http_restrictions, grpc_restrictions;
  bool access_log = false;
  bool allow_metrics = true;
};

class Service {
 public:
  Service(ServiceOptions options, Repository& repository, ModelHost& host, SharedMemory& memory, Log& log,
          Tracer& tracer);
  ~Service();

  bool IsReady() const { return !draining_ && started_ && repository_.AllReady(); }
  void SetStarted() { started_ = true; }
  void SetDraining() { draining_ = true; }
  bool is_draining() const { return draining_; }

  Json ServerMetadata() const;
  Json ModelMetadata(const std::string& name, const std::string& version) const;
  Json Statistics(const std::string& name, const std::string& version) const;
  std::string Metrics() const;
  Json State() const;  // for the page

  // Runs work that may take long, one after the other, on a thread of its own.
  void DoLater(std::function<void()> work);
  // parameters: as the protocol's load request has them; files as bytes.
  void Load(const std::string& name, const Json& parameters, bool files_are_base64);

  // Counts the request, traces and logs it around the model's own work.
  void Infer(const std::shared_ptr<ServedModel>& model, InferRequest request, bool may_run_here, const char* protocol,
             std::function<void(Job&)> done);
  int in_flight() const { return in_flight_; }

  void RequireToken(const std::string* authorization) const;  // throws Refusal (unauthenticated)

  const ServiceOptions& options() const { return options_; }
  Repository& repository() { return repository_; }
  SharedMemory& memory() { return memory_; }
  Log& log() { return log_; }
  Tracer& tracer() { return tracer_; }

 private:
  void Work();

  const ServiceOptions options_;
  Repository& repository_;
  ModelHost& host_;
  SharedMemory& memory_;
  Log& log_;
  Tracer& tracer_;
  std::atomic<bool> started_{false}, draining_{false};
  std::atomic<int> in_flight_{0};

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::function<void()>> later_;
  bool stopping_ = false;
  std::thread worker_;
};

std::string DecodeBase64(std::string_view text);  // throws Refusal

}  // namespace ferry::server
