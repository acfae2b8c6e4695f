#include "ops/operator.h"
#include "ops/support/indices.h"
#include "ops/support/infer.h"
#include "ops/support/movement.h"
#include "ops/support/scalar.h"
#include "ops/support/split.h"

namespace ferry {
namespace {

// Pieces of `length`, the last one perhaps shorter.
std::vector<int64_t> PiecesOf(int64_t whole, int64_t length) {
  Require(length > 0, "split must be positive, is ", length);
  std::vector<int64_t> lengths(static_cast<size_t>(whole / length), length);
  if (whole % length != 0) lengths.push_back(whole % length);
  return lengths;
}

std::vector<int64_t> PieceLengths(const OpContext& context, int64_t whole, size_t axis) {
  const Tensor* split = context.OptionalInput(1);
  if (!split) return PiecesOf(whole, 1);
  if (split->rank() == 0) return PiecesOf(whole, ScalarInt(*split, "split"));
  std::vector<int64_t> lengths = IntegerList(*split, "split");
  CheckLengths(lengths, whole, axis);
  return lengths;
}

void ComputeSplitToSequence(OpContext& context) {
  const Tensor& data = context.Input(0);
  size_t axis = NormalizeAxis(context.node().Int("axis", 0), data.rank());
  bool drop_axis = !context.Has(1) && context.node().Int("keepdims", 1) == 0;
  Tensor from = Movable(data);
  Sequence sequence;
  int64_t begin = 0;
  for (int64_t length : PieceLengths(context, data.dim(axis), axis)) {
    Shape shape = data.shape();
    shape[axis] = length;
    Tensor piece(from.dtype(), shape);
    CopySlab(context, from, begin, axis, piece);
    if (IsPacked(data.dtype())) piece = Tensor::Pack(data.dtype(), piece);
    if (drop_axis) shape.erase(axis);
    sequence.elements.push_back(piece.Reshaped(shape));
    begin += length;
  }
  context.SetOutput(0, std::move(sequence));
}

// The size every piece has, when all are alike.
Dim CommonLength(const InferContext& context, const Dim& whole) {
  if (!context.Has(1)) return Dim(1);
  std::optional<std::vector<int64_t>> split = context.InputInts(1);
  const SymbolicShape* list = context.InputShape(1);
  if (!split || !list || split->empty()) return {};
  if (list->empty()) {
    bool divides = whole.known() && (*split)[0] > 0 && *whole.value % (*split)[0] == 0;
    return divides ? Dim((*split)[0]) : Dim();
  }
  for (int64_t length : *split)
    if (length != (*split)[0]) return {};
  return Dim((*split)[0]);
}

void InferSplitToSequence(InferContext& context) {
  const SymbolicShape* data = context.InputShape(0);
  DType dtype = context.InputDType(0);
  if (!data) return context.SetOutput(0, Type::SequenceOf(Type::Tensor(dtype)));
  size_t axis = NormalizeAxis(context.node().Int("axis", 0), data->size());
  SymbolicShape shape = *data;
  shape[axis] = CommonLength(context, shape[axis]);
  if (!context.Has(1) && context.node().Int("keepdims", 1) == 0)
    shape.erase(shape.begin() + static_cast<ptrdiff_t>(axis));
  context.SetOutput(0, Type::SequenceOf(Type::Tensor(dtype, std::move(shape))));
}

}  // namespace

FERRY_OPERATOR(SplitToSequence, {.compute = ComputeSplitToSequence, .infer = InferSplitToSequence});

}  // namespace ferry
