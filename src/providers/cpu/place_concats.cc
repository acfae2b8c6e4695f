#include "providers/cpu/place_concats.h"

#include <algorithm>

namespace ferry {
namespace {

struct Reader {
  size_t step = 0, input = 0;
};

struct Use {
  int made_by = -1;  // a step whose output 0 it is
  std::vector<Reader> readers;
  bool dense_only = false;  // a body or a view sees it
};

// A Concat whose kernel knows of parts in place.
struct Candidate {
  const StepPlan* step = nullptr;
  int result = -1;
  size_t bytes = 0;
  int64_t width = 0;         // of the result's rows
  bool across = false;       // parts share rows, and there are several rows
  std::vector<size_t> runs;  // bytes of each part that lie one after the other in the result
};

class Placer {
 public:
  Placer(const Plan& plan, const std::vector<int>& viewed, const OuterFacts& facts)
      : steps_(plan.steps),
        slots_(plan.slots),
        viewed_(viewed),
        facts_(facts),
        places_(plan.slots.size()),
        uses_(plan.slots.size()) {}

  std::vector<PartPlace> Place() {
    std::vector<Candidate> concats = FindConcats();
    if (concats.empty()) return {};
    FindUses();
    for (const Candidate& concat : concats)
      if (!JoinNeighbours(concat)) PlaceParts(concat);
    return std::move(places_);
  }

 private:
  const Slot& SlotAt(int slot) const { return slots_[static_cast<size_t>(slot)]; }
  Use& UseOf(int slot) { return uses_[static_cast<size_t>(slot)]; }
  bool InArena(int slot) const {
    return slot >= 0 && SlotAt(slot).place == Slot::Place::kArena && SlotAt(slot).space == &HostMemory();
  }
  size_t BytesOf(int slot) const { return StorageBytes(SlotAt(slot).dtype, SlotAt(slot).shape->ElementCount()); }
  // Where the memory of a slot, or of what it is a view of, lies.
  int Viewed(int slot) const { return viewed_[static_cast<size_t>(slot)]; }
  PartPlace& PlaceOf(int slot) { return places_[static_cast<size_t>(Viewed(slot))]; }

  // The longest first: what others join of the same parts are parts of it. Of the same size the last, which may have an
  // earlier one for its only part.
  std::vector<Candidate> FindConcats() const {
    std::vector<Candidate> found;
    for (const StepPlan& step : steps_) {
      if (step.chain || step.node->op_type != "Concat" || !Includes(step.kernel.reads_strided, 0)) continue;
      const int result = step.outputs[0];
      if (!InArena(result) || BytesOf(result) == 0) continue;
      const Shape& shape = *SlotAt(result).shape;
      const int64_t axis = step.node->Int("axis", 0), rank = static_cast<int64_t>(shape.rank());
      const bool across = (axis < 0 ? axis + rank : axis) + 1 == rank && shape.ElementCount() != shape.back();
      Candidate concat{&step, result, BytesOf(result), shape.back(), across, {}};
      for (int part : step.inputs)
        if (std::optional<Shape> known = part < 0 ? std::nullopt : ShapeOf(part))
          concat.runs.push_back(StorageBytes(SlotAt(result).dtype, across ? known->back() : known->ElementCount()));
      if (concat.runs.size() != step.inputs.size()) continue;
      auto shorter = [&](const Candidate& other) { return other.bytes <= concat.bytes; };
      found.insert(std::find_if(found.begin(), found.end(), shorter), std::move(concat));
    }
    return found;
  }

  std::optional<Shape> ShapeOf(int slot) const {
    const ValueFacts* known = facts_(SlotAt(slot).name);
    return known && known->type.shape && !known->type.shape->empty() ? ToConcrete(*known->type.shape) : std::nullopt;
  }

  void FindUses() {
    for (size_t i = 0; i < steps_.size(); ++i) {
      const StepPlan& step = steps_[i];
      if (!step.outputs.empty() && step.outputs[0] >= 0) UseOf(step.outputs[0]).made_by = static_cast<int>(i);
      for (size_t j = 0; j < step.inputs.size(); ++j)
        if (step.inputs[j] >= 0) UseOf(step.inputs[j]).readers.push_back({i, j});
      for (const BodyPlan& body : step.bodies)
        for (int slot : body.captured_slots) UseOf(slot).dense_only = true;
    }
    for (size_t i = 0; i < slots_.size(); ++i)
      if (viewed_[i] != static_cast<int>(i)) uses_[i].dense_only = UseOf(viewed_[i]).dense_only = true;
  }

  // Whether a value's memory may be part of another's. Rows that lie apart are for kernels that expect them.
  bool MayLie(int slot, int64_t stride) {
    if (!InArena(slot) || PlaceOf(slot).whole >= 0) return false;
    const int memory = Viewed(slot);
    if (stride == 0) return InArena(memory) && BytesOf(memory) == BytesOf(slot);
    const Use& use = UseOf(slot);
    auto knows = [&](const Reader& reader) { return Includes(steps_[reader.step].kernel.reads_strided, reader.input); };
    const KernelPlan* maker = use.made_by < 0 ? nullptr : &steps_[static_cast<size_t>(use.made_by)].kernel;
    return !use.dense_only && maker && maker->writes_strided &&
           std::all_of(use.readers.begin(), use.readers.end(), knows);
  }

  // The parts lie side by side in a longer result already: so does this one.
  bool JoinNeighbours(const Candidate& concat) {
    const PartPlace first = PlaceOf(concat.step->inputs[0]);
    if (first.whole < 0 || (first.stride != 0) != concat.across || !MayLie(concat.result, first.stride)) return false;
    PartPlace next = first;
    for (size_t i = 0; i < concat.runs.size(); ++i) {
      const int part = concat.step->inputs[i];
      if (!InArena(part) || !(PlaceOf(part) == next)) return false;
      next.shift += concat.runs[i];
    }
    PlaceOf(concat.result) = first;
    return true;
  }

  void PlaceParts(const Candidate& concat) {
    PartPlace next = PlaceOf(concat.result);
    if (next.whole < 0) next.whole = concat.result;
    if (concat.across && next.stride == 0) next.stride = concat.width;
    for (size_t i = 0; i < concat.runs.size(); ++i) {
      const int part = concat.step->inputs[i];
      if (MayLie(part, next.stride)) PlaceOf(part) = next;
      next.shift += concat.runs[i];
    }
  }

  const std::vector<StepPlan>& steps_;
  const std::vector<Slot>& slots_;
  const std::vector<int>& viewed_;
  const OuterFacts& facts_;
  std::vector<PartPlace> places_;  // of slots that are no views
  std::vector<Use> uses_;
};

}  // namespace

std::vector<PartPlace> PlaceConcats(const Plan& plan, const std::vector<int>& viewed, const OuterFacts& facts) {
  return Placer(plan, viewed, facts).Place();
}

}  // namespace ferry
