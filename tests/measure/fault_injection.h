// Faults as they happen to models on their way: a weight, an epsilon, an axis or an operator of one layer is wrong.
#pragma once

#include <optional>
#include <string>

#include "graph/model.h"
#include "tests/support/random_tensors.h"

namespace ferry::testing {

enum class FaultKind { kWeight, kEpsilon, kAxis, kOperator };
inline constexpr int kFaultKinds = 4;
const char* Name(FaultKind kind);

struct Fault {
  FaultKind kind;
  std::string node;  // the name of the layer
  std::string what;
};

// Changes one random layer; nothing when the graph has no layer that the fault could be put into.
std::optional<Fault> InjectFault(Model& model, FaultKind kind, Random& random);

// Other names for every value and node but the inputs and outputs of the graph, and weights in another order.
void TakeNamesAway(Model& model);

}  // namespace ferry::testing
