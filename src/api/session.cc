#include <algorithm>
#include <cstring>

#include "api/handles.h"
#include "onnx/reader.h"

using namespace ferry;
using namespace ferry::api;

namespace {

ferry_value_info Describe(std::string name, const Type& type) {
  ferry_value_info info{std::move(name), type, ToText(type), nullptr};
  if (type.element) info.element = std::make_unique<ferry_value_info>(Describe({}, *type.element));
  return info;
}

void Describe(const std::vector<ValueInfo>& from, std::vector<ferry_value_info>& to) {
  for (const ValueInfo& info : from) to.push_back(Describe(info.name, info.type));
}

void Give(ferry_session** out, std::shared_ptr<Session> session) {
  auto handle = std::make_unique<ferry_session>();
  Describe(session->inputs(), handle->inputs);
  Describe(session->overridable_inputs(), handle->overridable);
  Describe(session->outputs(), handle->outputs);
  handle->session = std::move(session);
  *out = handle.release();
}

SessionOptions OptionsOf(const ferry_options* options) { return options ? options->options : SessionOptions{}; }

const Dim* DimOf(const ferry_value_info* info, size_t axis) {
  if (!info || !info->type.shape || axis >= info->type.shape->size()) return nullptr;
  return &(*info->type.shape)[axis];
}

const std::pair<std::string, std::string>* MetadataOf(const ferry_session* session, size_t index) {
  return index < ferry_metadata_count(session) ? &session->session->model().metadata[index] : nullptr;
}

}  // namespace

ferry_status* ferry_options_create(ferry_options** out) {
  return Guard([&] {
    RequirePointer(out, "out");
    *out = new ferry_options;
  });
}

void ferry_options_free(ferry_options* options) { delete options; }

ferry_status* ferry_options_set_threads(ferry_options* options, int threads) {
  return Guard([&] {
    RequirePointer(options, "options");
    Require(threads >= 0 && threads <= 1024, "a run can't have ", threads, " threads");
    options->options.threads = threads;
  });
}

ferry_status* ferry_options_set_provider(ferry_options* options, const char* provider) {
  return Guard([&] {
    RequirePointer(options, "options");
    RequirePointer(provider, "provider");
    options->options.provider = provider;
  });
}

ferry_status* ferry_options_set_dimension(ferry_options* options, const char* name, int64_t value) {
  return Guard([&] {
    RequirePointer(options, "options");
    RequirePointer(name, "name");
    Require(value >= 0, "dimension '", Printable(name), "' can't be ", value);
    options->options.free_dimensions[name] = value;
  });
}

ferry_status* ferry_options_set_cache(ferry_options* options, const char* folder) {
  return Guard([&] {
    RequirePointer(options, "options");
    options->options.cache_folder = folder ? folder : "";
  });
}

ferry_status* ferry_options_set_optimize(ferry_options* options, int optimize) {
  return Guard([&] {
    RequirePointer(options, "options");
    options->options.optimize = optimize != 0;
  });
}

ferry_status* ferry_options_set_exact(ferry_options* options, int exact) {
  return Guard([&] {
    RequirePointer(options, "options");
    options->options.exact = exact != 0;
  });
}

ferry_status* ferry_options_set_tune(ferry_options* options, const char* file) {
  return Guard([&] {
    RequirePointer(options, "options");
    RequirePointer(file, "file");
    options->options.tune = file;
  });
}

ferry_status* ferry_options_set_precision(ferry_options* options, const char* precision) {
  return Guard([&] {
    RequirePointer(options, "options");
    RequirePointer(precision, "precision");
    options->options.precision = PrecisionNamed(precision);
  });
}

ferry_status* ferry_options_set_max_iterations(ferry_options* options, int64_t iterations) {
  return Guard([&] {
    RequirePointer(options, "options");
    Require(iterations > 0, "loops can't have at most ", iterations, " turns");
    options->options.limits.iterations = iterations;
  });
}

ferry_status* ferry_options_set_time_limit(ferry_options* options, double seconds) {
  return Guard([&] {
    RequirePointer(options, "options");
    options->options.limits.time = ToTimeLimit(seconds);
  });
}

ferry_status* ferry_options_set_max_bytes(ferry_options* options, size_t bytes) {
  return Guard([&] {
    RequirePointer(options, "options");
    options->options.limits.bytes = bytes;
  });
}

ferry_status* ferry_options_set_max_expanded_nodes(ferry_options* options, size_t nodes) {
  return Guard([&] {
    RequirePointer(options, "options");
    options->options.limits.expanded_nodes = nodes;
  });
}

ferry_status* ferry_options_set_max_programs(ferry_options* options, int programs) {
  return Guard([&] {
    RequirePointer(options, "options");
    Require(programs > 0, "a session can't keep ", programs, " programs");
    options->options.max_programs = programs;
  });
}

ferry_status* ferry_runtime_create(int threads, ferry_runtime** out) {
  return Guard([&] {
    RequirePointer(out, "out");
    *out = new ferry_runtime{std::make_shared<Runtime>(threads)};
  });
}

