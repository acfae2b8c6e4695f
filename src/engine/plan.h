// What is decided about a program before it runs, as plain data: where every value lives, which steps are taken, and
// who takes them in which way. A runner on the host, a runner on a GPU and a generator of C can each work from it.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/model.h"
#include "ops/support/strided_rows.h"
#include "ops/traits.h"
#include "tensor/memory_space.h"
#include "tensor/tensor.h"

namespace ferry {

class Provider;
struct Plan;

// How a provider means to run one node.
struct KernelPlan {
  std::string name = "portable";  // the algorithm in the field's words: "winograd 4x4", "packed gemm"
  uint32_t reads_anywhere = 0;    // constant inputs whose elements may begin at any byte (bit per input)
  uint32_t packs = 0;           // constant inputs that it reads in packed form alone, once there is one (bit per input)
  uint32_t reads_strided = 0;   // inputs whose rows may lie apart (bit per input)
  bool writes_strided = false;  // whether the rows of output 0 may lie apart
  uint32_t reads_on_host = 0;   // inputs that it reads on the host, wherever its own memory is (bit per input)
  bool is_recordable = false;   // what it asks of its device depends on shapes, addresses and host inputs alone
};

// Where a value lives while a program runs.
struct Slot {
  enum class Place : uint8_t {
    kConstant,  // a weight or a folded value: bound when the frame is made
    kInput,     // given by the caller or captured from outside: bound at each run
    kArena,     // at a fixed offset of its space's arena
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
  MemorySpace* space = &HostMemory();
  size_t arena = 0;       // kArena: which of the plan's arenas
  bool is_alone = false;  // kArena: no other value is another name for its memory
};

struct BodyPlan {
  std::shared_ptr<const Plan> plan;
  std::vector<int> captured_slots;  // of the outer plan, in the order of the body's captured inputs
};

struct StepPlan {
  const Node* node = nullptr;
  const Provider* provider = nullptr;  // who runs it
  KernelPlan kernel;
  std::vector<int> inputs;             // slots; -1 for an omitted input
  std::vector<int> outputs;            // slots; -1 for an output nobody wants
  std::vector<int> release;            // dynamic slots nobody reads after this step
  std::vector<BodyPlan> bodies;        // in the order of the node's graph attributes
  MemorySpace* space = &HostMemory();  // of what it makes
  RowLayout rows;                      // where rows of its inputs and its output lie apart
  bool is_view = false;
  bool is_copy = false;               // from one memory space to another
  std::shared_ptr<const Plan> chain;  // runs in the kernel's place, for some images of the batch at a time
  int64_t chain_images = 0;
};

struct ArenaPlan {
  MemorySpace* space = nullptr;
  size_t bytes = 0;
};

struct Plan {
  Plan() = default;
  Plan(const Plan&) = delete;  // steps point at its copies
  Plan& operator=(const Plan&) = delete;

  std::vector<Slot> slots;
  std::vector<StepPlan> steps;
  std::vector<int> inputs;         // slots
  std::vector<int> results;        // slots
  std::vector<int> per_run_slots;  // emptied when a run ends: inputs, results, dynamic ones
  std::vector<ArenaPlan> arenas;   // at most one for each memory space
  std::deque<Node> copies;         // the nodes of copy steps: no graph has them

  size_t ArenaBytes() const;  // of all spaces together
};

}  // namespace ferry
