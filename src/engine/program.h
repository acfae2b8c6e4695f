// What runs: an immutable list of steps with every value's place decided, made for one set of input shapes.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/provider.h"
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
};

// Where a value lives while a program runs.
struct Slot {
  enum class Place : uint8_t {
    kConstant,  // a weight or a folded value: bound when the frame is made
    kInput,     // given by the caller or captured from outside: bound at each run
    kArena,     // at a fixed offset of the frame's arena
    kResult,    // leaves the program: memory that no result of an earlier run has any more
    kDynamic,   // size known only while running
  };
  std::string name;
  Place place = Place::kDynamic;
  DType dtype = DType::kUndefined;
  std::optional<Shape> shape;  // kArena always; kResult when it is known beforehand
  size_t offset = 0;           // kArena
  int64_t row_stride = 0;      // kArena: elements between rows that are parts of longer ones; 0: they are not
  Tensor constant;             // kConstant
};

struct Body {
  std::unique_ptr<Program> program;
  std::vector<int> captured_slots;  // of the outer program, in the order of the body's captured inputs
};

struct Step {
  const Node* node = nullptr;
  std::unique_ptr<Kernel> kernel;
  std::vector<int> inputs;   // slots; -1 for an omitted input
  std::vector<int> outputs;  // slots; -1 for an output nobody wants
  std::vector<int> release;  // dynamic slots nobody reads after this step
  std::vector<Body> bodies;  // in the order of the node's graph attributes
  bool is_view = false;
  std::unique_ptr<Program> chain;  // runs in the kernel's place, for some images of the batch at a time
  int64_t chain_images = 0;
  std::unique_ptr<KernelState> state = std::make_unique<KernelState>();
};

// The memory of one run in flight: values bound to their places. Made once, used again by later runs.
struct Frame {
  std::vector<Value> values;                      // one per slot
  std::shared_ptr<Buffer> arena;                  // owns the memory
  std::shared_ptr<Buffer> arena_view;             // the same memory as tensors see it: not to be kept beyond the run
  std::vector<std::vector<const Value*>> inputs;  // per step, pointing into `values`
  std::vector<std::vector<Value*>> outputs;
  std::vector<std::shared_ptr<Buffer>> given;  // large results of the run before, each the caller's until it lets go
  bool reusable = true;                        // false once a value had to leave the place planned for it
};

class Program {
 public:
  Program() = default;
  ~Program();
  // Inputs by position, those captured from outside last; results in the order they were asked for.
  std::vector<Value> Run(std::span<const Value> inputs, const RunServices& services,
                         const RunExtras& extras = {}) const;

  // Holds the graph whose nodes the steps speak of, where nobody else does.
  void Keep(std::shared_ptr<const Graph> graph) { graph_ = std::move(graph); }

  size_t arena_bytes() const { return arena_bytes_; }
  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<Slot>& slots() const { return slots_; }

 private:
  friend class ProgramBuilder;

  std::unique_ptr<Frame> MakeFrame() const;
  std::unique_ptr<Frame> TakeFrame() const;
  void GiveBack(std::unique_ptr<Frame> frame) const;
  void BindInputs(Frame& frame, std::span<const Value> inputs) const;
  // Gives the tensors that the caller placed, one per result; none when nothing is placed.
  std::vector<Tensor> BindResults(Frame& frame, std::span<const Value> inputs, const PlaceResult* place) const;
  void RunStep(size_t index, Frame& frame, const RunServices& services, const RunExtras& extras) const;
  void RunChain(size_t index, Frame& frame, const RunServices& services, Profile* profile) const;
  void Show(const Step& step, const Frame& frame, const RunExtras& extras) const;
  void KeepInPlace(const Step& step, Frame& frame) const;
  std::vector<Value> CollectResults(Frame& frame, std::vector<Tensor> placed, const PlaceResult* place) const;

  std::shared_ptr<const Graph> graph_;
  std::vector<Slot> slots_;
  std::vector<Step> steps_;
  std::vector<int> input_slots_;  // -1: nobody reads that input
  std::vector<int> result_slots_;
  std::vector<int> per_run_slots_;  // emptied when a run ends: inputs, results, dynamic ones
  size_t arena_bytes_ = 0;

  mutable std::atomic<Frame*> spare_frame_{nullptr};  // of runs one after the other, which need no lock this way
  mutable std::mutex frames_mutex_;
  mutable std::vector<std::unique_ptr<Frame>> idle_frames_;
};

}  // namespace ferry
