// Values that can be made inside the result of the Concat that reads them, so that it has nothing to copy.
#pragma once

#include <vector>

#include "engine/program.h"
#include "ops/infer_graph.h"

namespace ferry {

struct PartPlace {
  int whole = -1;      // the slot whose memory it lies in; -1: its own
  size_t shift = 0;    // bytes from there
  int64_t stride = 0;  // elements from row to row where others lie between them; 0: none do

  bool operator==(const PartPlace&) const = default;
};

// One place per slot that is no view; `viewed` names the slot that each is a view of, itself where it is none. Kernels
// are told of rows that will lie apart.
std::vector<PartPlace> PlaceConcats(const std::vector<Step>& steps, const std::vector<Slot>& slots,
                                    const std::vector<int>& viewed, const OuterFacts& facts);

}  // namespace ferry
