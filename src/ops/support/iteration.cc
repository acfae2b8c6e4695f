#include "ops/support/iteration.h"

#include <algorithm>

#include "base/run_scope.h"
#include "ops/infer_graph.h"
#include "ops/support/concat.h"

namespace ferry {
namespace {

bool SameShape(const Type& a, const Type& b) {
  if (a.shape.has_value() != b.shape.has_value()) return false;
  if (!a.shape) return true;
  return a.shape->size() == b.shape->size() &&
         std::equal(a.shape->begin(), a.shape->end(), b.shape->begin(),
                    [](const Dim& x, const Dim& y) { return SameDim(x, y) || (x.unknown() && y.unknown()); });
}

bool SameType(const Type& a, const Type& b) {
  if (a.kind != b.kind || a.dtype != b.dtype || !SameShape(a, b)) return false;
  if (!a.element || !b.element) return !a.element == !b.element;
  return SameType(*a.element, *b.element);
}

Type WithoutShapes(Type type) {
  type.shape.reset();
  if (type.element) type.element = std::make_shared<const Type>(WithoutShapes(*type.element));
  return type;
}

// The type before the first iteration and after one: what is true of both. A value that is not known yet may still be.
Type Widen(const Type& before, const Type& after) {
  if (!before.known() || !after.known()) return before.known() ? before : after;
  if (after.kind == before.kind) return Union(before, after);
  if (before.kind == Type::Kind::kOptional) return Union(before, Type::OptionalOf(after));
  if (after.kind == Type::Kind::kOptional) return Union(Type::OptionalOf(before), after);
  return {};
}

}  // namespace

void CountIteration(const OpContext& context, int64_t turn) {
  const int64_t limit = context.services().max_iterations;
  if (turn >= limit)
    Fail(ErrorCode::kLimit, "the loop has run ", limit,
         " times without ending; raise max_iterations (--max-iterations) if that is meant");
  if (RunScope* scope = RunScope::Current()) scope->CountIteration();
}

void StackedOutput::Add(Value value) {
  const Tensor& tensor = value.tensor();
  if (!parts_.empty())
    Require(tensor.dtype() == parts_[0].dtype() && tensor.shape() == parts_[0].shape(), "a stacked output was ",
            parts_[0].dtype(), parts_[0].shape(), " in the first iteration and is ", tensor.dtype(), tensor.shape(),
            " in iteration ", parts_.size());
  parts_.push_back(tensor);
}

void StackedOutput::Write(OpContext& context, size_t i, int64_t axis, bool reversed) const {
  std::vector<const Tensor*> parts;
  for (const Tensor& part : parts_) parts.push_back(&part);
  if (reversed) std::reverse(parts.begin(), parts.end());
  WriteStacked(context, i, parts, axis);
}

void WriteEmptyStack(OpContext& context, size_t i, int64_t axis, std::span<const Value> body_inputs,
                     size_t body_output) {
  const Graph& body = *context.node().Subgraph("body");
  FactsByName given;
  for (size_t k = 0; k < body_inputs.size() && k < body.inputs.size(); ++k) {
    Type type = TypeOf(body_inputs[k]);
    given[body.inputs[k].name].type = type.known() ? type : body.inputs[k].type;
  }
  InferOptions options;
  options.on_error = [](const Node&, const Error&) {};
  GraphFacts facts = InferGraph(body, given, options);
  const ValueInfo& output = body.outputs[body_output];
  const ValueFacts* inferred = facts.Find(output.name);
  Type type = inferred ? inferred->type : Type{};
  if (!type.is_tensor() || type.dtype == DType::kUndefined) type = output.type;
  if (!type.is_tensor() || type.dtype == DType::kUndefined)
    Fail(ErrorCode::kUnsupported, "the body never ran and does not declare the type of its output ", body_output);
  if (!type.shape) type.shape = output.type.shape;
  Shape shape;
  if (type.shape)
    for (size_t a = 0; a < type.shape->size(); ++a) {
      bool is_declared = output.type.shape && output.type.shape->size() == type.shape->size();
      const Dim& dim = (*type.shape)[a].known() || !is_declared ? (*type.shape)[a] : (*output.type.shape)[a];
      shape.push_back(dim.known() ? std::max<int64_t>(0, *dim.value) : 0);
    }
  shape.insert(NormalizeAxis(axis, shape.rank() + 1), 0);
  context.Output(i, type.dtype, shape);
}

std::vector<ValueFacts> SettleCarriedTypes(
    std::vector<Type>& carried, size_t first,
    const std::function<std::vector<ValueFacts>(const std::vector<Type>&)>& infer) {
  // Bodies inside bodies multiply the rounds, so deep ones get a single one.
  constexpr int kMostRounds = 3, kDeepestWithRounds = 3;
  thread_local int depth = 0;
  struct Deeper {
    Deeper() { ++depth; }
    ~Deeper() { --depth; }
  } deeper;
  for (int round = 0; depth <= kDeepestWithRounds && round < kMostRounds; ++round) {
    std::vector<ValueFacts> facts = infer(carried);
    bool settled = true;
    for (size_t i = 0; i < carried.size() && first + i < facts.size(); ++i) {
      Type widened = Widen(carried[i], facts[first + i].type);
      settled = settled && SameType(widened, carried[i]);
      carried[i] = std::move(widened);
    }
    if (settled) return facts;
  }
  for (Type& type : carried) type = WithoutShapes(type);
  return infer(carried);
}

}  // namespace ferry
