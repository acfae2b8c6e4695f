// The server's command line: Triton's names, and some of its own.
#pragma once

#include <string>
#include <vector>

#include "server/connection.h"
#include "server/log.h"
#include "server/repository.h"
#include "server/service.h"
#include "server/trace.h"

namespace ferry::server {

struct ListenOptions {
  bool allowed = true;
  std::string address = "0.0.0.0";
  int port = 0;
  bool reuse_port = false;
};

struct ServerOptions {
  RepositoryOptions repository;
  ConfigDefaults defaults;
  ListenOptions http{true, "0.0.0.0", 8000, false}, grpc{true, "0.0.0.0", 8001, false}, metrics{true, "", 8002, false};
  ConnectionLimits limits;
  int most_connections = 20'000;
  int loops = 0;    // 0: one per core
  int threads = 0;  // of runs; 0: as many as the machine or its control group allows
  size_t max_queue = 4096;
  Limits run_limits;
  bool exit_on_error = true;
  int exit_timeout_seconds = 30, drain_delay_seconds = 0;
  bool allow_shared_memory = true;
  std::string provider = "cpu", cache_folder;
  Log::Settings log;
  Tracer::Settings trace;
  ServiceOptions service;
  TlsOptions tls;       // for both doors; empty: none
  TlsOptions grpc_tls;  // for gRPC's alone
  bool wants_help = false, wants_version = false;
};

// Throws ferry::Error (invalid argument) naming the option.
ServerOptions ParseOptions(const std::vector<std::string>& words);
std::string HelpText();
// CPUs that this process may use, by its control group and its mask.
int UsableCpus();

}  // namespace ferry::server
