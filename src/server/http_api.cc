#include <charconv>

#include "server/compression.h"
#include "server/frontend.h"
#include "server/infer_codec.h"

namespace ferry::server {
namespace {

HttpResponse JsonResponse(const Json& json) {
  HttpResponse response;
  response.body = json.Dump(-1);
  return response;
}

std::string DecodedPart(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    int byte = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16).ptr == text.data() + i + 3) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

// "/v2/models/a%20b?x" as "v2", "models", "a b".
std::vector<std::string> PartsOf(std::string_view target) {
  target = target.substr(0, target.find_first_of("?#"));
  std::vector<std::string> parts;
  for (const std::string& part : SplitText(target, '/')) parts.push_back(DecodedPart(part));
  if (!parts.empty() && parts.front().empty()) parts.erase(parts.begin());
  if (!parts.empty() && parts.back().empty()) parts.pop_back();
  return parts;
}

[[noreturn]] void NotFound() { Refuse(Code::kNotFound, "Not Found"); }

struct WrongMethod {
  const char* allowed;
};

void RequireMethod(const HttpRequest& request, std::string_view method) {
  if (request.method != method && !(method == "GET" && request.method == "HEAD"))
    throw WrongMethod{method == "GET" ? "GET, HEAD" : "POST"};
}

// Settings are shown and changed under one address.
bool Changes(const HttpRequest& request) {
  if (request.method != "POST" && request.method != "GET" && request.method != "HEAD")
    throw WrongMethod{"GET, HEAD, POST"};
  return request.method == "POST";
}

Json BodyJson(const HttpRequest& request) {
  if (request.body.find_first_not_of(" \r\n\t") == std::string::npos) return Json::Object{};
  try {
    Json json = Json::Parse(request.body, {.depth = 100, .bytes = size_t{1} << 30});
    if (json.is_object()) return json;
  } catch (const std::exception& error) {
    Refuse(Code::kInvalidArgument, "failed to parse the request JSON buffer: ", error.what());
  }
  Refuse(Code::kInvalidArgument, "failed to parse the request JSON buffer: an object is missing");
}

// "gzip;q=0.5" as "gzip" and 0.5.
std::pair<std::string_view, double> WeightedName(std::string_view item) {
  item.remove_prefix(std::min(item.find_first_not_of(" \t"), item.size()));
  const std::string_view name = item.substr(0, item.find_first_of("; \t"));
  double weight = 1;
  if (const size_t at = item.find("q="); at != std::string_view::npos && at > name.size())
    if (std::from_chars(item.data() + at + 2, item.data() + item.size(), weight).ec != std::errc()) weight = 1;
  return {name, weight};
}

// Of those that are known the one with the largest weight, which goes before others of the same.
Coding AcceptedCoding(const HttpRequest& request) {
  const std::string* accepted = request.Find("accept-encoding");
  if (!accepted) return Coding::kIdentity;
  Coding best = Coding::kIdentity;
  double most = 0;
  for (const std::string& item : SplitText(*accepted, ',')) {
    const auto [name, weight] = WeightedName(item);
    if ((name != "gzip" && name != "deflate" && name != "identity") || weight <= most) continue;
    best = name == "gzip" ? Coding::kGzip : name == "deflate" ? Coding::kDeflate : Coding::kIdentity;
    most = weight;
  }
  return best;
}

void CompressAnswer(HttpResponse& response, Coding coding) {
  constexpr size_t kMostPacked = size_t{1} << 30;
  if (coding == Coding::kIdentity || response.body.size() > kMostPacked || response.body.empty() ||
      response.status != 200)
    return;
  response.body = Compress(response.body, coding);
  response.headers.emplace_back("content-encoding", coding == Coding::kGzip ? "gzip" : "deflate");
}

// Undoes the body's encoding; throws Refusal.
void DecompressBody(HttpRequest& request, size_t most) {
  const std::string* coding = request.Find("content-encoding");
  if (!coding || coding->empty() || *coding == "identity") return;
  if (*coding != "gzip" && *coding != "deflate")
    Refuse(Code::kUnimplemented, "Unsupported compression type: '", Printable(*coding),
           "'; gzip and deflate are known");
  request.body = Decompress(request.body, *coding == "gzip" ? Coding::kGzip : Coding::kDeflate, most);
}

size_t HeaderLength(const HttpRequest& request) {
  const std::string* given = request.Find("inference-header-content-length");
  if (!given) return request.body.size();
  int64_t length = 0;
  auto [end, error] = std::from_chars(given->data(), given->data() + given->size(), length);
  if (error != std::errc() || end != given->data() + given->size())
    Refuse(Code::kInvalidArgument, "Unable to parse Inference-Header-Content-Length, got: ", Printable(*given));
  if (length < 0 || static_cast<uint64_t>(length) > request.body.size())
    Refuse(Code::kInvalidArgument, "inference header size should be in range (0, ", request.body.size(),
           "), got: ", Printable(*given));
  return static_cast<size_t>(length);
}

bool IsInference(std::string_view verb) { return verb == "infer" || verb == "generate" || verb == "generate_stream"; }

// The kind of request that an operator can restrict.
std::string_view ApiOf(const std::vector<std::string>& parts) {
  if (parts.size() < 2 || parts[0] != "v2") return "metadata";
  const std::string& last = parts.back();
  if (parts[1] == "health" || last == "ready") return "health";
  if (parts[1] == "repository") return "model-repository";
  if (parts[1] == "systemsharedmemory" || parts[1] == "cudasharedmemory") return "shared-memory";
  if (parts[1] == "logging") return "logging";
  if (parts[1] == "trace" || last == "setting") return "trace";
  if (IsInference(last)) return "inference";
  if (last == "config") return "model-config";
  if (last == "stats") return "statistics";
  return "metadata";
}

// ["v2","models",NAME,("versions",V),VERB…] as name, version and what follows.
struct ModelPath {
  std::string name, version;
  std::vector<std::string> rest;
};

// "/v2/models/NAME[/versions/V]/infer" where nothing is escaped, which is nearly every request.
struct InferTarget {
  std::string_view model, version;
};

std::optional<InferTarget> PlainInferTarget(std::string_view target) {
  constexpr std::string_view kBefore = "/v2/models/", kVersions = "/versions/", kAfter = "/infer";
  if (target.size() <= kBefore.size() + kAfter.size() || !target.starts_with(kBefore) || !target.ends_with(kAfter) ||
      target.find_first_of("%?#") != std::string_view::npos)
    return std::nullopt;
  target = target.substr(kBefore.size(), target.size() - kBefore.size() - kAfter.size());
  InferTarget out{target.substr(0, target.find('/')), {}};
  if (out.model.empty()) return std::nullopt;
  if (out.model.size() == target.size()) return out;
  target.remove_prefix(out.model.size());
  if (!target.starts_with(kVersions)) return std::nullopt;
  out.version = target.substr(kVersions.size());
  if (out.version.empty() || out.version.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  return out;
}

ModelPath ModelPathOf(const std::vector<std::string>& parts) {
  ModelPath path;
  path.name = parts[2];
  size_t at = 3;
  if (parts.size() > 4 && parts[3] == "versions") {
    path.version = parts[4];
    if (path.version.find_first_not_of("0123456789") != std::string::npos) NotFound();
    at = 5;
  } else if (parts.size() > 3 && parts[3] == "versions") {
    NotFound();
  }
  path.rest.assign(parts.begin() + static_cast<long>(at), parts.end());
  return path;
}

}  // namespace

void Frontend::CheckAccess(const HttpRequest& request, std::string_view api) const {
  for (const ServiceOptions::Restriction& rule : service_.options().http_restrictions) {
    if (rule.api != api) continue;
    const std::string* given = request.Find(rule.header);
    if (!given || *given != rule.value)
      Refuse(Code::kPermissionDenied, "This API is restricted, expecting header '", rule.header, "'");
  }
  if (api != "health") service_.RequireToken(request.Find("authorization"));
}

void Frontend::Handle(Door door, std::shared_ptr<HttpRequest> request, Respond respond) {
  if (const std::string* id = request->Find("x-request-id"); id && id->size() <= 200) respond.set_request_id(*id);
  try {
    if (const std::optional<InferTarget> target = PlainInferTarget(request->target); target && door != Door::kMetrics) {
      CheckAccess(*request, "inference");
      RequireMethod(*request, "POST");
      DecompressBody(*request, service_.options().most_body);
      return Infer(request, target->model, target->version, respond);
    }
    const std::vector<std::string> parts = PartsOf(request->target);
    if (door == Door::kMetrics && !(parts.size() == 1 && parts[0] == "metrics")) NotFound();
    CheckAccess(*request, ApiOf(parts));
    DecompressBody(*request, service_.options().most_body);
    if (parts.size() > 3 && parts[0] == "v2" && parts[1] == "models" && IsInference(parts.back())) {
      const ModelPath path = ModelPathOf(parts);
      if (path.rest.size() == 1) {
        RequireMethod(*request, "POST");
        if (path.rest[0] == "infer") return Infer(request, path.name, path.version, respond);
        return Generate(*request, path.name, path.version, path.rest[0] == "generate_stream", respond);
      }
    }
    if (parts.size() > 2 && parts[0] == "v2" && parts[1] == "repository" && Repository(request, parts, respond)) return;
    HttpResponse response = Answer(*request, parts);
    // Like Triton: clients of the protocol undo the encoding of inference answers alone.
    if (response.content_type != "application/json") CompressAnswer(response, AcceptedCoding(*request));
    respond(std::move(response));
  } catch (const WrongMethod& wrong) {
    HttpResponse response = ErrorResponse(405, "Method Not Allowed");
    response.headers.emplace_back("allow", wrong.allowed);
    respond(std::move(response));
  } catch (...) {
    const Refusal refusal = CurrentRefusal();
    HttpResponse response = ErrorResponse(refusal);
    if (refusal.code() == Code::kUnauthenticated) response.headers.emplace_back("www-authenticate", "Bearer");
    if (refusal.code() == Code::kUnimplemented && request->Find("content-encoding"))
      response.headers.emplace_back("accept-encoding", "gzip, deflate");
    respond(std::move(response));
  }
}

HttpResponse Frontend::Answer(const HttpRequest& request, const std::vector<std::string>& parts) {
  if (parts.empty()) {
    RequireMethod(request, "GET");
    HttpResponse page;
    page.content_type = "text/html; charset=utf-8";
    page.headers.emplace_back("content-security-policy", "default-src 'self' 'unsafe-inline'; img-src data:");
    page.body = PageText();
    return page;
  }
  if (parts.size() == 1 && parts[0] == "metrics" && service_.options().allow_metrics) {
    RequireMethod(request, "GET");
    HttpResponse metrics;
    metrics.content_type = "text/plain; charset=utf-8; version=0.0.4";
    metrics.body = service_.Metrics();
    return metrics;
  }
  if (parts[0] != "v2") NotFound();
  if (parts.size() == 1) {
    RequireMethod(request, "GET");
    return JsonResponse(service_.ServerMetadata());
  }
  if (parts[1] == "health" && parts.size() == 3 && (parts[2] == "live" || parts[2] == "ready")) {
    RequireMethod(request, "GET");
    const bool good = parts[2] == "live" || service_.IsReady();
    HttpResponse response = JsonResponse(Json().Set(parts[2], good));
    response.status = good ? 200 : 503;
    if (!good) response.headers.emplace_back("retry-after", "1");
    return response;
  }
  if (parts[1] == "logging" && parts.size() == 2) {
    if (Changes(request)) service_.log().Change(BodyJson(request));
    return JsonResponse(service_.log().ToJson());
  }
  if (parts[1] == "trace" && parts.size() == 3 && parts[2] == "setting") {
    if (Changes(request)) service_.tracer().Change("", BodyJson(request));
    return JsonResponse(service_.tracer().ToJson(""));
  }
  if (parts[1] == "ferry" && parts.size() == 3 && parts[2] == "state") {
    RequireMethod(request, "GET");
    return JsonResponse(service_.State());
  }
  if (parts[1] == "systemsharedmemory" || parts[1] == "cudasharedmemory") return AnswerMemory(request, parts);
  if (parts[1] == "models" && parts.size() == 3 && parts[2] == "stats") {
    RequireMethod(request, "GET");
    return JsonResponse(service_.Statistics("", ""));
  }
  if (parts[1] == "models" && parts.size() >= 3) return AnswerModel(request, parts);
  NotFound();
}

HttpResponse Frontend::AnswerModel(const HttpRequest& request, const std::vector<std::string>& parts) {
  const ModelPath path = ModelPathOf(parts);
  if (path.rest.size() == 2 && path.rest[0] == "trace" && path.rest[1] == "setting" && path.version.empty()) {
    if (!service_.repository().IsReady(path.name, ""))
      Refuse(Code::kInvalidArgument, "Request for unknown model : ", Printable(path.name));
    if (Changes(request)) service_.tracer().Change(path.name, BodyJson(request));
    return JsonResponse(service_.tracer().ToJson(path.name));
  }
  if (path.rest.size() > 1) NotFound();
  const std::string verb = path.rest.empty() ? "" : path.rest[0];
  if (verb.empty()) {
    RequireMethod(request, "GET");
    return JsonResponse(service_.ModelMetadata(path.name, path.version));
  }
  if (verb == "ready") {
    RequireMethod(request, "GET");
    const std::shared_ptr<ServedModel> model = service_.repository().Find(path.name, path.version);
    return JsonResponse(Json().Set("name", model->name()).Set("ready", true));
  }
  if (verb == "config") {
    RequireMethod(request, "GET");
    return JsonResponse(service_.repository().Find(path.name, path.version)->config().json);
  }
  if (verb == "stats") {
    RequireMethod(request, "GET");
    return JsonResponse(service_.Statistics(path.name, path.version));
  }
  NotFound();
}

HttpResponse Frontend::AnswerMemory(const HttpRequest& request, const std::vector<std::string>& parts) {
  const bool is_cuda = parts[1] == "cudasharedmemory";
  const std::string region = parts.size() == 5 && parts[2] == "region" ? parts[3] : "";
  const char* const kind = is_cuda ? "cuda" : "system";
  if (!(parts.size() == 3 || (parts.size() == 5 && parts[2] == "region"))) NotFound();
  const std::string& verb = parts.back();
  if (verb == "status") {
    RequireMethod(request, "GET");
    if (is_cuda && !region.empty())
      Refuse(Code::kNotFound, "Unable to find cuda shared memory region: '", Printable(region), "'");
    return JsonResponse(is_cuda ? Json(Json::Array{}) : service_.memory().Status(region));
  }
  if (verb == "unregister") {
    RequireMethod(request, "POST");
    service_.memory().RequireAllowed();
    if (!is_cuda) service_.memory().Unregister(region);
    return JsonResponse(Json(Json::Object{}));
  }
  if (verb != "register") NotFound();
  RequireMethod(request, "POST");
  service_.memory().RequireAllowed();
  if (region.empty())
    Refuse(Code::kInvalidArgument, "'region name' is necessary to register ", kind, " shared memory region");
  if (is_cuda)
    Refuse(Code::kInvalidArgument, "failed to register CUDA shared memory region: '", Printable(region),
           "', GPUs not supported");
  const Json body = BodyJson(request);
  const Json* key = body.Find("key");
  const Json* size = body.Find("byte_size");
  const Json* offset = body.Find("offset");
  if (!key) Refuse(Code::kInvalidArgument, "Shared memory register request has no 'key' field");
  if (!key->is_string()) Refuse(Code::kInvalidArgument, "attempt to access JSON non-string as string");
  if (!size) Refuse(Code::kInvalidArgument, "Shared memory register request has no 'byte_size' field");
  for (const Json* number : {size, offset})
    if (number && (!number->is_integer() || number->AsDouble() < 0))
      Refuse(Code::kInvalidArgument, "attempt to access JSON non-unsigned-integer as unsigned-integer");
  service_.memory().Register(region, key->AsString(), offset ? offset->AsUnsigned() : 0, size->AsUnsigned());
  return JsonResponse(Json(Json::Object{}));
}

// False: it is none of the repository's requests that take long.
bool Frontend::Repository(const std::shared_ptr<HttpRequest>& request, const std::vector<std::string>& parts,
                          const Respond& respond) {
  std::vector<std::string> rest(parts.begin() + 2, parts.end());
  const bool is_named = rest.size() > 1 && rest[0] != "models" && (rest[1] == "index" || rest[1] == "models");
  if (is_named && rest[1] == "models") Refuse(Code::kUnimplemented, "'repository_name' specification is not supported");
  if (is_named) rest.erase(rest.begin());
  if (rest.size() == 1 && rest[0] == "index") {
    RequireMethod(*request, "POST");
    const Json body = BodyJson(*request);
    const Json* ready = body.Find("ready");
    if (ready && !ready->is_bool()) Refuse(Code::kInvalidArgument, "Invalid value for 'ready': expected a boolean");
    respond(JsonResponse(service_.repository().Index(ready && ready->AsBool())));
    return true;
  }
  if (rest.size() != 3 || rest[0] != "models" || (rest[2] != "load" && rest[2] != "unload")) return false;
  RequireMethod(*request, "POST");
  service_.DoLater([this, request, name = rest[1], is_load = rest[2] == "load", respond] {
    try {
      const Json body = BodyJson(*request);
      const Json* parameters = body.Find("parameters");
      if (parameters && !parameters->is_object())
        Refuse(Code::kInvalidArgument, "attempt to get members for non-object");
      const Json* dependents = parameters ? parameters->Find("unload_dependents") : nullptr;
      if (!is_load && dependents && !dependents->is_bool())
        Refuse(Code::kInvalidArgument,
               "Unable to parse 'unload_dependents': attempt to access JSON non-boolean as boolean");
      if (is_load)
        service_.Load(name, parameters ? *parameters : Json(), true);
      else
        service_.repository().Unload(name);
      respond(JsonResponse(Json(Json::Object{})));
    } catch (...) {
      respond(ErrorResponse(CurrentRefusal()));
    }
  });
  return true;
}

void Frontend::Generate(const HttpRequest& request, const std::string& name, const std::string& version, bool is_stream,
                        const Respond& respond) {
  const std::shared_ptr<ServedModel> model = service_.repository().Find(name, version);
  InferRequest infer = ReadGenerate(request, *model, service_.options().most_body);
  if (const std::string* parent = request.Find("traceparent")) infer.trace_parent = *parent;
  service_.Infer(model, std::move(infer), true, "http", [model, is_stream, respond](Job& job) {
    HttpResponse response;
    try {
      response = WriteGenerate(job, *model, is_stream);
    } catch (...) {
      response = ErrorResponse(CurrentRefusal());
    }
    respond(std::move(response));
  });
}

void Frontend::Infer(const std::shared_ptr<HttpRequest>& request, std::string_view name, std::string_view version,
                     const Respond& respond) {
  const std::shared_ptr<ServedModel> model = service_.repository().Find(name, version);
  const Coding coding = AcceptedCoding(*request);
  InferRequest infer =
      ReadHttpInfer(request, HeaderLength(*request), *model, service_.memory(), service_.options().most_body);
  if (infer.id.empty())
    if (const std::string* id = request->Find("x-request-id"); id && id->size() <= 200) infer.id = *id;
  if (const std::string* parent = request->Find("traceparent")) infer.trace_parent = *parent;
  service_.Infer(model, std::move(infer), true, "http", [model, coding, respond](Job& job) {
    HttpResponse response;
    try {
      response = WriteHttpInfer(job, *model);
      CompressAnswer(response, coding);
    } catch (...) {
      response = ErrorResponse(CurrentRefusal());
    }
    respond(std::move(response));
  });
}

}  // namespace ferry::server
