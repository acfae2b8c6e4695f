// Branches that are only decided while the model runs: If. And what bodies of If and Loop change outside themselves.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "torch/lower/ops/loops.h"
#include "torch/script/body_scope.h"
#include "torch/script/forms.h"

namespace ferry::torch::script {

// --- the places that a body changes

bool Interpreter::Slot::operator==(const Slot& other) const {
  return name == other.name && cell == other.cell && IsSame(holder, other.holder);
}

ScriptValue Interpreter::Get(const Slot& slot) {
  if (slot.cell) return TensorValue(slot.cell->IsDoubtful() ? slot.cell->Peek() : slot.cell->Read());
  if (slot.is_variable()) {
    auto it = frame_->variables.find(slot.name);
    return it == frame_->variables.end() ? ScriptValue(Missing{}) : it->second;
  }
  if (const auto* object = slot.holder.get<ScriptValue::Object>()) {
    auto it = (*object)->attributes.find(slot.name);
    bool is_stored =
        (*object)->stored && (*object)->stored->is(PickleValue::Kind::kDict) && (*object)->stored->Find(slot.name);
    if (it == (*object)->attributes.end() && !is_stored) return Missing{};
    return Attribute(*object, slot.name);
  }
  if (const auto* dict = slot.holder.get<ScriptValue::Dict>()) return std::make_shared<DictValue>(**dict);
  return std::make_shared<ListValue>(**slot.holder.get<ScriptValue::List>());
}

void Interpreter::Restore(const Slot& slot, const ScriptValue& value) {
  if (slot.cell) {
    slot.cell->Write(TensorOf(value));
  } else if (slot.is_variable()) {
    frame_->variables[slot.name] = value;
  } else if (const auto* object = slot.holder.get<ScriptValue::Object>()) {
    (*object)->attributes[slot.name] = value;
    if (value.is<Missing>()) (*object)->attributes.erase(slot.name);
  } else if (const auto* dict = slot.holder.get<ScriptValue::Dict>()) {
    (*dict)->items = (*value.get<ScriptValue::Dict>())->items;
  } else {
    const auto& from = *value.get<ScriptValue::List>();
    const auto& list = *slot.holder.get<ScriptValue::List>();
    list->items = from->items;
    list->runtime = from->runtime;
  }
}

void Interpreter::Put(const Slot& slot, const ScriptValue& value) {
  if (slot.cell)
    lowerer_.WillWrite(slot.cell);
  else if (!slot.is_variable())
    WillChange(slot.holder, slot.name);
  Restore(slot, value);
}

void Interpreter::WillChange(const ScriptValue& container, const std::string& attribute) {
  const auto* object = container.get<ScriptValue::Object>();
  const auto* dict = container.get<ScriptValue::Dict>();
  const auto* list = container.get<ScriptValue::List>();
  int made = object ? (*object)->level : dict ? (*dict)->level : list ? (*list)->level : level();
  if (made < level()) scope_->Remember({attribute, container, nullptr});
}

Interpreter::BodyScope::~BodyScope() {
  for (auto change = before_.rbegin(); change != before_.rend(); ++change) in_.Restore(change->first, change->second);
  for (const auto& [cell, value] : tensors_) cell->Write(value);
  frame_.variables = std::move(variables_);
  in_.scope_ = outer_;
}

void Interpreter::BodyScope::Remember(const Slot& slot) {
  bool noted = std::any_of(before_.begin(), before_.end(), [&](const auto& change) { return change.first == slot; });
  if (!noted) before_.emplace_back(slot, in_.Get(slot));
}

std::optional<ScriptValue> Interpreter::BodyScope::Before(const Slot& slot) {
  if (slot.is_variable()) {
    auto it = variables_.find(slot.name);
    return it == variables_.end() ? std::nullopt : std::optional(it->second);
  }
  for (const auto& [own, value] : before_)
    if (own == slot) return value;
  for (const auto& [cell, value] : tensors_)
    if (cell == slot.cell) return in_.TensorValue(value);
  return std::nullopt;
}

// Views of what the body wrote to are read now: afterwards they look at what was there before.
Interpreter::Change Interpreter::ChangeOf(const Slot& slot) {
  ScriptValue value = Get(slot);
  const RuntimeList* list = value.runtime_list();
  if (list && list->collected) return {slot, value, {}};
  try {
    return {slot, value, LeavesOf(*this, value)};
  } catch (const Error& error) {
    // Most variables of a body are of no use after it.
    if (!slot.is_variable() || error.code() != ErrorCode::kUnsupported) throw;
    return {slot, Missing{Cat("cannot leave its branch or loop: ", error.message())}, {}};
  }
}

std::vector<Interpreter::Change> Interpreter::BodyScope::Changes() {
  std::vector<Change> changes;
  for (const auto& [name, value] : frame_.variables) {
    auto before = variables_.find(name);
    if (before == variables_.end() || !IsSame(before->second, value))
      changes.push_back(in_.ChangeOf({name, ScriptValue(), nullptr}));
  }
  for (size_t i = 0; i < before_.size(); ++i) changes.push_back(in_.ChangeOf(before_[i].first));
  for (size_t i = 0; i < tensors_.size(); ++i) changes.push_back(in_.ChangeOf({"", ScriptValue(), tensors_[i].first}));
  return changes;
}

// Views that must be made again are made out here, where every body sees them.
void Interpreter::RefreshVariables() {
  for (Frame* frame : frames_)
    for (auto& [name, value] : frame->variables) {
      std::vector<ScriptValue> leaves;
      CollectLeaves(value, leaves);
      for (const ScriptValue& leaf : leaves)
        if (const auto* cell = leaf.get<ScriptValue::Tensor>()) (*cell)->Refresh();
    }
}

// --- If

struct Interpreter::Branch {
  explicit Branch(Builder& outer) : builder(outer.opset(), &outer) {}
  Builder builder;
  bool raised = false;
  std::vector<Change> changes;
  Operands outputs;

