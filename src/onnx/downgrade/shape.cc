#include <algorithm>

#include "onnx/downgrade/rules.h"

namespace ferry {
namespace {

int64_t FromFront(const NodeRewrite& r, int64_t axis, const std::string& value, int64_t more = 0) {
  return axis < 0 ? axis + static_cast<int64_t>(RankOf(r, value)) + more : axis;
}

void AxesByAttribute(NodeRewrite& r) {
  const std::string data = r.node.inputs.at(0);
  bool adds = r.node.op_type == "Unsqueeze";
  auto axes = ConstantInts(r, 1, "axes");
  r.node.inputs.resize(1);
  if (!axes) return;
  if (r.opset < 11)
    for (int64_t& axis : *axes) axis = FromFront(r, axis, data, adds ? static_cast<int64_t>(axes->size()) : 0);
  r.node.Set("axes", std::move(*axes));
}

void AxisFromFront(NodeRewrite& r) {
  const Attribute* axis = r.node.Find("axis");
  if (axis) r.node.Set("axis", FromFront(r, r.node.Int("axis", 0), r.node.inputs.at(0)));
}

// A last part that is smaller must be said; equal parts need no word.
void SplitWithoutCount(NodeRewrite& r) {
  if (r.node.HasInput(1)) return;
  int64_t count = r.node.Int("num_outputs", static_cast<int64_t>(r.node.outputs.size()));
  if (count != static_cast<int64_t>(r.node.outputs.size()))
    Refuse("num_outputs is ", count, ", but the node has ", r.node.outputs.size(), " outputs");
  r.node.Remove("num_outputs");
  const SymbolicShape* shape = r.ShapeOf(r.node.inputs.at(0));
  int64_t axis = shape ? FromFront(r, r.node.Int("axis", 0), r.node.inputs[0]) : -1;
  if (axis < 0 || axis >= static_cast<int64_t>(shape->size()) || !(*shape)[static_cast<size_t>(axis)].known()) return;
  int64_t size = *(*shape)[static_cast<size_t>(axis)].value;
  if (count != static_cast<int64_t>(r.node.outputs.size()))
    Refuse("num_outputs is ", count, ", the node has ", r.node.outputs.size(), " outputs");
  if (count <= 0 || size % count == 0) return;
  int64_t part = (size + count - 1) / count;
  std::vector<int64_t> parts(static_cast<size_t>(count), part);
  parts.back() = size - part * (count - 1);
  r.SetInput(1, r.Ints(parts, "split"));
}

void SplitByAttribute(NodeRewrite& r) { InputToInts(r, 1, "split"); }

void SliceByAttributes(NodeRewrite& r) {
  auto starts = ConstantInts(r, 1, "starts"), ends = ConstantInts(r, 2, "ends");
  auto axes = ConstantInts(r, 3, "axes"), steps = ConstantInts(r, 4, "steps");
  if (steps && std::any_of(steps->begin(), steps->end(), [](int64_t step) { return step != 1; }))
    Refuse("steps came with opset 10");
  if (axes)
    for (int64_t& axis : *axes) axis = FromFront(r, axis, r.node.inputs[0]);
  r.node.inputs.resize(1);
  r.node.Set("starts", starts.value_or(std::vector<int64_t>{}));
  r.node.Set("ends", ends.value_or(std::vector<int64_t>{}));
  if (axes) r.node.Set("axes", std::move(*axes));
}

void PadAllAxes(NodeRewrite& r) {
  auto axes = ConstantInts(r, 3, "axes");
  if (!axes) return;
  auto pads = ConstantInts(r, 1, "pads");
  size_t rank = RankOf(r, r.node.inputs[0]);
  std::vector<int64_t> all(2 * rank, 0);
  Require(pads && pads->size() == 2 * axes->size(), "pads and axes do not fit");
  for (size_t i = 0; i < axes->size(); ++i) {
    size_t axis = NormalizeAxis((*axes)[i], rank);
    all[axis] = (*pads)[i];
    all[rank + axis] = (*pads)[axes->size() + i];
  }
  r.node.inputs.resize(3);
  r.node.inputs[1] = r.Ints(all, "pads");
  TrimInputs(r.node);
}

void PadByAttributes(NodeRewrite& r) {
  auto pads = ConstantInts(r, 1, "pads");
  if (r.node.HasInput(2)) {
    auto value = r.ConstantOf(r.node.inputs[2]);
    if (!value || value->dtype() != DType::kFloat || value->size() != 1)
      Refuse("constant_value must be a constant float");
    r.node.Set("value", *value->Data<float>());
  }
  r.node.inputs.resize(1);
  r.node.Set("pads", pads.value_or(std::vector<int64_t>{}));
}

void PadWithoutWrap(NodeRewrite& r) {
  if (r.node.String("mode", "constant") == "wrap") Refuse("mode 'wrap' came with opset 19");
}

// Without allowzero a 0 means "as it was". A shape that holds no 0 means the same either way.
void ReshapeWithoutZero(NodeRewrite& r) {
  if (r.node.Int("allowzero", 0) == 0) return r.node.Remove("allowzero");
  auto shape = r.ConstantOf(r.node.inputs.at(1));
  if (shape) {
    for (int64_t dim : ToInt64Vector(*shape))
      if (dim == 0) Refuse("allowzero with a dimension of 0 cannot be said before opset 14");
  } else if (const SymbolicShape* dims = r.ShapeOf(r.node.inputs[0])) {
    for (const Dim& dim : *dims)
      if (dim.known() && *dim.value == 0) Refuse("allowzero on an empty tensor cannot be said before opset 14");
  }
  r.node.Remove("allowzero");
}

void ShapePart(NodeRewrite& r) {
  int64_t start = r.node.Int("start", 0);
  bool has_end = r.node.Has("end");
  int64_t end = has_end ? r.node.Int("end", 0) : INT64_MAX;
  r.node.Remove("start");
  r.node.Remove("end");
  if (start == 0 && !has_end) return;
  std::string output = r.Detour(0);
  r.After("Slice", {r.node.outputs[0], r.Ints({start}, "start"), r.Ints({end}, "end"), r.Ints({0}, "axis")}, output);
}

void TopKByAttribute(NodeRewrite& r) {
  auto k = ConstantInts(r, 1, "K");
  Require(k && k->size() == 1, "K must be one number");
  r.node.inputs.resize(1);
  r.node.Set("k", (*k)[0]);
}

void TopKLargest(NodeRewrite& r) {
  DropInt(r, "largest", 1);
  r.node.Remove("sorted");  // sorted is one of the orders that are allowed without it
}

void ScatterByItsOldName(NodeRewrite& r) {
  DropString(r, "reduction", "none");
  r.node.op_type = "Scatter";
}

// Indices counted from the back were outside the range before.
void OneHotFromFront(NodeRewrite& r) {
  DType type = r.TypeOf(r.node.inputs.at(0));
  if (IsInteger(type) && !IsSignedInteger(type)) return;
  std::string indices = r.Before("Cast", {r.node.inputs[0]}, "indices", {CastTo(DType::kInt64)});
  std::string depth = r.Before("Cast", {r.node.inputs.at(1)}, "depth", {CastTo(DType::kInt64)});
  std::string scalar = r.Before("Reshape", {depth, r.Ints({}, "scalar")}, "turns");
  std::string negative = r.Before("Less", {indices, r.Int(0, "zero")}, "negative");
  r.node.inputs[0] =
      r.Before("Where", {negative, r.Before("Add", {indices, scalar}, "counted"), indices}, "from_front");
}

constexpr DowngradeRule kRules[] = {
    {"Squeeze", 13, AxesByAttribute},
    {"Unsqueeze", 13, AxesByAttribute},
    {"Concat", 11, AxisFromFront},
    {"Flatten", 11, AxisFromFront},
    {"Compress", 11, AxisFromFront},
    {"Split", 18, SplitWithoutCount},
    {"Split", 13, SplitByAttribute},
    {"Split", 11, AxisFromFront},
    {"Slice", 10, SliceByAttributes},
    {"Pad", 19, PadWithoutWrap},
    {"Pad", 18, PadAllAxes},
    {"Pad", 11, PadByAttributes},
    {"Reshape", 14, ReshapeWithoutZero},
    {"Shape", 15, ShapePart},
    {"TopK", 11, TopKLargest},
    {"TopK", 10, TopKByAttribute},
    {"ScatterElements", 11, ScatterByItsOldName},
    {"OneHot", 11, OneHotFromFront},
};

}  // namespace

std::span<const DowngradeRule> ShapeDowngrades() { return kRules; }

}  // namespace ferry
