/* Ferry's C interface: load an ONNX model, look at it, run it.
 *
 * The ABI is stable: functions are only ever added, and ferry_abi_version() counts the additions. Handles are opaque.
 * Nothing is thrown across this line. Functions that can fail return a ferry_status*, which is NULL when all went well;
 * free a status that is not NULL. A function that gives out a new handle writes it to its last argument, only when it
 * succeeds; whoever asked frees it. Names and texts that a handle gives out live as long as the handle; all text is
 * UTF-8 and ends in a zero byte. NULL is allowed for a handle in every function that frees or only looks.
 *
 * Threads: every function may be called from many threads at once. Sessions, values, infos, reports and profiles may be
 * shared among threads; options and run options are to be changed by one thread at a time, but ferry_run_options_cancel
 * may be called at any time.
 *
 *   ferry_session* session = NULL;
 *   ferry_status* status = ferry_session_open("model.onnx", NULL, &session);
 *   if (status) { fprintf(stderr, "%s\n", ferry_status_message(status)); ferry_status_free(status); return 1; }
 */
#ifndef FERRY_FERRY_H_
#define FERRY_FERRY_H_

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define FERRY_API __declspec(dllexport)
#else
#define FERRY_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define FERRY_ABI_VERSION 4

/* The ABI version of the library that was loaded: at least the FERRY_ABI_VERSION this was compiled with, or too old. */
FERRY_API uint32_t ferry_abi_version(void);
/* The version of the library, "1.4.0": MAJOR.MINOR.PATCH, where MINOR is the ABI version. */
FERRY_API const char* ferry_version(void);

/* ---- errors ---- */

/* A number from outside may be none of an enum's names; with its type fixed, C++ may still look at it and refuse. */
#ifdef __cplusplus
#define FERRY_ENUM_BASE : int
#else
#define FERRY_ENUM_BASE
#endif

typedef enum ferry_code {
  FERRY_OK = 0,
  FERRY_INVALID_ARGUMENT = 1, /* the caller asked for something that cannot be: a wrong input, a wrong option */
  FERRY_INVALID_MODEL = 2,    /* the model or data file breaks its format or the standard */
  FERRY_NOT_FOUND = 3,        /* a file or a name does not exist */
  FERRY_UNSUPPORTED = 4,      /* valid, but not something Ferry can do */
  FERRY_IO = 5,               /* the operating system refused */
  FERRY_LIMIT = 6,            /* a limit was reached: size, depth, iterations, memory */
  FERRY_CANCELLED = 7,        /* ferry_run_options_cancel was called */
  FERRY_INTERNAL = 8,         /* a fault in Ferry itself */
  FERRY_DEADLINE = 9          /* a time limit passed; only where one was set */
} ferry_code;

typedef struct ferry_status ferry_status;

/* What kind of error; FERRY_OK for NULL. */
FERRY_API ferry_code ferry_status_code(const ferry_status* status);
/* What is wrong, where, and what to do, in a sentence; "" for NULL. */
FERRY_API const char* ferry_status_message(const ferry_status* status);
/* Frees a status; NULL is fine. */
FERRY_API void ferry_status_free(ferry_status* status);

/* ---- values ---- */

/* Numbered as ONNX's TensorProto.DataType. */
typedef enum ferry_dtype FERRY_ENUM_BASE {
  FERRY_UNDEFINED = 0,
  FERRY_FLOAT = 1,
  FERRY_UINT8 = 2,
  FERRY_INT8 = 3,
  FERRY_UINT16 = 4,
  FERRY_INT16 = 5,
  FERRY_INT32 = 6,
  FERRY_INT64 = 7,
  FERRY_STRING = 8,
  FERRY_BOOL = 9,
  FERRY_FLOAT16 = 10,
  FERRY_DOUBLE = 11,
  FERRY_UINT32 = 12,
  FERRY_UINT64 = 13,
  FERRY_COMPLEX64 = 14,
  FERRY_COMPLEX128 = 15,
  FERRY_BFLOAT16 = 16,
  FERRY_FLOAT8E4M3FN = 17,
  FERRY_FLOAT8E4M3FNUZ = 18,
  FERRY_FLOAT8E5M2 = 19,
  FERRY_FLOAT8E5M2FNUZ = 20,
  FERRY_UINT4 = 21,
  FERRY_INT4 = 22,
  FERRY_FLOAT4E2M1 = 23,
  FERRY_FLOAT8E8M0 = 24,
  FERRY_UINT2 = 25,
  FERRY_INT2 = 26,
  FERRY_FLOAT6E2M3 = 27,
  FERRY_FLOAT6E3M2 = 28
} ferry_dtype;

