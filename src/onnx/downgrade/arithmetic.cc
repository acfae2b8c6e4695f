#include "onnx/downgrade/rules.h"
#include "tensor/small_float.h"

namespace ferry {
namespace {

// A constant scalar as a float; refuses what a float attribute cannot hold.
float ScalarOf(const NodeRewrite& r, size_t i, std::string_view name) {
  auto constant = r.ConstantOf(r.node.inputs.at(i));
  if (!constant || constant->size() != 1) Refuse(name, " is computed while running; the older form needs a constant");
  switch (constant->dtype()) {
    case DType::kFloat: return *constant->Data<float>();
    case DType::kFloat16: return ToFloat(*constant->Data<Float16>());
    case DType::kBFloat16: return ToFloat(*constant->Data<BFloat16>());
    case DType::kDouble: {
      double value = *constant->Data<double>();
      if (static_cast<double>(static_cast<float>(value)) != value)
        Refuse(name, "=", value, " does not fit a float attribute");
      return static_cast<float>(value);
    }
    default: Refuse(name, " of type ", constant->dtype(), " does not fit a float attribute");
  }
}

bool IsConstantOrAbsent(const NodeRewrite& r, size_t i) {
  return !r.node.HasInput(i) || r.ConstantOf(r.node.inputs[i]).has_value();
}

// Clip is Min(max, Max(x, min)).
void ClipByMinMax(NodeRewrite& r) {
  std::string value = r.node.inputs.at(0);
  if (r.node.HasInput(1)) value = r.Before("Max", {value, r.node.inputs[1]}, "raised");
  if (r.node.HasInput(2)) value = r.Before("Min", {value, r.node.inputs[2]}, "lowered");
  ReplaceBy(r, "Identity", {value});
}

void ClipOfIntegers(NodeRewrite& r) {
  if (!IsFloating(r.TypeOf(r.node.inputs.at(0)))) ClipByMinMax(r);
}

void ClipByAttributes(NodeRewrite& r) {
  if (!IsConstantOrAbsent(r, 1) || !IsConstantOrAbsent(r, 2)) return ClipByMinMax(r);
  if (r.node.HasInput(1)) r.node.Set("min", ScalarOf(r, 1, "min"));
  if (r.node.HasInput(2)) r.node.Set("max", ScalarOf(r, 2, "max"));
  r.node.inputs.resize(1);
}

// Max and Min of integers, two at a time.
void ChooseByComparison(NodeRewrite& r) {
  DType type = r.TypeOf(r.node.inputs.at(0));
  if (!IsInteger(type)) return;
  const char* comparison = r.node.op_type == "Max" ? "Greater" : "Less";
  std::string chosen = r.node.inputs[0];
  for (size_t i = 1; i < r.node.inputs.size(); ++i) {
    std::string better = r.Before(comparison, {chosen, r.node.inputs[i]}, "better");
    chosen = r.Before("Where", {better, chosen, r.node.inputs[i]}, "chosen");
  }
  ReplaceBy(r, "Identity", {chosen});
}

// Before opset 8 these took tensors of one shape.
void RequireSameShapes(NodeRewrite& r) {
  const SymbolicShape* first = r.ShapeOf(r.node.inputs.at(0));
  for (const std::string& input : r.node.inputs) {
    const SymbolicShape* shape = r.ShapeOf(input);
    bool same = first && shape && shape->size() == first->size();
    for (size_t axis = 0; same && axis < shape->size(); ++axis) same = SameDim((*shape)[axis], (*first)[axis]);
    if (!same) Refuse(r.node.op_type, " does not broadcast before opset 8");
  }
}

// Base and exponent had to be of one type.
void CastExponent(NodeRewrite& r) {
  DType base = r.TypeOf(r.node.inputs.at(0)), exponent = r.TypeOf(r.node.inputs.at(1));
  if (base == DType::kUndefined || exponent == DType::kUndefined)
    Refuse("the types of base and exponent are not known");
  if (!IsFloating(base)) Refuse("Pow of ", base, " came with opset 12");
  if (base != exponent) r.node.inputs[1] = r.Before("Cast", {r.node.inputs[1]}, "exponent", {CastTo(base)});
}

void GemmWithoutSum(NodeRewrite& r) {
  if (r.node.HasInput(2)) return;
  r.SetInput(2, r.FloatLike(0, r.node.inputs.at(0), "zero"));
}

void CastLikeToCast(NodeRewrite& r) {
  DType type = r.TypeOf(r.node.inputs.at(1));
  if (type == DType::kUndefined) Refuse("the type of '", Printable(r.node.inputs[1]), "' is not known");
  std::vector<Attribute> attributes = r.node.attributes;
  attributes.push_back(CastTo(type));
  ReplaceBy(r, "Cast", {r.node.inputs[0]}, std::move(attributes));
}

constexpr DowngradeRule kRules[] = {
    {"Clip", 12, ClipOfIntegers},    {"Clip", 11, ClipByAttributes},   {"Max", 12, ChooseByComparison},
    {"Min", 12, ChooseByComparison}, {"Max", 8, RequireSameShapes},    {"Min", 8, RequireSameShapes},
    {"Sum", 8, RequireSameShapes},   {"Mean", 8, RequireSameShapes},   {"Pow", 12, CastExponent},
    {"Gemm", 11, GemmWithoutSum},    {"CastLike", 15, CastLikeToCast},
};

}  // namespace

std::span<const DowngradeRule> ArithmeticDowngrades() { return kRules; }

}  // namespace ferry
