// Bodies of If, Loop and Scan, and the loops that rules write themselves.
#pragma once

#include <functional>
#include <memory>

#include "torch/lower/builder.h"

namespace ferry::torch {

// Closes a body. Its outputs must be made inside it, each of its own.
std::shared_ptr<PendingGraph> CloseBody(Builder& inner, const Operands& outputs);
// A new input of a body, like a value outside it (or like one row of it) but for what is known of its contents.
Operand AddBodyInput(Builder& inner, const Operand& like, bool one_row = false);

// The values of the next iteration; they have the types and shapes of those before.
using NextValues = std::function<Operands(Builder&, const Operand& iteration, const Operands& carried)>;
using GoesOn = std::function<Operand(Builder&, const Operands& carried)>;

Operands Repeat(Builder& b, const Operand& count, const Operands& carried, const NextValues& next);
Operands RepeatWhile(Builder& b, const Operands& carried, const GoesOn& goes_on, const NextValues& next);

// Along the first axis of `rows`: `step` is given the states and one row of each, and gives the new states and rows of
// results, which come back stacked behind the last states.
using ScanStep = std::function<Operands(Builder&, const Operands& states, const Operands& rows)>;
Operands ScanAlong(Builder& b, const Operands& states, const Operands& rows, const ScanStep& step);

}  // namespace ferry::torch