typedef enum ferry_kind {
  FERRY_KIND_UNKNOWN = 0,
  FERRY_KIND_TENSOR = 1,
  FERRY_KIND_SEQUENCE = 2,
  FERRY_KIND_MAP = 3,
  FERRY_KIND_SPARSE_TENSOR = 4,
  FERRY_KIND_OPTIONAL = 5 /* of a value: an optional that holds nothing */
} ferry_kind;

/* A tensor, sequence, map, sparse tensor or empty optional. Its elements do not change once it is handed to a run. */
typedef struct ferry_value ferry_value;

/* How many bytes a dense tensor of this type and shape takes; elements narrower than a byte are packed. -1 when
 * impossible. */
FERRY_API int64_t ferry_tensor_bytes_for(ferry_dtype type, const int64_t* dims, size_t rank);

/* A tensor of zeros (of empty strings), to be filled through ferry_tensor_mutable_data. */
FERRY_API ferry_status* ferry_tensor_create(ferry_dtype type, const int64_t* dims, size_t rank, ferry_value** out);
/* A tensor with a copy of `bytes` bytes at `data` (row-major). */
FERRY_API ferry_status* ferry_tensor_copy(ferry_dtype type, const int64_t* dims, size_t rank, const void* data,
                                          size_t bytes, ferry_value** out);
/* A tensor over the caller's memory, which must stay as it is until the value, and what came of it, is freed. */
FERRY_API ferry_status* ferry_tensor_borrow(ferry_dtype type, const int64_t* dims, size_t rank, const void* data,
                                            size_t bytes, ferry_value** out);
/* A tensor of strings; `lengths` may be NULL when all end in a zero byte. */
FERRY_API ferry_status* ferry_tensor_of_strings(const int64_t* dims, size_t rank, const char* const* strings,
                                                const size_t* lengths, ferry_value** out);
/* A sequence of copies of the handles given; they stay the caller's. */
FERRY_API ferry_status* ferry_sequence_of(const ferry_value* const* elements, size_t count, ferry_value** out);
/* A map of `keys` (integers or strings) to `values`, two tensors of rank 1 and the same length; both stay the
 * caller's. */
FERRY_API ferry_status* ferry_map_of(const ferry_value* keys, const ferry_value* values, ferry_value** out);
/* A sparse tensor of shape `dims`: `values` is a tensor [n], `indices` an int64 tensor [n] of positions in row-major
 * order or [n, rank] of coordinates; both stay the caller's. */
FERRY_API ferry_status* ferry_sparse_of(const int64_t* dims, size_t rank, const ferry_value* values,
                                        const ferry_value* indices, ferry_value** out);
/* An optional that holds nothing. One that holds something is that something. */
FERRY_API ferry_status* ferry_empty_optional(ferry_value** out);
/* A second handle for the same value; its elements are shared. */
FERRY_API ferry_status* ferry_value_share(const ferry_value* value, ferry_value** out);
/* Frees a handle; NULL is fine. Elements go when the last value that shares them goes. */
FERRY_API void ferry_value_free(ferry_value* value);

/* What a value is; FERRY_KIND_UNKNOWN for NULL. */
FERRY_API ferry_kind ferry_value_kind(const ferry_value* value);

/* The element type of a tensor; FERRY_UNDEFINED for other kinds. */
FERRY_API ferry_dtype ferry_tensor_dtype(const ferry_value* value);
/* The number of dimensions of a tensor; 0 for other kinds. */
FERRY_API size_t ferry_tensor_rank(const ferry_value* value);
/* The dimensions of a tensor, ferry_tensor_rank of them; NULL for other kinds. */
FERRY_API const int64_t* ferry_tensor_dims(const ferry_value* value);
/* The number of elements of a tensor; 0 for other kinds. */
FERRY_API int64_t ferry_tensor_size(const ferry_value* value);
/* The bytes that ferry_tensor_data points at. */
FERRY_API size_t ferry_tensor_bytes(const ferry_value* value);
/* The elements of a tensor, row-major; NULL for strings, for other kinds, and for tensors on a device. */
FERRY_API const void* ferry_tensor_data(const ferry_value* value);
/* The same for writing: NULL also for tensors over memory of the caller's (ferry_tensor_borrow). Values that share the
 * elements change with it. */
