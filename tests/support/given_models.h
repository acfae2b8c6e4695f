// Every model of ONNX's operator cases and of the networks that tests bring along.
#pragma once

#include <filesystem>
#include <string>

namespace ferry::testing {

// visit(path); returns how many there were.
template <class Visit>
size_t ForEachGivenModel(const Visit& visit) {
  size_t models = 0;
  for (const char* folder : {"onnx-node", "torch-models"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(FERRY_TEST_DATA) + "/" + folder))
      if (entry.path().extension() == ".onnx") {
        ++models;
        visit(entry.path().string());
      }
  return models;
}

}  // namespace ferry::testing
