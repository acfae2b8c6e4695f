// What must change in a model so that a batch size written into it can be any other.
//
// The graph is inferred at the size that is baked in and, node by node, at another one. Where the second inference
// fails or gives a shape that does not grow with the batch, the node holds the batch size in a constant, and the plan
// says what to put there instead; or the network takes samples together, and the plan says where.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/model.h"
#include "onnx/checker/checker.h"
#include "ops/infer_graph.h"

namespace ferry {

// One input of one node that gets something else to read.
struct BatchEdit {
  enum class Kind : uint8_t {
    kConstant,  // another constant
    kSizes,     // a list of sizes, one of which is `factor` times the batch
    kExpanded,  // a constant, repeated along `axis` as often as there are samples
  };
  Kind kind = Kind::kConstant;
  std::string output;  // names the node: its first output
  size_t input = 0;
  Tensor constant;             // kConstant, kExpanded
  std::vector<int64_t> sizes;  // kSizes, kExpanded; the entry at `axis` is the batch's
  size_t axis = 0;
  int64_t factor = 1;
  Place place;
  std::string what;  // "holds the batch size 2 in its shape [2, 8, 64]"
};

// Where the batch is in a value: axis `axis` counts (outer, batch, inner), batch being the middle one.
struct BatchPosition {
  size_t axis = 0;
  int64_t outer = 1;
};

struct BatchPlan {
  int64_t batch = 0;
  std::vector<BatchEdit> edits;
  std::unordered_map<std::string, BatchPosition> positions;  // of every value that has samples in it
  std::unordered_map<std::string, Type> types;               // of every value when the batch is a name (kBatchName)
  std::string refusal;                                       // why the batch cannot be set free; empty when it can
  Place refused_at;

  static constexpr const char* kBatchName = "*batch*";  // stands for the name that is chosen later
};

// `graph` has newest operators and no functions; `inputs` are those whose first dimension is the batch.
BatchPlan PlanFreeBatch(const Graph& graph, const std::vector<std::string>& inputs, int64_t batch);

// The plan for a model whose inputs all begin with the same fixed dimension, or share a named one while a constant
// inside holds a size. None when nothing is baked in.
std::optional<BatchPlan> FindBakedBatch(const Graph& graph);

// Inputs that a run must be given and that have at least one dimension.
std::vector<std::string> BatchInputs(const Graph& graph);

}  // namespace ferry
