// Weights kept in files beside the model. A model may come from anyone, so the place it names is held to the model's
// own folder: no absolute path, no way up, no link that leads out, nothing but a regular file.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/mapped_file.h"
#include "graph/model.h"

namespace ferry::onnx {

// The files of one folder, each mapped once and shared by all tensors in it.
class ExternalFolder {
 public:
  explicit ExternalFolder(std::string folder) : folder_(std::move(folder)) {}

  // Throws, saying why the place cannot be used.
  std::shared_ptr<MappedFile> Open(const std::string& location);

 private:
  std::string folder_;
  std::map<std::string, std::shared_ptr<MappedFile>> open_;
};

// Fills in the elements of a tensor that is stored externally, or its problem.
void LoadExternalTensor(StoredTensor& stored, ExternalFolder& folder);

// The same for every external tensor of a model, also in subgraphs, functions and training graphs.
void LoadExternalData(Model& model, const std::string& folder);

}  // namespace ferry::onnx
