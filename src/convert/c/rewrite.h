// The rewrites that suit C: shapes are known, so everything that follows from them is decided here.
#pragma once

#include "convert/c/io_scales.h"
#include "graph/model.h"
#include "ops/infer_graph.h"

namespace ferry::c {

struct RewrittenGraph {
  Graph graph;
  GraphFacts facts;
  std::map<std::string, IoScale> scales;  // of inputs and outputs
};

RewrittenGraph RewriteForC(const Model& model, const FactsByName& inputs);

}  // namespace ferry::c
