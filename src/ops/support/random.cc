#include "ops/support/random.h"

#include <cmath>

#include "ops/support/numeric_cast.h"

namespace ferry {

double RandomState::Uniform() {
  uint32_t high = static_cast<uint32_t>(engine_()) >> 5, low = static_cast<uint32_t>(engine_()) >> 6;
  return (high * 67108864.0 + low) / 9007199254740992.0;
}

double RandomState::Normal() {
  if (has_kept_) {
    has_kept_ = false;
    return kept_;
  }
  double x, y, square;
  do {
    x = 2 * Uniform() - 1;
    y = 2 * Uniform() - 1;
    square = x * x + y * y;
  } while (square >= 1 || square == 0);
  double factor = std::sqrt(-2 * std::log(square) / square);
  kept_ = factor * x;
  has_kept_ = true;
  return factor * y;
}

RandomState RandomStateFor(const Node& node) {
  const Attribute* seed = node.Find("seed");
  if (!seed) return RandomState(std::random_device{}());
  if (seed->type == AttributeType::kInt) return RandomState(static_cast<uint32_t>(node.Int("seed", 0)));
  return RandomState(static_cast<uint32_t>(NumericCast<int64_t>(node.Float("seed", 0))));
}

}  // namespace ferry
