#include "engine/place_values.h"

#include <algorithm>
#include <climits>
#include <utility>

#include "engine/plan_memory.h"

namespace ferry {
namespace {

bool MakesValue(const StepPlan& step) { return !step.outputs.empty() && step.outputs[0] >= 0; }

class ValuePlacer {
 public:
  ValuePlacer(PlannedProgram& program, std::vector<const Operator*> operators, const Compiler& hints,
              const OuterFacts& facts)
      : program_(program),
        plan_(*program.plan),
        operators_(std::move(operators)),
        hints_(hints),
        facts_(facts),
        root_(plan_.slots.size()),
        shift_(plan_.slots.size()) {}

  void Place() {
    FindLastUses();
    ShareMemory();
    FillArenas();
    ReleaseEarly();
  }

 private:
  Slot& SlotAt(int slot) { return plan_.slots[static_cast<size_t>(slot)]; }
  bool InArena(int slot) { return slot >= 0 && SlotAt(slot).place == Slot::Place::kArena; }

  void FindLastUses() {
    last_use_.assign(plan_.slots.size(), -1);
    auto read = [&](int slot, int step) {
      if (slot >= 0) last_use_[static_cast<size_t>(slot)] = std::max(last_use_[static_cast<size_t>(slot)], step);
    };
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      for (int slot : plan_.steps[i].inputs) read(slot, static_cast<int>(i));
      for (int slot : plan_.steps[i].outputs) read(slot, static_cast<int>(i));
      for (const BodyPlan& body : plan_.steps[i].bodies)
        for (int slot : body.captured_slots) read(slot, static_cast<int>(i));
    }
    for (int slot : plan_.results) read(slot, INT_MAX);
  }

  // Ways are shortened once they are known: a chain of thousands of nodes may share one memory.
  int Root(int slot) {
    int root = slot;
    size_t shift = 0;
    for (; root_[static_cast<size_t>(root)] != root; root = root_[static_cast<size_t>(root)])
      shift += shift_[static_cast<size_t>(root)];
    while (slot != root) {
      const auto i = static_cast<size_t>(slot);
      slot = std::exchange(root_[i], root);
      shift -= std::exchange(shift_[i], shift);
    }
    return root;
  }

  // Bytes from where the root's memory begins.
  size_t ShiftOf(int slot) { return Root(slot) == slot ? 0 : shift_[static_cast<size_t>(slot)]; }

  // Joins values that can be the same memory: views, parts of a Concat with its result, and the output of an in-place
  // kernel with one of its inputs.
  void ShareMemory() {
    std::vector<StepPlan>& steps = plan_.steps;
    group_last_ = last_use_;
    for (size_t i = 0; i < root_.size(); ++i) root_[i] = static_cast<int>(i);
    std::vector<bool> dropped(steps.size());
    for (size_t i = 0; i < steps.size(); ++i)
      if (steps[i].is_view && MakesValue(steps[i])) dropped[i] = ShareView(steps[i]);
    ShareParts();
    for (size_t i = 0; i < steps.size(); ++i)
      if (!steps[i].is_view && MakesValue(steps[i]) && operators_[i] && InArena(steps[i].outputs[0]))
        ShareInPlace(steps[i], *operators_[i], static_cast<int>(i));
    size_t kept = 0;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (dropped[i]) continue;
      step_number_.push_back(static_cast<int>(i));
      if (kept != i) {
        steps[kept] = std::move(steps[i]);
        program_.kernels[kept] = std::move(program_.kernels[i]);
      }
      ++kept;
    }
    steps.resize(kept);
    program_.kernels.resize(kept);
  }

  void Join(int slot, int into) {
    root_[static_cast<size_t>(slot)] = into;
    auto& last = group_last_[static_cast<size_t>(Root(into))];
    last = std::max(last, group_last_[static_cast<size_t>(slot)]);
  }