FERRY_API void* ferry_tensor_mutable_data(ferry_value* value);
/* String `index` of a string tensor; NULL when there is none. `length`, when not NULL, gets its length. */
FERRY_API const char* ferry_tensor_string(const ferry_value* value, int64_t index, size_t* length);

/* A tensor over memory of a device that the caller owns, "cuda" or "cuda:0" (or "cpu"): `data` is an address there. It
 * must stay as it is until the value, and what came of it, is freed, and what was asked of the device to fill it must
 * be done. */
FERRY_API ferry_status* ferry_tensor_borrow_on(const char* device, ferry_dtype type, const int64_t* dims, size_t rank,
                                               void* data, size_t bytes, ferry_value** out);
/* The same tensor in the memory of a device, or of the host ("cpu"): a copy unless it lies there already. */
FERRY_API ferry_status* ferry_tensor_to(const ferry_value* value, const char* device, ferry_value** out);
/* Where the elements of a tensor lie: "cpu", "cuda:0"; "" for other kinds. */
FERRY_API const char* ferry_tensor_device(const ferry_value* value);
/* Their address in that memory; NULL for strings and for other kinds. */
FERRY_API void* ferry_tensor_device_data(const ferry_value* value);

/* How many elements a sequence has; 0 for other kinds. */
FERRY_API size_t ferry_sequence_count(const ferry_value* value);
/* A new handle for element `index` of a sequence. */
FERRY_API ferry_status* ferry_sequence_element(const ferry_value* value, size_t index, ferry_value** out);

/* The keys of a map as a tensor of rank 1, in a new handle. */
FERRY_API ferry_status* ferry_map_keys(const ferry_value* value, ferry_value** out);
/* The values of a map, in the order of its keys, as a tensor of rank 1, in a new handle. */
FERRY_API ferry_status* ferry_map_values(const ferry_value* value, ferry_value** out);

/* The number of dimensions of a sparse tensor; 0 for other kinds. */
FERRY_API size_t ferry_sparse_rank(const ferry_value* value);
/* The dimensions of a sparse tensor; NULL for other kinds. */
FERRY_API const int64_t* ferry_sparse_dims(const ferry_value* value);
/* The elements of a sparse tensor that are not zero, a tensor [n] in a new handle. */
FERRY_API ferry_status* ferry_sparse_values(const ferry_value* value, ferry_value** out);
/* Where they are: an int64 tensor [n] or [n, rank] in a new handle. */
FERRY_API ferry_status* ferry_sparse_indices(const ferry_value* value, ferry_value** out);

/* ---- sessions ---- */

/* How a session runs. A session copies what it needs: options may be freed once it is open. */
typedef struct ferry_options ferry_options;

/* The usual options. */
FERRY_API ferry_status* ferry_options_create(ferry_options** out);
/* Frees options; NULL is fine. */
FERRY_API void ferry_options_free(ferry_options* options);
/* Threads that one run may use, the caller's included; 0 (the default): one per core; 1: no thread is made. */
FERRY_API ferry_status* ferry_options_set_threads(ferry_options* options, int threads);
/* Where to run: "cpu" (the default), "cuda", or several in the order of preference, "cuda,cpu". Another name, or one
 * that cannot be had here, is refused when the session is opened. */
FERRY_API ferry_status* ferry_options_set_provider(ferry_options* options, const char* provider);
/* Says what a named dimension ("batch") will always be; a run with another size is refused. */
FERRY_API ferry_status* ferry_options_set_dimension(ferry_options* options, const char* name, int64_t value);
/* Whether the graph may be rewritten to run faster; on by default. */
FERRY_API ferry_status* ferry_options_set_optimize(ferry_options* options, int optimize);
/* A folder where packed weights are kept, so that the next start maps them instead of packing again; it is made if it
 * is not there. NULL or "" (the default): none. A damaged file in it is packed anew. */
