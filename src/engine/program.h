// What runs on the host: a plan with its kernels, for one set of input shapes.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/make_plan.h"
#include "graph/model.h"

namespace ferry {

class Profile;
class Program;

// Where the caller wants a result: memory for a tensor of this type and shape, or an undefined tensor for "anywhere".
// Asked again when the result turns out to have another shape.
using PlaceResult = std::function<Tensor(size_t result, DType dtype, const Shape& shape)>;

// Told of every value as soon as a step has made it; the value is good during the call only. Values that are an input
// under another shape pass by unseen, and so do those between layers that take a batch in parts.
using WatchValue = std::function<void(const std::string& name, const Value& value)>;

// What a caller may ask of one run beside its results.
struct RunExtras {
  Profile* profile = nullptr;
  const PlaceResult* place = nullptr;
  const WatchValue* watch = nullptr;
  std::span<const Tensor> homes = {};  // see RunOptions
};

// The memory of one run in flight: values bound to their places. Made once, used again by later runs.
struct Frame {
  struct Arena {
    std::shared_ptr<Buffer> memory;  // owns it
    std::shared_ptr<Buffer> view;    // the same memory as tensors see it: not to be kept beyond the run
  };
  std::vector<Value> values;                      // one per slot
  std::vector<Arena> arenas;                      // one per arena of the plan
  std::vector<std::vector<const Value*>> inputs;  // per step, pointing into `values`
  std::vector<std::vector<Value*>> outputs;
  struct Recorded {
    std::optional<std::vector<const std::byte*>> addresses;  // of the run before
    std::unique_ptr<RecordedWork> recording;
    bool is_refused = false;
  };
  std::vector<Recorded> recorded;              // one per segment of the program
  std::vector<std::shared_ptr<Buffer>> given;  // large results of the run before, each the caller's until it lets go
  std::vector<Tensor> homes;                   // per result: where the caller has what a copy would bring there
  bool reusable = true;                        // false once a value had to leave the place planned for it
};

class Program {
 public:
  // The kernels are those of the plan's steps.
  Program(std::shared_ptr<const Plan> plan, std::vector<StepKernels> kernels);
  ~Program();
  // Inputs by position, those captured from outside last; results in the order they were asked for.
  std::vector<Value> Run(std::span<const Value> inputs, const RunServices& services,
                         const RunExtras& extras = {}) const;

  // Holds the graph whose nodes the steps speak of, where nobody else does.
  void Keep(std::shared_ptr<const Graph> graph) { graph_ = std::move(graph); }

  const Plan& plan() const { return *plan_; }

 private:
  // What a step needs beside its plan.
  struct Runner {
    std::unique_ptr<Kernel> kernel;
    std::vector<std::unique_ptr<Program>> bodies;
    std::unique_ptr<Program> chain;
    std::unique_ptr<KernelState> state = std::make_unique<KernelState>();
  };

  // Steps that a provider can record: one call starts them all.
  struct Segment {
    size_t first, last;  // the step after its last one
    const Provider* provider;
    std::vector<int> outer;  // slots it reads that may lie elsewhere at each run
  };

  void FindSegments();
  bool IsRecordable(const StepPlan& step) const;
  bool Replays(size_t segment, Frame& frame, const RunServices& services, const RunExtras& extras) const;
  std::unique_ptr<Frame> MakeFrame() const;
  std::unique_ptr<Frame> TakeFrame() const;
  std::unique_ptr<Frame> TakeIdleFrame() const;  // null: there is none
  void GiveBack(std::unique_ptr<Frame> frame) const;
  void BindInputs(Frame& frame, std::span<const Value> inputs) const;
  // Gives the tensors that the caller placed, one per result; none when nothing is placed.
  std::vector<Tensor> BindResults(Frame& frame, std::span<const Value> inputs, const RunExtras& extras) const;
  void RunStep(size_t index, Frame& frame, const RunServices& services, const RunExtras& extras) const;
  void RunChain(size_t index, Frame& frame, const RunServices& services, Profile* profile) const;
  void Show(const StepPlan& step, const Frame& frame, const RunExtras& extras) const;
  void KeepInPlace(const StepPlan& step, Frame& frame) const;
  // Lets the step whose value would be copied to a place of the caller's write there, where both are one memory.
  void BindSource(size_t result, const Tensor& placed, Frame& frame) const;
  Tensor PlaceOf(int slot, const Frame& frame) const;  // of a value in an arena, or where the caller wants it
  std::vector<Value> CollectResults(Frame& frame, std::vector<Tensor> placed, const PlaceResult* place) const;

  std::shared_ptr<const Graph> graph_;
  const std::shared_ptr<const Plan> plan_;
  std::vector<Runner> runners_;          // one per step
  const std::vector<int> cache_inputs_;  // per result: see SharedCacheInputs
  std::vector<Segment> segments_;
  std::vector<bool> copied_results_;   // those that come from another memory: they may go to any
  std::vector<int> sources_;           // per result: the slot that is copied there and has its memory alone; -1: none
  std::vector<int> result_of_source_;  // per slot: which result; -1: none

  mutable std::atomic<Frame*> spare_frame_{nullptr};  // of runs one after the other, which need no lock this way
  mutable std::mutex frames_mutex_;
  mutable std::vector<std::unique_ptr<Frame>> idle_frames_;
};

// Plans and makes ready; see MakePlan.
std::unique_ptr<Program> BuildProgram(const PlanRequest& request);

}  // namespace ferry
