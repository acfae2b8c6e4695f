// Compiles the C of a network with the host's compiler, runs it, and holds it against the engine.
#pragma once

#include <string>
#include <vector>

#include "convert/c/build_c.h"
#include "measure/difference.h"

namespace ferry::cli {

struct CompiledRun {
  std::vector<Tensor> outputs;
  double median_us = 0;      // of one run; 0 unless asked for
  std::string compiler_log;  // what it had to say; empty when it compiled
};

// The compiler is CompilerWords(). `inputs` are in the order of the call, those that are fixed among them.
CompiledRun CompileAndRun(const CBuild& built, const std::string& folder, const std::vector<Tensor>& inputs,
                          double seconds, const std::vector<std::string>& flags);

// The text of NAME_test.c: main() runs the network on these inputs and returns 0 where it answers `expected`. It asks
// for nothing but the network, so that it runs on any board.
std::string TestText(const CBuild& built, const std::vector<Tensor>& inputs, const std::vector<Tensor>& expected);

// The largest element counts: near zero, rounding alone is no difference.
Difference CompareOutput(const Tensor& actual, const Tensor& expected);

}  // namespace ferry::cli