FERRY_API ferry_status* ferry_options_set_cache(ferry_options* options, const char* folder);
/* Whether only algorithms may be used that add up products as the operators' texts do; off by default. On, 3x3
   convolutions do without Winograd's algorithm: slower, and as close to the true result as float allows. */
FERRY_API ferry_status* ferry_options_set_exact(ferry_options* options, int exact);
/* A file that remembers which algorithms were fastest on this processor. What is not in it yet is timed when the first
   run with new shapes is made ready, and added. "none" times without remembering; "" (the default): nothing is timed.
 */
FERRY_API ferry_status* ferry_options_set_tune(ferry_options* options, const char* file);
/* How precisely float32 products are computed: "float32" (the default) or "bf16", where constant matrices and the
   weights of convolutions that are products are kept as bfloat16 (half the memory), what they are multiplied with is
   rounded to it, and sums stay float32: errors of some thousandths. Any other name is refused. */
FERRY_API ferry_status* ferry_options_set_precision(ferry_options* options, const char* precision);
/* After how many turns of Loops and Scans, all of a run together, it gives up with FERRY_LIMIT; 100 million by
 * default. */
FERRY_API ferry_status* ferry_options_set_max_iterations(ferry_options* options, int64_t iterations);
/* How many seconds opening the model may take, and every run after that, until FERRY_DEADLINE; 0 (the default): any. */
FERRY_API ferry_status* ferry_options_set_time_limit(ferry_options* options, double seconds);
/* How many bytes a run may hold at once, its arena, tensors and strings, weights not among them, until FERRY_LIMIT; 0
 * (the default): any. */
FERRY_API ferry_status* ferry_options_set_max_bytes(ferry_options* options, size_t bytes);
/* How many nodes the functions of a model may become when it is opened; a million by default. */
FERRY_API ferry_status* ferry_options_set_max_expanded_nodes(ferry_options* options, size_t nodes);
/* How many bytes all sessions of this process together may take of a GPU's memory, weights among them, until
 * FERRY_LIMIT; 0 (the default): any. The last session that names a number decides. */
FERRY_API ferry_status* ferry_options_set_device_memory(ferry_options* options, size_t bytes);
/* For how many sets of input shapes what a run needs is kept ready; 32 by default, at least 1. The one that was not
 * used for the longest time leaves first. */
FERRY_API ferry_status* ferry_options_set_max_programs(ferry_options* options, int programs);

/* What several sessions share: the threads that their runs use. */
typedef struct ferry_runtime ferry_runtime;

/* A runtime with so many threads for one run, the caller's included; 0: one per core. */
FERRY_API ferry_status* ferry_runtime_create(int threads, ferry_runtime** out);
/* Frees a runtime; NULL is fine. Sessions that were opened with it keep its threads. */
FERRY_API void ferry_runtime_free(ferry_runtime* runtime);
/* The session takes part in `runtime` instead of having threads of its own; NULL: it has. Threads set for the session
 * itself must be 0 or as many. */
FERRY_API ferry_status* ferry_options_set_runtime(ferry_options* options, ferry_runtime* runtime);

/* A model made ready to run. Many threads may call ferry_run on one session at once. */
typedef struct ferry_session ferry_session;

/* Opens an .onnx file. `options` may be NULL. Sessions on the same file share its weights. */
FERRY_API ferry_status* ferry_session_open(const char* path, const ferry_options* options, ferry_session** out);
/* The same from the bytes of an .onnx file, which are copied. External data is not loaded. */
FERRY_API ferry_status* ferry_session_open_memory(const void* data, size_t bytes, const ferry_options* options,
                                                  ferry_session** out);
/* Frees a session that no thread runs any more; NULL is fine. Values it gave stay. */
FERRY_API void ferry_session_free(ferry_session* session);
/* The threads that one run may use, the caller's included. */
FERRY_API int ferry_session_threads(const ferry_session* session);

/* What a model takes or gives: lives as long as its session. */
typedef struct ferry_value_info ferry_value_info;

