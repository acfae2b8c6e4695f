// ZIP archives as PyTorch writes them: everything under one folder, elements of tensors in entries of their own.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/zip.h"
#include "tensor/tensor.h"
#include "torch/pickle.h"

namespace ferry::torch {

class Archive {
 public:
  static std::shared_ptr<Archive> Open(const std::string& path);
  static std::shared_ptr<Archive> Open(SharedBytes bytes);

  // Names are relative to the archive's folder.
  bool Has(std::string_view name) const { return zip_->Find(Full(name)) != nullptr; }
  SharedBytes Read(std::string_view name);  // throws kNotFound; the checksum is verified once
  std::vector<std::string> NamesUnder(std::string_view folder) const;  // "code/" → "code/a.py" …
  Pickle ReadPickle(std::string_view name);

  // The elements of a pickled tensor, whose storages are the entries "FOLDER/KEY". Contiguous ones stay in the map.
  Tensor MakeTensor(const TensorRecipe& recipe, std::string_view folder);

 private:
  explicit Archive(std::shared_ptr<ZipArchive> zip);
  std::string Full(std::string_view name) const;
  void RequireStatedSize(const std::string& name, const StorageRef& storage) const;

  std::shared_ptr<ZipArchive> zip_;
  std::string folder_;
  std::map<std::string, SharedBytes, std::less<>> read_;
};

// A dense tensor from elements laid out with any strides (in elements). Contiguous elements are not copied.
Tensor TensorFromStorage(const SharedBytes& storage, DType dtype, int64_t offset, const std::vector<int64_t>& sizes,
                         const std::vector<int64_t>& strides);

}  // namespace ferry::torch
