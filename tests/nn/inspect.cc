#include "inspect.h"

#include <algorithm>

#include "onnx/reader.h"
#include "tensor/npz.h"

bool WrittenModel::HasOperator(const std::string& op_type) const {
  return std::count(operators.begin(), operators.end(), op_type) > 0;
}

bool WrittenModel::HasInitializer(const std::string& name) const {
  return std::count(initializers.begin(), initializers.end(), name) > 0;
}

WrittenModel Inspect(const std::string& path) {
  ferry::Model model = ferry::ReadModel(path);
  WrittenModel written{.opset = model.OpsetOf("")};
  for (const ferry::Node& node : model.graph.nodes) {
    written.operators.push_back(node.op_type);
    written.node_names.push_back(node.name);
  }
  for (const ferry::StoredTensor& tensor : model.graph.initializers) written.initializers.push_back(tensor.name);
  return written;
}

std::map<std::string, Array> ReadArrays(const std::string& npz) {
  std::map<std::string, Array> arrays;
  for (const auto& [name, tensor] : ferry::ReadNpz(npz)) {
    Array& array = arrays[name];
    array.shape = tensor.shape().ToVector();
    if (tensor.dtype() == ferry::DType::kFloat)
      array.floats.assign(tensor.Data<float>(), tensor.Data<float>() + tensor.size());
    else
      array.integers = ferry::ToInt64Vector(tensor);
  }
  return arrays;
}
