// Loops whose number of rounds only the running model knows: Loop.
#include "torch/lower/ops/loops.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "torch/script/body_scope.h"
#include "torch/script/builtins.h"
#include "torch/script/forms.h"

namespace ferry::torch::script {
namespace {

constexpr int kMostTries = 16;         // until it is known what goes around a loop, and in which types
constexpr int kSequencesCarried = 13;  // the first opset whose If and Loop take sequences

}  // namespace

// A place that goes around the loop.
struct Interpreter::Carried {
  enum class Form {
    kPlain,     // its tensors and numbers
    kSequence,  // a list that grows: an ONNX sequence
    kScan,      // a list that grows by an item in every round and is not looked at: a scan output
  };
  Slot slot;
  ScriptValue before;
  ScriptValue after;  // as it was first seen after a round
  Form form = Form::kPlain;
  bool is_started = false;
  Operands starts;
  std::vector<Type> types;
  RuntimeList list;           // of kSequence and kScan: what the items are
  std::vector<Roots> shares;  // what its tensors may look at, from outside
  std::vector<Roots> ends;    // what they look at after a round
};

// Follows the body until it is known what it changes, then makes the node.
class Interpreter::LoopBuilder {
 public:
  LoopBuilder(Interpreter& in, const Statement& statement, const Scalar* count)
      : in_(in), statement_(statement), count_(count), outer_(in.builder()) {}

  void Run() {
    in_.RefreshVariables();
    Operand goes_on = count_ ? Operand() : outer_.Of(TruthOf(in_, in_.Evaluate(*statement_.value)), DType::kBool);
    for (int tries = 0; tries < kMostTries; ++tries) {
      for (Carried& carried : carried_)
        if (!carried.is_started) Start(carried);
      Builder inner(outer_.opset(), &outer_);
      Operands outputs, scanned;
      if (!Follow(inner, outputs, scanned)) continue;
      Emit(goes_on, inner, outputs, scanned);
      return;
    }
    Fail(ErrorCode::kUnsupported, "what goes around a loop changes its type or form with every round");
  }

 private:
  using Form = Carried::Form;

  // What goes into the first round; made outside the body.
  void Start(Carried& carried) {
    carried.is_started = true;
    carried.shares.assign(1, {});
    if (carried.form == Form::kScan) return;
    if (carried.form == Form::kSequence) {
      if (outer_.opset() < kSequencesCarried)
        Fail(ErrorCode::kUnsupported, "a list that grows in a loop needs opset ", kSequencesCarried);
      std::optional<RuntimeList> list = AsRuntimeList(in_, carried.before, &carried.list);
      if (!list) RefuseGrowth(carried.before);
      list->sequence = SequenceOf(in_, *list);
      list->stacked = Operand();
      list->item = carried.list.item;
      carried.before = MakeRuntimeList(in_, *list);
      carried.shares = RootsOf(carried.before);
      carried.starts = {list->sequence};
      carried.types = {Type::SequenceOf(Type::Tensor(list->item.dtype))};
      return;
    }
    // What is first set inside the loop and used after it is anything of that form before the first round.
    if (carried.before.is<Missing>())
      if (std::optional<ScriptValue> filler = Placeholder(in_, carried.after)) carried.before = *filler;
    carried.starts = LeavesOf(in_, carried.before);
    carried.shares = RootsOf(carried.before);
    for (const Operand& start : carried.starts) carried.types.push_back(start.type());
  }

  // False when it must be followed once more: more is carried, or in other types.
  bool Follow(Builder& inner, Operands& outputs, Operands& scanned) {
    int64_t names_before = outer_.made_up_names();
    Operand round = inner.AddInput("", Type::Tensor(DType::kInt64, SymbolicShape{}));
    Operand condition = inner.AddInput("", Type::Tensor(DType::kBool, SymbolicShape{}));
    BodyScope scope(in_, inner);
    try {
      std::vector<ScriptValue> inside;
      for (const Carried& carried : carried_) inside.push_back(Inside(inner, carried));
      PutAll(inside);
      if (count_) in_.Assign(*statement_.targets[0], Scalar(Scalar::Kind::kInt, round));
      if (in_.Execute(statement_.body) != Flow::kNext)
        Fail(ErrorCode::kUnsupported, "a loop that is only decided while the model runs is left early");
      outputs.push_back(count_ ? inner.Emit("Identity", {condition})
                               : inner.Of(TruthOf(in_, in_.Evaluate(*statement_.value)), DType::kBool));
    } catch (const ListIsRead& read) {
      if (!BecomesSequence(read)) throw;
      return false;
    }
    if (FindMore(scope)) return false;
    bool stable = true;
    for (Carried& carried : carried_) stable = Leave(carried, names_before, outputs, scanned) && stable;
    return NoteShares() && stable;
  }

