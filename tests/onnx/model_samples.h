// Models and folders the tests of this room share.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "graph/model.h"
#include "onnx/reader.h"
#include "tests/support/temporary_folder.h"

namespace ferry::testing {

void WriteText(const std::filesystem::path& path, std::string_view text);
std::string ReadText(const std::filesystem::path& path);

// Every .onnx of the archives, sorted.
std::vector<std::filesystem::path> ArchiveModels();

// A small model that uses every part of the format.
Model FullModel();
// One float initializer 'w' of the given size, which an Identity passes on.
Model WeightModel(int64_t elements);

Model FromBytes(const std::string& bytes);
// The sentence of the error that `action` throws; empty when it throws none.
template <class Action>
std::string ErrorOf(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.message();
  }
  return {};
}

}  // namespace ferry::testing
