// What a compiler makes of the C of a network.
#pragma once

#include <string>
#include <vector>

#include "convert/c/build_c.h"

namespace ferry::cli {

// $CC, which may have options ("arm-none-eabi-gcc -mcpu=cortex-m4"), or cc.
std::vector<std::string> CompilerWords();

struct CodeSize {
  size_t bytes = 0;  // of functions, without the weights; 0 where there is no compiler or no `size` to ask
  size_t stack = 0;  // the deepest chain of calls, without those of the C library; 0 where the compiler does not say
  std::string compiler;  // with the options that decide
};

// By -Os, unless $CC has another level.
CodeSize MeasureCode(const CBuild& built, const std::string& folder);

// The deepest chain of calls from `function` in what gcc writes by -fcallgraph-info=su.
size_t DeepestStack(const std::string& call_graph, const std::string& function);

}  // namespace ferry::cli
