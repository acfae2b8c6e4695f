// A provider for tests whose memory the host cannot read: whoever forgets to copy is stopped by the machine.
#pragma once

#include <set>
#include <string>

#include "engine/provider.h"

namespace ferry::testing {

// Bytes are mapped twice: where tensors say they lie, nobody may read; the island's kernels know the other place.
MemorySpace& IslandMemory();
size_t IslandBytesInUse();

// Takes the standard operators that `takes` says, and computes them with the operators' portable functions.
class IslandProvider final : public Provider {
 public:
  explicit IslandProvider(bool (*takes)(std::string_view op)) : takes_(takes) {}
  std::string_view name() const override { return "island"; }
  MemorySpace& memory() const override { return IslandMemory(); }
  std::string Fingerprint(const ProviderOptions&) const override { return "island"; }
  std::unique_ptr<const Compiler> Open(const ProviderOptions&) const override;

 private:
  bool (*takes_)(std::string_view op);
};

}  // namespace ferry::testing
