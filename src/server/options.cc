#include "server/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "base/directory.h"
#include "base/error.h"
#include "base/small_text.h"
#include "base/text.h"

namespace ferry::server {
namespace {

int64_t Integer(const std::string& option, const std::string& text, int64_t least, int64_t most) {
  int64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || number < least || number > most)
    Fail(ErrorCode::kInvalidArgument, "--", option, " must be an integer from ", least, " to ", most, ", not '",
         Printable(text), "'");
  return number;
}

bool Boolean(const std::string& option, std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  if (text == "true" || text == "1" || text == "yes" || text == "on") return true;
  if (text == "false" || text == "0" || text == "no" || text == "off") return false;
  Fail(ErrorCode::kInvalidArgument, "--", option, " must be true or false, not '", Printable(text), "'");
}

double Seconds(const std::string& option, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != 0 || !(value >= 0) || value > 1e9)
    Fail(ErrorCode::kInvalidArgument, "--", option, " must be a number of seconds, not '", Printable(text), "'");
  return value;
}

// "model-repository,health:key=value"
void AddRestrictions(const std::string& option, const std::string& text,
                     std::vector<ServiceOptions::Restriction>& out) {
  const size_t colon = text.find(':'), equals = text.find('=', colon == std::string::npos ? 0 : colon);
  if (colon == std::string::npos || equals == std::string::npos)
    Fail(ErrorCode::kInvalidArgument, "--", option, " takes API,API:HEADER=VALUE, not '", Printable(text), "'");
  static const std::vector<std::string> kApis = {"health",        "metadata",     "inference",
                                                 "shared-memory", "model-config", "model-repository",
                                                 "statistics",    "trace",        "logging"};
  for (const std::string& api : SplitText(text.substr(0, colon), ',')) {
    if (std::find(kApis.begin(), kApis.end(), api) == kApis.end())
      Fail(ErrorCode::kInvalidArgument, "--", option, ": '", Printable(api), "' is none of ", Join(kApis, ", "));
    std::string header = text.substr(colon + 1, equals - colon - 1);
    for (char& c : header) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    out.push_back({api, header, text.substr(equals + 1)});
  }
}

void ReadTokens(const std::string& path, std::vector<std::string>& out) {
  std::ifstream file(path);
  if (!file) Fail(ErrorCode::kIo, "the file of tokens '", path, "' cannot be read");
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty() && line[0] != '#') out.push_back(line);
  }
  if (out.empty()) Fail(ErrorCode::kInvalidArgument, "the file of tokens '", path, "' holds none");
}

void SetTraceLevel(ServerOptions& options, const std::string& level) {
  if (level != "OFF" && level != "TIMESTAMPS" && level != "TENSORS")
    Fail(ErrorCode::kInvalidArgument, "the trace level must be OFF, TIMESTAMPS or TENSORS, not '", Printable(level),
         "'");
  if (level == "OFF") options.trace.timestamps = options.trace.tensors = false;
  if (level == "TIMESTAMPS") options.trace.timestamps = true;
  if (level == "TENSORS") options.trace.tensors = true;
}

// Triton's "rate=100", "opentelemetry,url=http://collector:4318/v1/traces", "opentelemetry,resource=key=value".
void ApplyTraceConfig(ServerOptions& options, const std::string& text) {
  const size_t comma = text.find(','), equals = text.find('=');
  if (equals == std::string::npos)
    Fail(ErrorCode::kInvalidArgument, "--trace-config takes KEY=VALUE, not '", Printable(text), "'");
  const std::string key = text.substr(comma < equals ? comma + 1 : 0, equals - (comma < equals ? comma + 1 : 0));
  const std::string value = text.substr(equals + 1);
  Tracer::Settings& trace = options.trace;
  if (key == "level") {
    SetTraceLevel(options, value);
  } else if (key == "rate") {
    trace.rate = static_cast<uint64_t>(Integer("trace-config rate", value, 0, INT64_MAX));
  } else if (key == "count") {
    trace.count = Integer("trace-config count", value, -1, INT64_MAX);
  } else if (key == "log-frequency") {
    trace.log_frequency = static_cast<uint64_t>(Integer("trace-config log-frequency", value, 0, INT64_MAX));
  } else if (key == "file") {
    trace.file = value;
  } else if (key == "url") {
    trace.url = value;
  } else if (key == "resource") {
    const size_t second = value.find('=');
    if (second == std::string::npos)
      Fail(ErrorCode::kInvalidArgument, "--trace-config opentelemetry,resource takes KEY=VALUE, not '",
           Printable(value), "'");
    trace.resource.emplace_back(value.substr(0, second), value.substr(second + 1));
  } else if (key == "mode") {
    if (value != "triton" && value != "opentelemetry")
      Fail(ErrorCode::kInvalidArgument, "--trace-config mode must be triton or opentelemetry, not '", Printable(value),
           "'");
    trace.mode = value;
  } else if (key.compare(0, 4, "bsp_") != 0) {
    Fail(ErrorCode::kInvalidArgument, "--trace-config has no setting '", Printable(key), "'");
  }
}

