#include <charconv>
#include <deque>

#include "server/frontend.h"
#include "server/infer_codec.h"
#include "server/proto_json.h"
#include "server/reflection.h"

namespace ferry::server {
namespace {

std::string Text(const Json& request, const char* key) {
  const Json* value = request.Find(key);
  return value && value->is_string() ? value->AsString() : std::string();
}

uint64_t Number(const Json& request, const char* key) {
  const Json* value = request.Find(key);
  return value && value->is_integer() && value->AsDouble() >= 0 ? value->AsUnsigned() : 0;
}

void RequireNoRepository(const Json& request) {
  if (!Text(request, "repository_name").empty())
    Refuse(Code::kUnimplemented, "'repository_name' specification is not supported");
}

// {"config": {"string_param": "x"}} as {"config": "x"}.
Json LoadParameters(const Json& request) {
  Json out = Json::Object{};
  const Json* parameters = request.Find("parameters");
  if (!parameters) return out;
  for (const auto& [key, value] : parameters->AsObject()) {
    const bool is_file = key.compare(0, 5, "file:") == 0;
    if (key != "config" && !is_file)
      Refuse(Code::kInvalidArgument, "unrecognized load parameter '", Printable(key), "'.");
    const char* const kind = is_file ? "bytes_param" : "string_param";
    if (!value.Find(kind))
      Refuse(Code::kInvalidArgument, "invalid value type for load parameter '", Printable(key), "', expected ", kind,
             ".");
    out.Set(key, value.At(kind));
  }
  return out;
}

void CheckUnloadParameters(const Json& request) {
  const Json* parameters = request.Find("parameters");
  const Json* dependents = parameters ? parameters->Find("unload_dependents") : nullptr;
  if (dependents && !dependents->Find("bool_param"))
    Refuse(Code::kInvalidArgument, "invalid value type for 'unload_dependents' parameter, expected bool_param.");
}

// A list of regions as the map that gRPC answers with.
Json RegionMap(const Json& list) {
  Json map = Json::Object{};
  for (const Json& region : list.AsArray()) map.Set(region.At("name").AsString(), region);
  return Json().Set("regions", std::move(map));
}

// Methods that answer one message at once. Those of the repository may take long.
struct Method {
  std::string_view name, api;
  Json (*answer)(Service&, const Json&);
  bool takes_long = false;
};

Json TraceSetting(Service& service, const Json& request) {
  const std::string model = Text(request, "model_name");
  if (!model.empty() && !service.repository().IsReady(model, ""))
    Refuse(Code::kInvalidArgument, "Request for unknown model : ", Printable(model));
  Json changes = Json::Object{};
  if (const Json* settings = request.Find("settings"))
    for (const auto& [key, value] : settings->AsObject())
      changes.Set(key, value.Find("value") ? value.At("value") : Json());
  service.tracer().Change(model, changes);
  Json out = Json::Object{};
  const Json now = service.tracer().ToJson(model);
  for (const auto& [key, value] : now.AsObject())
    out.Set(key, Json().Set("value", value.is_array() ? value : Json(Json::Array{value})));
  return Json().Set("settings", std::move(out));
}

Json LogSettings(Service& service, const Json& request) {
  Json changes = Json::Object{};
  if (const Json* settings = request.Find("settings"))
    for (const auto& [key, value] : settings->AsObject())
      if (!value.AsObject().empty()) changes.Set(key, value.AsObject()[0].second);
  service.log().Change(changes);
  Json out = Json::Object{};
  const Json now = service.log().ToJson();
  for (const auto& [key, value] : now.AsObject())
    out.Set(key, Json().Set(value.is_bool()     ? "bool_param"
                            : value.is_string() ? "string_param"
                                                : "uint32_param",
                            value));
  return Json().Set("settings", std::move(out));
}

const char* HealthOf(Service& service, const std::string& name) {
  if (!name.empty() && name != "inference.GRPCInferenceService") return "SERVICE_UNKNOWN";
  return service.IsReady() ? "SERVING" : "NOT_SERVING";
}

Json HealthCheck(Service& service, const Json& request) {
  const std::string name = Text(request, "service"), status = HealthOf(service, name);
  if (status == "SERVICE_UNKNOWN") Refuse(Code::kNotFound, "unknown service '", Printable(name), "'");
  return Json().Set("status", status);
}

constexpr Method kMethods[] = {
    {"ServerLive", "health", [](Service&, const Json&) { return Json().Set("live", true); }},
    {"ServerReady", "health", [](Service& s, const Json&) { return Json().Set("ready", s.IsReady()); }},
    {"ModelReady", "health",
     [](Service& s, const Json& r) {
       return Json().Set("ready", s.repository().IsReady(Text(r, "name"), Text(r, "version")));
     }},
    {"ServerMetadata", "metadata", [](Service& s, const Json&) { return s.ServerMetadata(); }},
    {"ModelMetadata", "metadata",
     [](Service& s, const Json& r) { return s.ModelMetadata(Text(r, "name"), Text(r, "version")); }},
    {"ModelConfig", "model-config",
     [](Service& s, const Json& r) {
       return Json().Set("config", s.repository().Find(Text(r, "name"), Text(r, "version"))->config().json);
     }},
    {"ModelStatistics", "statistics",
     [](Service& s, const Json& r) { return s.Statistics(Text(r, "name"), Text(r, "version")); }},
    {"RepositoryIndex", "model-repository",
     [](Service& s, const Json& r) {
       RequireNoRepository(r);
       return Json().Set("models", s.repository().Index(r.Find("ready") && r.At("ready").AsBool()));
     }},
    {"RepositoryModelLoad", "model-repository",
     [](Service& s, const Json& r) {
       RequireNoRepository(r);
       s.Load(Text(r, "model_name"), LoadParameters(r), false);
       return Json(Json::Object{});
     },
     true},
    {"RepositoryModelUnload", "model-repository",
     [](Service& s, const Json& r) {
       RequireNoRepository(r);
       CheckUnloadParameters(r);
       s.repository().Unload(Text(r, "model_name"));
       return Json(Json::Object{});
     },
     true},
    {"SystemSharedMemoryStatus", "shared-memory",
     [](Service& s, const Json& r) { return RegionMap(s.memory().Status(Text(r, "name"))); }},
    {"SystemSharedMemoryRegister", "shared-memory",
     [](Service& s, const Json& r) {
       s.memory().Register(Text(r, "name"), Text(r, "key"), Number(r, "offset"), Number(r, "byte_size"));
       return Json(Json::Object{});
     }},
    {"SystemSharedMemoryUnregister", "shared-memory",
     [](Service& s, const Json& r) {
       s.memory().RequireAllowed();
       s.memory().Unregister(Text(r, "name"));
       return Json(Json::Object{});
     }},
    {"CudaSharedMemoryStatus", "shared-memory",
     [](Service&, const Json& r) {
       if (!Text(r, "name").empty())
         Refuse(Code::kNotFound, "Unable to find cuda shared memory region: '", Printable(Text(r, "name")), "'");
       return Json().Set("regions", Json(Json::Object{}));
     }},
    {"CudaSharedMemoryRegister", "shared-memory",
     [](Service& s, const Json& r) -> Json {
       s.memory().RequireAllowed();
       Refuse(Code::kInvalidArgument, "failed to register CUDA shared memory region: '", Printable(Text(r, "name")),
              "', GPUs not supported");
     }},
    {"CudaSharedMemoryUnregister", "shared-memory", [](Service&, const Json&) { return Json(Json::Object{}); }},
    {"TraceSetting", "trace", TraceSetting},
    {"LogSettings", "logging", LogSettings},
};
constexpr Method kHealth = {"Check", "health", HealthCheck};

// One message, one answer.
class UnaryCall : public GrpcCall {
 public:
  UnaryCall(Service& service, const Method& method, const ProtoMethod& types, std::shared_ptr<GrpcSink> sink)
      : service_(service), method_(method), types_(types), sink_(std::move(sink)) {}
  void OnMessage(std::string message) override {
    if (has_message_) Refuse(Code::kInternal, "the method takes one message");
    has_message_ = true;
    message_ = std::move(message);
  }
  void OnHalfClose() override {
    if (!has_message_) return sink_->Finish(Code::kInternal, "the call has no message");
    auto work = [&service = service_, &method = method_, &types = types_, sink = sink_, message = std::move(message_)] {
      try {
        sink->Reply(EncodeMessage(method.answer(service, DecodeMessage(message, *types.input)), *types.output));
      } catch (...) {
        const Refusal refusal = CurrentRefusal();
        sink->Finish(refusal.code(), refusal.message());
      }
    };
    if (!method_.takes_long) return work();
    try {
      service_.DoLater(std::move(work));
    } catch (const Refusal& refusal) {
      sink_->Finish(refusal.code(), refusal.message());
    }
  }
  void OnCancel() override {}

