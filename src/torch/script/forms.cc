#include "torch/script/forms.h"

#include <algorithm>

#include "base/error.h"
#include "torch/script/builtins.h"

namespace ferry::torch::script {

void CollectLeaves(const ScriptValue& value, std::vector<ScriptValue>& leaves) {
  if (value.is_tensor() || value.is<Scalar>() || value.runtime_list()) {
    leaves.push_back(value);
  } else if (const std::vector<ScriptValue>* items = value.items()) {
    for (const ScriptValue& item : *items) CollectLeaves(item, leaves);
  } else if (const auto* dict = value.get<ScriptValue::Dict>()) {
    for (const auto& [key, held] : (*dict)->items) CollectLeaves(held, leaves);
  }
}

Operands LeavesOf(Interpreter& in, const ScriptValue& value) {
  std::vector<ScriptValue> leaves;
  CollectLeaves(value, leaves);
  Operands operands;
  for (const ScriptValue& leaf : leaves) {
    const RuntimeList* list = leaf.runtime_list();
    operands.push_back(list ? SequenceOf(in, *list) : CarriedOperand(in, leaf));
  }
  return operands;
}

bool SameForm(const ScriptValue& a, const ScriptValue& b) {
  if (a.is_tensor() && b.is_tensor()) return true;
  const Scalar *x = a.get<Scalar>(), *y = b.get<Scalar>();
  if (x && y) return x->kind() == y->kind();
  if (a.held.index() != b.held.index()) return false;
  const RuntimeList *one = a.runtime_list(), *other = b.runtime_list();
  if (one || other) return one && other && one->number == other->number && one->item.dtype == other->item.dtype;
  if (const std::vector<ScriptValue>* left = a.items()) {
    const std::vector<ScriptValue>& right = *b.items();
    return left->size() == right.size() && std::equal(left->begin(), left->end(), right.begin(), SameForm);
  }
  if (const auto* left = a.get<ScriptValue::Dict>()) {
    const auto& right = (*b.get<ScriptValue::Dict>())->items;
    return (*left)->items.size() == right.size() && std::equal((*left)->items.begin(), (*left)->items.end(),
                                                               right.begin(), [](const auto& mine, const auto& theirs) {
                                                                 return SameKey(mine.first, theirs.first) &&
                                                                        SameForm(mine.second, theirs.second);
                                                               });
  }
  return SameKey(a, b);
}

ScriptValue Rebuild(Interpreter& in, const ScriptValue& like, const Operands& leaves, size_t& next) {
  if (const Scalar* number = like.get<Scalar>()) return Scalar(number->kind(), leaves.at(next++));
  if (like.is_tensor()) return in.TensorValue(leaves.at(next++));
  if (const RuntimeList* list = like.runtime_list()) {
    RuntimeList made = *list;
    made.stacked = Operand();
    made.sequence = leaves.at(next++);
    return MakeRuntimeList(in, std::move(made));
  }
  if (const std::vector<ScriptValue>* items = like.items()) {
    std::vector<ScriptValue> made;
    for (const ScriptValue& item : *items) made.push_back(Rebuild(in, item, leaves, next));
    if (const auto* tuple = like.get<ScriptValue::Tuple>()) return MakeTuple(std::move(made), (*tuple)->type);
    return in.MakeList(std::move(made));
  }
  if (const auto* dict = like.get<ScriptValue::Dict>()) {
    std::vector<std::pair<ScriptValue, ScriptValue>> made;
    for (const auto& [key, held] : (*dict)->items) made.emplace_back(key, Rebuild(in, held, leaves, next));
    return in.MakeDict(std::move(made));
  }
  return like;
}

bool IsSame(const ScriptValue& a, const ScriptValue& b) {
  if (a.held.index() != b.held.index()) return false;
  if (const Scalar* x = a.get<Scalar>()) {
    const Scalar* y = b.get<Scalar>();
    if (x->kind() != y->kind() || x->is_known() != y->is_known()) return false;
    return x->is_known() ? x->AsComplex() == y->AsComplex() : x->computed() == y->computed();
  }
  if (a.is<NumberTensor>()) return IsSame(a.get<NumberTensor>()->number, b.get<NumberTensor>()->number);
  if (const auto* list = a.get<ScriptValue::List>()) return *list == *b.get<ScriptValue::List>();
  if (const auto* dict = a.get<ScriptValue::Dict>()) return *dict == *b.get<ScriptValue::Dict>();
  if (const auto* tuple = a.get<ScriptValue::Tuple>()) {
    const auto &left = (*tuple)->items, &right = (*b.get<ScriptValue::Tuple>())->items;
    return left.size() == right.size() && std::equal(left.begin(), left.end(), right.begin(), IsSame);
  }
  if (a.is<Missing>()) return true;
  if (const auto* space = a.get<Namespace>()) return space->name == b.get<Namespace>()->name;
  if (const auto* method = a.get<BoundMethod>())
    return method->function == b.get<BoundMethod>()->function && method->self == b.get<BoundMethod>()->self;
  return SameKey(a, b);
}

std::vector<Roots> RootsOf(const ScriptValue& value) {
  std::vector<ScriptValue> leaves;
  CollectLeaves(value, leaves);
  std::vector<Roots> all;
  for (const ScriptValue& leaf : leaves) {
    Roots& roots = all.emplace_back();
    if (const auto* cell = leaf.get<ScriptValue::Tensor>()) Cell::CollectRoots(*cell, roots);
    const RuntimeList* list = leaf.runtime_list();
    if (!list) continue;
    for (const auto& [cell, writes] : list->shares.tensors()) Cell::CollectRoots(cell, roots);
    if (!list->collected) continue;
    for (const ScriptValue& item : list->collected->items)
      if (const auto* cell = item.get<ScriptValue::Tensor>()) Cell::CollectRoots(*cell, roots);
  }
  return all;
}

void MayShare(const ScriptValue& value, const std::vector<Roots>& roots) {
  std::vector<ScriptValue> leaves;
  CollectLeaves(value, leaves);
  for (size_t i = 0; i < leaves.size() && i < roots.size(); ++i) {
    if (const auto* cell = leaves[i].get<ScriptValue::Tensor>())
      for (const auto& root : roots[i]) (*cell)->MayShare(root);
    if (!leaves[i].runtime_list()) continue;
    RuntimeList list = *leaves[i].runtime_list();
    for (const auto& root : roots[i]) list.shares.Add(root);
    (*leaves[i].get<ScriptValue::List>())->runtime = std::make_shared<const RuntimeList>(std::move(list));
  }
}

std::optional<ScriptValue> Placeholder(Interpreter& in, const ScriptValue& like) {
  Builder& b = in.builder();
  Operands empty;
  for (const Operand& leaf : LeavesOf(in, like)) {
    if (!leaf.type().is_tensor() || !leaf.has_rank()) return std::nullopt;
    std::vector<int64_t> sizes;
    for (const Dim& size : *leaf.type().shape) sizes.push_back(size.known() ? *size.value : 1);
    Operand zeros = b.Fill(0, leaf.type().dtype, b.Ints(sizes));
    empty.push_back(leaf.is_complex() ? zeros.AsComplex() : zeros);
  }
  size_t next = 0;
  return Rebuild(in, like, empty, next);
}

}  // namespace ferry::torch::script
