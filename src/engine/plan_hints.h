// What a provider may ask of the plan beyond kernels: batches taken in parts, and values made inside others.
#pragma once

#include <string>
#include <vector>

#include "ops/infer_graph.h"

namespace ferry {

// A run of nodes that treat every image of a batch by itself, taken through for some images at a time.
struct ImageChain {
  size_t first, last;                // nodes [first, last)
  int64_t images;                    // taken at a time; they divide the batch
  std::vector<std::string> inputs;   // values made before that differ from image to image
  std::vector<std::string> outputs;  // values read afterwards
  FactsByName facts;                 // of these values and those between, for so many images
};

// Where a value lies inside the memory of another.
struct PartPlace {
  int whole = -1;      // the slot whose memory it lies in; -1: its own
  size_t shift = 0;    // bytes from there
  int64_t stride = 0;  // elements from row to row where others lie between them; 0: none do

  bool operator==(const PartPlace&) const = default;
};

}  // namespace ferry
