#include <unordered_map>

#include "convert/c/kernels.h"

namespace ferry::c {

KernelWriter FindKernel(const Node& node) {
  static const std::unordered_map<std::string_view, KernelWriter> by_name = [] {
    std::unordered_map<std::string_view, KernelWriter> all;
    for (const std::vector<KernelEntry>* family :
         {&ElementwiseKernels(), &ReductionKernels(), &ProductKernels(),   &ConvolutionKernels(),
          &PoolKernels(),        &MovementKernels(),  &QuantizedKernels(), &NormalizationKernels(),
          &IndexingKernels(),    &AttentionKernels(), &LossKernels(),      &QuantizeKernels(),
          &NhwcKernels(),        &RecurrentKernels(), &SignalKernels(),    &LinearAttentionKernels(),
          &SamplingKernels(),    &ClassicKernels(),   &BlockedKernels(),   &RandomKernels()})
      for (const KernelEntry& entry : *family) all.emplace(entry.name, entry.write);
    return all;
  }();
  const std::string_view domain = CanonicalDomain(node.domain);
  auto it = by_name.find(domain.empty() ? node.op_type : Cat(domain, ".", node.op_type));
  return it == by_name.end() ? nullptr : it->second;
}

}  // namespace ferry::c