  // Notes tensors that are looked at around the loop; false when there are more than were known.
  bool NoteShares() {
    std::map<std::shared_ptr<Cell>, std::vector<Roots*>> inner;
    bool found = false;
    for (Carried& carried : carried_)
      for (size_t i = 0; !carried.slot.cell && i < carried.ends.size() && i < carried.shares.size(); ++i)
        for (const auto& root : carried.ends[i]) {
          Roots& known = carried.shares[i];
          if (root->level >= in_.level()) {
            inner[root].push_back(&known);
          } else if (std::find(known.begin(), known.end(), root) == known.end()) {
            known.push_back(root);
            found = true;
          }
        }
    // Two that are one tensor after a round get something in common that stands for it.
    for (const auto& [root, users] : inner)
      for (size_t i = 1; i < users.size(); ++i) {
        Roots &one = *users[0], &other = *users[i];
        bool known =
            &one == &other || std::find_first_of(one.begin(), one.end(), other.begin(), other.end()) != one.end();
        if (known) continue;
        auto common = std::make_shared<Cell>(Operand());
        one.push_back(common);
        other.push_back(common);
        found = true;
      }
    return !found;
  }

  // What is there when a round begins.
  ScriptValue Inside(Builder& inner, const Carried& carried) {
    if (carried.form == Form::kScan) {
      RuntimeList list = carried.list;
      list.collected = std::make_shared<RuntimeList::Collected>();
      list.collected->level = in_.level();
      return MakeRuntimeList(in_, std::move(list));
    }
    Operands inside;
    for (size_t i = 0; i < carried.starts.size(); ++i) {
      Operand input = inner.AddInput("", carried.types[i]);
      inside.push_back(carried.starts[i].is_complex() ? input.AsComplex() : input);
    }
    size_t next = 0;
    return Rebuild(in_, carried.before, inside, next);
  }

  // Tensors that are written to come first: what may look at them does so after that.
  void PutAll(const std::vector<ScriptValue>& values) {
    for (bool cells : {true, false})
      for (size_t i = 0; i < carried_.size(); ++i) {
        const Carried& carried = carried_[i];
        if (cells != (carried.slot.cell != nullptr)) continue;
        if (!cells) MayShare(values[i], carried.shares);
        in_.Put(carried.slot, values[i]);
      }
  }

  bool FindMore(BodyScope& scope) {
    bool found = false;
    for (const Change& change : scope.Changes()) {
      bool is_known = std::any_of(carried_.begin(), carried_.end(),
                                  [&](const Carried& carried) { return carried.slot == change.slot; });
      bool is_target = count_ && change.slot.is_variable() && change.slot.name == statement_.targets[0]->text;
      std::optional<ScriptValue> before = scope.Before(change.slot);
      if (is_known || is_target || !before || change.value.is<Missing>()) continue;
      found = true;
      carried_.push_back({.slot = change.slot, .before = *before, .after = change.value});
      if (before->is<ScriptValue::List>() && !SameForm(*before, change.value)) Grow(carried_.back(), change.value);
    }
    return found;
  }

  [[noreturn]] static void RefuseGrowth(const ScriptValue& list) {
    const std::vector<ScriptValue>* items = list.runtime_list() ? nullptr : list.items();
    Fail(ErrorCode::kUnsupported,
         "a list grows in a loop whose number of rounds is only known while the model runs, and holds ",
         items && !items->empty() ? items->front().KindName() : "different things",
         ": only tensors of one type, or numbers, can be added to it. Write to a tensor of the largest length instead, "
         "fix the length, or trace the program");
  }

  void Grow(Carried& carried, const ScriptValue& after) {
    std::optional<RuntimeList> list;
    if (const RuntimeList* runtime = after.runtime_list())
      list = *runtime;
    else if (after.items() && !after.items()->empty())
      list = DescribeItems(in_, *after.items());
    if (!list) RefuseGrowth(after);
    bool was_empty = !carried.before.runtime_list() && carried.before.items()->empty();
    carried.list = {.item = list->item, .number = list->number};
    carried.form = was_empty && !carried.slot.is_variable() ? Form::kScan : Form::kSequence;
    carried.is_started = false;
  }

  bool BecomesSequence(const ListIsRead& read) {
    for (Carried& carried : carried_) {
      if (carried.form != Form::kScan || carried.slot.holder.runtime_list() != read.list) continue;
      carried.form = Form::kSequence;
      carried.is_started = false;
      return true;
    }
    return false;
  }

