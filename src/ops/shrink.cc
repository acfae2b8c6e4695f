#include <type_traits>

#include "ops/support/elementwise.h"
#include "ops/support/numeric_cast.h"

namespace ferry {

static void ComputeShrink(OpContext& context) {
  float bias = context.node().Float("bias", 0), lambda = context.node().Float("lambd", 0.5f);
  MapElements(context, NumberTypes{}, [=](auto x) {
    using T = decltype(x);
    // The attributes are fractions: integers are compared and moved as doubles and cut back to integers.
    using Work = std::conditional_t<std::is_floating_point_v<T>, T, double>;
    auto work = static_cast<Work>(x);
    if (work < -static_cast<Work>(lambda)) return NumericCast<T>(work + static_cast<Work>(bias));
    if (work > static_cast<Work>(lambda)) return NumericCast<T>(work - static_cast<Work>(bias));
    return T{0};
  });
}

FERRY_OPERATOR(Shrink, (ElementMap(ComputeShrink)));

}  // namespace ferry
