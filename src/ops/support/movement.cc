#include "ops/support/movement.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "base/run_scope.h"
#include "base/work_poll.h"
#include "kernels/transpose_block.h"
#include "ops/support/text.h"

namespace ferry {
namespace {

constexpr int64_t kElementsPerPiece = 1 << 15;
constexpr int64_t kTile = 16;

// The last two axes of a copy; everything further out is a loop over these.
struct Plane {
  CopyAxis rows;
  CopyAxis cols;
};

template <size_t kWidth>
struct Bytes {
  static constexpr size_t kBytes = kWidth;
  static constexpr bool kTurnsBlocks = kWidth <= 8;
  static const std::byte* At(const std::byte* base, int64_t offset) { return base + offset * int64_t{kWidth}; }
  static std::byte* At(std::byte* base, int64_t offset) { return base + offset * int64_t{kWidth}; }
  static void Assign(std::byte* to, const std::byte* from) { std::memcpy(to, from, kWidth); }
  static void Run(std::byte* to, const std::byte* from, int64_t count) {
    std::memcpy(to, from, static_cast<size_t>(count) * kWidth);
  }
  static void Fill(std::byte* to, const std::byte* from, int64_t count) {
    std::byte value[kWidth];  // a copy, so that the compiler knows the loop cannot change it
    std::memcpy(value, from, kWidth);
    for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * int64_t{kWidth}, value, kWidth);
  }
};

struct Strings {
  static constexpr bool kTurnsBlocks = false;
  static const std::string* At(const std::string* base, int64_t offset) { return base + offset; }
  static std::string* At(std::string* base, int64_t offset) { return base + offset; }
  static void Assign(std::string* to, const std::string* from) { AssignText(*to, *from); }
  static void Run(std::string* to, const std::string* from, int64_t count) {
    for (int64_t i = 0; i < count; ++i) AssignText(to[i], from[i]);
  }
  static void Fill(std::string* to, const std::string* from, int64_t count) {
    for (int64_t i = 0; i < count; ++i) AssignText(to[i], *from);
  }
};

template <size_t kWidth>
using UnsignedOf =
    std::conditional_t<kWidth == 1, uint8_t,
                       std::conditional_t<kWidth == 2, uint16_t, std::conditional_t<kWidth == 4, uint32_t, uint64_t>>>;

// Rows lie apart in the source and columns in the result, or the other way round: small tiles keep both in cache.
template <class Kind, class Element>
void CopyTiled(const Plane& plane, const Element* from, Element* to, int64_t begin, int64_t end) {
  WorkPoll poll;
  for (int64_t row = begin; row < end; row += kTile) {
    poll(4 * kTile * plane.cols.size);
    int64_t row_end = std::min(row + kTile, end);
    for (int64_t col = 0; col < plane.cols.size; col += kTile) {
      int64_t col_end = std::min(col + kTile, plane.cols.size);
      for (int64_t r = row; r < row_end; ++r) {
        const Element* source = Kind::At(from, r * plane.rows.from_stride);
        Element* target = Kind::At(to, r * plane.rows.to_stride);
        for (int64_t c = col; c < col_end; ++c)
          Kind::Assign(Kind::At(target, c * plane.cols.to_stride), Kind::At(source, c * plane.cols.from_stride));
      }
    }
  }
}

// A true transpose, rows tight in the source and columns tight in the result: square blocks in registers, a cache line
// of rows at a time. What does not fill a block goes one by one.
template <size_t kWidth>
void CopyTransposed(const Plane& plane, const std::byte* from, std::byte* to, int64_t begin, int64_t end) {
  using Kind = Bytes<kWidth>;
  using Block = BlockTranspose<UnsignedOf<kWidth>>;
  constexpr int64_t kSide = Block::kSide, kRowsPerStripe = 64 / kWidth;
  int64_t whole_cols = plane.cols.size / kSide * kSide;
  WorkPoll poll;
  for (int64_t stripe = begin; stripe < end; stripe += kRowsPerStripe) {
    poll(kRowsPerStripe * plane.cols.size);
    int64_t stripe_end = std::min(stripe + kRowsPerStripe, end);
    int64_t whole_end = stripe + (stripe_end - stripe) / kSide * kSide;
    for (int64_t col = 0; col < whole_cols; col += kSide)
      for (int64_t row = stripe; row < whole_end; row += kSide)
        Block::Run(Kind::At(from, row + col * plane.cols.from_stride), plane.cols.from_stride,
                   Kind::At(to, row * plane.rows.to_stride + col), plane.rows.to_stride);
    for (int64_t row = stripe; row < stripe_end; ++row)
      for (int64_t col = row < whole_end ? whole_cols : 0; col < plane.cols.size; ++col)
        Kind::Assign(Kind::At(to, row * plane.rows.to_stride + col),
                     Kind::At(from, row + col * plane.cols.from_stride));
  }
}

template <class Kind, class Element>
void CopyPlane(const Plane& plane, const Element* from, Element* to, int64_t begin, int64_t end) {
  const CopyAxis& cols = plane.cols;
  bool contiguous = cols.from_stride == 1 && cols.to_stride == 1;
  bool fills = cols.from_stride == 0 && cols.to_stride == 1;
  if constexpr (Kind::kTurnsBlocks) {
    constexpr auto kSide = static_cast<int64_t>(kBlockBytes / Kind::kBytes);
    bool turns = !contiguous && plane.rows.from_stride == 1 && cols.to_stride == 1 && cols.from_stride != 0;
    if (turns && end - begin >= kSide && cols.size >= kSide)
      return CopyTransposed<Kind::kBytes>(plane, from, to, begin, end);
  }
  if (!contiguous && plane.rows.from_stride != 0 && cols.from_stride != 0 && plane.rows.size > 1)
    return CopyTiled<Kind>(plane, from, to, begin, end);
  for (int64_t row = begin; row < end; ++row) {
    const Element* source = Kind::At(from, row * plane.rows.from_stride);
    Element* target = Kind::At(to, row * plane.rows.to_stride);
    ForLookedParts(cols.size, 1, [&](int64_t first, int64_t last) {
      if (contiguous) {
        Kind::Run(Kind::At(target, first), Kind::At(source, first), last - first);
      } else if (fills) {
        Kind::Fill(Kind::At(target, first), source, last - first);
      } else {
        for (int64_t c = first; c < last; ++c)
          Kind::Assign(Kind::At(target, c * cols.to_stride), Kind::At(source, c * cols.from_stride));
      }
    });
  }
}

template <class Kind, class Element>
void CopyAxes(const OpContext& context, const Element* from, Element* to, std::span<const CopyAxis> outer,
              const Plane& plane) {
  int64_t outer_count = 1;
  for (const CopyAxis& axis : outer) outer_count *= axis.size;
  int64_t rows_per_piece = std::clamp<int64_t>(kElementsPerPiece / plane.cols.size, 1, plane.rows.size);
  // Whole tiles, so that neighbouring threads do not share cache lines of a transposed result.
  if (rows_per_piece > kTile) rows_per_piece -= rows_per_piece % kTile;
  int64_t pieces_per_plane = (plane.rows.size + rows_per_piece - 1) / rows_per_piece;
  int64_t piece_size = rows_per_piece * plane.cols.size;
  int64_t grain = std::max<int64_t>(1, kElementsPerPiece / piece_size), between_looks = 64 * grain;
  context.ParallelFor(outer_count * pieces_per_plane, grain, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      int64_t rest = piece / pieces_per_plane, from_offset = 0, to_offset = 0;
      if ((piece - begin) % between_looks == between_looks - 1) CheckRun();
      for (size_t a = outer.size(); a-- > 0;) {
        int64_t index = rest % outer[a].size;
        rest /= outer[a].size;
        from_offset += index * outer[a].from_stride;
        to_offset += index * outer[a].to_stride;
      }
      int64_t row = piece % pieces_per_plane * rows_per_piece;
      CopyPlane<Kind>(plane, Kind::At(from, from_offset), Kind::At(to, to_offset), row,
                      std::min(row + rows_per_piece, plane.rows.size));
    }
  });
}

