// .onnx files into memory. The file is mapped and weights stay in it; see Model for what is kept.
//
// What breaks protobuf itself throws kInvalidModel with file, byte and place. What breaks ONNX's rules is kept and
// noted (StoredTensor::problem, Attribute::problem, dtype_number), so that a checker can list every fault of a model.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "graph/model.h"

namespace ferry {

struct ReadOptions {
  bool load_external = true;
  // Where external data lies; ReadModel takes the model's own folder. Empty in memory: nothing external is loaded.
  std::string folder;
};

Model ReadModel(const std::string& path, const ReadOptions& options = {});

// Tensors point into `bytes`, which `keep_alive` owns.
Model ReadModelFromMemory(std::span<const std::byte> bytes, std::shared_ptr<const void> keep_alive,
                          const ReadOptions& options = {});

}  // namespace ferry
