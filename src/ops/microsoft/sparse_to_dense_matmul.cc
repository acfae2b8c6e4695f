// alpha · A' · B' of a sparse matrix and a dense one.
#include <cstring>

#include "ops/evaluate.h"
#include "ops/operator.h"

namespace ferry {
namespace {

Tensor Dense(const SparseTensor& sparse) {
  Require(sparse.shape.rank() == 2, "A must be a matrix, its shape is ", sparse.shape);
  Tensor dense = Tensor::Zeros(sparse.values.dtype(), sparse.shape);
  std::vector<int64_t> places = ToInt64Vector(sparse.indices);
  bool is_linear = sparse.indices.rank() == 1;
  Require(static_cast<int64_t>(places.size()) == sparse.values.size() * (is_linear ? 1 : 2), "A has ",
          sparse.values.size(), " values and indices of shape ", sparse.indices.shape());
  auto width = static_cast<size_t>(BitWidth(dense.dtype()) / 8);
  Require(width > 0, "values of ", dense.dtype(), " cannot be multiplied");
  for (int64_t i = 0; i < sparse.values.size(); ++i) {
    int64_t row = is_linear ? 0 : places[static_cast<size_t>(2 * i)];
    int64_t column = places[static_cast<size_t>(is_linear ? i : 2 * i + 1)];
    Require(row >= 0 && row < sparse.shape[0] && column >= 0 && column < (is_linear ? dense.size() : sparse.shape[1]),
            "A has a value outside of its shape ", sparse.shape);
    std::memcpy(dense.mutable_raw() + static_cast<size_t>(row * sparse.shape[1] + column) * width,
                sparse.values.raw() + static_cast<size_t>(i) * width, width);
  }
  return dense;
}

void ComputeSparseToDenseMatMul(OpContext& context) {
  const Value& a = context.InputValue(0);
  Value dense = a.is_sparse() ? Dense(a.sparse()) : context.Input(0);
  Node product = context.node();
  product.op_type = "FusedMatMul";
  product.outputs = {"y"};
  std::vector<const Value*> inputs{&dense, &context.InputValue(1)};
  context.SetOutput(0, EvaluateNode(product, inputs, context.services())[0]);
}

void InferSparseToDenseMatMul(InferContext& context) {
  const Type& a = context.InputType(0);
  const SymbolicShape* b = context.InputShape(1);
  DType type = context.InputDType(1);
  if (!a.shape || a.shape->size() != 2 || !b || b->size() != 2) return context.SetOutput(0, type);
  const Node& node = context.node();
  context.SetOutput(0, type,
                    {(*a.shape)[node.Int("transA", 0) != 0 ? 1 : 0], (*b)[node.Int("transB", 0) != 0 ? 0 : 1]});
}

}  // namespace

FERRY_OPERATOR_IN(microsoft, SparseToDenseMatMul,
                  {.compute = ComputeSparseToDenseMatMul, .infer = InferSparseToDenseMatMul});

}  // namespace ferry