  const Change* Find(const Slot& slot) const {
    for (const Change& change : changes)
      if (change.slot == slot) return &change;
    return nullptr;
  }
};

void Interpreter::RunBranch(const Block& block, Branch& branch) {
  BodyScope scope(*this, branch.builder);
  try {
    if (Execute(block) != Flow::kNext)
      Fail(ErrorCode::kUnsupported, "a branch that is only decided while the model runs leaves its function or loop");
    branch.changes = scope.Changes();
  } catch (const Raised&) {
    branch.raised = true;
  }
}

void Interpreter::BranchInGraph(const Scalar& condition, const Statement& statement) {
  RefreshVariables();
  Operand decides = builder().Of(condition, DType::kBool);
  Branch yes(builder()), no(builder());
  RunBranch(statement.body, yes);
  if (yes.raised) return void(Execute(statement.otherwise));
  RunBranch(statement.otherwise, no);
  if (no.raised) return void(Execute(statement.body));
  const std::optional<bool>& usual = condition.if_not_empty();
  if (MergeBranches(yes, no, decides, usual.has_value())) return;
  // One of them is for tensors without elements, and gives something of another form: the other does for both.
  if (usual) return void(Execute(*usual ? statement.body : statement.otherwise));
  Fail(ErrorCode::kUnsupported,
       "the branches of an If that is decided while the model runs leave a list, dict or object in different forms");
}

// Lists of different lengths, one of which may be the running model's, become lists of the running model.
bool Interpreter::AsLists(Change& yes, Change& no, Branch& yes_branch, Branch& no_branch) {
  if (!yes.value.is<ScriptValue::List>() || !no.value.is<ScriptValue::List>() || builder().opset() < 13) return false;
  auto in_branch = [&](Change& change, Branch& branch, const RuntimeList* like) {
    Lowerer::InBody body(lowerer_, branch.builder);
    std::optional<RuntimeList> list = AsRuntimeList(*this, change.value, like);
    if (list) {
      change.leaves = {SequenceOf(*this, *list)};
      change.value = MakeRuntimeList(*this, *list);
    }
    return list;
  };
  std::optional<RuntimeList> first = in_branch(yes, yes_branch, nullptr);
  std::optional<RuntimeList> second = in_branch(no, no_branch, first ? &*first : nullptr);
  if (!first && second) first = in_branch(yes, yes_branch, &*second);
  return first && second && SameForm(yes.value, no.value);
}

bool Interpreter::MergeSlot(Change& yes, Change& no, Branch& yes_branch, Branch& no_branch, bool strictly) {
  // What is never set in one branch is not used where that branch was taken: anything will do.
  for (auto [unset, set, branch] : {std::tuple(&yes, &no, &yes_branch), std::tuple(&no, &yes, &no_branch)}) {
    if (!unset->value.is<Missing>() || set->value.is<Missing>()) continue;
    Lowerer::InBody body(lowerer_, branch->builder);
    if (std::optional<ScriptValue> filler = Placeholder(*this, set->value)) {
      unset->leaves = LeavesOf(*this, *filler);
      unset->value = *filler;
    }
  }
  if (!SameForm(yes.value, no.value) && !AsLists(yes, no, yes_branch, no_branch)) return false;
  if (yes.leaves.size() != no.leaves.size()) return false;
  for (size_t i = 0; i < yes.leaves.size(); ++i) {
    if (yes.leaves[i].is_complex() != no.leaves[i].is_complex() ||
        yes.leaves[i].type().dtype != no.leaves[i].type().dtype)
      Fail(ErrorCode::kUnsupported, "the branches of an If make tensors of different types");
    if (strictly && yes.leaves[i].type().is_tensor() && yes.leaves[i].has_rank() && no.leaves[i].has_rank() &&
        yes.leaves[i].rank() != no.leaves[i].rank())
      return false;
  }
  return true;
}

// What a merged value may look at: tensors from outside, and those that another one looks at, too.
class Interpreter::MergedRoots {
 public:
  explicit MergedRoots(int level) : level_(level) {}
  void Add(const ScriptValue& by_yes, const ScriptValue& by_no) {
    std::vector<Roots> all = RootsOf(by_yes), others = RootsOf(by_no);
    for (size_t i = 0; i < all.size() && i < others.size(); ++i)
      for (const auto& root : others[i])
        if (std::find(all[i].begin(), all[i].end(), root) == all[i].end()) all[i].push_back(root);
    for (const Roots& roots : all)
      for (const auto& root : roots) ++uses_[root.get()];
    values_.push_back(std::move(all));
  }
  std::vector<Roots> Of(size_t value) const {
    std::vector<Roots> kept = values_.at(value);
    for (Roots& roots : kept)
      std::erase_if(roots, [&](const auto& root) { return root->level > level_ && uses_.at(root.get()) < 2; });
    return kept;
  }

