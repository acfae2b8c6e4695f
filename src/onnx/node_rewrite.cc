#include "onnx/node_rewrite.h"

#include "base/error.h"
#include "tensor/small_float.h"

namespace ferry {

Node MakeNode(std::string_view op, std::vector<std::string> inputs, std::vector<std::string> outputs,
              std::vector<Attribute> attributes) {
  Node node;
  node.op_type = op;
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  node.attributes = std::move(attributes);
  return node;
}

std::string NodeRewrite::Name(std::string_view what) {
  std::string base = node.name;
  for (const std::string& output : node.outputs)
    if (base.empty()) base = output;
  return shared_.names.Make(Cat(base.empty() ? node.op_type : base, "/", what));
}

std::string NodeRewrite::Before(std::string_view op, std::vector<std::string> inputs, std::string_view what,
                                std::vector<Attribute> attributes) {
  std::string output = Name(what);
  before_.push_back(MakeNode(op, std::move(inputs), {output}, std::move(attributes)));
  return output;
}

void NodeRewrite::After(std::string_view op, std::vector<std::string> inputs, std::string output,
                        std::vector<Attribute> attributes) {
  after_.push_back(MakeNode(op, std::move(inputs), {std::move(output)}, std::move(attributes)));
}

std::string NodeRewrite::Detour(size_t i) {
  std::string original = node.outputs.at(i);
  node.outputs[i] = shared_.names.Make(Cat(original, "/inner"));
  return original;
}

std::string NodeRewrite::Constant(Tensor value, std::string_view what) {
  auto stored = std::make_shared<StoredTensor>(MakeStored("", value));
  std::string name = Before("Constant", {}, what, {Attribute("value", std::move(stored))});
  shared_.constants.emplace(name, std::move(value));
  return name;
}

DType NodeRewrite::TypeOf(const std::string& value) const {
  DType type = scope_.TypeOf(value);
  if (type != DType::kUndefined || !shared_.inferred) return type;
  const Type* inferred = shared_.inferred(value);
  return inferred && inferred->is_tensor() ? inferred->dtype : DType::kUndefined;
}

const SymbolicShape* NodeRewrite::ShapeOf(const std::string& value) const {
  const Type* inferred = shared_.inferred ? shared_.inferred(value) : nullptr;
  return inferred && inferred->shape ? &*inferred->shape : nullptr;
}

std::optional<Tensor> NodeRewrite::ConstantOf(const std::string& value) const {
  auto made = shared_.constants.find(value);
  return made != shared_.constants.end() ? made->second : scope_.ConstantOf(value);
}

std::string NodeRewrite::Ints(const std::vector<int64_t>& values, std::string_view what) {
  return Constant(Tensor::FromVector(values), what);
}

std::string NodeRewrite::Int(int64_t value, std::string_view what) { return Constant(Tensor::Scalar(value), what); }

std::string NodeRewrite::FloatLike(float value, const std::string& like, std::string_view what) {
  switch (TypeOf(like)) {
    case DType::kFloat: return Constant(Tensor::Scalar(value), what);
    case DType::kDouble: return Constant(Tensor::Scalar<double>(value), what);
    case DType::kFloat16: return Constant(Tensor::Scalar(ToFloat16(value)), what);
    case DType::kBFloat16: return Constant(Tensor::Scalar(ToBFloat16(value)), what);
    default: return Before("CastLike", {Constant(Tensor::Scalar(value), what), like}, what);
  }
}

void NodeRewrite::SetInput(size_t i, std::string name) {
  if (node.inputs.size() <= i) node.inputs.resize(i + 1);
  node.inputs[i] = std::move(name);
}

std::optional<Attribute> NodeRewrite::Take(std::string_view name, std::string_view new_name) {
  Attribute* found = node.Find(name);
  if (!found) return std::nullopt;
  Attribute taken = std::move(*found);  // and with it the name that it would be found by
  node.attributes.erase(node.attributes.begin() + (found - node.attributes.data()));
  taken.name = new_name;
  return taken;
}

bool NodeRewrite::MoveToInput(std::string_view name, size_t i) {
  const Attribute* found = node.Find(name);
  if (!found) return false;
  if (!found->ref_name.empty()) {
    std::string_view kind = found->type == AttributeType::kInts     ? "value_ints"
                            : found->type == AttributeType::kInt    ? "value_int"
                            : found->type == AttributeType::kFloats ? "value_floats"
                                                                    : "value_float";
    SetInput(i, Before("Constant", {}, name, {*Take(name, kind)}));
    return true;
  }
  const auto* ints = std::get_if<std::vector<int64_t>>(&found->held);
  if (std::holds_alternative<std::monostate>(found->held) || (ints && ints->empty())) {
    node.Remove(name);
    return false;
  }
  if (found->type == AttributeType::kInt)
    SetInput(i, Int(node.Int(name, 0), name));
  else if (found->type == AttributeType::kFloats)
    SetInput(i, Constant(Tensor::FromVector(node.Floats(name)), name));
  else
    SetInput(i, Ints(node.Ints(name), name));
  node.Remove(name);
  return true;
}

void NodeRewrite::Finish(std::vector<Node>& out) && {
  std::move(before_.begin(), before_.end(), std::back_inserter(out));
  if (!dropped_) out.push_back(std::move(node));
  std::move(after_.begin(), after_.end(), std::back_inserter(out));
}

}  // namespace ferry