/* How many inputs a run must be given. */
FERRY_API size_t ferry_input_count(const ferry_session* session);
/* How many outputs the model has. */
FERRY_API size_t ferry_output_count(const ferry_session* session);
/* How many more inputs a run may be given: those for which the model has a default. */
FERRY_API size_t ferry_overridable_count(const ferry_session* session);
/* Input `index`; NULL past the end. */
FERRY_API const ferry_value_info* ferry_input(const ferry_session* session, size_t index);
/* Output `index`; NULL past the end. */
FERRY_API const ferry_value_info* ferry_output(const ferry_session* session, size_t index);
/* Input with a default `index`; NULL past the end. */
FERRY_API const ferry_value_info* ferry_overridable(const ferry_session* session, size_t index);

/* The name of an input or output; "" for what an element is asked of. */
FERRY_API const char* ferry_info_name(const ferry_value_info* info);
/* Its type for people: "float[batch, 10]". */
FERRY_API const char* ferry_info_type(const ferry_value_info* info);
/* Its kind; FERRY_KIND_UNKNOWN when the model does not say. */
FERRY_API ferry_kind ferry_info_kind(const ferry_value_info* info);
/* The element type of a tensor, the key type of a map; else FERRY_UNDEFINED. */
FERRY_API ferry_dtype ferry_info_dtype(const ferry_value_info* info);
/* The number of dimensions; -1 when the model leaves it open. */
FERRY_API int64_t ferry_info_rank(const ferry_value_info* info);
/* The size of a dimension; -1 when it is not a fixed number. */
FERRY_API int64_t ferry_info_dim(const ferry_value_info* info, size_t axis);
/* The name of a dimension ("batch"); "" when it has none. */
FERRY_API const char* ferry_info_dim_name(const ferry_value_info* info, size_t axis);
/* What a sequence or optional holds, or a map's values; NULL for other kinds. */
FERRY_API const ferry_value_info* ferry_info_element(const ferry_value_info* info);

/* What a model says about itself; "" where it says nothing. */
FERRY_API const char* ferry_model_producer(const ferry_session* session);
FERRY_API const char* ferry_model_graph_name(const ferry_session* session);
FERRY_API const char* ferry_model_domain(const ferry_session* session);
FERRY_API const char* ferry_model_description(const ferry_session* session);
/* The number its maker gave this version of the model. */
FERRY_API int64_t ferry_model_version(const ferry_session* session);
/* How many pairs of key and value its maker put in. */
FERRY_API size_t ferry_metadata_count(const ferry_session* session);
/* The key of pair `index`; NULL past the end. */
FERRY_API const char* ferry_metadata_key(const ferry_session* session, size_t index);
/* The value of pair `index`; NULL past the end. */
FERRY_API const char* ferry_metadata_value(const ferry_session* session, size_t index);

/* Runs the model. `inputs[i]` goes to the input called `input_names[i]`. `output_names` may name any value of the
 * graph; NULL asks for all outputs in the model's order (then output_count is ferry_output_count). On success outputs[0
 * … output_count) are new handles; on failure all are NULL. */
FERRY_API ferry_status* ferry_run(ferry_session* session, const char* const* input_names,
                                  const ferry_value* const* inputs, size_t input_count, const char* const* output_names,
                                  size_t output_count, ferry_value** outputs);

/* A timeline of runs, with node names, shapes, time and bytes. Many runs may add to one profile. */
typedef struct ferry_profile ferry_profile;

/* An empty profile. */
FERRY_API ferry_status* ferry_profile_create(ferry_profile** out);
/* Frees a profile that no run uses any more; NULL is fine. */
FERRY_API void ferry_profile_free(ferry_profile* profile);
/* How many bars it has: one per step that ran and one per run. */
FERRY_API size_t ferry_profile_count(const ferry_profile* profile);
/* Writes Chrome trace JSON, which chrome://tracing and ui.perfetto.dev open. */
FERRY_API ferry_status* ferry_profile_write(const ferry_profile* profile, const char* path);

/* Memory for outputs, when it has to be the caller's. Many threads may call both functions at once. */
typedef struct ferry_allocator {
  /* Memory for output `output` (its place in ferry_run_with's outputs), `bytes` > 0 of it, aligned for the element type
   * (64 bytes are best); NULL ends the run with FERRY_LIMIT. An output whose size turns out otherwise is asked for
   * again; the first memory is then released unused. Strings and containers are not asked for. */
  void* (*allocate)(void* user, size_t output, size_t bytes);
  /* Called once for each memory given, when the last value that uses it is freed. May be NULL. */
  void (*release)(void* user, void* memory);
  /* Handed to both functions. */
  void* user;
} ferry_allocator;