 private:
  Service& service_;
  const Method& method_;
  const ProtoMethod& types_;
  const std::shared_ptr<GrpcSink> sink_;
  bool has_message_ = false;
  std::string message_;
};

struct InferContext {
  Service& service;
  uint64_t timeout_us;
  std::string trace_parent;
  std::shared_ptr<std::atomic<bool>> cancelled = std::make_shared<std::atomic<bool>>(false);

  void Start(std::string bytes, std::function<void(Job&, const ServedModel&)> done) const {
    auto message = std::make_shared<const std::string>(std::move(bytes));
    const GrpcTarget target = ReadGrpcTarget(*message);
    const std::shared_ptr<ServedModel> model = service.repository().Find(target.model, target.version);
    InferRequest request = ReadGrpcInfer(message, *model, service.memory());
    if (request.timeout_us == 0) request.timeout_us = timeout_us;
    request.cancelled = cancelled;
    request.trace_parent = trace_parent;
    service.Infer(model, std::move(request), true, "grpc",
                  [model, done = std::move(done)](Job& job) { done(job, *model); });
  }
};

class InferCall : public GrpcCall {
 public:
  InferCall(InferContext context, std::shared_ptr<GrpcSink> sink)
      : context_(std::move(context)), sink_(std::move(sink)) {}
  void OnMessage(std::string message) override {
    if (has_message_) Refuse(Code::kInternal, "the method takes one message");
    has_message_ = true;
    context_.Start(std::move(message), [sink = sink_](Job& job, const ServedModel& model) {
      try {
        if (job.error) throw *job.error;
        sink->Reply(WriteGrpcInfer(job, model));
      } catch (...) {
        const Refusal refusal = CurrentRefusal();
        sink->Finish(refusal.code(), refusal.message());
      }
    });
  }
  void OnHalfClose() override {
    if (!has_message_) sink_->Finish(Code::kInternal, "the call has no message");
  }
  void OnCancel() override { *context_.cancelled = true; }

