// Which of the instruction sets a kernel source was compiled for this machine can run.
#pragma once

namespace ferry {

enum class Isa { kBaseline, kAvx2, kAvx512 };

// The best one that is compiled in and that this CPU has; FERRY_ISA=avx2 or =baseline in the environment lowers it.
Isa BestIsa();

}  // namespace ferry
