// The instruction sets that this machine can run.
#pragma once

#include <vector>

#include "kernels/isa.h"

namespace ferry::testing {

inline std::vector<Isa> RunnableIsas() {
  std::vector<Isa> isas;
  for (Isa isa : {Isa::kBaseline, Isa::kSse4, Isa::kAvx2, Isa::kAvx512, Isa::kNeon, Isa::kWasm})
    if (CanRun(isa)) isas.push_back(isa);
  return isas;
}

}  // namespace ferry::testing