 private:
  int level_;
  std::vector<std::vector<Roots>> values_;
  std::map<const Cell*, int> uses_;
};

// False when the branches cannot be one node. `strictly`: also when something would be of no known form after it.
bool Interpreter::MergeBranches(Branch& yes, Branch& no, const Operand& decides, bool strictly) {
  std::vector<std::pair<Change, size_t>> merged;  // and where its leaves begin among the outputs
  std::vector<std::pair<Slot, ScriptValue>> equal;
  std::vector<Slot> slots;
  MergedRoots shared(level());
  for (const Branch* branch : {&yes, &no})
    for (const Change& change : branch->changes)
      if (std::find(slots.begin(), slots.end(), change.slot) == slots.end()) slots.push_back(change.slot);
  for (const Slot& slot : slots) {
    const Change *by_yes = yes.Find(slot), *by_no = no.Find(slot);
    bool is_local = slot.is_variable() && !frame_->variables.count(slot.name) && !(by_yes && by_no);
    if (is_local) continue;
    Change first = by_yes ? *by_yes : ChangeOf(slot), second = by_no ? *by_no : ChangeOf(slot);
    if (IsSame(first.value, second.value)) {
      equal.emplace_back(slot, first.value);
      continue;
    }
    std::string kinds = Cat(first.value.KindName(), " or ", second.value.KindName());
    if (MergeSlot(first, second, yes, no, strictly)) {
      if (const RuntimeList* a = first.value.runtime_list(), *b = second.value.runtime_list(); a && b) {
        RuntimeList both = *a;
        both.item = Union(a->item, b->item);
        first.value = MakeRuntimeList(*this, std::move(both));
      }
      shared.Add(first.value, second.value);
      merged.emplace_back(first, yes.outputs.size());
      yes.outputs.insert(yes.outputs.end(), first.leaves.begin(), first.leaves.end());
      no.outputs.insert(no.outputs.end(), second.leaves.begin(), second.leaves.end());
    } else if (slot.is_variable() && (first.value.is<Missing>() || second.value.is<Missing>())) {
      equal.emplace_back(slot, Missing{"is set in one branch only of an If that is decided while the model runs"});
    } else if (slot.is_variable() && !strictly) {
      equal.emplace_back(
          slot, Missing{Cat("is ", kinds, ", which is only decided while the model runs; ONNX needs one of them")});
    } else {
      return false;
    }
  }
  std::vector<Type> types;
  for (size_t i = 0; i < yes.outputs.size(); ++i) types.push_back(Union(yes.outputs[i].type(), no.outputs[i].type()));
  Operands results;
  if (!types.empty()) {
    std::vector<std::pair<std::string, std::shared_ptr<PendingGraph>>> bodies;
    bodies.emplace_back("then_branch", CloseBody(yes.builder, yes.outputs));
    bodies.emplace_back("else_branch", CloseBody(no.builder, no.outputs));
    results = builder().EmitControl("If", {decides}, {}, std::move(bodies), types);
  }
  for (size_t i = 0; i < results.size(); ++i)
    if (yes.outputs[i].is_complex()) results[i] = results[i].AsComplex();
  for (const auto& [slot, value] : equal) Put(slot, value);
  // Tensors that are written to come first: what may look at them does so after that.
  for (bool cells : {true, false})
    for (size_t i = 0; i < merged.size(); ++i) {
      auto& [change, begin] = merged[i];
      if (cells != (change.slot.cell != nullptr)) continue;
      ScriptValue value = Rebuild(*this, change.value, results, begin);
      if (!cells) MayShare(value, shared.Of(i));
      Put(change.slot, value);
    }
  return true;
}

}  // namespace ferry::torch::script