// What OpenTelemetry's own variables say; the command line goes before.
void ReadTraceEnvironment(Tracer::Settings& trace) {
  const char* name = std::getenv("OTEL_SERVICE_NAME");
  bool has_name = false;
  for (const auto& [key, value] : trace.resource) has_name |= key == "service.name";
  if (name && *name && !has_name) trace.resource.emplace_back("service.name", name);
  if (!trace.url.empty()) return;
  if (const char* traces = std::getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"); traces && *traces) {
    trace.url = traces;
  } else if (const char* all = std::getenv("OTEL_EXPORTER_OTLP_ENDPOINT"); all && *all) {
    trace.url = all;
    while (trace.url.back() == '/') trace.url.pop_back();
    trace.url += "/v1/traces";
  }
}

std::string StemOf(const std::string& path) {
  return std::filesystem::path(std::string(LastPart(path))).stem().string();
}

struct Setting {
  std::string_view name, value, help;  // no value: a flag
  std::function<void(ServerOptions&, const std::string&)> apply;
};

#define FERRY_INTEGER(name, place, least, most)                                \
  {                                                                            \
    [](ServerOptions& o, const std::string& v) {                               \
      o.place = static_cast<decltype(o.place)>(Integer(name, v, least, most)); \
    }                                                                          \
  }
#define FERRY_BOOLEAN(name, place)                                             \
  {                                                                            \
    [](ServerOptions& o, const std::string& v) { o.place = Boolean(name, v); } \
  }
#define FERRY_TEXT(place)                                       \
  {                                                             \
    [](ServerOptions& o, const std::string& v) { o.place = v; } \
  }
#define FERRY_IGNORED                         \
  {                                           \
    [](ServerOptions&, const std::string&) {} \
  }

