#include "torch/export_support.h"

#include <memory>

#include "base/error.h"
#include "base/version.h"
#include "onnx/ir_version.h"
#include "onnx/schema.h"
#include "ops/operator.h"

namespace ferry::torch {

Tensor AsPairs(const Tensor& tensor) {
  if (!IsComplex(tensor.dtype())) return tensor;
  Shape shape = tensor.shape();
  shape.push_back(2);
  DType part = tensor.dtype() == DType::kComplex128 ? DType::kDouble : DType::kFloat;
  return Tensor::Borrow(part, shape, tensor.raw(), std::make_shared<Tensor>(tensor));
}

void CheckUnusedNames(const char* what, const std::vector<std::string>& names, size_t count) {
  Require(names.size() <= count, names.size(), " ", what, " names are given, the program has ", count, " ", what, "s");
}

void ReadSizesFromInputs(Builder& builder) {
  for (const Operand& input : builder.graph().inputs)
    for (size_t axis = 0; axis < input.rank(); ++axis)
      if (Dim dim = input.dim(static_cast<int64_t>(axis)); dim.named())
        builder.SetSizeSource(dim.symbol, builder.SizeOf(input, static_cast<int64_t>(axis)));
}

static const Node* FindRandomNode(const Graph& graph) {
  const Node* found = nullptr;
  for (const Node& node : graph.nodes) {
    const Operator* op = FindOperator(node.domain, node.op_type);
    if (op && op->is_random && !found) found = &node;
    ForEachSubgraph(node, [&](const Graph& body) {
      if (!found) found = FindRandomNode(body);
    });
  }
  return found;
}

void WarnOfRandomNumbers(const Graph& graph, std::vector<std::string>& warnings) {
  if (const Node* node = FindRandomNode(graph))
    warnings.push_back(Cat("node '", Printable(node->name), "' (", node->op_type,
                           ") draws random numbers: they differ from run to run, and from PyTorch's"));
}

void DescribeModel(Model& model) {
  model.has_graph = true;
  model.graph.name = "main_graph";
  model.opsets = {{.domain = "", .version = NewestOpset("")}};
  model.ir_version = IrVersionOfOpset("", NewestOpset(""));
  model.producer_name = "ferry";
  model.producer_version = kVersion;
}

}  // namespace ferry::torch