void ferry_runtime_free(ferry_runtime* runtime) { delete runtime; }

ferry_status* ferry_options_set_runtime(ferry_options* options, ferry_runtime* runtime) {
  return Guard([&] {
    RequirePointer(options, "options");
    options->options.runtime = runtime ? runtime->runtime : nullptr;
  });
}

ferry_status* ferry_session_open(const char* path, const ferry_options* options, ferry_session** out) {
  return Guard([&] {
    RequirePointer(path, "path");
    RequirePointer(out, "out");
    Give(out, Session::Open(path, OptionsOf(options)));
  });
}

ferry_status* ferry_session_open_memory(const void* data, size_t bytes, const ferry_options* options,
                                        ferry_session** out) {
  return Guard([&] {
    RequirePointer(data, "data");
    RequirePointer(out, "out");
    std::shared_ptr<Buffer> copy = Buffer::Allocate(bytes);
    if (bytes > 0) std::memcpy(copy->data(), data, bytes);
    Model model = ReadModelFromMemory({copy->data(), bytes}, copy);
    Give(out, Session::FromModel(std::move(model), OptionsOf(options)));
  });
}

void ferry_session_free(ferry_session* session) { delete session; }

int ferry_session_threads(const ferry_session* session) { return session ? session->session->threads() : 0; }

size_t ferry_input_count(const ferry_session* session) { return session ? session->inputs.size() : 0; }
size_t ferry_output_count(const ferry_session* session) { return session ? session->outputs.size() : 0; }
size_t ferry_overridable_count(const ferry_session* session) { return session ? session->overridable.size() : 0; }

const ferry_value_info* ferry_input(const ferry_session* session, size_t index) {
  return index < ferry_input_count(session) ? &session->inputs[index] : nullptr;
}
const ferry_value_info* ferry_output(const ferry_session* session, size_t index) {
  return index < ferry_output_count(session) ? &session->outputs[index] : nullptr;
}

const ferry_value_info* ferry_overridable(const ferry_session* session, size_t index) {
  return index < ferry_overridable_count(session) ? &session->overridable[index] : nullptr;
}

const char* ferry_info_name(const ferry_value_info* info) { return info ? info->name.c_str() : ""; }
const char* ferry_info_type(const ferry_value_info* info) { return info ? info->type_text.c_str() : ""; }

ferry_kind ferry_info_kind(const ferry_value_info* info) {
  if (!info) return FERRY_KIND_UNKNOWN;
  switch (info->type.kind) {
    case Type::Kind::kTensor: return FERRY_KIND_TENSOR;
    case Type::Kind::kSparseTensor: return FERRY_KIND_SPARSE_TENSOR;
    case Type::Kind::kSequence: return FERRY_KIND_SEQUENCE;
    case Type::Kind::kOptional: return FERRY_KIND_OPTIONAL;
    case Type::Kind::kMap: return FERRY_KIND_MAP;
    case Type::Kind::kOpaque:
    case Type::Kind::kUnknown: break;
  }
  return FERRY_KIND_UNKNOWN;
}

ferry_dtype ferry_info_dtype(const ferry_value_info* info) {
  return info ? static_cast<ferry_dtype>(info->type.dtype) : FERRY_UNDEFINED;
}

int64_t ferry_info_rank(const ferry_value_info* info) {
  return info && info->type.shape ? static_cast<int64_t>(info->type.shape->size()) : -1;
}

int64_t ferry_info_dim(const ferry_value_info* info, size_t axis) {
  const Dim* dim = DimOf(info, axis);
  return dim && dim->known() ? *dim->value : -1;
}

const char* ferry_info_dim_name(const ferry_value_info* info, size_t axis) {
  const Dim* dim = DimOf(info, axis);
  return dim ? dim->symbol.c_str() : "";
}

const ferry_value_info* ferry_info_element(const ferry_value_info* info) {
  return info ? info->element.get() : nullptr;
}

const char* ferry_model_producer(const ferry_session* session) {
  return session ? session->session->model().producer_name.c_str() : "";
}
const char* ferry_model_graph_name(const ferry_session* session) {
  return session ? session->session->model().graph.name.c_str() : "";
}
const char* ferry_model_domain(const ferry_session* session) {
  return session ? session->session->model().domain.c_str() : "";
}
const char* ferry_model_description(const ferry_session* session) {
  return session ? session->session->model().doc.c_str() : "";
}
int64_t ferry_model_version(const ferry_session* session) {
  return session ? session->session->model().model_version : 0;
}

size_t ferry_metadata_count(const ferry_session* session) {
  return session ? session->session->model().metadata.size() : 0;
}
const char* ferry_metadata_key(const ferry_session* session, size_t index) {
  const auto* pair = MetadataOf(session, index);
  return pair ? pair->first.c_str() : nullptr;
}
const char* ferry_metadata_value(const ferry_session* session, size_t index) {
  const auto* pair = MetadataOf(session, index);
  return pair ? pair->second.c_str() : nullptr;
}