// Drops axes of one element and joins those that both sides walk as one. False when there is nothing to copy.
bool Simplify(std::vector<CopyAxis>& axes) {
  for (const CopyAxis& axis : axes)
    if (axis.size == 0) return false;
  std::vector<CopyAxis> merged;
  for (const CopyAxis& axis : axes) {
    if (axis.size == 1) continue;
    if (!merged.empty() && merged.back().from_stride == axis.from_stride * axis.size &&
        merged.back().to_stride == axis.to_stride * axis.size) {
      merged.back() = {merged.back().size * axis.size, axis.from_stride, axis.to_stride};
    } else {
      merged.push_back(axis);
    }
  }
  axes = std::move(merged);
  return true;
}

// A short contiguous run that fills a machine word is copied as one wider element. Returns the new width.
size_t WidenElement(size_t width, std::vector<CopyAxis>& axes) {
  if (axes.size() < 2 || axes.back().from_stride != 1 || axes.back().to_stride != 1) return width;
  int64_t run = axes.back().size;
  size_t bytes = width * static_cast<size_t>(run);
  if (run > 16 || (bytes != 2 && bytes != 4 && bytes != 8 && bytes != 16)) return width;
  for (size_t a = 0; a + 1 < axes.size(); ++a)
    if (axes[a].from_stride % run != 0 || axes[a].to_stride % run != 0) return width;
  axes.pop_back();
  for (CopyAxis& axis : axes) axis = {axis.size, axis.from_stride / run, axis.to_stride / run};
  return bytes;
}

