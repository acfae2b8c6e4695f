// From a model as it was read to a graph that can be run for any shapes: newest operators, no functions, plain weights.
#pragma once

#include "graph/model.h"

namespace ferry {

// Where the elements of weights may begin: where they can be read, or, if only operators read them that pack them or
// copy them first, at any byte of their file.
enum class Weights { kReadable, kAsTheyLie };

// While one lives, models of this thread may hold operators of Ferry's internal domain: for tests that try kernels by
// themselves. Files may not: nothing checks what passes are sure of.
class InternalOperators {
 public:
  InternalOperators() { ++depth_; }
  ~InternalOperators() { --depth_; }
  InternalOperators(const InternalOperators&) = delete;
  InternalOperators& operator=(const InternalOperators&) = delete;
  static bool Allowed() { return depth_ > 0; }

 private:
  static constinit thread_local int depth_;
};

// The result shares the model's weights where they are aligned or may stay as they lie; others are copied once, by as
// many threads (0: one for each core).
Graph PrepareGraph(const Model& model, int threads = 0, Weights weights = Weights::kReadable);

}  // namespace ferry
