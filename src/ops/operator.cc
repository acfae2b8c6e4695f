#include "ops/operator.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "ops/operator_table.h"

namespace ferry {

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
  domain = CanonicalDomain(domain);
  auto all = AllOperators();
  auto it = std::lower_bound(all.begin(), all.end(), std::tie(domain, name),
                             [](const Operator* op, const auto& key) { return std::tie(op->domain, op->name) < key; });
  return it != all.end() && (*it)->domain == domain && (*it)->name == name ? *it : nullptr;
}

}  // namespace ferry
