// Values that are parts of others: nothing is copied.
#include <algorithm>

#include "convert/c/graph_writer.h"
#include "graph/standard.h"

namespace ferry::c {

bool GraphWriter::AddSliceView(const Node& node) {
  if (outer_ || !IsStandard(node, "Slice") || node.inputs.size() < 3 || node.inputs.size() > 5) return false;
  if (!IsNeeded(node.outputs[0]) || result_number_.count(node.outputs[0])) return false;
  for (size_t i = 1; i < node.inputs.size(); ++i)
    if (!node.inputs[i].empty() && !IsConstant(node.inputs[i])) return false;
  const ValueFacts* facts = FindFacts(node.outputs[0]);
  const std::optional<Shape> shape = facts && facts->type.shape ? ToConcrete(*facts->type.shape) : std::nullopt;
  const int in = Find(node.inputs[0]);
  const Value from = program_.values[static_cast<size_t>(in)];
  if (!shape || shape->rank() != from.shape.rank() || shape->ElementCount() == 0 || IsPacked(from.type)) return false;
  size_t axis = 0;  // the only one that is cut, with nothing but ones before it
  while (axis < shape->rank() && (*shape)[axis] == from.shape[axis]) {
    if ((*shape)[axis] != 1) return false;
    ++axis;
  }
  for (size_t a = axis + 1; a < shape->rank(); ++a)
    if ((*shape)[a] != from.shape[a]) return false;
  if (axis == shape->rank()) return false;
  auto numbers = [&](size_t i) { return ToInt64Vector(*FindFacts(node.inputs[i])->constant); };
  const std::vector<int64_t> starts = numbers(1);
  size_t place = axis;
  if (node.HasInput(3)) {
    const std::vector<size_t> axes = NormalizeAxes(numbers(3), shape->rank());
    place = static_cast<size_t>(std::find(axes.begin(), axes.end(), axis) - axes.begin());
  }
  if (place >= starts.size()) return false;
  if (node.HasInput(4))
    for (int64_t step : numbers(4))
      if (step != 1) return false;
  const int64_t size = from.shape[axis], start = std::clamp(starts[place] < 0 ? starts[place] + size : starts[place],
                                                            int64_t{0}, size - (*shape)[axis]);
  const int out = MakeOutput(node, node.outputs[0]);
  Value& result = program_.values[static_cast<size_t>(out)];
  result.root = program_.Root(in);
  result.shift =
      program_.Shift(in) + StorageBytes(from.type, start * from.shape.CountBetween(axis + 1, from.shape.rank()));
  return true;
}

bool GraphWriter::JoinInPlace(const Node& node) {
  if (outer_ || !IsStandard(node, "Concat") || !IsNeeded(node.outputs[0]) || node.inputs.size() < 2) return false;
  std::vector<int> parts;
  size_t axis = 0;
  for (const std::string& name : node.inputs) {
    if (name.empty() || IsConstant(name)) return false;
    const int value = Find(name), root = program_.Root(value);
    const Value &part = program_.values[static_cast<size_t>(value)],
                &memory = program_.values[static_cast<size_t>(root)];
    axis = NormalizeAxis(node.Int("axis", 0), part.shape.rank());
    // It must be a value by itself, made by a step, that lies nowhere in particular.
    if (part.shape.CountBetween(0, axis) != 1 || memory.place != Value::Place::kArena || memory.first < 0 ||
        memory.bytes != part.bytes || memory.type != part.type || IsPacked(part.type) || pinned_.count(root) ||
        std::find(parts.begin(), parts.end(), root) != parts.end())
      return false;
    parts.push_back(root);
  }
  const int out = MakeOutput(node, node.outputs[0]);
  size_t at = 0;
  for (int part : parts) {
    Value& value = program_.values[static_cast<size_t>(part)];
    const int first = value.first, last = value.last;
    value.root = out;
    value.shift = at;
    at += value.bytes;
    program_.Touch(out, first);
    program_.Touch(out, last);
  }
  return true;
}

}  // namespace ferry::c
