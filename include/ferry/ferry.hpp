// Ferry in C++: load an ONNX model, look at it, run it. Header only, over the stable C interface of ferry.h.
//
//   ferry::Session session("model.onnx");
//   std::vector<float> x(10);
//   auto outputs = session.Run({{"x", ferry::Value::Of<float>({1, 10}, x)}});
//   std::span<const float> y = outputs[0].Data<float>();
//
// Errors are thrown as ferry::Error. A Session may be used by many threads at once; Run does not change it.
#pragma once

#include <complex>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ferry/ferry.h"

namespace ferry {
inline namespace api_v1 {

enum class Code : int {
  kInvalidArgument = FERRY_INVALID_ARGUMENT,
  kInvalidModel = FERRY_INVALID_MODEL,
  kNotFound = FERRY_NOT_FOUND,
  kUnsupported = FERRY_UNSUPPORTED,
  kIo = FERRY_IO,
  kLimit = FERRY_LIMIT,
  kCancelled = FERRY_CANCELLED,
  kInternal = FERRY_INTERNAL,
  kDeadline = FERRY_DEADLINE,
};

class Error : public std::runtime_error {
 public:
  Error(Code code, const char* message) : std::runtime_error(message), code_(code) {}
  Code code() const noexcept { return code_; }

 private:
  Code code_;
};

namespace detail {

inline void Check(ferry_status* status) {
  if (!status) return;
  std::unique_ptr<ferry_status, void (*)(ferry_status*)> owner(status, ferry_status_free);
  throw Error(static_cast<Code>(ferry_status_code(status)), ferry_status_message(status));
}

template <class Handle, void (*Free)(Handle*)>
struct Deleter {
  void operator()(Handle* handle) const noexcept { Free(handle); }
};
template <class Handle, void (*Free)(Handle*)>
using Owned = std::unique_ptr<Handle, Deleter<Handle, Free>>;

}  // namespace detail

// The element type that a C++ type stands for. Types without one (float16, bfloat16, float8 …) go by their bits: see
// Value::Raw.
template <class T>
inline constexpr ferry_dtype kDTypeOf = FERRY_UNDEFINED;
template <>
inline constexpr ferry_dtype kDTypeOf<float> = FERRY_FLOAT;
template <>
inline constexpr ferry_dtype kDTypeOf<double> = FERRY_DOUBLE;
template <>
inline constexpr ferry_dtype kDTypeOf<int8_t> = FERRY_INT8;
template <>
inline constexpr ferry_dtype kDTypeOf<int16_t> = FERRY_INT16;
template <>
inline constexpr ferry_dtype kDTypeOf<int32_t> = FERRY_INT32;
template <>
inline constexpr ferry_dtype kDTypeOf<int64_t> = FERRY_INT64;
template <>
inline constexpr ferry_dtype kDTypeOf<uint8_t> = FERRY_UINT8;
template <>
inline constexpr ferry_dtype kDTypeOf<uint16_t> = FERRY_UINT16;
template <>
inline constexpr ferry_dtype kDTypeOf<uint32_t> = FERRY_UINT32;
template <>
inline constexpr ferry_dtype kDTypeOf<uint64_t> = FERRY_UINT64;
template <>
inline constexpr ferry_dtype kDTypeOf<bool> = FERRY_BOOL;
template <>
inline constexpr ferry_dtype kDTypeOf<std::complex<float>> = FERRY_COMPLEX64;
template <>
inline constexpr ferry_dtype kDTypeOf<std::complex<double>> = FERRY_COMPLEX128;

// A tensor, sequence, map or optional. Owns its handle; moves, does not copy.
class Value {
 public:
  Value() = default;
  explicit Value(ferry_value* handle) : handle_(handle) {}

  // A tensor with a copy of the elements, row-major.
  template <class T>
  static Value Of(std::span<const int64_t> shape, std::span<const T> elements) {
    static_assert(kDTypeOf<T> != FERRY_UNDEFINED, "no ONNX element type is this C++ type; use Value::Raw");
    return Raw(kDTypeOf<T>, shape, elements.data(), elements.size_bytes());
  }
  template <class T>
  static Value Of(std::initializer_list<int64_t> shape, std::type_identity_t<std::span<const T>> elements) {
    return Of<T>(std::span(shape.begin(), shape.size()), elements);
  }
  // A tensor over memory that stays the caller's and must outlive the value and all that came of it.
  template <class T>
  static Value Borrow(std::span<const int64_t> shape, std::span<const T> elements) {
    static_assert(kDTypeOf<T> != FERRY_UNDEFINED, "no ONNX element type is this C++ type");
    ferry_value* made = nullptr;
    detail::Check(
        ferry_tensor_borrow(kDTypeOf<T>, shape.data(), shape.size(), elements.data(), elements.size_bytes(), &made));
    return Value(made);
  }
  // Elements of any type by their bytes; narrow ones packed as ONNX packs them.
  static Value Raw(ferry_dtype type, std::span<const int64_t> shape, const void* data, size_t bytes) {
    ferry_value* made = nullptr;
    detail::Check(ferry_tensor_copy(type, shape.data(), shape.size(), data, bytes, &made));
    return Value(made);
  }
  static Value OfStrings(std::span<const int64_t> shape, std::span<const std::string> strings) {
    std::vector<const char*> texts;
    std::vector<size_t> lengths;
    for (const std::string& text : strings) {
      texts.push_back(text.data());
      lengths.push_back(text.size());
    }
    int64_t wanted = 1;
    for (int64_t dim : shape) wanted *= dim;
    if (wanted != static_cast<int64_t>(strings.size()))
      throw Error(Code::kInvalidArgument, "the number of strings does not fit the shape");
    ferry_value* made = nullptr;
    detail::Check(ferry_tensor_of_strings(shape.data(), shape.size(), texts.data(), lengths.data(), &made));
    return Value(made);
  }
  static Value Sequence(std::span<const Value> elements) {
    std::vector<const ferry_value*> handles;
    for (const Value& element : elements) handles.push_back(element.handle());
    ferry_value* made = nullptr;
    detail::Check(ferry_sequence_of(handles.data(), handles.size(), &made));
    return Value(made);
  }
  // Keys (integers or strings) and values as two tensors [n].
  static Value Map(const Value& keys, const Value& values) {
    return Part([&](ferry_value** out) { return ferry_map_of(keys.handle(), values.handle(), out); });
  }
  // Values [n] at int64 indices [n] or [n, rank].
  static Value Sparse(std::span<const int64_t> shape, const Value& values, const Value& indices) {
    return Part([&](ferry_value** out) {
      return ferry_sparse_of(shape.data(), shape.size(), values.handle(), indices.handle(), out);
    });
  }
  static Value EmptyOptional() {
    ferry_value* made = nullptr;
    detail::Check(ferry_empty_optional(&made));
    return Value(made);
  }

  ferry_kind kind() const { return ferry_value_kind(handle()); }
  bool is_tensor() const { return kind() == FERRY_KIND_TENSOR; }

  ferry_dtype dtype() const { return ferry_tensor_dtype(handle()); }
  std::span<const int64_t> shape() const { return {ferry_tensor_dims(handle()), ferry_tensor_rank(handle())}; }
  int64_t size() const { return ferry_tensor_size(handle()); }
  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(ferry_tensor_data(handle())), ferry_tensor_bytes(handle())};
  }
  // The elements, which live as long as this value; throws when they are of another type.
  template <class T>
  std::span<const T> Data() const {
    if (dtype() != kDTypeOf<T> || kDTypeOf<T> == FERRY_UNDEFINED)
      throw Error(Code::kInvalidArgument, "the value is not a tensor of the type asked for");
    return {static_cast<const T*>(ferry_tensor_data(handle())), static_cast<size_t>(size())};
  }
  std::string String(int64_t index) const {
    size_t length = 0;
    const char* text = ferry_tensor_string(handle(), index, &length);
    if (!text) throw Error(Code::kInvalidArgument, "the value has no such string");
    return {text, length};
  }

