#include <limits>
#include <string>

#include "ops/support/elementwise.h"

namespace ferry {
namespace {

template <class F>
void ComputeBitwise(OpContext& context) {
  ComputeBinary(context, UnsignedTypes{}, F{}, AsUnsigned);
}

template <class F>
constexpr Operator Bitwise(F) {
  return {.compute = ComputeBitwise<F>,
          .infer = InferElementwise,
          .in_place = kInput0 | kInput1,
          .elementwise = Elementwise::kOfSeveral};
}

void ComputeBitwiseNot(OpContext& context) {
  MapElements(context, IntegerTypes{}, [](auto x) { return static_cast<decltype(x)>(~x); });
}

// A count outside [0, width) shifts every bit out, as in numpy: what is left is 0, or the sign when a negative number
// goes right.
template <class T>
bool ShiftsAllOut(T count) {
  return count < T{0} || count >= T{std::numeric_limits<std::make_unsigned_t<T>>::digits};
}

void ComputeBitShift(OpContext& context) {
  std::string direction = context.node().String("direction", "");
  if (direction == "LEFT") {
    ComputeBinary(
        context, UnsignedTypes{},
        [](auto x, auto count) {
          using T = decltype(x);
          return ShiftsAllOut(count) ? T{0} : static_cast<T>(x << count);
        },
        AsUnsigned);
  } else if (direction == "RIGHT") {
    ComputeBinary(context, IntegerTypes{}, [](auto x, auto count) {
      using T = decltype(x);
      return static_cast<T>(ShiftsAllOut(count) ? (x < T{0} ? -1 : 0) : x >> count);
    });
  } else {
    Fail(ErrorCode::kInvalidModel, "attribute 'direction' must be \"LEFT\" or \"RIGHT\", is \"", Printable(direction),
         "\"");
  }
}

}  // namespace

FERRY_OPERATOR(BitwiseAnd, (Bitwise([](auto a, auto b) { return static_cast<decltype(a)>(a & b); })));
FERRY_OPERATOR(BitwiseOr, (Bitwise([](auto a, auto b) { return static_cast<decltype(a)>(a | b); })));
FERRY_OPERATOR(BitwiseXor, (Bitwise([](auto a, auto b) { return static_cast<decltype(a)>(a ^ b); })));
FERRY_OPERATOR(BitwiseNot, (ElementMap(ComputeBitwiseNot)));
FERRY_OPERATOR(BitShift, {.compute = ComputeBitShift,
                          .infer = InferElementwise,
                          .in_place = kInput0 | kInput1,
                          .elementwise = Elementwise::kOfSeveral});

}  // namespace ferry
