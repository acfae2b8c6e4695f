#include "ops/operator.h"
#include "ops/support/infer.h"
#include "ops/support/iteration.h"
#include "ops/support/movement.h"

namespace ferry {
namespace {

// A list attribute with one number per scan input or output; zeros when it is absent.
std::vector<int64_t> PerScan(const Node& node, std::string_view name, size_t count) {
  std::vector<int64_t> values = node.Ints(name);
  if (!node.Has(name)) values.assign(count, 0);
  Require(values.size() == count, name, " has ", values.size(), " numbers, ", count, " are needed");
  return values;
}

std::vector<int64_t> Directions(const Node& node, std::string_view name, size_t count) {
  std::vector<int64_t> values = PerScan(node, name, count);
  for (int64_t value : values) Require(value == 0 || value == 1, name, " must be 0 or 1, one is ", value);
  return values;
}

size_t ScanInputCount(const Node& node, size_t inputs) {
  int64_t count = node.Int("num_scan_inputs", 0);
  Require(count > 0 && count <= static_cast<int64_t>(inputs), "num_scan_inputs is ", count, ", the node has ", inputs,
          " inputs");
  return static_cast<size_t>(count);
}

// One scan input: the part at each position of its axis, first to last or last to first.
struct Scanned {
  Tensor elements;
  DType dtype;
  size_t axis;
  bool reversed;

  int64_t length() const { return elements.dim(axis); }
  Shape PartShape() const {
    Shape shape = elements.shape();
    shape.erase(axis);
    return shape;
  }
  Tensor At(const OpContext& context, int64_t step) const {
    int64_t position = reversed ? length() - 1 - step : step;
    int64_t outer = elements.shape().CountBetween(0, axis),
            inner = elements.shape().CountBetween(axis + 1, elements.rank());
    Tensor part(elements.dtype(), PartShape());
    CopyStrided(context, elements, position * inner, part, 0, {{outer, length() * inner, inner}, {inner, 1, 1}});
    return IsPacked(dtype) ? Tensor::Pack(dtype, part) : part;
  }
};

std::vector<Scanned> ReadScanned(const OpContext& context, size_t first, size_t count) {
  std::vector<int64_t> axes = PerScan(context.node(), "scan_input_axes", count);
  std::vector<int64_t> directions = Directions(context.node(), "scan_input_directions", count);
  std::vector<Scanned> scanned;
  for (size_t i = 0; i < count; ++i) {
    const Tensor& tensor = context.Input(first + i);
    Require(tensor.rank() > 0, "scan input ", i, " is a scalar and has no axis to scan");
    scanned.push_back({Movable(tensor), tensor.dtype(), NormalizeAxis(axes[i], tensor.rank()), directions[i] == 1});
    Require(scanned[i].length() == scanned[0].length(), "scan input ", i, " has ", scanned[i].length(),
            " steps, scan input 0 has ", scanned[0].length());
  }
  return scanned;
}

void ComputeScan(OpContext& context) {
  const Node& node = context.node();
  Subgraph& body = context.subgraph("body");
  size_t scan_inputs = ScanInputCount(node, context.input_count()), states = context.input_count() - scan_inputs;
  Require(body.input_count() == context.input_count() && body.output_count() == context.output_count() &&
              body.output_count() >= states,
          "the body has ", body.input_count(), " inputs and ", body.output_count(), " outputs, the node ",
          context.input_count(), " and ", context.output_count(), " with ", states, " state variables");
  std::vector<Scanned> scanned = ReadScanned(context, states, scan_inputs);
  std::vector<Value> inputs(body.input_count());
  for (size_t i = 0; i < states; ++i) inputs[i] = context.InputValue(i).Persistent();
  std::vector<StackedOutput> stacked(body.output_count() - states);
  std::vector<int64_t> axes = PerScan(node, "scan_output_axes", stacked.size());
  std::vector<int64_t> directions = Directions(node, "scan_output_directions", stacked.size());
  int64_t limit = context.services().max_iterations;
  if (scanned[0].length() > limit)
    Fail(ErrorCode::kLimit, "the scan has ", scanned[0].length(),
         " steps, more than max_iterations (--max-iterations), ", limit);
  for (int64_t step = 0; step < scanned[0].length(); ++step) {
    context.CheckCancelled();
    CountIteration(context, step);
    for (size_t i = 0; i < scan_inputs; ++i) inputs[states + i] = scanned[i].At(context, step);
    std::vector<Value> outputs = body.Run(inputs);
    for (size_t i = 0; i < states; ++i) inputs[i] = std::move(outputs[i]);
    for (size_t i = 0; i < stacked.size(); ++i) stacked[i].Add(std::move(outputs[states + i]));
  }
  // Parts that say what the body would have been given.
  for (size_t i = 0; i < scan_inputs && scanned[0].length() == 0; ++i)
    inputs[states + i] = Tensor(scanned[i].dtype, scanned[i].PartShape());
  for (size_t i = 0; i < stacked.size(); ++i) {
    if (stacked[i].empty())
      WriteEmptyStack(context, states + i, axes[i], inputs, states + i);
    else
      stacked[i].Write(context, states + i, axes[i], directions[i] == 1);
  }
  for (size_t i = 0; i < states; ++i) context.SetOutput(i, std::move(inputs[i]));
}

void InferScan(InferContext& context) {
  const Node& node = context.node();
  size_t scan_inputs = ScanInputCount(node, context.input_count()), state_count = context.input_count() - scan_inputs;
  std::vector<int64_t> input_axes = PerScan(node, "scan_input_axes", scan_inputs);
  std::vector<ValueFacts> elements(scan_inputs);
  Dim length;
  for (size_t i = 0; i < scan_inputs; ++i) {
    Type type = context.InputType(state_count + i);
    if (type.shape) {
      size_t axis = NormalizeAxis(input_axes[i], type.shape->size());
      const Dim& dim = (*type.shape)[axis];
      if (dim.known() || length.unknown()) length = dim;
      type.shape->erase(type.shape->begin() + static_cast<ptrdiff_t>(axis));
    }
    elements[i].type = std::move(type);
  }
  std::vector<Type> states;
  for (size_t i = 0; i < state_count; ++i) states.push_back(context.InputType(i));
  std::vector<ValueFacts> facts = SettleCarriedTypes(states, 0, [&](const std::vector<Type>& types) {
    std::vector<ValueFacts> inputs;
    for (const Type& type : types) inputs.push_back({.type = type});
    inputs.insert(inputs.end(), elements.begin(), elements.end());
    return context.InferSubgraph("body", inputs);
  });
  size_t stacked_count = facts.size() > state_count ? facts.size() - state_count : 0;
  std::vector<int64_t> output_axes = PerScan(node, "scan_output_axes", stacked_count);
  for (size_t i = 0; i < context.output_count() && i < facts.size(); ++i) {
    if (i < state_count) {
      context.SetOutput(i, states[i]);
      continue;
    }
    Type stacked = facts[i].type;
    if (stacked.shape) {
      size_t axis = NormalizeAxis(output_axes[i - state_count], stacked.shape->size() + 1);
      stacked.shape->insert(stacked.shape->begin() + static_cast<ptrdiff_t>(axis), length);
    }
    context.SetOutput(i, std::move(stacked));
  }
}

}  // namespace

FERRY_OPERATOR(Scan, {.compute = ComputeScan, .infer = InferScan, .has_subgraphs = true});

}  // namespace ferry
