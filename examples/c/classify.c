/* Loads a model, shows what it takes and gives, and runs it on an input of zeros. */
#include <ferry/ferry.h>
#include <stdio.h>
#include <stdlib.h>

static int failed(ferry_status* status) {
  if (!status) return 0;
  fprintf(stderr, "%s\n", ferry_status_message(status));
  ferry_status_free(status);
  return 1;
}

/* A tensor of zeros that fits what the model declares; open dimensions become 1. */
static ferry_value* zeros_for(const ferry_value_info* info) {
  int64_t dims[16];
  int64_t rank = ferry_info_rank(info);
  if (rank < 0 || rank > 16) return NULL;
  for (int64_t axis = 0; axis < rank; ++axis) {
    int64_t dim = ferry_info_dim(info, (size_t)axis);
    dims[axis] = dim < 0 ? 1 : dim;
  }
  int64_t bytes = ferry_tensor_bytes_for(ferry_info_dtype(info), dims, (size_t)rank);
  if (bytes < 0) return NULL;
  void* zeros = calloc(1, (size_t)bytes + 1);
  ferry_value* value = NULL;
  failed(ferry_tensor_copy(ferry_info_dtype(info), dims, (size_t)rank, zeros, (size_t)bytes, &value));
  free(zeros);
  return value;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s MODEL.onnx\n", argv[0]);
    return 2;
  }
  ferry_session* session = NULL;
  if (failed(ferry_session_open(argv[1], NULL, &session))) return 1;

  const ferry_value_info* input = ferry_input(session, 0);
  const ferry_value_info* output = ferry_output(session, 0);
  printf("%s %s -> %s %s\n", ferry_info_name(input), ferry_info_type(input), ferry_info_name(output),
         ferry_info_type(output));

  ferry_value* value = zeros_for(input);
  const char* input_name = ferry_info_name(input);
  const char* output_name = ferry_info_name(output);
  const ferry_value* inputs[] = {value};
  ferry_value* result = NULL;
  int status = 1;
  if (value && !failed(ferry_run(session, &input_name, inputs, 1, &output_name, 1, &result))) {
    if (ferry_tensor_dtype(result) == FERRY_FLOAT) {
      const float* answers = ferry_tensor_data(result);
      for (int64_t i = 0; i < ferry_tensor_size(result); ++i) printf("%g\n", answers[i]);
    }
    status = 0;
  }
  ferry_value_free(result);
  ferry_value_free(value);
  ferry_session_free(session);
  return status;
}
