// Values taken apart into the tensors and numbers that the graph carries into and out of bodies, and put together
// again.
#pragma once

#include "torch/script/interpreter.h"
#include "torch/script/runtime_list.h"

namespace ferry::torch::script {

// The tensors, numbers and lists of the running model in a value, in order.
void CollectLeaves(const ScriptValue& value, std::vector<ScriptValue>& leaves);
Operands LeavesOf(Interpreter& in, const ScriptValue& value);
// Whether two values differ at most in their tensors and numbers.
bool SameForm(const ScriptValue& a, const ScriptValue& b);
// The same value with other leaves, taken from `next` on.
ScriptValue Rebuild(Interpreter& in, const ScriptValue& like, const Operands& leaves, size_t& next);
// Whether they are one value, or equal ones that never change.
bool IsSame(const ScriptValue& a, const ScriptValue& b);
// The tensors that each leaf looks at, or may look at; and the word that leaves may look at these.
using Roots = std::vector<std::shared_ptr<Cell>>;
std::vector<Roots> RootsOf(const ScriptValue& value);
void MayShare(const ScriptValue& value, const std::vector<Roots>& roots);
// Something of that form, for where nobody reads it; nothing when it has no fixed form.
std::optional<ScriptValue> Placeholder(Interpreter& in, const ScriptValue& like);

}  // namespace ferry::torch::script
