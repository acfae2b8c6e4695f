#include "ops/support/split.h"

#include "ops/operator.h"
#include "ops/support/indices.h"
#include "ops/support/infer.h"
#include "ops/support/movement.h"

namespace ferry {
namespace {

int64_t PartCount(const Node& node) {
  auto outputs = static_cast<int64_t>(node.outputs.size());
  int64_t count = node.Int("num_outputs", outputs);
  Require(count == outputs && count > 0, "num_outputs is ", count, ", the node has ", outputs, " outputs");
  return count;
}

void ComputeSplit(OpContext& context) {
  const Tensor& data = context.Input(0);
  size_t axis = NormalizeAxis(context.node().Int("axis", 0), data.rank());
  std::vector<int64_t> lengths;
  if (const Tensor* split = context.OptionalInput(1)) {
    lengths = IntegerList(*split, "split");
    Require(lengths.size() == context.output_count(), "split has ", lengths.size(), " lengths, the node has ",
            context.output_count(), " outputs");
    CheckLengths(lengths, data.dim(axis), axis);
  } else {
    lengths = EvenLengths(data.dim(axis), PartCount(context.node()));
  }
  Tensor from = Movable(data);
  int64_t begin = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    Shape shape = data.shape();
    shape[axis] = lengths[i];
    if (context.Wants(i))
      WriteMoved(context, i, data.dtype(), shape, [&](Tensor& out) { CopySlab(context, from, begin, axis, out); });
    begin += lengths[i];
  }
}

void InferSplit(InferContext& context) {
  const SymbolicShape* data = context.InputShape(0);
  DType dtype = context.InputDType(0);
  size_t count = context.output_count();
  std::vector<Dim> lengths(count);
  size_t axis = data ? NormalizeAxis(context.node().Int("axis", 0), data->size()) : 0;
  if (context.Has(1)) {
    if (std::optional<SymbolicShape> split = ElementsOf(context, 1)) {
      Require(split->size() == count, "split has ", split->size(), " lengths, the node has ", count, " outputs");
      lengths = *split;
    }
  } else if (data && (*data)[axis].known()) {
    std::vector<int64_t> even = EvenLengths(*(*data)[axis].value, PartCount(context.node()));
    lengths.assign(even.begin(), even.end());
  } else if (data && count == 1) {
    lengths[0] = (*data)[axis];
  }
  std::optional<SymbolicShape> elements = ElementsOf(context, 0);
  int64_t begin = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!data) {
      context.SetOutput(i, dtype);
      continue;
    }
    SymbolicShape shape = *data;
    shape[axis] = lengths[i];
    context.SetOutput(i, dtype, std::move(shape));
    if (!lengths[i].known()) elements.reset();
    if (!elements || data->size() != 1) continue;
    int64_t end = begin + *lengths[i].value;
    Require(*lengths[i].value >= 0 && end <= static_cast<int64_t>(elements->size()), "split takes more than the ",
            elements->size(), " elements of axis 0");
    context.SetOutputElements(i, SymbolicShape(elements->begin() + begin, elements->begin() + end));
    begin = end;
  }
}

}  // namespace

FERRY_OPERATOR(Split, {.compute = ComputeSplit, .infer = InferSplit, .moves_elements = true});

}  // namespace ferry
