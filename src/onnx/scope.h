// What can be read off a graph of any opset without kernels and without upgraded nodes: element types, from
// declarations and along nodes by their schemas, and constants. Opset conversion works with this.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/model.h"
#include "onnx/schema.h"

namespace ferry {

class Scope {
 public:
  // Nodes are looked at lazily, in order, and must stay alive. The scope around a body is asked for names it lacks.
  Scope(const std::vector<Node>& nodes, const std::vector<OpsetImport>& opsets, Scope* outer)
      : nodes_(nodes), opsets_(opsets), outer_(outer) {}
  void Declare(const Graph& graph);
  void Declare(const std::vector<ValueInfo>& values);

  // Says which node is being looked at: its inputs and the bodies inside it see what the nodes before it make.
  void EnterNode(size_t i) { entered_ = i; }

  // The type of a value as schemas name it: what its node gives, else what is declared; 0 when neither is plain.
  SchemaTypeId TypeIdOf(const std::string& name);
  SchemaTypeId DeclaredIdOf(const std::string& name) const;
  // The element type of a tensor; kUndefined when it is not plain or no tensor.
  DType TypeOf(const std::string& name);
  // The value of an initializer that no caller can replace or of a Constant node; empty for anything else.
  std::optional<Tensor> ConstantOf(const std::string& name);

 private:
  void CatchUp();
  void Visit(const Node& node);
  SchemaTypeId TypeOfOutput(const Node& node, size_t i);

  const std::vector<Node>& nodes_;
  const std::vector<OpsetImport>& opsets_;
  Scope* outer_;
  size_t visited_ = 0;
  size_t entered_ = 0;
  bool catching_up_ = false;
  std::unordered_map<std::string, SchemaTypeId> types_;     // of inputs, initializers and outputs of nodes
  std::unordered_map<std::string, SchemaTypeId> declared_;  // of anything
  std::unordered_map<std::string, const StoredTensor*> initializers_;
  std::unordered_map<std::string, const Node*> constants_;
};

// The imported version of a domain ("" and "ai.onnx" are one); 0 when it is not imported.
int64_t OpsetOf(const std::vector<OpsetImport>& opsets, std::string_view domain);

}  // namespace ferry
