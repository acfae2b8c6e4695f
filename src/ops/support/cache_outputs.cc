#include "ops/support/cache_outputs.h"

#include "ops/operator.h"

namespace ferry {

int CacheInputOf(const Node& node, size_t output) {
  if (node.domain != kMicrosoftDomain || node.op_type != "GroupQueryAttention") return -1;
  return output == 1 || output == 2 ? static_cast<int>(output) + 2 : -1;
}

}  // namespace ferry
