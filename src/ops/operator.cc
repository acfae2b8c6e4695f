#include "ops/operator.h"

#include <algorithm>
#include <functional>
#include <tuple>
#include <vector>

#include "ops/operator_table.h"

namespace ferry {
namespace {

// Operators by the hash of their names, the next free place for those that meet: passes ask for every node.
class Index {
 public:
  Index() {
    size_t size = 64;
    while (size < 2 * kOperatorTableSize) size *= 2;
    places_.resize(size);
    for (size_t i = 0; i < kOperatorTableSize; ++i) {
      size_t at = First(kOperatorTable[i]->name);
      while (places_[at]) at = Next(at);
      places_[at] = kOperatorTable[i];
    }
  }

  const Operator* Find(std::string_view domain, std::string_view name) const {
    for (size_t at = First(name); places_[at]; at = Next(at))
      if (places_[at]->name == name && places_[at]->domain == domain) return places_[at];
    return nullptr;
  }

 private:
  size_t First(std::string_view name) const { return std::hash<std::string_view>()(name) & (places_.size() - 1); }
  size_t Next(size_t at) const { return (at + 1) & (places_.size() - 1); }

  std::vector<const Operator*> places_;
};

}  // namespace

std::span<const Operator* const> AllOperators() {
  static const std::vector<const Operator*> sorted = [] {
    std::vector<const Operator*> all(kOperatorTable, kOperatorTable + kOperatorTableSize);
    std::sort(all.begin(), all.end(), [](const Operator* a, const Operator* b) {
      return std::tie(a->domain, a->name) < std::tie(b->domain, b->name);
    });
    return all;
  }();
  return sorted;
}

const Operator* FindOperator(std::string_view domain, std::string_view name) {
  static const Index index;
  return index.Find(CanonicalDomain(domain), name);
}

}  // namespace ferry