 private:
  const InferContext context_;
  const std::shared_ptr<GrpcSink> sink_;
  bool has_message_ = false;
};

// Many requests; answers leave in the order of the requests.
class StreamCall : public GrpcCall {
 public:
  StreamCall(InferContext context, std::shared_ptr<GrpcSink> sink, bool ends_on_error)
      : context_(std::move(context)), shared_(std::make_shared<Shared>()) {
    shared_->sink = std::move(sink);
    shared_->ends_on_error = ends_on_error;
  }
  void OnMessage(std::string message) override {
    uint64_t slot;
    {
      std::lock_guard lock(shared_->mutex);
      constexpr size_t kMostWaiting = 10'000;
      if (shared_->slots.size() >= kMostWaiting)
        Refuse(Code::kExhausted, "too many requests of the stream wait for their answers");
      slot = shared_->first + shared_->slots.size();
      shared_->slots.emplace_back();
    }
    const std::string id = [&] {
      try {
        return ReadGrpcTarget(message).id;
      } catch (const Refusal&) {
        return std::string();
      }
    }();
    try {
      context_.Start(std::move(message), [shared = shared_, slot, id](Job& job, const ServedModel& model) {
        try {
          if (job.error) throw *job.error;
          shared->Put(slot, WriteGrpcInfer(job, model));
        } catch (...) {
          shared->PutError(slot, id, CurrentRefusal());
        }
      });
    } catch (...) {
      shared_->PutError(slot, id, CurrentRefusal());
    }
  }
  void OnHalfClose() override {
    std::lock_guard lock(shared_->mutex);
    shared_->half_closed = true;
    shared_->Flush();
  }
  void OnCancel() override { *context_.cancelled = true; }
  bool MayWait() const override { return true; }

