// Looks into files with the library's own readers, for tests that see the public headers only: the two name their types
// alike.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

struct WrittenModel {
  int64_t opset = 0;
  std::vector<std::string> operators, node_names, initializers;
  bool HasOperator(const std::string& op_type) const;
  bool HasInitializer(const std::string& name) const;
};
WrittenModel Inspect(const std::string& path);

struct Array {
  std::vector<int64_t> shape;
  std::vector<float> floats;      // of a float array
  std::vector<int64_t> integers;  // of an int64 array
};
std::map<std::string, Array> ReadArrays(const std::string& npz);
