#include "graph/stored_tensors.h"

namespace ferry {
namespace {

using Visit = FunctionRef<void(StoredTensor&)>;

void VisitNodes(std::vector<Node>& nodes, const Visit& visit);

void VisitSparse(StoredSparseTensor& sparse, const Visit& visit) {
  visit(sparse.values);
  visit(sparse.indices);
}

void VisitGraph(Graph& graph, const Visit& visit) {
  for (StoredTensor& tensor : graph.initializers) visit(tensor);
  for (StoredSparseTensor& sparse : graph.sparse_initializers) VisitSparse(sparse, visit);
  VisitNodes(graph.nodes, visit);
}

struct HeldVisitor {
  const Visit& visit;

  void operator()(std::shared_ptr<StoredTensor>& tensor) const {
    if (tensor) visit(*tensor);
  }
  void operator()(std::shared_ptr<StoredSparseTensor>& sparse) const {
    if (sparse) VisitSparse(*sparse, visit);
  }
  void operator()(std::shared_ptr<Graph>& graph) const {
    if (graph) VisitGraph(*graph, visit);
  }
  template <class T>
  void operator()(std::vector<std::shared_ptr<T>>& list) const {
    for (auto& element : list) (*this)(element);
  }
  template <class T>
  void operator()(T&) const {}
};

void VisitAttributes(std::vector<Attribute>& attributes, const Visit& visit) {
  for (Attribute& attribute : attributes) std::visit(HeldVisitor{visit}, attribute.held);
}

void VisitNodes(std::vector<Node>& nodes, const Visit& visit) {
  for (Node& node : nodes) VisitAttributes(node.attributes, visit);
}

}  // namespace

void ForEachStoredTensor(Model& model, FunctionRef<void(StoredTensor&)> visit) {
  VisitGraph(model.graph, visit);
  for (Function& function : model.functions) {
    VisitAttributes(function.attribute_defaults, visit);
    VisitNodes(function.nodes, visit);
  }
  for (TrainingInfo& info : model.training) {
    if (info.initialization) VisitGraph(*info.initialization, visit);
    if (info.algorithm) VisitGraph(*info.algorithm, visit);
  }
}

void ForEachStoredTensor(const Model& model, FunctionRef<void(const StoredTensor&)> visit) {
  ForEachStoredTensor(const_cast<Model&>(model), [&](StoredTensor& tensor) { visit(tensor); });
}

}  // namespace ferry