  size_t element_count() const { return ferry_sequence_count(handle()); }
  Value Element(size_t index) const {
    return Part([&](ferry_value** out) { return ferry_sequence_element(handle(), index, out); });
  }
  Value Keys() const {
    return Part([&](ferry_value** out) { return ferry_map_keys(handle(), out); });
  }
  Value Values() const {
    return Part([&](ferry_value** out) { return ferry_map_values(handle(), out); });
  }

  std::span<const int64_t> sparse_shape() const { return {ferry_sparse_dims(handle()), ferry_sparse_rank(handle())}; }
  Value SparseValues() const {
    return Part([&](ferry_value** out) { return ferry_sparse_values(handle(), out); });
  }
  Value SparseIndices() const {
    return Part([&](ferry_value** out) { return ferry_sparse_indices(handle(), out); });
  }

  // A second value over the same elements.
  Value Share() const {
    return Part([&](ferry_value** out) { return ferry_value_share(handle(), out); });
  }

  ferry_value* handle() const { return handle_.get(); }

 private:
  template <class Get>
  static Value Part(const Get& get) {
    ferry_value* part = nullptr;
    detail::Check(get(&part));
    return Value(part);
  }
  detail::Owned<ferry_value, ferry_value_free> handle_;
};

// What several sessions share: the threads that their runs use.
class Runtime {
 public:
  explicit Runtime(int threads = 0) {  // of one run, the caller's included; 0: one per core
    ferry_runtime* made = nullptr;
    detail::Check(ferry_runtime_create(threads, &made));
    handle_.reset(made);
  }
  ferry_runtime* handle() const { return handle_.get(); }

