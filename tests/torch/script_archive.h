// TorchScript archives made for a test: code of the module M and its attributes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/support/zip_bytes.h"

namespace ferry::torch {

struct ScriptArchive {
  std::string code;  // of code/__torch__.py, which has the class M
  // Attributes of M: numbers, or vectors of floats that become tensors.
  std::vector<std::pair<std::string, std::vector<float>>> weights;
  bool training = false;
  std::string data;  // of data.pkl, instead of an M with these attributes
  std::string version = "3\n";

  std::vector<testing::ZipPart> Parts() const;
  // Writes it under a name of its own and gives the path.
  std::string Write(const std::string& name) const;
};

}  // namespace ferry::torch
