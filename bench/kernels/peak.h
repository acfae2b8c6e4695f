#pragma once

namespace ferry::bench {

// A short stretch of nothing but independent multiply-adds with the widest vectors that Ferry uses on this machine;
// says how many floating-point operations they were.
double RunPeak();

}  // namespace ferry::bench
