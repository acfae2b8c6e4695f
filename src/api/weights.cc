#include "api/handles.h"
#include "torch/state_dict.h"

using namespace ferry;
using namespace ferry::api;

struct ferry_weights {
  torch::StateDict tensors;
};

ferry_status* ferry_weights_open(const char* path, ferry_weights** out) {
  return Guard([&] {
    RequirePointer(path, "path");
    RequirePointer(out, "out");
    *out = new ferry_weights{torch::ReadStateDict(path)};
  });
}

void ferry_weights_free(ferry_weights* weights) { delete weights; }

size_t ferry_weights_count(const ferry_weights* weights) { return weights ? weights->tensors.size() : 0; }

const char* ferry_weights_name(const ferry_weights* weights, size_t index) {
  return index < ferry_weights_count(weights) ? weights->tensors[index].first.c_str() : nullptr;
}

ferry_status* ferry_weights_tensor(const ferry_weights* weights, size_t index, ferry_value** out) {
  return Guard([&] {
    RequirePointer(weights, "weights");
    RequirePointer(out, "out");
    Require(index < weights->tensors.size(), "there is no tensor ", index, " of ", weights->tensors.size());
    *out = new ferry_value{weights->tensors[index].second};
  });
}