 private:
  struct Slot {
    bool ready = false;
    std::string message;
    std::optional<Refusal> error;
  };
  struct Shared {
    std::mutex mutex;
    std::shared_ptr<GrpcSink> sink;
    std::deque<Slot> slots;
    uint64_t first = 0;
    bool half_closed = false, ends_on_error = false, ended = false;

    void Put(uint64_t slot, std::string response) {
      // Clients of streams look for this parameter: {"triton_final_response": true}.
      static constexpr std::string_view kFinal = "\x22\x1b\x0a\x15triton_final_response\x12\x02\x08\x01";
      response += kFinal;
      std::string message;
      AppendLengthDelimited(message, 2, response);
      Fill(slot, std::move(message), std::nullopt);
    }
    void PutError(uint64_t slot, const std::string& id, const Refusal& refusal) {
      std::string message, response;
      AppendLengthDelimited(message, 1, refusal.message());
      if (!id.empty()) {
        AppendLengthDelimited(response, 3, id);
        AppendLengthDelimited(message, 2, response);
      }
      Fill(slot, std::move(message), refusal);
    }
    void Fill(uint64_t slot, std::string message, std::optional<Refusal> error) {
      std::lock_guard lock(mutex);
      Slot& place = slots[slot - first];
      place = {true, std::move(message), std::move(error)};
      Flush();
    }
    void Flush() {
      while (!slots.empty() && slots.front().ready && !ended) {
        Slot slot = std::move(slots.front());
        slots.pop_front();
        ++first;
        if (slot.error && ends_on_error) {
          ended = true;
          sink->Finish(slot.error->code(), slot.error->message());
        } else {
          sink->Send(std::move(slot.message));
        }
      }
      if (half_closed && slots.empty() && !ended) {
        ended = true;
        sink->Finish(Code::kOk, "");
      }
    }
    static void AppendLengthDelimited(std::string& out, int field, std::string_view bytes) {
      out += static_cast<char>(field << 3 | 2);
      size_t size = bytes.size();
      for (; size >= 0x80; size >>= 7) out += static_cast<char>(size | 0x80);
      out += static_cast<char>(size);
      out += bytes;
    }
  };

  const InferContext context_;
  const std::shared_ptr<Shared> shared_;
};

// Tells what the state is, and again whenever it has changed; a service that is not known may come yet.
class WatchCall : public GrpcCall {
 public:
  WatchCall(Service& service, const ProtoMethod& types, std::shared_ptr<GrpcSink> sink)
      : service_(service), types_(types), sink_(std::move(sink)) {}
  void OnMessage(std::string message) override {
    if (told_) Refuse(Code::kInternal, "the method takes one message");
    name_ = Text(DecodeMessage(message, *types_.input), "service");
    Tell();
  }
  void OnHalfClose() override {
    if (!told_) sink_->Finish(Code::kInternal, "the call has no message");
  }
  void OnCancel() override {}
  void OnTick() override {
    if (!told_) return;
    Tell();
    if (service_.is_draining()) sink_->Finish(Code::kUnavailable, "the server is shutting down");
  }
  bool MayWait() const override { return true; }

