// The float model up to some node, run once and remembered for a few samples: what follows can be run by itself.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "convert/quantize/samples.h"

namespace ferry::quantize {

class Prefixes {
 public:
  // `base` has its nodes in order and outlives this.
  Prefixes(const Model& base, const Samples& samples, const std::vector<size_t>& chosen, int threads);

  // Runs from where the last call stopped to this node, which must not lie before it. Only values that are needed from
  // there on are kept. False when they take more memory than is meant for them.
  bool AdvanceTo(size_t node);

  // The nodes from there on; what was made before them comes as inputs.
  Model Rest() const;
  size_t begin() const { return at_; }
  const std::vector<NamedValue>& Inputs(size_t place) const { return values_[place]; }

 private:
  std::vector<std::string> NeededFrom(size_t node) const;
  Model Part(size_t begin, size_t end) const;
  ValueInfo InfoOf(const std::string& name, const Value& value) const;

  const Model& base_;
  const int threads_;
  size_t at_ = 0;
  std::vector<std::vector<NamedValue>> values_;  // for each sample, what crosses the cut
  std::map<std::string, const ValueInfo*> infos_;
};

}  // namespace ferry::quantize