  // Notes what comes out of a round; false when it does not fit what went in.
  bool Leave(Carried& carried, int64_t names_before, Operands& outputs, Operands& scanned) {
    Change change = in_.ChangeOf(carried.slot);
    carried.ends = RootsOf(change.value);
    if (carried.form != Form::kPlain) RefuseWrittenItems(carried);
    switch (carried.form) {
      case Form::kScan: return LeaveScan(carried, change.value, names_before, scanned);
      case Form::kSequence: return LeaveSequence(carried, change.value, outputs);
      case Form::kPlain: break;
    }
    if (!SameForm(carried.before, change.value)) {
      bool lists = carried.before.is<ScriptValue::List>() && change.value.is<ScriptValue::List>();
      if (!lists)
        Fail(ErrorCode::kUnsupported, "'", Printable(carried.slot.name), "' is ", carried.before.KindName(),
             " of another form after a loop that is only decided while the model runs");
      Grow(carried, change.value);
      return false;
    }
    bool stable = true;
    for (size_t i = 0; i < carried.types.size(); ++i) {
      const Operand& leaf = change.leaves.at(i);
      Type& type = carried.types[i];
      if (type.dtype != leaf.type().dtype || carried.starts[i].is_complex() != leaf.is_complex())
        Fail(ErrorCode::kUnsupported, "a tensor changes its element type in a loop");
      Type both = Union(type, leaf.type());
      stable = stable && ToText(both) == ToText(type);
      type = both;
      outputs.push_back(leaf);
    }
    return stable;
  }

  // Items that every round writes to are one tensor in all rounds.
  void RefuseWrittenItems(const Carried& list) {
    for (const Roots& roots : list.ends)
      for (const auto& root : roots)
        for (const Carried& carried : carried_)
          if (carried.slot.cell == root) Cell::RefuseDoubt();
  }

  // Items of a scan output have one shape in all rounds.
  bool LeaveScan(Carried& carried, const ScriptValue& value, int64_t names_before, Operands& scanned) {
    const RuntimeList* list = value.runtime_list();
    const std::vector<ScriptValue>* items = list && list->collected ? &list->collected->items : nullptr;
    std::optional<RuntimeList> described = items && items->size() == 1 ? DescribeItems(in_, *items) : std::nullopt;
    bool fits = described && described->number == carried.list.number &&
                described->item.dtype == carried.list.item.dtype && described->item.has_rank();
    for (size_t axis = 0; fits && axis < described->item.shape->size(); ++axis)
      fits = Emitter::IsOlder((*described->item.shape)[axis], names_before);
    if (!fits) {
      carried.form = Form::kSequence;
      carried.is_started = false;
      return false;
    }
    carried.list.item = described->item;
    scanned.push_back(CarriedOperand(in_, items->front()));
    return true;
  }

  bool LeaveSequence(Carried& carried, const ScriptValue& value, Operands& outputs) {
    std::optional<RuntimeList> list =
        value.is<ScriptValue::List>() ? AsRuntimeList(in_, value, &carried.list) : std::nullopt;
    if (!list || list->number != carried.list.number || list->item.dtype != carried.list.item.dtype)
      RefuseGrowth(value);
    outputs.push_back(SequenceOf(in_, *list));
    Type both = Union(carried.list.item, list->item);
    bool stable = ToText(both) == ToText(carried.list.item);
    if (!stable) carried.is_started = false;
    carried.list.item = both;
    return stable;
  }

  void Emit(const Operand& goes_on, Builder& inner, Operands& outputs, const Operands& scanned) {
    Operands inputs = {count_ ? outer_.Of(*count_, DType::kInt64) : Operand(), goes_on}, pattern;
    std::vector<Type> types;
    for (const Carried& carried : carried_)
      for (size_t i = 0; i < carried.starts.size(); ++i) {
        if (carried.form == Form::kScan) continue;
        inputs.push_back(carried.starts[i].AsPairs());
        pattern.push_back(carried.starts[i]);
        types.push_back(carried.types[i]);
      }
    for (const Operand& item : scanned) {
      types.push_back(item.type());
      types.back().shape->insert(types.back().shape->begin(), count_ ? count_->AsDim() : Dim());
    }
    outputs.insert(outputs.end(), scanned.begin(), scanned.end());
    Operands results = outer_.EmitControl("Loop", inputs, {}, {{"body", CloseBody(inner, outputs)}}, types);
    for (size_t i = 0; i < pattern.size(); ++i)
      if (pattern[i].is_complex()) results[i] = results[i].AsComplex();
    size_t next = 0, next_scanned = pattern.size();
    std::vector<ScriptValue> made;
    for (const Carried& carried : carried_) {
      if (carried.form != Form::kScan) {
        made.push_back(Rebuild(in_, carried.before, results, next));
        continue;
      }
      RuntimeList list = carried.list;
      list.stacked = results.at(next_scanned++);
      made.push_back(MakeRuntimeList(in_, std::move(list)));
    }
    PutAll(made);
  }

  Interpreter& in_;
  const Statement& statement_;
  const Scalar* count_;
  Builder& outer_;
  std::vector<Carried> carried_;
};

void Interpreter::LoopInGraph(const Statement& statement, const Scalar* count) {
  LoopBuilder(*this, statement, count).Run();
}

}  // namespace ferry::torch::script
