#include "passes/gradient_builder.h"

#include "base/error.h"

namespace ferry {

std::vector<std::string> GradientBuilder::OpMany(std::string_view op, std::vector<std::string> inputs, size_t outputs,
                                                 std::vector<Attribute> attributes) {
  Node node;
  node.op_type = op;
  node.name = names_.Make(Cat("gradient_", op));
  node.inputs = std::move(inputs);
  for (size_t i = 0; i < outputs; ++i) node.outputs.push_back(names_.Make(node.name + "_out"));
  node.attributes = std::move(attributes);
  std::vector<std::string> results = node.outputs;
  nodes_.push_back(std::move(node));
  return results;
}

std::string GradientBuilder::Op(std::string_view op, std::vector<std::string> inputs,
                                std::vector<Attribute> attributes) {
  return OpMany(op, std::move(inputs), 1, std::move(attributes))[0];
}

std::string GradientBuilder::Constant(Tensor value) {
  return Op("Constant", {}, {{"value", std::make_shared<StoredTensor>(MakeStored("", std::move(value)))}});
}

std::string GradientBuilder::Ints(const std::vector<int64_t>& values) { return Constant(Tensor::FromVector(values)); }

std::string GradientBuilder::Scalar(double value, const std::string& like) {
  return CastLike(Constant(Tensor::Scalar(value)), like);
}

std::string GradientBuilder::DimOf(const std::string& a, int64_t axis) {
  std::vector<Attribute> range{{"start", axis}};
  if (axis != -1) range.push_back({"end", axis + 1});
  return Op("Shape", {a}, std::move(range));
}

std::string GradientBuilder::FilledLike(const std::string& a, double value) {
  return Op("Expand", {Scalar(value, a), ShapeOf(a)});
}

std::string GradientBuilder::Reshape(const std::string& a, const std::string& shape) {
  return Op("Reshape", {a, shape}, {{"allowzero", int64_t{1}}});
}

std::string GradientBuilder::Transpose(const std::string& a, const std::vector<int64_t>& order) {
  return Op("Transpose", {a}, {{"perm", order}});
}

std::string GradientBuilder::Sum(const std::string& a, const std::vector<int64_t>& axes, bool keep) {
  return Op("ReduceSum", {a, Ints(axes)}, {{"keepdims", int64_t{keep}}, {"noop_with_empty_axes", int64_t{1}}});
}

std::string GradientBuilder::FitTo(const std::string& a, const std::string& like) {
  std::string missing = Sub(ShapeOf(like), ShapeOf(a)), before = Mul(missing, Ints({0}));
  return Op("Pad", {a, Op("Concat", {before, missing}, {{"axis", int64_t{0}}})});
}

bool GradientBuilder::SurelySameShape(const std::string& a, const std::string& b) const {
  if (a == b) return true;
  const ValueFacts *fa = facts_.Find(a), *fb = facts_.Find(b);
  if (!fa || !fb || !fa->type.shape || !fb->type.shape || fa->type.shape->size() != fb->type.shape->size())
    return false;
  for (size_t axis = 0; axis < fa->type.shape->size(); ++axis)
    if (!SameDim((*fa->type.shape)[axis], (*fb->type.shape)[axis])) return false;
  return true;
}

std::string GradientBuilder::ReduceLike(const std::string& gradient, const std::string& value,
                                        const std::string& target) {
  if (SurelySameShape(value, target)) return gradient;
  // The target's shape with ones in front, as long as the gradient's; every 1 in it is an axis to sum over.
  std::string shape = ShapeOf(target), rank = Op("Size", {shape});
  std::string missing = Sub(Op("Size", {ShapeOf(gradient)}), rank);
  std::string ones = Op("ConstantOfShape", {Op("Unsqueeze", {missing, Ints({0})})},
                        {{"value", std::make_shared<StoredTensor>(MakeStored("", Tensor::FromVector<int64_t>({1})))}});
  std::string padded = Op("Concat", {ones, shape}, {{"axis", int64_t{0}}});
  std::string stretched = Op("NonZero", {Op("Equal", {padded, Ints({1})})});
  std::string summed = Op("ReduceSum", {gradient, Op("Reshape", {stretched, Ints({-1})})},
                          {{"keepdims", int64_t{1}}, {"noop_with_empty_axes", int64_t{1}}});
  return Reshape(summed, shape);
}

std::optional<size_t> GradientBuilder::Rank(const std::string& name) const {
  const ValueFacts* facts = facts_.Find(name);
  if (!facts || !facts->type.shape) return std::nullopt;
  return facts->type.shape->size();
}

std::optional<DType> GradientBuilder::TypeOf(const std::string& name) const {
  const ValueFacts* facts = facts_.Find(name);
  if (!facts || !facts->type.is_tensor()) return std::nullopt;
  return facts->type.dtype;
}

const Tensor* GradientBuilder::ConstantOf(const std::string& name) const {
  const ValueFacts* facts = facts_.Find(name);
  return facts && facts->constant ? &*facts->constant : nullptr;
}

void GradientContext::Unsupported(std::string_view why) const {
  Fail(ErrorCode::kUnsupported, Describe(node_), ": its gradient cannot be computed: ", why);
}

size_t GradientContext::RankOf(size_t input) const {
  std::optional<size_t> rank = Rank(In(input));
  if (!rank) Unsupported(Cat("the rank of '", In(input), "' must be known beforehand"));
  return *rank;
}

}  // namespace ferry