const std::vector<Setting>& Settings() {
  static const std::vector<Setting> settings = {
      {"model-repository", "DIR",
       "a folder of models: NAME/VERSION/model.onnx, with or without NAME/config.pbtxt; may be repeated",
       [](ServerOptions& o, const std::string& v) { o.repository.folders.push_back(v); }},
      {"model-path", "PATH", "one model: an .onnx file, a folder that holds model.onnx or versions, or a repository",
       FERRY_IGNORED},
      {"model-name", "NAME", "the name of the model of --model-path", FERRY_IGNORED},
      {"model-control-mode", "none|poll|explicit",
       "load all at start; watch the folders; or load and unload by request",
       [](ServerOptions& o, const std::string& v) {
         if (v != "none" && v != "poll" && v != "explicit")
           Fail(ErrorCode::kInvalidArgument, "--model-control-mode must be none, poll or explicit, not '", Printable(v),
                "'");
         o.repository.mode = v == "none"   ? ControlMode::kNone
                             : v == "poll" ? ControlMode::kPoll
                                           : ControlMode::kExplicit;
       }},
      {"load-model", "NAME", "in explicit mode, a model to load at start; '*' for all; may be repeated",
       [](ServerOptions& o, const std::string& v) { o.repository.load.push_back(v); }},
      {"repository-poll-secs", "SECONDS", "how often folders are looked at in poll mode (15)",
       FERRY_INTEGER("repository-poll-secs", repository.poll_seconds, 1, 1'000'000)},
      {"model-config-name", "NAME", "configs/NAME.pbtxt instead of config.pbtxt where it is there",
       FERRY_TEXT(repository.config_name)},
      {"disable-auto-complete-config", "", "take nothing from the model that its configuration leaves out",
       [](ServerOptions& o, const std::string&) { o.defaults.auto_complete = false; }},
      {"strict-model-config", "BOOL", "",
       [](ServerOptions& o, const std::string& v) { o.defaults.auto_complete = !Boolean("strict-model-config", v); }},
      {"strict-readiness", "BOOL", "ready only when every model is (true)",
       FERRY_BOOLEAN("strict-readiness", repository.strict_readiness)},
      {"exit-on-error", "BOOL", "end when a model cannot be loaded at start (true)",
       FERRY_BOOLEAN("exit-on-error", exit_on_error)},
      {"exit-timeout-secs", "SECONDS", "after SIGTERM, how long requests under way may take (30)",
       FERRY_INTEGER("exit-timeout-secs", exit_timeout_seconds, 0, 1'000'000)},
      {"drain-delay", "SECONDS", "after SIGTERM, how long connections are still accepted (0)",
       FERRY_INTEGER("drain-delay", drain_delay_seconds, 0, 1'000'000)},
      {"allow-http", "BOOL", "serve HTTP (true)", FERRY_BOOLEAN("allow-http", http.allowed)},
      {"http-address", "ADDRESS", "where to listen for HTTP (0.0.0.0)", FERRY_TEXT(http.address)},
      {"http-port", "PORT", "port of HTTP, which also takes HTTP/2 and gRPC (8000; 0: any that is free)",
       FERRY_INTEGER("http-port", http.port, 0, 65535)},
      {"reuse-http-port", "BOOL", "let another server listen beside this one, at the port of /metrics too",
       FERRY_BOOLEAN("reuse-http-port", http.reuse_port)},
      {"http-max-input-size", "BYTES", "largest JSON, raw or unpacked body of a request (67108864)",
       FERRY_INTEGER("http-max-input-size", limits.most_body, 1, int64_t{1} << 40)},
      {"http-max-binary-size", "BYTES", "largest body with tensors as bytes (2147483648)",
       FERRY_INTEGER("http-max-binary-size", limits.most_binary, 1, int64_t{1} << 40)},
      {"http-thread-count", "N", "threads that read and answer, at most (one for each CPU)",
       FERRY_INTEGER("http-thread-count", loops, 1, 1024)},
      {"http-restricted-api", "API,…:HEADER=VALUE", "kinds of requests that need a header; may be repeated",
       [](ServerOptions& o, const std::string& v) {
         AddRestrictions("http-restricted-api", v, o.service.http_restrictions);
       }},
      {"allow-grpc", "BOOL", "serve gRPC (true)", FERRY_BOOLEAN("allow-grpc", grpc.allowed)},
      {"grpc-address", "ADDRESS", "where to listen for gRPC (0.0.0.0)", FERRY_TEXT(grpc.address)},
      {"grpc-port", "PORT", "port of gRPC (8001)", FERRY_INTEGER("grpc-port", grpc.port, 0, 65535)},
      {"reuse-grpc-port", "BOOL", "let another server listen beside this one, at the port of /metrics too",
       FERRY_BOOLEAN("reuse-grpc-port", grpc.reuse_port)},
      {"grpc-max-message-size", "BYTES", "largest message of gRPC (2147483647)",
       FERRY_INTEGER("grpc-max-message-size", limits.most_message, 1, INT32_MAX)},
      {"grpc-restricted-protocol", "API,…:KEY=VALUE",
       "kinds of calls that need the header triton-grpc-protocol-KEY; may be repeated",
       [](ServerOptions& o, const std::string& v) {
         AddRestrictions("grpc-restricted-protocol", v, o.service.grpc_restrictions);
       }},
      {"grpc-use-ssl", "BOOL", "TLS on gRPC's port, with --grpc-server-cert and --grpc-server-key", FERRY_IGNORED},
      {"grpc-use-ssl-mutual", "BOOL", "clients of gRPC must show a certificate of --grpc-root-cert", FERRY_IGNORED},
      {"grpc-server-cert", "FILE", "certificate of gRPC's port", FERRY_TEXT(grpc_tls.certificate)},
      {"grpc-server-key", "FILE", "its private key", FERRY_TEXT(grpc_tls.key)},
      {"grpc-root-cert", "FILE", "certificates that clients' are signed with", FERRY_TEXT(grpc_tls.client_ca)},
      {"tls-cert", "FILE", "certificate (chain) for both ports", FERRY_TEXT(tls.certificate)},
      {"tls-key", "FILE", "its private key", FERRY_TEXT(tls.key)},
      {"tls-client-ca", "FILE", "clients must show a certificate that this one signed", FERRY_TEXT(tls.client_ca)},
      {"auth-token-file", "FILE", "bearer tokens, one a line; every request but health must bring one",
       [](ServerOptions& o, const std::string& v) { ReadTokens(v, o.service.tokens); }},
      {"allow-metrics", "BOOL", "serve /metrics (true)",
       [](ServerOptions& o, const std::string& v) {
         o.metrics.allowed = o.service.allow_metrics = Boolean("allow-metrics", v);
       }},
      {"metrics-address", "ADDRESS", "where to listen for /metrics (that of HTTP)", FERRY_TEXT(metrics.address)},
      {"metrics-port", "PORT", "port of /metrics (8002), which HTTP's port answers too",
       FERRY_INTEGER("metrics-port", metrics.port, 0, 65535)},
      {"allow-client-shm", "BOOL", "clients may register shared memory (true)",
       FERRY_BOOLEAN("allow-client-shm", allow_shared_memory)},
      {"threads", "N", "threads of runs (the CPUs that the control group allows)",
       FERRY_INTEGER("threads", threads, 1, 1024)},
      {"max-batch-size", "N", "rows that are joined for models that do not say (32)",
       FERRY_INTEGER("max-batch-size", defaults.max_batch_size, 1, 65536)},
      {"max-queue-size", "N", "requests that may wait for a model that does not say (4096)",
       FERRY_INTEGER("max-queue-size", max_queue, 1, 100'000'000)},
      {"run-time-limit", "SECONDS", "longest time of one run (none)",
       [](ServerOptions& o, const std::string& v) {
         o.run_limits.time = std::chrono::nanoseconds(static_cast<int64_t>(Seconds("run-time-limit", v) * 1e9));
       }},
      {"run-memory-limit", "BYTES", "most memory of one run (none)",
       FERRY_INTEGER("run-memory-limit", run_limits.bytes, 0, int64_t{1} << 46)},
      {"max-connections", "N", "connections at once (20000)",
       FERRY_INTEGER("max-connections", most_connections, 1, 10'000'000)},
      {"header-timeout", "SECONDS", "longest time for the headers of a request (10)",
       [](ServerOptions& o, const std::string& v) {
         o.limits.header_time = std::chrono::seconds(Integer("header-timeout", v, 1, 100'000));
       }},
      {"body-timeout", "SECONDS", "how long a client may neither send nor take any bytes of a body (60)",
       [](ServerOptions& o, const std::string& v) {
         o.limits.body_time = std::chrono::seconds(Integer("body-timeout", v, 1, 100'000));
       }},
      {"idle-timeout", "SECONDS", "how long a connection may be idle (75)",
       [](ServerOptions& o, const std::string& v) {
         o.limits.idle_time = std::chrono::seconds(Integer("idle-timeout", v, 1, 10'000'000));
       }},
      {"provider", "NAME", "what runs the models: cpu, cuda", FERRY_TEXT(provider)},
      {"cache-folder", "DIR", "where packed weights are kept for the next start", FERRY_TEXT(cache_folder)},
      {"id", "NAME", "the server's name in its metadata (ferry)", FERRY_TEXT(service.name)},
      {"log-file", "FILE", "the log goes there instead of standard error", FERRY_TEXT(log.file)},
      {"log-format", "default|ISO8601|json", "the form of log lines",
       [](ServerOptions& o, const std::string& v) {
         if (v != "default" && v != "ISO8601" && v != "json")
           Fail(ErrorCode::kInvalidArgument, "--log-format must be default, ISO8601 or json, not '", Printable(v), "'");
         o.log.format = v;
       }},
      {"log-info", "BOOL", "", FERRY_BOOLEAN("log-info", log.info)},
      {"log-warning", "BOOL", "", FERRY_BOOLEAN("log-warning", log.warning)},
      {"log-error", "BOOL", "which levels are logged", FERRY_BOOLEAN("log-error", log.error)},
      {"log-verbose", "N", "more than nothing for N > 0", FERRY_INTEGER("log-verbose", log.verbose, 0, 1'000'000)},
      {"access-log", "BOOL", "a line for each inference (false)", FERRY_BOOLEAN("access-log", service.access_log)},
      {"trace-file", "FILE", "spans in OpenTelemetry's JSON form go there",
       [](ServerOptions& o, const std::string& v) {
         o.trace.file = v;
         o.trace.timestamps = true;
       }},
      {"trace-config", "KEY=VALUE",
       "level, rate, count, triton,file, opentelemetry,url (a collector), opentelemetry,resource", ApplyTraceConfig},
      {"trace-rate", "N", "one request in N is traced (1000)", FERRY_INTEGER("trace-rate", trace.rate, 0, INT64_MAX)},
      {"trace-count", "N", "how many are traced; -1: any number",
       FERRY_INTEGER("trace-count", trace.count, -1, INT64_MAX)},
      {"trace-level", "OFF|TIMESTAMPS|TENSORS", "whether requests are traced, and with which tensors",
       [](ServerOptions& o, const std::string& v) { SetTraceLevel(o, v); }},
      {"trace-log-frequency", "N", "", FERRY_INTEGER("trace-log-frequency", trace.log_frequency, 0, INT64_MAX)},
  };
  return settings;
}

// Triton's options for things that this server does without; scripts that give them still work.
constexpr std::string_view kNoEffect[] = {"allow-cpu-metrics",
                                          "allow-gpu-metrics",
                                          "allow-sagemaker",
                                          "allow-vertex-ai",
                                          "backend-config",
                                          "backend-directory",
                                          "buffer-manager-thread-count",
                                          "cache-config",
                                          "cache-directory",
                                          "cuda-memory-pool-byte-size",
                                          "cuda-virtual-address-size",
                                          "enable-peer-access",
                                          "grpc-header-forward-pattern",
                                          "grpc-http2-max-ping-strikes",
                                          "grpc-http2-max-pings-without-data",
                                          "grpc-http2-min-recv-ping-interval-without-data",
                                          "grpc-infer-allocation-pool-size",
                                          "grpc-infer-response-compression-level",
                                          "grpc-infer-thread-count",
                                          "grpc-keepalive-permit-without-calls",
                                          "grpc-keepalive-time",
                                          "grpc-keepalive-timeout",
                                          "grpc-max-connection-age",
                                          "grpc-max-connection-age-grace",
                                          "grpc-max-response-pool-size",
                                          "host-policy",
                                          "http-header-forward-pattern",
                                          "metrics-config",
                                          "metrics-interval-ms",
                                          "min-supported-compute-capability",
                                          "model-load-gpu-limit",
                                          "model-load-retry-count",
                                          "model-load-thread-count",
                                          "model-namespacing",
                                          "pinned-memory-pool-byte-size",
                                          "rate-limit",
                                          "rate-limit-resource",
                                          "repoagent-directory",
                                          "response-cache-byte-size",
                                          "sagemaker-port",
                                          "sagemaker-safe-port-range",
                                          "sagemaker-thread-count",
                                          "vertex-ai-default-model",
                                          "vertex-ai-port",
                                          "vertex-ai-thread-count"};

// The short names that 'ferry serve' promises, and Triton's older one, beside Triton's own.
std::string FullName(const std::string& name) {
  static constexpr std::pair<std::string_view, std::string_view> kFullNames[] = {{"repository", "model-repository"},
                                                                                 {"model-store", "model-repository"},
                                                                                 {"http", "http-port"},
                                                                                 {"grpc", "grpc-port"},
                                                                                 {"metrics", "metrics-port"}};
  for (const auto& [other, full] : kFullNames)
    if (name == other) return std::string(full);
  return name;
}

[[noreturn]] void FailUnknown(const std::string& name) {
  std::vector<std::string> names;
  for (const Setting& setting : Settings()) names.emplace_back(setting.name);
  const std::string closest = ClosestName(name, names);
  Fail(ErrorCode::kInvalidArgument, "there is no option --", Printable(name),
       closest.empty() ? "" : Cat("; did you mean --", closest, "?"));
}

// NAME=PATH or PATH; a folder whose parts are models is a repository.
void AddModel(ServerOptions& options, const std::string& word) {
  const size_t equals = word.find('=');
  const bool named = equals != std::string::npos && equals > 0 && word.substr(0, equals).find('/') == std::string::npos;
  const std::string path = named ? word.substr(equals + 1) : word;
  if (!IsFile(path) && !IsDirectory(path)) Fail(ErrorCode::kNotFound, "there is no model '", Printable(path), "'");
  options.repository.models.emplace_back(named ? word.substr(0, equals) : StemOf(path), path);
}

void AddModelPath(ServerOptions& options, const std::string& name, const std::string& path) {
  if (!IsFile(path) && !IsDirectory(path)) Fail(ErrorCode::kNotFound, "there is no model '", Printable(path), "'");
  bool is_model = IsFile(path) || IsFile(JoinPath(path, "model.onnx")) || IsDirectory(JoinPath(path, "model.onnx"));
  std::string file;
  if (!is_model) {
    for (const std::string& entry : ListDirectory(path)) {
      const std::string inside = JoinPath(path, entry);
      if (IsDirectory(inside) && entry.find_first_not_of("0123456789") == std::string::npos) is_model = true;
      if (IsFile(inside) && entry.size() > 5 && entry.substr(entry.size() - 5) == ".onnx") file = inside;
    }
  }
  if (is_model || !file.empty())
    options.repository.models.emplace_back(name.empty() ? StemOf(path) : name, file.empty() ? path : file);
  else
    options.repository.folders.push_back(path);
}

}  // namespace

ServerOptions ParseOptions(const std::vector<std::string>& words) {
  ServerOptions options;
  std::string model_name, model_path;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--help" || word == "-h") {
      options.wants_help = true;
      return options;
    }
    if (word == "--version") {
      options.wants_version = true;
      return options;
    }
    if (word.compare(0, 2, "--") != 0) {
      AddModel(options, word);
      continue;
    }
    const size_t equals = word.find('=');
    const std::string name = FullName(word.substr(2, equals == std::string::npos ? std::string::npos : equals - 2));
    const Setting* found = nullptr;
    for (const Setting& setting : Settings())
      if (setting.name == name) found = &setting;
    const bool has_no_effect = std::find(std::begin(kNoEffect), std::end(kNoEffect), name) != std::end(kNoEffect);
    if (!found && !has_no_effect) FailUnknown(name);
    std::string value;
    if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else if (!found || !found->value.empty()) {
      if (i + 1 >= words.size()) Fail(ErrorCode::kInvalidArgument, "--", name, " needs a value");
      value = words[++i];
    }
    if (name == "model-name") model_name = value;
    if (name == "model-path") model_path = value;
    if (found) found->apply(options, value);
  }
  if (!model_path.empty()) AddModelPath(options, model_name, model_path);
  if (options.repository.folders.empty() && options.repository.models.empty())
    Fail(ErrorCode::kInvalidArgument, "--model-repository, or a model, must be specified");
  ReadTraceEnvironment(options.trace);
  if (!options.trace.url.empty()) options.trace.mode = "opentelemetry";
  options.service.most_body = options.limits.most_body;
  if (options.metrics.address.empty()) options.metrics.address = options.http.address;
  options.metrics.reuse_port = options.http.reuse_port || options.grpc.reuse_port;
  return options;
}

std::string HelpText() {
  std::string out =
      "usage: ferry-server [MODEL.onnx | NAME=PATH]… [options]\n"
      "Serves ONNX models over the Open Inference Protocol (KServe v2, Triton): HTTP, gRPC, metrics.\n\noptions:\n";
  for (const Setting& setting : Settings()) {
    if (setting.help.empty()) continue;
    std::string left = Cat("  --", setting.name, setting.value.empty() ? "" : " ", setting.value);
    left.resize(std::max<size_t>(left.size() + 2, 42), ' ');
    out += Cat(left, setting.help, "\n");
  }
  return out +
         "\n--repository, --http, --grpc and --metrics are short for --model-repository, --http-port, --grpc-port and "
         "--metrics-port.\nOther options of Triton are taken and have no effect. See docs/server.md.\n";
}

int UsableCpus() {
  int cpus = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const std::vector<std::string> words = SplitText(FirstLineOf("/sys/fs/cgroup/cpu.max"), ' ');
  const double period = words.size() == 2 ? std::strtod(words[1].c_str(), nullptr) : 0;
  if (period > 0 && words[0] != "max")
    cpus = std::min(cpus, std::max(1, static_cast<int>(std::ceil(std::strtod(words[0].c_str(), nullptr) / period))));
  return cpus;
}

}  // namespace ferry::server
