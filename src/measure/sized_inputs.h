// A model's inputs with sizes for their named dimensions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ops/infer_graph.h"

namespace ferry {

struct SizedInputs {
  std::vector<ValueInfo> infos;               // without those that an initializer gives
  std::map<std::string, int64_t> dimensions;  // every named dimension and the size taken for it
  FactsByName facts;                          // with these sizes
};

// Dimensions that are not given have size 1. Throws for a name that no input has.
SizedInputs SizeInputs(const Model& model, const std::map<std::string, int64_t>& dimensions);

}  // namespace ferry
