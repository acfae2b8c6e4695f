// Which of the instruction sets that a kernel source was compiled for this machine can run.
#pragma once

namespace ferry {

// x86 has those up to kAvx512, each of which includes those before it; 64-bit ARM has kBaseline (no vectors) and kNeon,
// WebAssembly kBaseline and kWasm.
enum class Isa { kBaseline, kSse4, kAvx2, kAvx512, kNeon, kWasm };

// The best one that is compiled in and that this CPU has. FERRY_ISA=baseline, sse4, avx2 or neon (without dot
// products) in the environment lowers it.
Isa BestIsa();

// Those from which it was chosen. Where an instruction set is not compiled in, they are those of the baseline.
bool CanRun(Isa isa);
struct Bf16Kernels;
struct ElementwiseKernels;
struct GemmKernels;
struct NhwcKernels;
struct Int8NhwcKernels;
struct Int8Kernels;
struct NbitsKernels;
struct PanelKernels;
struct RowKernels;
const Bf16Kernels& Bf16KernelsOf(Isa isa);
const ElementwiseKernels& ElementwiseKernelsOf(Isa isa);
const GemmKernels& GemmKernelsOf(Isa isa);
const NhwcKernels& NhwcKernelsOf(Isa isa);
const Int8NhwcKernels& Int8NhwcKernelsOf(Isa isa);
const Int8Kernels& Int8KernelsOf(Isa isa);
const NbitsKernels& NbitsKernelsOf(Isa isa);
const PanelKernels& PanelKernelsOf(Isa isa);
const RowKernels& RowKernelsOf(Isa isa);

}  // namespace ferry
