#include "ops/infer_graph.h"
#include "ops/operator.h"
#include "ops/support/dense.h"

namespace ferry {
namespace {

Tensor ConstantValue(const Node& node) {
  if (node.Has("value")) {
    const Tensor& value = node.TensorAttribute("value");
    return value.IsAligned(16) ? value : value.Clone();
  }
  if (node.Has("value_float")) return Tensor::Scalar(node.Float("value_float", 0));
  if (node.Has("value_floats")) return Tensor::FromVector(node.Floats("value_floats"));
  if (node.Has("value_int")) return Tensor::Scalar(node.Int("value_int", 0));
  if (node.Has("value_ints")) return Tensor::FromVector(node.Ints("value_ints"));
  if (node.Has("value_string")) return Tensor::Scalar(node.String("value_string", ""));
  if (node.Has("value_strings")) return Tensor::FromVector(node.Strings("value_strings"));
  const Attribute* attribute = node.Find("sparse_value");
  const auto* sparse = attribute ? std::get_if<std::shared_ptr<StoredSparseTensor>>(&attribute->held) : nullptr;
  if (!sparse || !*sparse)
    Fail(ErrorCode::kInvalidModel, "one of the attributes value, value_… or sparse_value is needed");
  return DenseTensor(**sparse);
}

void ComputeConstant(OpContext& context) { context.SetOutput(0, ConstantValue(context.node())); }

void InferConstant(InferContext& context) { context.SetOutputFacts(0, FactsOf(ConstantValue(context.node()))); }

}  // namespace

FERRY_OPERATOR(Constant, {.compute = ComputeConstant, .infer = InferConstant});

}  // namespace ferry
