// What a rule of opset conversion works with: the node, to be edited, and nodes to be put before and after it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/model.h"
#include "graph/names.h"
#include "onnx/scope.h"

namespace ferry {

// What all rewrites of one model share.
struct RewriteShared {
  NameMaker& names;
  // Types with shapes, as inference found them; unset when nothing was inferred.
  std::function<const Type*(const std::string&)> inferred;
  std::unordered_map<std::string, Tensor> constants;  // those that rewrites made
};

class NodeRewrite {
 public:
  NodeRewrite(Node original, int64_t opset, RewriteShared& shared, Scope& scope)
      : node(std::move(original)), opset(opset), shared_(shared), scope_(scope) {}

  Node node;
  const int64_t opset;  // upgrades: the one the node was written for; downgrades: the one it is to be written for

  // Adds a node in front and returns the name of its output, made from `what`.
  std::string Before(std::string_view op, std::vector<std::string> inputs, std::string_view what,
                     std::vector<Attribute> attributes = {});
  // Adds a node behind that gives `output`.
  void After(std::string_view op, std::vector<std::string> inputs, std::string output,
             std::vector<Attribute> attributes = {});
  // Gives output i of the node another name and returns the one it had: a node added behind gives that.
  std::string Detour(size_t i);
  // Leaves the node out; what was added stands in its place.
  void Drop() { dropped_ = true; }

  std::string Constant(Tensor value, std::string_view what);
  std::string Ints(const std::vector<int64_t>& values, std::string_view what);  // rank 1
  std::string Int(int64_t value, std::string_view what);                        // rank 0
  // A float as a scalar of the element type that value `like` has.
  std::string FloatLike(float value, const std::string& like, std::string_view what);

  // Moves an attribute into input i; false when the node does not have it or it is an empty list, which is removed.
  // References to attributes of a function's call stay references.
  bool MoveToInput(std::string_view attribute, size_t i);
  void SetInput(size_t i, std::string name);
  // Removes an attribute and returns it under another name; empty when the node does not have it.
  std::optional<Attribute> Take(std::string_view name, std::string_view new_name);

  DType TypeOf(const std::string& value) const;                  // kUndefined when not plain
  const SymbolicShape* ShapeOf(const std::string& value) const;  // null when the rank is not known
  std::optional<Tensor> ConstantOf(const std::string& value) const;

  // A fresh name that says what it is of this node.
  std::string Name(std::string_view what);
  std::string FreshName(std::string_view wish) { return shared_.names.Make(wish); }

  bool dropped() const { return dropped_; }
  // Appends the result, in order.
  void Finish(std::vector<Node>& out) &&;

 private:
  RewriteShared& shared_;
  Scope& scope_;
  std::vector<Node> before_, after_;
  bool dropped_ = false;
};

Node MakeNode(std::string_view op, std::vector<std::string> inputs, std::vector<std::string> outputs,
              std::vector<Attribute> attributes = {});

}  // namespace ferry