/* What one run is asked beside its outputs; may be used for many runs, one after the other or at once. */
typedef struct ferry_run_options ferry_run_options;

/* Options that ask for nothing. */
FERRY_API ferry_status* ferry_run_options_create(ferry_run_options** out);
/* Frees run options that no run uses any more; NULL is fine. */
FERRY_API void ferry_run_options_free(ferry_run_options* options);
/* Runs add to `profile`, which must outlive them; NULL: they add to none. */
FERRY_API ferry_status* ferry_run_options_set_profile(ferry_run_options* options, ferry_profile* profile);
/* Outputs lie in the caller's memory. The struct is copied; NULL: in memory of Ferry's own. */
FERRY_API ferry_status* ferry_run_options_set_allocator(ferry_run_options* options, const ferry_allocator* allocator);
/* Outputs stay in the memory of a device ("cuda"), where an allocator's memory then is as well; NULL: on the host. */
FERRY_API ferry_status* ferry_run_options_set_device(ferry_run_options* options, const char* device);
/* Limits of these runs in place of their session's; 0: the session's. Making ready for new shapes is part of a run. */
FERRY_API ferry_status* ferry_run_options_set_time_limit(ferry_run_options* options, double seconds);
FERRY_API ferry_status* ferry_run_options_set_max_bytes(ferry_run_options* options, size_t bytes);
FERRY_API ferry_status* ferry_run_options_set_max_iterations(ferry_run_options* options, int64_t iterations);
/* Ends the runs that use these options, and those that will, with FERRY_CANCELLED, within some 50 milliseconds. From
 * any thread, at any time. */
FERRY_API void ferry_run_options_cancel(ferry_run_options* options);
/* Takes a cancellation back. */
FERRY_API void ferry_run_options_reset(ferry_run_options* options);

/* ferry_run with options, which may be NULL. */
FERRY_API ferry_status* ferry_run_with(ferry_session* session, const ferry_run_options* options,
                                       const char* const* input_names, const ferry_value* const* inputs,
                                       size_t input_count, const char* const* output_names, size_t output_count,
                                       ferry_value** outputs);

/* ---- checking ---- */

/* What ONNX's standard finds wrong with a model. */
typedef struct ferry_report ferry_report;

/* Checks a model. A file that can't be read as a model is a status, not a report. */
FERRY_API ferry_status* ferry_check(const char* path, ferry_report** out);
/* 1 when nothing is against the standard. */
FERRY_API int ferry_report_valid(const ferry_report* report);
/* How many problems and warnings there are. */
FERRY_API size_t ferry_report_count(const ferry_report* report);
/* Problem `index` in a sentence, with its place; NULL past the end. */
FERRY_API const char* ferry_report_problem(const ferry_report* report, size_t index);
/* Frees a report; NULL is fine. */
FERRY_API void ferry_report_free(ferry_report* report);

/* ---- language models ---- */

/* Text to the numbers that a language model works on, and back: Hugging Face's tokenizer.json. */
typedef struct ferry_tokenizer ferry_tokenizer;

/* Reads a tokenizer.json; a part that Ferry does not know is refused by its name. */
FERRY_API ferry_status* ferry_tokenizer_open(const char* path, ferry_tokenizer** out);
/* Frees a tokenizer; NULL is fine. */
FERRY_API void ferry_tokenizer_free(ferry_tokenizer* tokenizer);
/* One more than the largest number of a token. */
FERRY_API size_t ferry_tokenizer_size(const ferry_tokenizer* tokenizer);
/* The number of a token as the vocabulary has it; -1 when there is none. */
FERRY_API int64_t ferry_tokenizer_find(const ferry_tokenizer* tokenizer, const char* token);
/* The tokens of `length` bytes of text, as an int64 tensor [n]. `add_special`: with those that the file puts around a
 * text. */
FERRY_API ferry_status* ferry_tokenizer_encode(const ferry_tokenizer* tokenizer, const char* text, size_t length,
                                               int add_special, ferry_value** out);
