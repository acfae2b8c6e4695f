#include "engine/prepare.h"

#include <algorithm>

#include "base/error.h"
#include "onnx/aligned.h"
#include "onnx/upgrade/upgrade.h"
#include "passes/inline_functions.h"

namespace ferry {
namespace {

// ONNX's sparse initializers are an encoding; kernels see dense tensors.
StoredTensor Densify(const StoredSparseTensor& sparse) {
  const std::string& name = sparse.values.name;
  const Tensor& values = sparse.values.Get();
  const Tensor& indices = sparse.indices.Get();
  auto require = [&](bool ok, const char* what) {
    if (!ok) Fail(ErrorCode::kInvalidModel, "sparse initializer '", Printable(name), "' ", what);
  };
  Shape shape(sparse.dims);
  int64_t count = shape.ElementCount();
  require(values.rank() == 1 && indices.dtype() == DType::kInt64, "must have rank-1 values and int64 indices");
  bool linear = indices.rank() == 1;
  require(linear ? indices.dim(0) == values.dim(0)
                 : indices.rank() == 2 && indices.dim(0) == values.dim(0) &&
                       indices.dim(1) == static_cast<int64_t>(shape.rank()),
          "has indices that do not fit its values");
  require(BitWidth(values.dtype()) >= 8, "is of a type that cannot be sparse");
  size_t width = static_cast<size_t>(BitWidth(values.dtype()) / 8);
  Tensor dense = Tensor::Zeros(values.dtype(), shape);
  Tensor aligned = AlignedForUse(indices);
  const int64_t* index = aligned.Data<int64_t>();
  std::vector<int64_t> strides = shape.Strides();
  for (int64_t i = 0; i < values.size(); ++i) {
    int64_t at = 0;
    if (linear) {
      at = index[i];
      require(at >= 0 && at < count, "has an index outside its shape");
    } else {
      for (size_t axis = 0; axis < shape.rank(); ++axis) {
        int64_t along = index[i * static_cast<int64_t>(shape.rank()) + static_cast<int64_t>(axis)];
        require(along >= 0 && along < shape[axis], "has an index outside its shape");
        at += along * strides[axis];
      }
    }
    std::copy_n(values.raw() + static_cast<size_t>(i) * width, width, dense.mutable_raw() + static_cast<size_t>(at) * width);
  }
  return MakeStored(name, std::move(dense));
}

// Constant nodes that hold a tensor are initializers by another name.
void ConstantsToInitializers(Graph& graph) {
  std::erase_if(graph.nodes, [&](Node& node) {
    if (node.op_type != "Constant" || !CanonicalDomain(node.domain).empty() || node.outputs.size() != 1) return false;
    const Attribute* value = node.Find("value");
    auto* stored = value ? std::get_if<std::shared_ptr<StoredTensor>>(&value->held) : nullptr;
    if (!stored || !*stored) return false;
    StoredTensor initializer = **stored;
    initializer.name = node.outputs[0];
    graph.initializers.push_back(std::move(initializer));
    return true;
  });
}

void PrepareOne(Graph& graph) {
  ConstantsToInitializers(graph);
  for (const StoredSparseTensor& sparse : graph.sparse_initializers) graph.initializers.push_back(Densify(sparse));
  graph.sparse_initializers.clear();
  for (StoredTensor& initializer : graph.initializers) initializer.tensor = AlignedForUse(initializer.Get());
  for (Node& node : graph.nodes)
    for (Attribute& attribute : node.attributes)
      if (auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.held); body && *body)
        PrepareOne(**body);
      else if (auto* stored = std::get_if<std::shared_ptr<StoredTensor>>(&attribute.held); stored && *stored) {
        auto aligned = std::make_shared<StoredTensor>(**stored);
        aligned->tensor = AlignedForUse(aligned->Get());
        *stored = std::move(aligned);
      }
}

}  // namespace

Graph PrepareGraph(const Model& model) {
  if (!model.has_graph) Fail(ErrorCode::kInvalidModel, "the model has no graph");
  Model copy = CopyDeep(model);
  UpgradeToNewest(copy);
  InlineFunctions(copy);
  PrepareOne(copy.graph);
  return std::move(copy.graph);
}

}  // namespace ferry
