// What Loop and Scan have in common: values carried from one run of the body to the next, and outputs stacked up.
#pragma once

#include <functional>
#include <vector>

#include "ops/context.h"
#include "ops/infer_context.h"

namespace ferry {

// Before turn `turn` of a body: throws kLimit when this loop, or all of a run together, make more than are allowed.
void CountIteration(const OpContext& context, int64_t turn);

// The outputs of one body output over all iterations. They must not change type or shape.
class StackedOutput {
 public:
  void Add(Value value);
  bool empty() const { return parts_.empty(); }
  // Writes output i along `axis`; `reversed` puts the last one first. There must be at least one.
  void Write(OpContext& context, size_t i, int64_t axis, bool reversed) const;

 private:
  std::vector<Tensor> parts_;
};

// Output i when the body never ran: no elements along `axis`, the other sizes from what is known of the body's output
// `body_output` for the given inputs, 0 where nothing is.
void WriteEmptyStack(OpContext& context, size_t i, int64_t axis, std::span<const Value> body_inputs,
                     size_t body_output);

// Types of carried values that stay true however often the body runs. `infer` gives the facts of the body's outputs for
// given carried types; the carried ones are its outputs from `first` on. Returns the facts of the last inference.
std::vector<ValueFacts> SettleCarriedTypes(
    std::vector<Type>& carried, size_t first,
    const std::function<std::vector<ValueFacts>(const std::vector<Type>&)>& infer);

}  // namespace ferry
