// Model to Program: which nodes run, in which kernel, and where every value lives.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/program.h"
#include "ops/infer_graph.h"

namespace ferry {

struct ProgramRequest {
  const Graph& graph;
  const GraphFacts& facts;           // of this graph, for the shapes the program is made for
  std::vector<std::string> inputs;   // names bound at each run, in order
  std::vector<std::string> results;  // names that leave the program, in order; any value of the graph
  const Provider& provider;
  WeightCache& weights;
  KernelPolicy policy = {};
};

// The graph must outlive the program.
std::unique_ptr<Program> BuildProgram(const ProgramRequest& request);

}  // namespace ferry
