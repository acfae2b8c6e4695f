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
  // When the model was opened through a link, `linked_folder` is where it really lies: caches of downloaded models keep
  // the files there and link to them one by one, so a link to a file beside the real model is as good as the model's
  // own.
  explicit ExternalFolder(std::string folder, std::string linked_folder = {})
      : folder_(std::move(folder)), linked_folder_(std::move(linked_folder)) {}

  // Throws, saying why the place cannot be used.
  std::shared_ptr<MappedFile> Open(const std::string& location);

 private:
  std::string folder_;
  std::string linked_folder_;
  std::map<std::string, std::shared_ptr<MappedFile>> open_;
};

// Fills in the elements of a tensor that is stored externally, or its problem.
void LoadExternalTensor(StoredTensor& stored, ExternalFolder& folder);

// The same for every external tensor of a model, also in subgraphs, functions and training graphs.
void LoadExternalData(Model& model, ExternalFolder folder);

}  // namespace ferry::onnx
