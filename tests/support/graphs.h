// Small graphs written in a line or two, for tests.
#pragma once

#include <string>
#include <vector>

#include "graph/model.h"

namespace ferry::testing {

inline Node MakeNode(std::string op, std::vector<std::string> inputs, std::vector<std::string> outputs,
                     std::vector<Attribute> attributes = {}) {
  Node node;
  node.op_type = std::move(op);
  node.name = outputs.empty() ? node.op_type : node.op_type + "_" + outputs[0];
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  node.attributes = std::move(attributes);
  return node;
}

inline ValueInfo MakeInfo(std::string name, DType dtype, SymbolicShape shape) {
  ValueInfo info;
  info.name = std::move(name);
  info.type = Type::Tensor(dtype, std::move(shape));
  return info;
}

inline ValueInfo MakeInfo(std::string name, DType dtype = DType::kFloat) {
  ValueInfo info;
  info.name = std::move(name);
  info.type = Type::Tensor(dtype);
  return info;
}

inline Model MakeModel(std::vector<ValueInfo> inputs, std::vector<Node> nodes, std::vector<ValueInfo> outputs,
                       std::vector<StoredTensor> initializers = {}, int64_t opset = 28) {
  Model model;
  model.ir_version = 10;
  model.opsets.push_back({"", opset, {}});
  model.has_graph = true;
  model.graph.name = "test";
  model.graph.inputs = std::move(inputs);
  model.graph.nodes = std::move(nodes);
  model.graph.outputs = std::move(outputs);
  model.graph.initializers = std::move(initializers);
  return model;
}

}  // namespace ferry::testing