/* The text of tokens, as a string tensor of one element. `skip_special`: without special tokens. */
FERRY_API ferry_status* ferry_tokenizer_decode(const ferry_tokenizer* tokenizer, const int64_t* ids, size_t count,
                                               int skip_special, ferry_value** out);

/* How a text is made; may be used for many, one after the other. */
typedef struct ferry_generate_options ferry_generate_options;

/* 256 tokens at most, always the best one. */
FERRY_API ferry_status* ferry_generate_options_create(ferry_generate_options** out);
/* Frees options that no text is made with any more; NULL is fine. */
FERRY_API void ferry_generate_options_free(ferry_generate_options* options);
/* Sets max_tokens, context, temperature, top_k, top_p, min_p, repetition_penalty, seed or add_special (0 or 1). */
FERRY_API ferry_status* ferry_generate_options_set(ferry_generate_options* options, const char* name, double value);
/* Adds a word that ends the text, and is not part of it. */
FERRY_API ferry_status* ferry_generate_options_add_stop(ferry_generate_options* options, const char* word);
/* `on_text` is told of text as soon as it is sure, in whole characters; it gives 0 to end the text there. NULL: nobody
 * is told. */
FERRY_API ferry_status* ferry_generate_options_set_on_text(ferry_generate_options* options,
                                                           int (*on_text)(void* user, const char* text, size_t length),
                                                           void* user);
/* Ends the texts that are made with these options, and those that will be, with FERRY_CANCELLED. From any thread. */
FERRY_API void ferry_generate_options_cancel(ferry_generate_options* options);

/* A language model with its tokenizer. Many threads may make texts with one. */
typedef struct ferry_generator ferry_generator;
/* A text that was made. */
typedef struct ferry_generated ferry_generated;

/* Opens a decoder (.onnx) and its tokenizer.json. `options` may be NULL. */
FERRY_API ferry_status* ferry_generator_open(const char* model, const char* tokenizer, const ferry_options* options,
                                             ferry_generator** out);
/* Frees a generator; NULL is fine. */
FERRY_API void ferry_generator_free(ferry_generator* generator);
/* Goes on with `length` bytes of text. `options` may be NULL. */
FERRY_API ferry_status* ferry_generate(const ferry_generator* generator, const ferry_generate_options* options,
                                       const char* prompt, size_t length, ferry_generated** out);
/* Frees a text; NULL is fine. */
FERRY_API void ferry_generated_free(ferry_generated* generated);
/* The text, without the prompt; `length` (may be NULL) gets its bytes. */
FERRY_API const char* ferry_generated_text(const ferry_generated* generated, size_t* length);
/* Its tokens; `count` gets how many. The last one is the stop token where one ended the text. */
FERRY_API const int64_t* ferry_generated_ids(const ferry_generated* generated, size_t* count);
/* Why it ended: "max-tokens", "stop-token", "stop-word", "window" (of the model) or "caller". */
FERRY_API const char* ferry_generated_reason(const ferry_generated* generated);
/* How many tokens the prompt has. */
FERRY_API size_t ferry_generated_prompt_count(const ferry_generated* generated);
/* Seconds to the first token, and from there to the last. */
FERRY_API double ferry_generated_prompt_seconds(const ferry_generated* generated);
FERRY_API double ferry_generated_seconds(const ferry_generated* generated);

/* ---- building models ---- */

/* One operator of ONNX in its newest form, with its attributes. */
typedef struct ferry_call ferry_call;

/* An operator of `domain` ("" or NULL: the standard's) without attributes. `place` is what errors and exported nodes
 * call it by ("/fc1/Gemm"); NULL: the operator's name. */
FERRY_API ferry_status* ferry_call_create(const char* domain, const char* op_type, const char* place, ferry_call** out);
/* Frees a call; NULL is fine. */
FERRY_API void ferry_call_free(ferry_call* call);
/* Give an attribute its value; a second value takes the place of the first. */
FERRY_API ferry_status* ferry_call_set_int(ferry_call* call, const char* name, int64_t value);
FERRY_API ferry_status* ferry_call_set_float(ferry_call* call, const char* name, float value);
FERRY_API ferry_status* ferry_call_set_string(ferry_call* call, const char* name, const char* value);
FERRY_API ferry_status* ferry_call_set_ints(ferry_call* call, const char* name, const int64_t* values, size_t count);
FERRY_API ferry_status* ferry_call_set_floats(ferry_call* call, const char* name, const float* values, size_t count);
FERRY_API ferry_status* ferry_call_set_tensor(ferry_call* call, const char* name, const ferry_value* value);
/* Runs the operator now. An input that is NULL is an omitted one. On success outputs[0 … output_count) are new handles;
 * on failure all are NULL. */