Plane TakePlane(std::vector<CopyAxis>& axes) {
  Plane plane{{1, 0, 0}, {1, 0, 0}};
  if (axes.empty()) return plane;
  plane.cols = axes.back();
  axes.pop_back();
  bool contiguous = plane.cols.from_stride == 1 && plane.cols.to_stride == 1;
  if (axes.empty()) {
    // A single long run is cut into rows, so that threads can share it; the caller copies what is left over.
    if (plane.cols.size >= 2 * kElementsPerPiece && plane.cols.size % kElementsPerPiece == 0)
      plane = {{plane.cols.size / kElementsPerPiece, plane.cols.from_stride * kElementsPerPiece,
                plane.cols.to_stride * kElementsPerPiece},
               {kElementsPerPiece, plane.cols.from_stride, plane.cols.to_stride}};
    return plane;
  }
  // The axis that the source walks most tightly goes beside the one that the result walks most tightly.
  size_t best = axes.size() - 1;
  if (!contiguous)
    for (size_t a = 0; a < axes.size(); ++a)
      if (std::abs(axes[a].from_stride) == 1) best = a;
  plane.rows = axes[best];
  axes.erase(axes.begin() + static_cast<ptrdiff_t>(best));
  return plane;
}

void CopyWidth(const OpContext& context, size_t width, const std::byte* from, std::byte* to,
               std::span<const CopyAxis> outer, const Plane& plane) {
  switch (width) {
    case 1: return CopyAxes<Bytes<1>>(context, from, to, outer, plane);
    case 2: return CopyAxes<Bytes<2>>(context, from, to, outer, plane);
    case 4: return CopyAxes<Bytes<4>>(context, from, to, outer, plane);
    case 8: return CopyAxes<Bytes<8>>(context, from, to, outer, plane);
    case 16: return CopyAxes<Bytes<16>>(context, from, to, outer, plane);
    default: Fail(ErrorCode::kInternal, "elements of ", width, " bytes cannot be moved");
  }
}

// Bytes of the strings that a copy makes.
size_t TextOf(const std::string* from, std::span<const CopyAxis> axes) {
  if (axes.empty()) return from->size();
  const CopyAxis& axis = axes[0];
  if (axis.from_stride == 0) return static_cast<size_t>(axis.size) * TextOf(from, axes.subspan(1));
  size_t text = 0;
  for (int64_t i = 0; i < axis.size; ++i) text += TextOf(from + i * axis.from_stride, axes.subspan(1));
  return text;
}

size_t WidthOf(const Tensor& tensor) {
  int bits = BitWidth(tensor.dtype());
  if (bits < 8) Fail(ErrorCode::kInternal, "elements of ", tensor.dtype(), " must be spread before they are moved");
  return static_cast<size_t>(bits) / 8;
}

}  // namespace

