#include "ops/infer_graph.h"
#include "ops/operator.h"
#include "ops/support/indices.h"
#include "ops/support/movement.h"

namespace ferry {
namespace {

Tensor DenseFrom(const StoredSparseTensor& sparse) {
  const Tensor& values = sparse.values.Get();
  const Tensor& indices = sparse.indices.Get();
  Require(values.rank() == 1, "values of sparse_value must have rank 1, have shape ", values.shape());
  Shape shape(sparse.dims);
  std::vector<int64_t> places;
  if (indices.rank() == 1) {
    places = ToInt64Vector(indices);
    for (int64_t place : places)
      Require(place >= 0 && place < shape.ElementCount(), "index ", place, " of sparse_value is outside shape ", shape);
  } else {
    Require(indices.rank() == 2 && indices.dim(1) == static_cast<int64_t>(shape.rank()),
            "indices of sparse_value have shape ", indices.shape(), ", which does not fit shape ", shape);
    places = TupleOffsets(indices, shape, 0);
  }
  Require(places.size() == static_cast<size_t>(values.size()), "sparse_value has ", values.size(), " values and ",
          places.size(), " indices");
  Tensor from = Movable(values);
  Tensor to = Tensor::Zeros(from.dtype(), shape);
  for (size_t i = 0; i < places.size(); ++i) CopyRun(from, static_cast<int64_t>(i), to, places[i], 1);
  return IsPacked(values.dtype()) ? Tensor::Pack(values.dtype(), to) : to;
}

Tensor ConstantValue(const Node& node) {
  if (node.Has("value")) return node.TensorAttribute("value");
  if (node.Has("value_float")) return Tensor::Scalar(node.Float("value_float", 0));
  if (node.Has("value_floats")) return Tensor::FromVector(node.Floats("value_floats"));
  if (node.Has("value_int")) return Tensor::Scalar(node.Int("value_int", 0));
  if (node.Has("value_ints")) return Tensor::FromVector(node.Ints("value_ints"));
  if (node.Has("value_string")) return Tensor::Scalar(node.String("value_string", ""));
  if (node.Has("value_strings")) return Tensor::FromVector(node.Strings("value_strings"));
  const Attribute* attribute = node.Find("sparse_value");
  const auto* sparse = attribute ? std::get_if<std::shared_ptr<StoredSparseTensor>>(&attribute->held) : nullptr;
  if (!sparse || !*sparse) Fail(ErrorCode::kInvalidModel, "one of the attributes value, value_… or sparse_value is needed");
  return DenseFrom(**sparse);
}

void ComputeConstant(OpContext& context) { context.SetOutput(0, ConstantValue(context.node())); }

void InferConstant(InferContext& context) { context.SetOutputFacts(0, FactsOf(ConstantValue(context.node()))); }

}  // namespace

FERRY_OPERATOR(Constant, {.compute = ComputeConstant, .infer = InferConstant});

}  // namespace ferry
