#include <algorithm>

#include "api/handles.h"
#include "measure/recording.h"

using namespace ferry;
using namespace ferry::api;

namespace {

std::vector<NamedValue> InputsOf(const char* const* names, const ferry_value* const* values, size_t count) {
  if (count > 0) RequirePointer(names, "input_names");
  if (count > 0) RequirePointer(values, "inputs");
  std::vector<NamedValue> given;
  for (size_t i = 0; i < count; ++i) {
    RequirePointer(names[i], "an input name");
    RequirePointer(values[i], "an input");
    given.emplace_back(names[i], values[i]->value);
  }
  return given;
}

std::vector<std::string> NamesOf(const char* const* names, size_t count) {
  std::vector<std::string> wanted;
  for (size_t i = 0; i < count; ++i) {
    RequirePointer(names[i], "an output name");
    wanted.emplace_back(names[i]);
  }
  return wanted;
}

// A tensor in memory that the caller's allocator gives, and gets back when nobody uses the tensor any more.
Tensor Allocate(const ferry_allocator& allocator, size_t output, DType dtype, const Shape& shape, MemorySpace& space) {
  size_t bytes = StorageBytes(dtype, shape.ElementCount());
  if (bytes == 0) return {};
  void* memory = allocator.allocate(allocator.user, output, bytes);
  if (!memory) Fail(ErrorCode::kLimit, "the caller's allocator has no ", bytes, " bytes for output ", output);
  std::shared_ptr<const void> keep(memory, [allocator](const void* given) {
    if (allocator.release) allocator.release(allocator.user, const_cast<void*>(given));
  });
  Tensor tensor(dtype, shape, Buffer::Borrow(memory, bytes, std::move(keep), space));
  size_t width = std::max<size_t>(1, static_cast<size_t>(BitWidth(dtype)) / (IsComplex(dtype) ? 16 : 8));
  Require(tensor.IsAligned(width), "the memory for output ", output, " is not aligned to ", width, " bytes");
  return tensor;
}

RunOptions OptionsOf(const ferry_run_options* options) {
  RunOptions made;
  if (!options) return made;
  made.cancelled = &options->cancelled;
  made.profile = options->profile;
  made.time_limit = options->time_limit;
  made.max_bytes = options->max_bytes;
  made.max_iterations = options->max_iterations;
  MemorySpace& space = options->space ? *options->space : HostMemory();
  if (options->allocator)
    made.place_result = [allocator = *options->allocator, &space](size_t output, DType dtype, const Shape& shape) {
      return Allocate(allocator, output, dtype, shape, space);
    };
  else if (&space != &HostMemory())
    made.place_result = [&space](size_t, DType dtype, const Shape& shape) { return Tensor(dtype, shape, space); };
  return made;
}

// A wrong name is looked for only where something is wrong: a run that works spends no time on it.
std::vector<Value> RunNamed(const Session& session, const std::vector<NamedValue>& inputs,
                            const std::vector<std::string>& outputs, const RunOptions& options) {
  try {
    return session.Run(inputs, outputs, options);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInvalidArgument) RequireInputNames(session, inputs);
    throw;
  }
}

}  // namespace

ferry_status* ferry_profile_create(ferry_profile** out) {
  return Guard([&] {
    RequirePointer(out, "out");
    *out = new ferry_profile;
  });
}

void ferry_profile_free(ferry_profile* profile) { delete profile; }

size_t ferry_profile_count(const ferry_profile* profile) { return profile ? profile->profile.size() : 0; }

ferry_status* ferry_profile_write(const ferry_profile* profile, const char* path) {
  return Guard([&] {
    RequirePointer(profile, "profile");
    RequirePointer(path, "path");
    profile->profile.Write(path);
  });
}

ferry_status* ferry_run_options_create(ferry_run_options** out) {
  return Guard([&] {
    RequirePointer(out, "out");
    *out = new ferry_run_options;
  });
}

void ferry_run_options_free(ferry_run_options* options) { delete options; }

ferry_status* ferry_run_options_set_profile(ferry_run_options* options, ferry_profile* profile) {
  return Guard([&] {
    RequirePointer(options, "options");
    options->profile = profile ? &profile->profile : nullptr;
  });
}

ferry_status* ferry_run_options_set_allocator(ferry_run_options* options, const ferry_allocator* allocator) {
  return Guard([&] {
    RequirePointer(options, "options");
    if (allocator) RequirePointer(reinterpret_cast<const void*>(allocator->allocate), "allocate");
    options->allocator = allocator ? std::optional(*allocator) : std::nullopt;
  });
}

ferry_status* ferry_run_options_set_time_limit(ferry_run_options* options, double seconds) {
  return Guard([&] {
    RequirePointer(options, "options");
    options->time_limit = ToTimeLimit(seconds);
  });
}

ferry_status* ferry_run_options_set_max_bytes(ferry_run_options* options, size_t bytes) {
  return Guard([&] {
    RequirePointer(options, "options");
    options->max_bytes = bytes;
  });
}

ferry_status* ferry_run_options_set_max_iterations(ferry_run_options* options, int64_t iterations) {
  return Guard([&] {
    RequirePointer(options, "options");
    Require(iterations >= 0, "loops can't have at most ", iterations, " turns");
    options->max_iterations = iterations;
  });
}

void ferry_run_options_cancel(ferry_run_options* options) {
  if (options) options->cancelled.store(true, std::memory_order_relaxed);
}

void ferry_run_options_reset(ferry_run_options* options) {
  if (options) options->cancelled.store(false, std::memory_order_relaxed);
}

ferry_status* ferry_run_with(ferry_session* session, const ferry_run_options* options, const char* const* input_names,
                             const ferry_value* const* inputs, size_t input_count, const char* const* output_names,
                             size_t output_count, ferry_value** outputs) {
  if (outputs) std::fill_n(outputs, output_count, nullptr);
  return Guard([&] {
    RequirePointer(session, "session");
    RequirePointer(outputs, "outputs");
    std::vector<NamedValue> given = InputsOf(input_names, inputs, input_count);
    size_t available = session->outputs.size();
    Require(output_names || output_count == available, "the model has ", available, " outputs, there is room for ",
            output_count);
    Require(output_count > 0, "no output is asked for");
    std::vector<std::string> wanted = NamesOf(output_names, output_names ? output_count : 0);
    std::vector<Value> results = RunNamed(*session->session, given, wanted, OptionsOf(options));
    std::vector<std::unique_ptr<ferry_value>> handles;
    for (Value& result : results) handles.emplace_back(new ferry_value{std::move(result)});
    for (size_t i = 0; i < output_count; ++i) outputs[i] = handles[i].release();
  });
}

ferry_status* ferry_run(ferry_session* session, const char* const* input_names, const ferry_value* const* inputs,
                        size_t input_count, const char* const* output_names, size_t output_count,
                        ferry_value** outputs) {
  return ferry_run_with(session, nullptr, input_names, inputs, input_count, output_names, output_count, outputs);
}
