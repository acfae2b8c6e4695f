#include "ops/support/take.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "ops/support/elements.h"
#include "ops/support/movement.h"

namespace ferry {
namespace {

constexpr int64_t kElementsPerPiece = 1 << 14;

// Single elements, moved in one loop rather than in calls: out[o, k] = from[o, chosen[k]].
void TakeElements(OpContext& context, const Tensor& from, const std::vector<int64_t>& chosen, int64_t row,
                  Tensor& out) {
  auto count = static_cast<int64_t>(chosen.size());
  ForEachWidth(out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* target = MutableRawData<T>(out);
    auto take = [&](int64_t index) {
      if constexpr (std::is_same_v<T, std::string>) {
        return RawData<T>(from)[index];
      } else {
        T element;  // may begin at any byte
        std::memcpy(&element, from.raw() + index * int64_t{sizeof element}, sizeof element);
        return element;
      }
    };
    context.ParallelFor(out.size(), kElementsPerPiece, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end;) {
        const int64_t line = i / count * row;
        int64_t line_end = std::min(end, (i / count + 1) * count);
        for (int64_t k = i % count; i < line_end; ++i, ++k) target[i] = take(line + chosen[static_cast<size_t>(k)]);
      }
    });
  });
}

}  // namespace

void WriteTaken(OpContext& context, size_t i, const Tensor& data, size_t axis, const std::vector<int64_t>& chosen,
                const Shape& shape) {
  int64_t inner = data.shape().CountBetween(axis + 1, data.rank()), row = data.dim(axis) * inner;
  int64_t outer = data.shape().CountBetween(0, axis);
  auto count = static_cast<int64_t>(chosen.size());
  Tensor from = Movable(data);
  WriteMoved(context, i, data.dtype(), shape, [&](Tensor& out) {
    if (out.size() == 0) return;
    if (inner == 1) return TakeElements(context, from, chosen, row, out);
    int64_t grain = std::max<int64_t>(1, kElementsPerPiece / inner);
    context.ParallelFor(outer * count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part)
        CopyRun(from, part / count * row + chosen[static_cast<size_t>(part % count)] * inner, out, part * inner, inner);
    });
  });
}

}  // namespace ferry
