// Inference rules that many operators share.
#pragma once

#include "base/function_ref.h"
#include "ops/infer_context.h"

namespace ferry {

// numpy's broadcasting on symbolic shapes: a name stays where the other side is 1 or the same name.
SymbolicShape BroadcastSymbolic(const SymbolicShape& a, const SymbolicShape& b);

void InferSameAsInput(InferContext& context);    // output 0 has input 0's type and shape
void InferSameAlongAxis(InferContext& context);  // the same; attribute axis must be one of its axes
void InferElementwise(InferContext& context);    // output 0: input 0's element type, all inputs broadcast
void InferComparison(InferContext& context);     // output 0: bool, all inputs broadcast
// Broadcasts the shapes of inputs [first, last) and sets output 0; unknown rank when any is unknown.
void InferBroadcast(InferContext& context, DType dtype, size_t first, size_t last);

// The elements of input i where they are known one by one (integers and bools of rank 0 or 1), from a constant too.
std::optional<SymbolicShape> ElementsOf(const InferContext& context, size_t i);
// Carries the values of small integer tensors through an elementwise operator: output 0, whose type is set already,
// gets rule(one element of each input) where every input's elements are known and the result fits its type. A node of a
// broken model may have fewer inputs than the rule reads: nothing is carried then.
void InferElements(InferContext& context, size_t least_inputs, FunctionRef<Dim(std::span<const Dim>)> rule);
// The element type that all inputs [first, last) share: the first known one.
DType CommonDType(const InferContext& context, size_t first, size_t last);
// An element type given as an attribute: a number that names a type, or `otherwise` when absent.
DType TypeAttribute(const Node& node, std::string_view name, DType otherwise);
// Output 0 has input 0's element type and `shape`; elements known of input 0 stay known when they still form a list.
void InferView(InferContext& context, std::optional<SymbolicShape> shape);
// The shape that a list of dimensions describes: what is surely not a size is an error.
SymbolicShape ShapeFromElements(const SymbolicShape& elements);
SymbolicShape UnknownShape(size_t rank);
// How many elements the list in input i has, when that is known and small enough to be the rank of something.
std::optional<size_t> ListLength(const InferContext& context, size_t i);

// Longer integer tensors are data, not shapes: their elements are not carried along.
inline constexpr size_t kMostKnownElements = 256;

}  // namespace ferry