 private:
  detail::Owned<ferry_runtime, ferry_runtime_free> handle_;
};

struct Options {
  int threads = 0;  // 0: one per core
  std::string provider = "cpu";
  std::vector<std::pair<std::string, int64_t>> dimensions;  // what named dimensions will always be
  bool optimize = true;
  std::string cache;   // a folder where packed weights are kept for the next start; empty: none
  bool exact = false;  // no algorithm that adds up products in another way than the operators' texts do
  std::string tune;    // a file that remembers which algorithms were fastest here; "none": timed, not remembered
  std::string precision =
      "float32";  // of products: float32, or bf16 (weights as bfloat16: half the memory, less exact)
  // Limits; 0: none, or the usual one.
  double time_limit = 0;             // seconds that opening the model and every run may take
  size_t max_bytes = 0;              // that a run holds at once beside weights: arena, tensors, strings
  int64_t max_iterations = 0;        // of all Loops and Scans of a run together; usually 100 million
  size_t max_expanded_nodes = 0;     // that functions of the model become; usually a million
  int max_programs = 0;              // sets of input shapes that stay ready; usually 32
  const Runtime* runtime = nullptr;  // null: threads of its own
};

// What a model takes or gives.
struct ValueInfo {
  std::string name;
  std::string type;  // for people: "float[batch, 10]"
  ferry_kind kind = FERRY_KIND_UNKNOWN;
  ferry_dtype dtype = FERRY_UNDEFINED;
  bool has_rank = false;
  std::vector<int64_t> shape;          // -1 where it is not a fixed number
  std::vector<std::string> dim_names;  // "" where it has none
};

struct Input {
  std::string name;
  Value value;
};

// A timeline of the runs that were asked to add to it, for chrome://tracing and ui.perfetto.dev.
class Profile {
 public:
  Profile() {
    ferry_profile* made = nullptr;
    detail::Check(ferry_profile_create(&made));
    handle_.reset(made);
  }
  size_t size() const { return ferry_profile_count(handle_.get()); }
  void Write(const std::string& path) const { detail::Check(ferry_profile_write(handle_.get(), path.c_str())); }
  ferry_profile* handle() const { return handle_.get(); }

