// Graph to Plan: which nodes run, by which provider's kernel, and where every value lives.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/plan.h"
#include "engine/provider.h"
#include "ops/infer_graph.h"

namespace ferry {

struct PlanRequest {
  const Graph& graph;
  const GraphFacts& facts;           // of this graph, for the shapes the plan is made for
  std::vector<std::string> inputs;   // names bound at each run, in order
  std::vector<std::string> results;  // names that leave the program, in order; any value of the graph
  const CompilerList& compilers;
  WeightCache& weights;
  std::vector<MemorySpace*> input_spaces = {};  // where each input lies; empty: all on the host
};

// The kernels of a plan's steps, beside it.
struct StepKernels {
  std::unique_ptr<Kernel> kernel;  // null for a chain
  std::vector<std::vector<StepKernels>> bodies;
  std::vector<StepKernels> chain;
};

struct PlannedProgram {
  std::shared_ptr<Plan> plan;
  std::vector<StepKernels> kernels;  // one per step
};

// The graph must outlive the plan.
PlannedProgram MakePlan(const PlanRequest& request);

}  // namespace ferry
