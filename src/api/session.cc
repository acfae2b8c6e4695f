#include <algorithm>
#include <cstring>

#include "api/handles.h"
#include "onnx/reader.h"

using namespace ferry;
using namespace ferry::api;

namespace {

void Describe(const std::vector<ValueInfo>& from, std::vector<ferry_value_info>& to) {
  for (const ValueInfo& info : from) to.push_back({info, ToText(info.type)});
}

void Give(ferry_session** out, std::shared_ptr<Session> session) {
  auto handle = std::make_unique<ferry_session>();
  Describe(session->inputs(), handle->inputs);
  Describe(session->outputs(), handle->outputs);
  handle->session = std::move(session);
  *out = handle.release();
}

SessionOptions OptionsOf(const ferry_options* options) { return options ? options->options : SessionOptions{}; }

const Dim* DimOf(const ferry_value_info* info, size_t axis) {
  if (!info || !info->info.type.shape || axis >= info->info.type.shape->size()) return nullptr;
  return &(*info->info.type.shape)[axis];
}

std::vector<std::string> NamesOf(const char* const* names, size_t count) {
  std::vector<std::string> wanted;
  for (size_t i = 0; i < count; ++i) {
    RequirePointer(names[i], "an output name");
    wanted.emplace_back(names[i]);
  }
  return wanted;
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
    Require(threads >= 0 && threads <= 4096, "a run can't have ", threads, " threads");
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

ferry_status* ferry_options_set_optimize(ferry_options* options, int optimize) {
  return Guard([&] {
    RequirePointer(options, "options");
    options->options.optimize = optimize != 0;
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

size_t ferry_input_count(const ferry_session* session) { return session ? session->inputs.size() : 0; }
size_t ferry_output_count(const ferry_session* session) { return session ? session->outputs.size() : 0; }

const ferry_value_info* ferry_input(const ferry_session* session, size_t index) {
  return index < ferry_input_count(session) ? &session->inputs[index] : nullptr;
}
const ferry_value_info* ferry_output(const ferry_session* session, size_t index) {
  return index < ferry_output_count(session) ? &session->outputs[index] : nullptr;
}

const char* ferry_info_name(const ferry_value_info* info) { return info ? info->info.name.c_str() : ""; }
const char* ferry_info_type(const ferry_value_info* info) { return info ? info->type_text.c_str() : ""; }

ferry_kind ferry_info_kind(const ferry_value_info* info) {
  if (!info) return FERRY_KIND_UNKNOWN;
  switch (info->info.type.kind) {
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
  return info ? static_cast<ferry_dtype>(info->info.type.dtype) : FERRY_UNDEFINED;
}

int64_t ferry_info_rank(const ferry_value_info* info) {
  return info && info->info.type.shape ? static_cast<int64_t>(info->info.type.shape->size()) : -1;
}

int64_t ferry_info_dim(const ferry_value_info* info, size_t axis) {
  const Dim* dim = DimOf(info, axis);
  return dim && dim->known() ? *dim->value : -1;
}

const char* ferry_info_dim_name(const ferry_value_info* info, size_t axis) {
  const Dim* dim = DimOf(info, axis);
  return dim ? dim->symbol.c_str() : "";
}

ferry_status* ferry_run(ferry_session* session, const char* const* input_names, const ferry_value* const* inputs,
                        size_t input_count, const char* const* output_names, size_t output_count,
                        ferry_value** outputs) {
  if (outputs) std::fill_n(outputs, output_count, nullptr);
  return Guard([&] {
    RequirePointer(session, "session");
    RequirePointer(outputs, "outputs");
    if (input_count > 0) RequirePointer(input_names, "input_names");
    if (input_count > 0) RequirePointer(inputs, "inputs");
    std::vector<NamedValue> given;
    for (size_t i = 0; i < input_count; ++i) {
      RequirePointer(input_names[i], "an input name");
      RequirePointer(inputs[i], "an input");
      given.emplace_back(input_names[i], inputs[i]->value);
    }
    size_t available = session->outputs.size();
    Require(output_names || output_count == available, "the model has ", available, " outputs, there is room for ",
            output_count);
    Require(output_count > 0, "no output is asked for");
    std::vector<Value> results =
        session->session->Run(given, output_names ? NamesOf(output_names, output_count) : std::vector<std::string>());
    std::vector<std::unique_ptr<ferry_value>> handles;
    for (Value& result : results) handles.emplace_back(new ferry_value{std::move(result)});
    for (size_t i = 0; i < output_count; ++i) outputs[i] = handles[i].release();
  });
}