 private:
  void Tell() {
    const char* now = HealthOf(service_, name_);
    if (told_ && told_ == std::string_view(now)) return;
    told_ = now;
    sink_->Send(EncodeMessage(Json().Set("status", now), *types_.output));
  }

  Service& service_;
  const ProtoMethod& types_;
  const std::shared_ptr<GrpcSink> sink_;
  std::string name_;
  const char* told_ = nullptr;
};

const ProtoMethod* FindTypes(std::string_view service, std::string_view method) {
  for (const auto& file : ProtoSchema::OfServer().files())
    for (const auto& known : file->services)
      if (known->full_name == service)
        for (const ProtoMethod& candidate : known->methods)
          if (candidate.name == method) return &candidate;
  return nullptr;
}

void CheckGrpcAccess(const Service& service, const HttpRequest& request, std::string_view api) {
  for (const ServiceOptions::Restriction& rule : service.options().grpc_restrictions) {
    if (rule.api != api) continue;
    const std::string* given = request.Find("triton-grpc-protocol-" + rule.header);
    if (!given || *given != rule.value)
      Refuse(Code::kUnavailable, "This protocol is restricted, expecting header 'triton-grpc-protocol-", rule.header,
             "'");
  }
  if (api != "health") service.RequireToken(request.Find("authorization"));
}

}  // namespace

std::unique_ptr<GrpcCall> Frontend::InferenceCall(const HttpRequest& request, bool is_stream,
                                                  std::shared_ptr<GrpcSink> sink) {
  CheckGrpcAccess(service_, request, "inference");
  const std::string* parent = request.Find("traceparent");
  InferContext context{service_, GrpcTimeout(request), parent ? *parent : std::string()};
  if (!is_stream) return std::make_unique<InferCall>(std::move(context), std::move(sink));
  const std::string* ends = request.Find("triton_grpc_error");
  return std::make_unique<StreamCall>(std::move(context), std::move(sink), ends && *ends == "true");
}

std::unique_ptr<GrpcCall> Frontend::Call(Door door, const HttpRequest& request, std::shared_ptr<GrpcSink> sink) {
  if (door == Door::kMetrics) Refuse(Code::kUnimplemented, "no calls are answered here");
  const size_t slash = request.target.rfind('/');
  if (slash == std::string::npos || slash == 0)
    Refuse(Code::kUnimplemented, "no such method: ", Printable(request.target));
  const std::string_view target = request.target, service = target.substr(1, slash - 1),
                         name = target.substr(slash + 1);
  if (service == "inference.GRPCInferenceService" && (name == "ModelInfer" || name == "ModelStreamInfer"))
    return InferenceCall(request, name == "ModelStreamInfer", std::move(sink));
  const ProtoMethod* types = FindTypes(service, name);
  if (!types) Refuse(Code::kUnimplemented, "no such method: ", Printable(target));
  if (service.compare(0, 16, "grpc.reflection.") == 0) {
    CheckGrpcAccess(service_, request, "metadata");
    return MakeReflectionCall(*types, std::move(sink));
  }
  if (service == "grpc.health.v1.Health") {
    CheckGrpcAccess(service_, request, "health");
    if (name == "Watch") return std::make_unique<WatchCall>(service_, *types, std::move(sink));
    return std::make_unique<UnaryCall>(service_, kHealth, *types, std::move(sink));
  }
  for (const Method& method : kMethods)
    if (method.name == name) {
      CheckGrpcAccess(service_, request, method.api);
      return std::make_unique<UnaryCall>(service_, method, *types, std::move(sink));
    }
  Refuse(Code::kUnimplemented, "no such method: ", Printable(request.target));
}

}  // namespace ferry::server
