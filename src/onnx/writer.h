// Models out to .onnx. The file appears whole or not at all; large weights can go to one file beside it.
#pragma once

#include <cstdint>
#include <string>

#include "graph/model.h"

namespace ferry {

struct WriteOptions {
  enum class External : uint8_t {
    kAuto,  // when the weights are more than external_above in all
    kNever,
    kAlways,
  };
  External external = External::kAuto;
  uint64_t external_above = uint64_t{1} << 30;
  uint64_t smallest_external = 1024;  // bytes; smaller tensors stay in the model file
  // A plain file name: the data always lies in the model's folder, whatever the model says. Empty: NAME.onnx.data.
  std::string external_name;
};

// Throws kLimit when the file itself would pass protobuf's 2 GiB.
void WriteModel(const Model& model, const std::string& path, const WriteOptions& options = {});

// The model as one block of bytes. External tensors that are loaded are put in; others stay references.
std::string SerializeModel(const Model& model);

}  // namespace ferry
