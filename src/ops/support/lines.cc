#include "ops/support/lines.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/work_poll.h"
#include "ops/support/elementwise.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

// Lines that do not lie contiguous are moved in and out several at a time, so that whole cache lines are used.
constexpr int64_t kLinesAtOnce = 16;

struct Layout {
  int64_t outer, count, inner;
  DType type;
  int64_t stored_width, wide_width;
};

// A row is `lines` neighbouring elements, one of each line; Unit is as wide as an element of the compute type.
template <class Unit>
void Gather(const Layout& layout, const std::byte* from, int64_t lines, std::byte* scratch) {
  auto* to = reinterpret_cast<Unit*>(scratch);
  for (int64_t row = 0; row < layout.count; ++row, from += layout.inner * layout.stored_width) {
    float wide[kLinesAtOnce];
    const void* values = from;
    if (IsSmallFloat(layout.type)) {
      WidenRun(layout.type, from, wide, lines);
      values = wide;
    }
    for (int64_t line = 0; line < lines; ++line)
      std::memcpy(&to[line * layout.count + row], static_cast<const Unit*>(values) + line, sizeof(Unit));
  }
}

template <class Unit>
void Scatter(const Layout& layout, const std::byte* scratch, int64_t lines, std::byte* to) {
  auto* from = reinterpret_cast<const Unit*>(scratch);
  for (int64_t row = 0; row < layout.count; ++row, to += layout.inner * layout.stored_width) {
    Unit values[kLinesAtOnce];
    for (int64_t line = 0; line < lines; ++line) values[line] = from[line * layout.count + row];
    if (IsSmallFloat(layout.type))
      NarrowRun(layout.type, reinterpret_cast<const float*>(values), to, lines);
    else
      std::memcpy(to, values, static_cast<size_t>(lines) * sizeof(Unit));
  }
}

void RunBundle(const Layout& layout, const std::byte* from, std::byte* to, int64_t lines, std::byte* scratch,
               LineLoop loop) {
  bool is_double_width = layout.wide_width == 8;
  is_double_width ? Gather<uint64_t>(layout, from, lines, scratch) : Gather<uint32_t>(layout, from, lines, scratch);
  for (int64_t line = 0; line < lines; ++line) {
    std::byte* at = scratch + line * layout.count * layout.wide_width;
    loop(at, at, layout.count);
  }
  is_double_width ? Scatter<uint64_t>(layout, scratch, lines, to) : Scatter<uint32_t>(layout, scratch, lines, to);
}

}  // namespace

void RunLines(const OpContext& context, const Tensor& x, Tensor& y, size_t axis, LineLoop loop) {
  const Shape& shape = x.shape();
  DType wide = ComputeType(x.dtype());
  Layout layout{shape.CountBetween(0, axis), shape[axis],       shape.CountBetween(axis + 1, shape.rank()), x.dtype(),
                BitWidth(x.dtype()) / 8,     BitWidth(wide) / 8};
  if (x.size() == 0) return;
  int64_t grain = std::max<int64_t>(1, kElementGrain / layout.count);
  if (layout.inner == 1 && wide == x.dtype()) {
    context.ParallelFor(layout.outer, grain, [&](int64_t first, int64_t last) {
      WorkPoll poll;
      for (int64_t line = first; line < last; ++line) {
        poll(4 * layout.count);
        int64_t at = line * layout.count * layout.wide_width;
        loop(x.raw() + at, y.mutable_raw() + at, layout.count);
      }
    });
    return;
  }
  Require(layout.wide_width >= 4, "element type ", x.dtype(), " is not one this operator is defined for");
  int64_t bundles = (layout.inner + kLinesAtOnce - 1) / kLinesAtOnce;
  grain = std::max<int64_t>(1, grain / std::min(layout.inner, kLinesAtOnce));
  context.ParallelFor(layout.outer * bundles, grain, [&](int64_t first, int64_t last) {
    std::vector<std::byte> scratch(
        static_cast<size_t>(layout.count * layout.wide_width * std::min(layout.inner, kLinesAtOnce)));
    WorkPoll poll;
    for (int64_t bundle = first; bundle < last; ++bundle) {
      poll(4 * layout.count * kLinesAtOnce);
      int64_t line = bundle % bundles * kLinesAtOnce;
      int64_t at = (bundle / bundles * layout.count * layout.inner + line) * layout.stored_width;
      RunBundle(layout, x.raw() + at, y.mutable_raw() + at, std::min(kLinesAtOnce, layout.inner - line), scratch.data(),
                loop);
    }
  });
}

}  // namespace ferry