 private:
  detail::Owned<ferry_profile, ferry_profile_free> handle_;
};

// What runs are asked beside their outputs. Cancel may be called from any thread.
class RunOptions {
 public:
  RunOptions() {
    ferry_run_options* made = nullptr;
    detail::Check(ferry_run_options_create(&made));
    handle_.reset(made);
  }
  void AddTo(Profile& profile) { detail::Check(ferry_run_options_set_profile(handle_.get(), profile.handle())); }
  void SetAllocator(const ferry_allocator& allocator) {
    detail::Check(ferry_run_options_set_allocator(handle_.get(), &allocator));
  }
  // Limits of these runs in place of the session's; 0: the session's.
  void SetTimeLimit(double seconds) { detail::Check(ferry_run_options_set_time_limit(handle_.get(), seconds)); }
  void SetMaxBytes(size_t bytes) { detail::Check(ferry_run_options_set_max_bytes(handle_.get(), bytes)); }
  void SetMaxIterations(int64_t count) { detail::Check(ferry_run_options_set_max_iterations(handle_.get(), count)); }
  void Cancel() { ferry_run_options_cancel(handle_.get()); }
  void Reset() { ferry_run_options_reset(handle_.get()); }
  ferry_run_options* handle() const { return handle_.get(); }

 private:
  detail::Owned<ferry_run_options, ferry_run_options_free> handle_;
};

class Session {
 public:
  explicit Session(const std::string& path, const Options& options = {}) {
    auto made = MakeOptions(options);
    ferry_session* session = nullptr;
    detail::Check(ferry_session_open(path.c_str(), made.get(), &session));
    Take(session);
  }
  // The bytes of an .onnx file, which are copied.
  explicit Session(std::span<const std::byte> model, const Options& options = {}) {
    auto made = MakeOptions(options);
    ferry_session* session = nullptr;
    detail::Check(ferry_session_open_memory(model.data(), model.size(), made.get(), &session));
    Take(session);
  }

  const std::vector<ValueInfo>& inputs() const { return inputs_; }
  // Inputs for which the model has a default.
  const std::vector<ValueInfo>& overridable() const { return overridable_; }
  const std::vector<ValueInfo>& outputs() const { return outputs_; }
  int threads() const { return ferry_session_threads(handle_.get()); }
  // Pairs of key and value that the model's maker put in.
  std::vector<std::pair<std::string, std::string>> metadata() const {
    std::vector<std::pair<std::string, std::string>> pairs;
    for (size_t i = 0; i < ferry_metadata_count(handle_.get()); ++i)
      pairs.emplace_back(ferry_metadata_key(handle_.get(), i), ferry_metadata_value(handle_.get(), i));
    return pairs;
  }

  // All outputs in the model's order, or the values called `outputs`, which may be any inside the model.
  std::vector<Value> Run(std::span<const Input> inputs, std::span<const std::string> outputs = {},
                         const RunOptions* options = nullptr) const {
    std::vector<const char*> names, wanted;
    std::vector<const ferry_value*> values;
    for (const Input& input : inputs) {
      names.push_back(input.name.c_str());
      values.push_back(input.value.handle());
    }
    for (const std::string& name : outputs) wanted.push_back(name.c_str());
    std::vector<ferry_value*> results(outputs.empty() ? outputs_.size() : outputs.size());
    detail::Check(ferry_run_with(handle_.get(), options ? options->handle() : nullptr, names.data(), values.data(),
                                 names.size(), outputs.empty() ? nullptr : wanted.data(), results.size(),
                                 results.data()));
    std::vector<Value> owned;
    owned.reserve(results.size());
    for (ferry_value* result : results) owned.emplace_back(result);
    return owned;
  }
  // session.Run("x", value): for the many models that have one input.
  std::vector<Value> Run(std::string_view name, Value value) const {
    Input input{std::string(name), std::move(value)};
    return Run(std::span(&input, 1));
  }

 private:
  friend class Generator;
  using OwnedOptions = detail::Owned<ferry_options, ferry_options_free>;