FERRY_API ferry_status* ferry_call_run(const ferry_call* call, const ferry_value* const* inputs, size_t input_count,
                                       size_t output_count, ferry_value** outputs);

/* A record of operators that were run, to be written as a model. Values on a tape go by numbers. A tape is to be used
 * by one thread at a time. */
typedef struct ferry_tape ferry_tape;

/* The number of an input that is omitted. */
#define FERRY_OMITTED (-1)

/* An empty tape. */
FERRY_API ferry_status* ferry_tape_create(ferry_tape** out);
/* Frees a tape; NULL is fine. */
FERRY_API void ferry_tape_free(ferry_tape* tape);
/* Adds an input of the model; `sample` says its type and shape. */
FERRY_API ferry_status* ferry_tape_input(ferry_tape* tape, const char* name, const ferry_value* sample, int64_t* id);
/* Adds a weight, which keeps its name in the model. Its elements are shared: they must stay until the tape is freed. */
FERRY_API ferry_status* ferry_tape_parameter(ferry_tape* tape, const char* name, const ferry_value* value, int64_t* id);
/* Adds a constant; it is copied. */
FERRY_API ferry_status* ferry_tape_constant(ferry_tape* tape, const ferry_value* value, int64_t* id);
/* Adds a call that was run with the values `inputs` and gave `outputs`, whose numbers go to ids[0 … output_count). */
FERRY_API ferry_status* ferry_tape_record(ferry_tape* tape, const ferry_call* call, const int64_t* inputs,
                                          size_t input_count, const ferry_value* const* outputs, size_t output_count,
                                          int64_t* ids);
/* Makes a value an output of the model. */
FERRY_API ferry_status* ferry_tape_output(ferry_tape* tape, const char* name, int64_t id);
/* Leaves the size of an input's axis open under the name `dimension` ("batch"); for an output: what its axis should be
 * called. */
FERRY_API ferry_status* ferry_tape_dynamic(ferry_tape* tape, const char* name, int64_t axis, const char* dimension);
/* Holds a tape against one of the same network at other sizes of its dynamic dimensions. An error names the first
 * operator that depends on a size of the sample. */
FERRY_API ferry_status* ferry_tape_compare(const ferry_tape* tape, const ferry_tape* other);
/* Writes the model for opset 11 … 28 and checks it by the standard. `fold`: what depends on weights alone is computed
 * now. */
FERRY_API ferry_status* ferry_tape_write(ferry_tape* tape, const char* path, int64_t opset, int fold);
/* What the last ferry_tape_write found worth saying. */
FERRY_API size_t ferry_tape_warning_count(const ferry_tape* tape);
/* Warning `index` in a sentence; NULL past the end. */
FERRY_API const char* ferry_tape_warning(const ferry_tape* tape, size_t index);

/* The named tensors of a .safetensors file, or of a checkpoint, TorchScript module or exported program of PyTorch's
 * (.pt, .pth, .pt2). */
typedef struct ferry_weights ferry_weights;

/* Opens a file; tensors stay in it until they are used. */
FERRY_API ferry_status* ferry_weights_open(const char* path, ferry_weights** out);
/* Frees weights; NULL is fine. Tensors that were given out stay. */
FERRY_API void ferry_weights_free(ferry_weights* weights);
/* How many tensors there are. */
FERRY_API size_t ferry_weights_count(const ferry_weights* weights);
/* The name of tensor `index` ("fc1.weight"); NULL past the end. */
FERRY_API const char* ferry_weights_name(const ferry_weights* weights, size_t index);
/* A new handle for tensor `index`. */
FERRY_API ferry_status* ferry_weights_tensor(const ferry_weights* weights, size_t index, ferry_value** out);

#ifdef __cplusplus
}
#endif

#endif /* FERRY_FERRY_H_ */