void CopyStrided(const OpContext& context, const Tensor& from, int64_t from_offset, Tensor& to, int64_t to_offset,
                 std::vector<CopyAxis> axes) {
  if (!Simplify(axes)) return;
  if (axes.size() == 1 && axes[0].size > 2 * kElementsPerPiece && axes[0].size % kElementsPerPiece != 0) {
    CopyAxis rest = axes[0];
    rest.size %= kElementsPerPiece;
    axes[0].size -= rest.size;
    CopyStrided(context, from, from_offset + axes[0].size * rest.from_stride, to,
                to_offset + axes[0].size * rest.to_stride, {rest});
  }
  if (to.dtype() == DType::kString) {
    if (RunScope::IsCounted()) ChargeText(to, TextOf(from.Data<std::string>() + from_offset, axes));
    Plane plane = TakePlane(axes);
    CopyAxes<Strings>(context, from.Data<std::string>() + from_offset, to.MutableData<std::string>() + to_offset, axes,
                      plane);
    return;
  }
  size_t width = WidthOf(to);
  if (WidthOf(from) != width) Fail(ErrorCode::kInternal, from.dtype(), " cannot be moved into ", to.dtype());
  const std::byte* source = from.raw() + from_offset * static_cast<int64_t>(width);
  std::byte* target = to.mutable_raw() + to_offset * static_cast<int64_t>(width);
  width = WidenElement(width, axes);
  Plane plane = TakePlane(axes);
  CopyWidth(context, width, source, target, axes, plane);
}

void CopyRun(const Tensor& from, int64_t from_offset, Tensor& to, int64_t to_offset, int64_t count) {
  if (count == 0) return;
  if (to.dtype() == DType::kString) {
    const std::string* source = from.Data<std::string>() + from_offset;
    if (RunScope::IsCounted()) ChargeText(to, TextOf(source, std::array{CopyAxis{count, 1, 1}}));
    return Strings::Run(to.MutableData<std::string>() + to_offset, source, count);
  }
  size_t width = WidthOf(to);
  std::memcpy(to.mutable_raw() + static_cast<size_t>(to_offset) * width,
              from.raw() + static_cast<size_t>(from_offset) * width, static_cast<size_t>(count) * width);
}

void FillStrided(const OpContext& context, const Tensor& value, int64_t index, Tensor& to, int64_t to_offset,
                 std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  std::vector<CopyAxis> axes;
  for (size_t a = 0; a < sizes.size(); ++a) axes.push_back({sizes[a], 0, strides[a]});
  CopyStrided(context, value, index, to, to_offset, std::move(axes));
}

void FillAll(const OpContext& context, const Tensor& value, int64_t index, Tensor& to) {
  CopyStrided(context, value, index, to, 0, {{to.size(), 0, 1}});
}

Tensor Movable(const Tensor& tensor) { return IsPacked(tensor.dtype()) ? tensor.Unpacked() : tensor; }

void WriteMoved(OpContext& context, size_t i, DType dtype, const Shape& shape, FunctionRef<void(Tensor&)> fill) {
  Tensor& out = context.Output(i, dtype, shape);
  if (!IsPacked(dtype)) return fill(out);
  Tensor spread(IsSignedInteger(dtype) ? DType::kInt8 : DType::kUInt8, shape);
  fill(spread);
  Tensor packed = Tensor::Pack(dtype, spread);
  if (packed.bytes() > 0) std::memcpy(out.mutable_raw(), packed.raw(), packed.bytes());
}

Tensor MovableZero(DType dtype) {
  if (IsPacked(dtype)) dtype = IsSignedInteger(dtype) ? DType::kInt8 : DType::kUInt8;
  return Tensor::Zeros(dtype, {});
}

std::vector<CopyAxis> BoxAxes(std::span<const int64_t> sizes, std::span<const int64_t> from_strides,
                              std::span<const int64_t> to_strides) {
  std::vector<CopyAxis> axes;
  for (size_t a = 0; a < sizes.size(); ++a) axes.push_back({sizes[a], from_strides[a], to_strides[a]});
  return axes;
}

}  // namespace ferry
