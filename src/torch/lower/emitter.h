// Builds an ONNX graph node by node, knowing type and shape of every value as it goes.
//
// Nodes are written in the newest form of each operator (axes as inputs and so on); SetOpset's conversion at the end of
// an export brings them to the opset that was asked for. What only newer opsets have must be asked for with Has().
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/model.h"
#include "torch/lower/operand.h"

namespace ferry::torch {

using Operands = std::vector<Operand>;
using Attributes = std::vector<Attribute>;

struct PendingGraph;

struct PendingNode {
  std::string op_type;
  Operands inputs, outputs;
  Attributes attributes;
  std::vector<std::pair<std::string, std::shared_ptr<PendingGraph>>> bodies;
  std::string origin;  // the call it was made for: becomes part of its name
  Metadata metadata;
};

struct PendingGraph {
  std::vector<PendingNode> nodes;
  Operands inputs, outputs;
};

class Emitter {
 public:
  // An inner emitter builds a body (of If, Loop, Scan); it sees everything of the outer one.
  explicit Emitter(int opset, Emitter* outer = nullptr);
  Emitter(const Emitter&) = delete;
  Emitter& operator=(const Emitter&) = delete;

  int opset() const { return opset_; }
  // Whether the opset that is exported to has the operator; with a type, whether its first input may be of it.
  bool Has(std::string_view op_type) const;
  bool Takes(std::string_view op_type, DType dtype, size_t input = 0) const;

  Operand AddInput(std::string name, Type type);
  // Small constants that are equal are one. A weight keeps its name and is never merged.
  Operand Constant(const Tensor& tensor);
  Operand Weight(std::string name, const Tensor& tensor);

  // Adds a node, or finds the equal one that is there, or computes it at once when its inputs are small constants.
  // Throws kUnsupported when the opset's operator does not take the types.
  Operand Emit(std::string_view op_type, Operands inputs, Attributes attributes = {});
  Operands EmitMany(std::string_view op_type, Operands inputs, Attributes attributes, size_t outputs);
  // Adds a node with bodies, whose output types the caller knows.
  Operands EmitControl(std::string_view op_type, Operands inputs, Attributes attributes,
                       std::vector<std::pair<std::string, std::shared_ptr<PendingGraph>>> bodies,
                       const std::vector<Type>& output_types);

  // Adds to what is known of a value what the program says of it. Throws kInternal when the two contradict.
  void Refine(const Operand& value, DType dtype, const SymbolicShape& shape);

  // Where the size of a named dimension is found first: SizeOf prefers graph inputs to values in between.
  const Operand* FindSizeSource(const std::string& symbol);
  void SetSizeSource(const std::string& symbol, const Operand& size);

  // Every node from here on is made for this call; its metadata goes into the node.
  void SetOrigin(std::string origin, Metadata metadata = {});
  // Gives a value the name that the program has for it, unless it has one.
  void Name(const Operand& value, const std::string& name);
  bool folds_weights = true;  // --no-fold: keep nodes that only work on weights

  // Whether sizes that nobody knows get a name, so that it can be seen where they are the same ("~7"; the finished
  // graph does not have them). For programs that have no names of their own for such sizes.
  bool names_sizes = false;
  // How many there are: a name made before is of a size that is the same in every round of a loop that begins now.
  int64_t made_up_names() { return Root().made_up_names_; }
  static bool IsMadeUp(const Dim& dim) { return dim.named() && dim.symbol.find('~') != std::string::npos; }
  // Whether the size was given a name before there were `count` made-up ones.
  static bool IsOlder(const Dim& dim, int64_t count);

  PendingGraph& graph() { return graph_; }
  const std::vector<Operand>& weights() const { return weights_; }
  const std::vector<Operand>& constants() const { return constants_; }

 private:
  Emitter& Root() { return outer_ ? outer_->Root() : *this; }
  const Operands* FindEqual(const std::string& key) const;
  void CheckTypes(std::string_view op_type, const Operands& inputs) const;
  void NameSizes(Type& type);

  int opset_;
  Emitter* outer_;
  PendingGraph graph_;
  std::string origin_;
  Metadata metadata_;
  std::unordered_map<std::string, Operands> made_;        // by operator, inputs and attributes
  std::unordered_map<std::string, Operand> by_contents_;  // small constants; of the outermost only
  std::unordered_map<std::string, Operand> size_sources_;
  std::vector<Operand> weights_, constants_;  // of the outermost only
  int64_t made_up_names_ = 0;                 // of the outermost only
};

}  // namespace ferry::torch