  static OwnedOptions MakeOptions(const Options& options) {
    ferry_options* made = nullptr;
    detail::Check(ferry_options_create(&made));
    OwnedOptions owned(made);
    detail::Check(ferry_options_set_threads(made, options.threads));
    detail::Check(ferry_options_set_provider(made, options.provider.c_str()));
    for (const auto& [name, size] : options.dimensions)
      detail::Check(ferry_options_set_dimension(made, name.c_str(), size));
    detail::Check(ferry_options_set_optimize(made, options.optimize));
    detail::Check(ferry_options_set_cache(made, options.cache.c_str()));
    detail::Check(ferry_options_set_exact(made, options.exact));
    detail::Check(ferry_options_set_tune(made, options.tune.c_str()));
    detail::Check(ferry_options_set_precision(made, options.precision.c_str()));
    detail::Check(ferry_options_set_time_limit(made, options.time_limit));
    detail::Check(ferry_options_set_max_bytes(made, options.max_bytes));
    if (options.max_iterations != 0) detail::Check(ferry_options_set_max_iterations(made, options.max_iterations));
    if (options.max_expanded_nodes != 0)
      detail::Check(ferry_options_set_max_expanded_nodes(made, options.max_expanded_nodes));
    if (options.max_programs != 0) detail::Check(ferry_options_set_max_programs(made, options.max_programs));
    if (options.runtime) detail::Check(ferry_options_set_runtime(made, options.runtime->handle()));
    return owned;
  }

  static ValueInfo Describe(const ferry_value_info* info) {
    ValueInfo described{.name = ferry_info_name(info),
                        .type = ferry_info_type(info),
                        .kind = ferry_info_kind(info),
                        .dtype = ferry_info_dtype(info),
                        .has_rank = ferry_info_rank(info) >= 0,
                        .shape = {},
                        .dim_names = {}};
    for (int64_t axis = 0; axis < ferry_info_rank(info); ++axis) {
      described.shape.push_back(ferry_info_dim(info, static_cast<size_t>(axis)));
      described.dim_names.emplace_back(ferry_info_dim_name(info, static_cast<size_t>(axis)));
    }
    return described;
  }

  void Take(ferry_session* session) {
    handle_.reset(session);
    for (size_t i = 0; i < ferry_input_count(session); ++i) inputs_.push_back(Describe(ferry_input(session, i)));
    for (size_t i = 0; i < ferry_overridable_count(session); ++i)
      overridable_.push_back(Describe(ferry_overridable(session, i)));
    for (size_t i = 0; i < ferry_output_count(session); ++i) outputs_.push_back(Describe(ferry_output(session, i)));
  }

  detail::Owned<ferry_session, ferry_session_free> handle_;
  std::vector<ValueInfo> inputs_, overridable_, outputs_;
};

// Text to tokens and back: Hugging Face's tokenizer.json.
class Tokenizer {
 public:
  explicit Tokenizer(const std::string& path) {
    ferry_tokenizer* made = nullptr;
    detail::Check(ferry_tokenizer_open(path.c_str(), &made));
    handle_.reset(made);
  }
  std::vector<int64_t> Encode(std::string_view text, bool add_special = true) const {
    ferry_value* made = nullptr;
    detail::Check(ferry_tokenizer_encode(handle_.get(), text.data(), text.size(), add_special, &made));
    const Value ids(made);
    const std::span<const int64_t> all = ids.Data<int64_t>();
    return {all.begin(), all.end()};
  }
  std::string Decode(std::span<const int64_t> ids, bool skip_special = true) const {
    ferry_value* made = nullptr;
    detail::Check(ferry_tokenizer_decode(handle_.get(), ids.data(), ids.size(), skip_special, &made));
    return Value(made).String(0);
  }
  int64_t Find(const std::string& token) const { return ferry_tokenizer_find(handle_.get(), token.c_str()); }
  size_t size() const { return ferry_tokenizer_size(handle_.get()); }

