// The equation of an Einsum, taken apart and matched with the ranks of the operands.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ferry {

// A letter is a number below 52; the axes that an ellipsis stands for follow, counted from the last one backwards.
struct EinsumEquation {
  std::vector<std::vector<size_t>> terms;  // per operand, a label per axis
  std::vector<size_t> output;
  size_t label_count = 0;  // labels are below this

  static EinsumEquation Parse(const std::string& text, const std::vector<size_t>& ranks);
};

}  // namespace ferry