  void ShareParts() {
    std::vector<int> viewed(root_.size());
    for (size_t i = 0; i < root_.size(); ++i) viewed[i] = Root(static_cast<int>(i));
    const std::vector<PartPlace> places = hints_.PlaceParts(plan_, viewed, facts_);
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i].whole < 0) continue;
      Join(static_cast<int>(i), places[i].whole);
      shift_[i] = places[i].shift;
      plan_.slots[i].row_stride = places[i].stride;
    }
    if (!places.empty()) DescribeRows();
  }

  void DescribeRows() {
    auto apart = [&](int slot) { return slot >= 0 && SlotAt(slot).row_stride != 0; };
    auto rows = [&](int slot) {
      return apart(slot) ? StridedRows{*SlotAt(slot).shape, SlotAt(slot).row_stride} : StridedRows();
    };
    for (StepPlan& step : plan_.steps) {
      const int result = step.outputs.empty() ? -1 : step.outputs[0];
      if (!apart(result) && std::none_of(step.inputs.begin(), step.inputs.end(), apart)) continue;
      step.rows = {{}, rows(result)};
      for (int slot : step.inputs) step.rows.inputs.push_back(rows(slot));
    }
  }

  // True when the step has nothing left to do because its output is bound to the input's place beforehand.
  bool ShareView(const StepPlan& step) {
    const int in = step.inputs.empty() ? -1 : step.inputs[0], out = step.outputs[0];
    if (!InArena(in)) {
      // The output will hold on to whatever the input held; it cannot have a place of its own.
      Slot& slot = SlotAt(out);
      if (slot.place == Slot::Place::kArena) slot.place = Slot::Place::kDynamic;
      if (slot.place == Slot::Place::kResult) slot.shape.reset();
      if (in >= 0) Join(out, in);
      return false;
    }
    Join(out, in);
    if (InArena(out) && step.outputs.size() == 1) return true;
    SlotAt(out).shape.reset();
    return false;
  }

  void ShareInPlace(const StepPlan& step, const Operator& op, int number) {
    const Slot& out = SlotAt(step.outputs[0]);
    if (Root(step.outputs[0]) != step.outputs[0]) return;  // part of a Concat
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const int in = step.inputs[i];
      if (!Includes(op.in_place, i) || !InArena(in)) continue;
      const Slot& from = SlotAt(in);
      if (from.row_stride != 0 || from.space != out.space) continue;
      if (!(*from.shape == *out.shape) || BitWidth(from.dtype) != BitWidth(out.dtype)) continue;
      const int root = Root(in);
      if (group_last_[static_cast<size_t>(root)] != number) continue;
      // The same memory may be read through another value, or through another input that cannot be overwritten.
      bool read_otherwise = false;
      for (size_t j = 0; j < step.inputs.size(); ++j) {
        const int other = step.inputs[j];
        const bool harmless = other == in && Includes(op.in_place, j);
        read_otherwise |= other >= 0 && !harmless && Root(other) == root;
      }
      if (read_otherwise) continue;
      Join(step.outputs[0], in);
      return;
    }
  }

  size_t ArenaOf(MemorySpace* space) {
    for (size_t i = 0; i < plan_.arenas.size(); ++i)
      if (plan_.arenas[i].space == space) return i;
    plan_.arenas.push_back({space, 0});
    return plan_.arenas.size() - 1;
  }

  void FillArenas() {
    for (size_t i = 0; i < plan_.slots.size(); ++i) {
      Slot& slot = plan_.slots[i];
      if (slot.place == Slot::Place::kArena)
        slot.arena = ArenaOf(slot.space);
      else if (slot.place != Slot::Place::kConstant)
        plan_.per_run_slots.push_back(static_cast<int>(i));
    }
    std::vector<int> first(plan_.slots.size(), INT_MAX);  // step that writes there
    for (size_t i = 0; i < plan_.steps.size(); ++i)
      for (int slot : plan_.steps[i].outputs)
        if (int* known = slot < 0 ? nullptr : &first[static_cast<size_t>(Root(slot))])
          *known = std::min(*known, step_number_[i]);
    for (size_t arena = 0; arena < plan_.arenas.size(); ++arena) FillArena(arena, first);
    std::vector<int> sharing(plan_.slots.size(), 0);
    for (size_t i = 0; i < plan_.slots.size(); ++i) ++sharing[static_cast<size_t>(Root(static_cast<int>(i)))];
    for (size_t i = 0; i < plan_.slots.size(); ++i)
      plan_.slots[i].is_alone = sharing[i] == 1 && plan_.slots[i].place == Slot::Place::kArena;
  }

  void FillArena(size_t arena, const std::vector<int>& first) {
    std::vector<Lifetime> lifetimes;
    std::vector<int> planned(plan_.slots.size(), -1);
    auto belongs = [&](const Slot& slot) { return slot.place == Slot::Place::kArena && slot.arena == arena; };
    for (size_t i = 0; i < plan_.slots.size(); ++i) {
      const Slot& slot = plan_.slots[i];
      if (!belongs(slot) || root_[i] != static_cast<int>(i)) continue;
      planned[i] = static_cast<int>(lifetimes.size());
      lifetimes.push_back({StorageBytes(slot.dtype, slot.shape->ElementCount()), first[i], group_last_[i]});
    }
    const MemoryPlan memory = PlanMemory(lifetimes);
    plan_.arenas[arena].bytes = memory.arena_bytes;
    for (size_t i = 0; i < plan_.slots.size(); ++i) {
      if (!belongs(plan_.slots[i])) continue;
      const int index = static_cast<int>(i), lifetime = planned[static_cast<size_t>(Root(index))];
      plan_.slots[i].offset = memory.offsets[static_cast<size_t>(lifetime)] + ShiftOf(index);
    }
  }

  void ReleaseEarly() {
    for (size_t i = 0; i < plan_.slots.size(); ++i) {
      if (plan_.slots[i].place != Slot::Place::kDynamic || last_use_[i] == INT_MAX) continue;
      auto step = std::upper_bound(step_number_.begin(), step_number_.end(), last_use_[i]);
      if (step != step_number_.begin())
        plan_.steps[static_cast<size_t>(step - step_number_.begin()) - 1].release.push_back(static_cast<int>(i));
    }
  }

  PlannedProgram& program_;
  Plan& plan_;
  std::vector<const Operator*> operators_;  // of each step as first added
  const Compiler& hints_;
  const OuterFacts& facts_;
  std::vector<int> step_number_;  // of each kept step, its number before views were dropped
  std::vector<int> root_;         // the slot whose memory a slot shares
  std::vector<size_t> shift_;     // bytes into that memory
  std::vector<int> last_use_, group_last_;
};

}  // namespace

void PlaceValues(PlannedProgram& program, std::vector<const Operator*> operators, const Compiler& hints,
                 const OuterFacts& facts) {
  ValuePlacer(program, std::move(operators), hints, facts).Place();
}

}  // namespace ferry
