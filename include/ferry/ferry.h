/* Ferry's C interface: load an ONNX model, look at it, run it.
 *
 * The ABI is stable: functions are only ever added, and ferry_abi_version() counts the additions. Handles are opaque.
 * Nothing is thrown across this line. Functions that can fail return a ferry_status*, which is NULL when all went well;
 * free a status that is not NULL. Names and texts that a handle gives out live as long as the handle.
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

#define FERRY_ABI_VERSION 1

/* The ABI version of the library that was loaded: at least the FERRY_ABI_VERSION this was compiled with, or too old. */
FERRY_API uint32_t ferry_abi_version(void);
FERRY_API const char* ferry_version(void); /* "0.1.0" */

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
  FERRY_LIMIT = 6,            /* a safety limit was reached: size, depth, iterations, memory */
  FERRY_CANCELLED = 7,        /* ferry_cancel was called */
  FERRY_INTERNAL = 8          /* a fault in Ferry itself */
} ferry_code;

typedef struct ferry_status ferry_status;

FERRY_API ferry_code ferry_status_code(const ferry_status* status);     /* FERRY_OK for NULL */
FERRY_API const char* ferry_status_message(const ferry_status* status); /* one sentence; "" for NULL */
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

typedef struct ferry_value ferry_value;

/* How many bytes a dense tensor of this type and shape takes; elements narrower than a byte are packed. -1 when
 * impossible. */
FERRY_API int64_t ferry_tensor_bytes_for(ferry_dtype type, const int64_t* dims, size_t rank);

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
FERRY_API ferry_status* ferry_empty_optional(ferry_value** out);
FERRY_API void ferry_value_free(ferry_value* value);

FERRY_API ferry_kind ferry_value_kind(const ferry_value* value);

/* Tensors. For other kinds: FERRY_UNDEFINED, 0, NULL. */
FERRY_API ferry_dtype ferry_tensor_dtype(const ferry_value* value);
FERRY_API size_t ferry_tensor_rank(const ferry_value* value);
FERRY_API const int64_t* ferry_tensor_dims(const ferry_value* value);
FERRY_API int64_t ferry_tensor_size(const ferry_value* value); /* elements */
FERRY_API size_t ferry_tensor_bytes(const ferry_value* value);
FERRY_API const void* ferry_tensor_data(const ferry_value* value); /* NULL for strings */
/* String `index` of a string tensor; NULL when there is none. `length`, when not NULL, gets its length. */
FERRY_API const char* ferry_tensor_string(const ferry_value* value, int64_t index, size_t* length);

/* Sequences: how many elements, and a new handle for one of them. */
FERRY_API size_t ferry_sequence_count(const ferry_value* value);
FERRY_API ferry_status* ferry_sequence_element(const ferry_value* value, size_t index, ferry_value** out);

/* Maps: keys and values as two tensors of rank 1, in new handles. */
FERRY_API ferry_status* ferry_map_keys(const ferry_value* value, ferry_value** out);
FERRY_API ferry_status* ferry_map_values(const ferry_value* value, ferry_value** out);

/* ---- sessions ---- */

typedef struct ferry_options ferry_options;

FERRY_API ferry_status* ferry_options_create(ferry_options** out);
FERRY_API void ferry_options_free(ferry_options* options);
/* Threads that one run may use, the caller's included; 0 (the default): one per core; 1: no thread is made. */
FERRY_API ferry_status* ferry_options_set_threads(ferry_options* options, int threads);
FERRY_API ferry_status* ferry_options_set_provider(ferry_options* options, const char* provider);
/* Says what a named dimension ("batch") will always be. */
FERRY_API ferry_status* ferry_options_set_dimension(ferry_options* options, const char* name, int64_t value);
/* Whether the graph may be rewritten to run faster; on by default. */
FERRY_API ferry_status* ferry_options_set_optimize(ferry_options* options, int optimize);

/* A model made ready to run. Many threads may call ferry_run on one session at once. */
typedef struct ferry_session ferry_session;

/* `options` may be NULL. */
FERRY_API ferry_status* ferry_session_open(const char* path, const ferry_options* options, ferry_session** out);
/* The bytes of an .onnx file; they are copied. External data is not loaded. */
FERRY_API ferry_status* ferry_session_open_memory(const void* data, size_t bytes, const ferry_options* options,
                                                  ferry_session** out);
FERRY_API void ferry_session_free(ferry_session* session);

/* What a model takes or gives: lives as long as its session. */
typedef struct ferry_value_info ferry_value_info;

FERRY_API size_t ferry_input_count(const ferry_session* session);
FERRY_API size_t ferry_output_count(const ferry_session* session);
FERRY_API const ferry_value_info* ferry_input(const ferry_session* session, size_t index);  /* NULL past the end */
FERRY_API const ferry_value_info* ferry_output(const ferry_session* session, size_t index); /* NULL past the end */

FERRY_API const char* ferry_info_name(const ferry_value_info* info);
FERRY_API const char* ferry_info_type(const ferry_value_info* info); /* for people: "float[batch, 10]" */
FERRY_API ferry_kind ferry_info_kind(const ferry_value_info* info);
FERRY_API ferry_dtype ferry_info_dtype(const ferry_value_info* info);
FERRY_API int64_t ferry_info_rank(const ferry_value_info* info);             /* -1 when the model leaves it open */
FERRY_API int64_t ferry_info_dim(const ferry_value_info* info, size_t axis); /* -1 when not a fixed number */
FERRY_API const char* ferry_info_dim_name(const ferry_value_info* info, size_t axis); /* "" when it has none */

/* Runs the model. `inputs[i]` goes to the input called `input_names[i]`. `output_names` may name any value of the
 * graph; NULL asks for all outputs in the model's order (then output_count is ferry_output_count). On success outputs[0
 * … output_count) are new handles; on failure all are NULL. */
FERRY_API ferry_status* ferry_run(ferry_session* session, const char* const* input_names,
                                  const ferry_value* const* inputs, size_t input_count, const char* const* output_names,
                                  size_t output_count, ferry_value** outputs);

/* ---- checking ---- */

/* What ONNX's standard finds wrong with a model. */
typedef struct ferry_report ferry_report;

/* A file that can't be read as a model is a status, not a report. */
FERRY_API ferry_status* ferry_check(const char* path, ferry_report** out);
FERRY_API int ferry_report_valid(const ferry_report* report);    /* 1 when nothing is against the standard */
FERRY_API size_t ferry_report_count(const ferry_report* report); /* problems and warnings */
FERRY_API const char* ferry_report_problem(const ferry_report* report, size_t index);
FERRY_API void ferry_report_free(ferry_report* report);

#ifdef __cplusplus
}
#endif

#endif /* FERRY_FERRY_H_ */