 private:
  detail::Owned<ferry_tokenizer, ferry_tokenizer_free> handle_;
};

// How a text is made.
struct GenerateOptions {
  int64_t max_tokens = 256;
  int64_t context = 0;     // tokens of prompt and answer together; 0: what the model says
  double temperature = 0;  // 0: always the best token
  int64_t top_k = 0;
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;
  uint64_t seed = 0;
  bool add_special = true;
  std::vector<std::string> stop;
  std::function<bool(std::string_view)> on_text;  // told of text as it comes; false ends it. Must not throw.
};

struct Generated {
  std::string text;
  std::vector<int64_t> ids;
  std::string reason;  // "max-tokens", "stop-token", "stop-word", "window" or "caller"
  size_t prompt_tokens = 0;
  double prompt_seconds = 0, seconds = 0;
};

// A language model with its tokenizer.
class Generator {
 public:
  Generator(const std::string& model, const std::string& tokenizer, const Options& options = {}) {
    auto made = Session::MakeOptions(options);
    ferry_generator* generator = nullptr;
    detail::Check(ferry_generator_open(model.c_str(), tokenizer.c_str(), made.get(), &generator));
    handle_.reset(generator);
  }

  Generated Generate(std::string_view prompt, const GenerateOptions& options = {}) const {
    ferry_generate_options* settings = nullptr;
    detail::Check(ferry_generate_options_create(&settings));
    const detail::Owned<ferry_generate_options, ferry_generate_options_free> owner(settings);
    const std::pair<const char*, double> numbers[] = {{"max_tokens", static_cast<double>(options.max_tokens)},
                                                      {"context", static_cast<double>(options.context)},
                                                      {"temperature", options.temperature},
                                                      {"top_k", static_cast<double>(options.top_k)},
                                                      {"top_p", options.top_p},
                                                      {"min_p", options.min_p},
                                                      {"repetition_penalty", options.repetition_penalty},
                                                      {"seed", static_cast<double>(options.seed)},
                                                      {"add_special", options.add_special ? 1.0 : 0.0}};
    for (const auto& [name, value] : numbers) detail::Check(ferry_generate_options_set(settings, name, value));
    for (const std::string& word : options.stop) detail::Check(ferry_generate_options_add_stop(settings, word.c_str()));
    auto tell = [](void* user, const char* text, size_t length) -> int {
      return (*static_cast<const std::function<bool(std::string_view)>*>(user))({text, length});
    };
    if (options.on_text)
      detail::Check(ferry_generate_options_set_on_text(
          settings, tell, const_cast<std::function<bool(std::string_view)>*>(&options.on_text)));
    ferry_generated* made = nullptr;
    detail::Check(ferry_generate(handle_.get(), settings, prompt.data(), prompt.size(), &made));
    const detail::Owned<ferry_generated, ferry_generated_free> text(made);
    size_t length = 0, count = 0;
    const char* letters = ferry_generated_text(made, &length);
    const int64_t* ids = ferry_generated_ids(made, &count);
    return {{letters, length},
            {ids, ids + count},
            ferry_generated_reason(made),
            ferry_generated_prompt_count(made),
            ferry_generated_prompt_seconds(made),
            ferry_generated_seconds(made)};
  }

 private:
  detail::Owned<ferry_generator, ferry_generator_free> handle_;
};

// What ONNX's standard finds wrong with a model.
struct Report {
  bool valid = false;
  std::vector<std::string> problems;  // warnings among them
};

inline Report Check(const std::string& path) {
  ferry_report* made = nullptr;
  detail::Check(ferry_check(path.c_str(), &made));
  detail::Owned<ferry_report, ferry_report_free> owned(made);
  Report report{.valid = ferry_report_valid(made) != 0, .problems = {}};
  for (size_t i = 0; i < ferry_report_count(made); ++i) report.problems.emplace_back(ferry_report_problem(made, i));
  return report;
}

inline std::string Version() { return ferry_version(); }

}  // namespace api_v1
}  // namespace ferry
