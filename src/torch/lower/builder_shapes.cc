#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/mapped_file.h"
#include "tensor/scratch.h"
#include "torch/lower/builder.h"

namespace ferry::torch {
namespace {

// What is done to the shape of a complex tensor leaves the pairs at its end alone.
Operand Like(const Operand& x, const Operand& result) { return x.is_complex() ? result.AsComplex() : result; }

// Axes of a result of `rank` dimensions, normalized and sorted.
std::vector<int64_t> Normalized(const std::vector<int64_t>& axes, size_t rank) {
  std::vector<int64_t> out;
  for (size_t axis : NormalizeAxes(axes, rank)) out.push_back(static_cast<int64_t>(axis));
  std::sort(out.begin(), out.end());
  return out;
}

// A band of columns at a time becomes rows. Word has the width of an element.
template <class Word>
Tensor TurnMatrix(const Tensor& matrix) {
  auto rows = static_cast<size_t>(matrix.dim(0)), columns = static_cast<size_t>(matrix.dim(1));
  constexpr size_t kBand = 64, kTile = 16;
  ScratchTensor turned(matrix.dtype(), {matrix.dim(1), matrix.dim(0)});
  const Word* from = reinterpret_cast<const Word*>(matrix.raw());
  std::vector<Word> band(kBand * rows);
  for (size_t column = 0; column < columns; column += kBand) {
    size_t count = std::min(kBand, columns - column);
    for (size_t row = 0; row < rows; row += kTile)
      for (size_t j = 0; j < count; ++j)
        for (size_t i = row; i < std::min(rows, row + kTile); ++i) band[j * rows + i] = from[i * columns + column + j];
    turned.Append(band.data(), count * rows * sizeof(Word));
  }
  DropPages(matrix.raw(), matrix.bytes());
  return turned.Finish();
}
Tensor TransposedMatrix(const Tensor& matrix) {
  switch (BitWidth(matrix.dtype())) {
    case 8: return TurnMatrix<uint8_t>(matrix);
    case 16: return TurnMatrix<uint16_t>(matrix);
    case 32: return TurnMatrix<uint32_t>(matrix);
    case 64: return TurnMatrix<uint64_t>(matrix);
    default: Fail(ErrorCode::kUnsupported, "a matrix of ", matrix.dtype(), " is not turned over");
  }
}

}  // namespace

Operand Builder::SizeOf(const Operand& x, int64_t axis) {
  auto at = static_cast<int64_t>(x.Axis(axis));
  Dim dim = x.dim(at);
  if (dim.known()) return Ints({*dim.value});
  if (const Operand* source = FindSizeSource(dim.symbol)) return *source;
  return Emit("Shape", {x.AsPairs()}, {{"start", at}, {"end", at + 1}});
}

Scalar Builder::SizeScalar(const Operand& x, int64_t axis) {
  Dim dim = x.dim(axis);
  if (dim.known()) return Scalar(*dim.value);
  return Scalar(Scalar::Kind::kInt, SizeOf(x, axis), dim).AsSize();
}

Operand Builder::ShapeOf(const Operand& x) {
  if (std::optional<Shape> known = x.static_shape()) return Ints(known->ToVector());
  if (x.is_complex()) return Emit("Shape", {x.AsPairs()}, {{"end", int64_t{-1}}});
  return Emit("Shape", {x});
}

Operand Builder::CountOf(const Operand& x) {
  if (std::optional<Shape> known = x.static_shape()) return Int(known->ElementCount());
  return Reduce("ReduceProd", ShapeOf(x), {}, false);
}

Operand Builder::AsVector(const Scalar& size) {
  if (size.is_known()) return Ints({size.AsInt()});
  const Operand& computed = size.computed();
  return computed.rank() == 1 ? Cast(computed, DType::kInt64) : Unsqueeze(Cast(computed, DType::kInt64), {0});
}

Operand Builder::AsRank0(const Operand& one_element) {
  return one_element.rank() == 0 ? one_element : Squeeze(one_element, {0});
}

Operand Builder::ShapeVector(const std::vector<Scalar>& sizes) {
  Operands parts;
  std::vector<int64_t> run;
  auto flush = [&] {
    if (!run.empty()) parts.push_back(Ints(run));
    run.clear();
  };
  for (const Scalar& size : sizes) {
    if (size.is_known()) {
      run.push_back(size.AsInt());
    } else {
      flush();
      parts.push_back(AsVector(size));
    }
  }
  flush();
  return parts.empty() ? Ints({}) : Concat(parts, 0);
}

Operand Builder::Reshape(const Operand& x, const std::vector<int64_t>& shape) {
  std::optional<Shape> known = x.static_shape();
  if (known && *known == Shape(shape)) return x;
  std::vector<int64_t> target = shape;
  if (x.is_complex()) target.push_back(2);
  bool has_zero = std::find(shape.begin(), shape.end(), 0) != shape.end();
  // A -1 beside an empty dimension says nothing; with a known size it can be worked out here.
  auto open = std::find(target.begin(), target.end(), -1);
  if (has_zero && open != target.end()) Fail(ErrorCode::kInternal, "a reshape of an empty tensor has an open size");
  Attributes attributes;
  if (has_zero) attributes.push_back({"allowzero", int64_t{1}});
  return Like(x, Emit("Reshape", {x.AsPairs(), Ints(target)}, attributes));
}

Operand Builder::Reshape(const Operand& x, const Operand& shape) {
  if (shape.constant()) return Reshape(x, ToInt64Vector(*shape.constant()));
  Operand target = x.is_complex() ? Concat({shape, Ints({2})}, 0) : shape;
  return Like(x, Emit("Reshape", {x.AsPairs(), target}, {{"allowzero", int64_t{1}}}));
}

std::vector<Scalar> Builder::Sizes(const Operand& x) {
  std::vector<Scalar> sizes;
  for (size_t axis = 0; axis < x.rank(); ++axis) sizes.push_back(SizeScalar(x, static_cast<int64_t>(axis)));
  return sizes;
}

// A view has the sizes it was asked for: their names may say more than can be inferred from the elements that are left.
static Operand WithNames(const Operand& view, const std::vector<Scalar>& sizes) {
  std::optional<SymbolicShape>& shape = view.record()->facts.type.shape;
  for (size_t axis = 0; shape && axis < sizes.size() && axis < shape->size(); ++axis)
    if (Dim size = sizes[axis].AsDim(); size.named() && ((*shape)[axis].unknown() || Emitter::IsMadeUp((*shape)[axis])))
      (*shape)[axis] = size;
  return view;
}

// The size that -1 stands for, where the others say it: so a view of nothing has a size there as well.
static std::optional<int64_t> SizeLeft(const Operand& x, const std::vector<Scalar>& sizes) {
  std::multiset<std::string> names;
  int64_t elements = 1, asked = 1;
  for (const Dim& size : x.shape()) {
    if (size.unknown() || (size.known() && __builtin_mul_overflow(elements, *size.value, &elements)))
      return std::nullopt;
    if (size.named()) names.insert(size.symbol);
  }
  for (const Scalar& wanted : sizes) {
    Dim size = wanted.AsDim();
    if (size.known() && *size.value == -1) continue;
    if (size.known() && __builtin_mul_overflow(asked, *size.value, &asked)) return std::nullopt;
    auto name = names.find(size.symbol);
    if (size.known()) continue;
    if (name == names.end()) return std::nullopt;
    names.erase(name);
  }
  if (!names.empty() || asked <= 0 || elements % asked != 0) return std::nullopt;
  return elements / asked;
}

Operand Builder::View(const Operand& x, const std::vector<Scalar>& wanted) {
  std::vector<Scalar> sizes = wanted;
  auto is_open = [](const Scalar& size) { return size.is_known() && size.AsInt() == -1; };
  if (std::count_if(sizes.begin(), sizes.end(), is_open) == 1)
    if (std::optional<int64_t> left = SizeLeft(x, sizes))
      std::replace_if(sizes.begin(), sizes.end(), is_open, Scalar(*left));
  bool same = sizes.size() == x.rank(), has_zero = false, copies = false;
  std::vector<int64_t> target;
  int open = 0;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    Dim size = sizes[axis].AsDim();
    Dim before = axis < x.rank() ? x.dim(static_cast<int64_t>(axis)) : Dim();
    same = same && SameDim(size, before);
    if (!size.known() && SameDim(size, before)) {
      target.push_back(0);  // "as it is in the input"
      copies = true;
    } else {
      target.push_back(size.known() ? *size.value : -1);
      open += target.back() == -1;
    }
    has_zero = has_zero || (size.known() && *size.value == 0);
  }
  if (same) return x;
  if (has_zero || open > 1) {
    if (has_zero && open == 1 && x.static_shape()) return ViewOfNothing(x, target);
    return WithNames(Reshape(x, ShapeVector(sizes)), sizes);
  }
  if (!copies) return WithNames(Reshape(x, target), sizes);
  // One open size needs no copies: the rest of the elements go there.
  if (open == 0 && std::count(target.begin(), target.end(), 0) == 1) {
    std::replace(target.begin(), target.end(), int64_t{0}, int64_t{-1});
    return WithNames(Reshape(x, target), sizes);
  }
  if (x.is_complex()) target.push_back(2);
  return WithNames(Like(x, Emit("Reshape", {x.AsPairs(), Ints(target)})), sizes);
}

// An empty tensor with one size left open: PyTorch takes it only when the other sizes are not zero.
Operand Builder::ViewOfNothing(const Operand& x, std::vector<int64_t> target) {
  int64_t rest = 1;
  for (int64_t size : target)
    if (size != -1) rest *= size;
  if (rest == 0) Fail(ErrorCode::kUnsupported, "the open size of an empty view cannot be told");
  std::replace(target.begin(), target.end(), int64_t{-1}, x.static_shape()->ElementCount() / rest);
  return Reshape(x, target);
}

Operand Builder::Transpose(const Operand& x, const std::vector<int64_t>& order) {
  std::vector<int64_t> perm;
  for (size_t axis : NormalizeAxes(order, x.rank())) perm.push_back(static_cast<int64_t>(axis));
  Require(perm.size() == x.rank(), "a permutation of ", perm.size(), " axes for ", x.rank(), " dimensions");
  if (std::is_sorted(perm.begin(), perm.end())) return x;
  if (x.is_complex()) perm.push_back(static_cast<int64_t>(x.rank()));
  return Like(x, Emit("Transpose", {x.AsPairs()}, {{"perm", perm}}));
}

Operand Builder::SwapAxes(const Operand& x, int64_t a, int64_t b) {
  if (x.rank() == 0) return x;
  std::vector<int64_t> order(x.rank());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[x.Axis(a)], order[x.Axis(b)]);
  return Transpose(x, order);
}

Operand Builder::MoveAxis(const Operand& x, int64_t from, int64_t to) {
  std::vector<int64_t> order;
  size_t source = x.Axis(from), target = x.Axis(to);
  for (size_t axis = 0; axis < x.rank(); ++axis)
    if (axis != source) order.push_back(static_cast<int64_t>(axis));
  order.insert(order.begin() + static_cast<ptrdiff_t>(target), static_cast<int64_t>(source));
  return Transpose(x, order);
}

Operand Builder::Unsqueeze(const Operand& x, std::vector<int64_t> axes) {
  if (axes.empty()) return x;
  return Like(x, Emit("Unsqueeze", {x.AsPairs(), Ints(Normalized(axes, x.rank() + axes.size()))}));
}

Operand Builder::Squeeze(const Operand& x, std::vector<int64_t> axes) {
  if (axes.empty() || x.rank() == 0) return x;
  return Like(x, Emit("Squeeze", {x.AsPairs(), Ints(Normalized(axes, x.rank()))}));
}

Operand Builder::Expand(const Operand& x, const Operand& shape) {
  if (shape.constant()) {
    std::optional<Shape> known = x.static_shape();
    Shape target(ToInt64Vector(*shape.constant()));
    if (known && BroadcastShapes(*known, target) == *known) return x;
  }
  Operand full = x.is_complex() ? Concat({shape, Ints({2})}, 0) : shape;
  return Like(x, Emit("Expand", {x.AsPairs(), full}));
}

Operand Builder::ExpandLike(const Operand& x, const Operand& like) {
  if (x.has_rank() && like.has_rank() && x.rank() == like.rank()) {
    bool same = true;
    for (size_t axis = 0; axis < x.rank(); ++axis)
      same = same && SameDim(x.dim(static_cast<int64_t>(axis)), like.dim(static_cast<int64_t>(axis)));
    if (same) return x;
  }
  return Expand(x, ShapeOf(like));
}

Operand Builder::Slice(const Operand& x, int64_t axis, const Scalar& begin, const Scalar& end, int64_t step) {
  auto at = static_cast<int64_t>(x.Axis(axis));
  Dim size = x.dim(at);
  if (step == 1 && begin.is_known() && begin.AsInt() == 0) {
    bool to_the_end = end.is_known() ? end.AsInt() == INT64_MAX || (size.known() && end.AsInt() >= *size.value)
                                     : SameDim(end.AsDim(), size);
    if (to_the_end) return x;
  }
  Operand result =
      Emit("Slice", {x.AsPairs(), AsVector(begin), AsVector(end), Ints({at}), step == 1 ? Operand() : Ints({step})});
  return Like(x, result);
}

Operand Builder::Concat(const Operands& parts, int64_t axis) {
  if (parts.empty()) Fail(ErrorCode::kInternal, "nothing to concatenate");
  if (parts.size() == 1) return parts[0];
  auto at = static_cast<int64_t>(parts[0].Axis(axis));
  Operands inputs;
  for (const Operand& part : parts) inputs.push_back(part.AsPairs());
  return Like(parts[0], Emit("Concat", inputs, {{"axis", at}}));
}

Operand Builder::Gather(const Operand& x, const Operand& indices, int64_t axis) {
  auto at = static_cast<int64_t>(x.Axis(axis));
  return Like(x, Emit("Gather", {x.AsPairs(), indices}, {{"axis", at}}));
}

Operand Builder::Select(const Operand& x, int64_t axis, int64_t index) { return Gather(x, Int(index), axis); }

Operand Builder::Fill(double value, DType dtype, const Operand& shape) {
  if (IsComplex(dtype)) {
    DType part = dtype == DType::kComplex128 ? DType::kDouble : DType::kFloat;
    return MakeComplex(Fill(value, part, shape), Fill(0, part, shape));
  }
  Operand number = Number(value, dtype);
  if (shape.constant() && shape.constant()->size() == 0) return number;
  // ConstantOfShape of small floats came late; expanding a scalar is always there.
  static constexpr DType kAlwaysThere[] = {DType::kFloat, DType::kDouble, DType::kFloat16, DType::kInt64, DType::kInt32,
                                           DType::kInt8,  DType::kInt16,  DType::kUInt8,   DType::kBool};
  if (std::find(std::begin(kAlwaysThere), std::end(kAlwaysThere), dtype) == std::end(kAlwaysThere))
    return Expand(number, shape);
  auto stored = std::make_shared<StoredTensor>(MakeStored("", number.constant()->Reshaped({1})));
  return Emit("ConstantOfShape", {shape}, {{"value", stored}});
}

Operand Builder::WriteThrough(const Operand& base, const Operand& written,
                              const std::function<Operand(const Operand&)>& view) {
  Operand seen = view(base);
  Operand updates = ExpandLike(CastLike(written, base), seen);
  if (seen == base) return updates;
  Operand positions = Reshape(Range(Int(0), CountOf(base), Int(1)), ShapeOf(base));
  Operand touched = Reshape(view(positions), {-1, 1});
  Operand scattered = Emit("ScatterND", {Reshape(base, {-1}).AsPairs(), touched, Reshape(updates, {-1}).AsPairs()});
  return Reshape(Like(base, scattered), ShapeOf(base));
}

Operand Builder::TransposedWeight(const Operand& weight) {
  const Tensor* matrix = weight.constant();
  if (!matrix || !folds_weights || weight.is_complex()) return SwapAxes(weight, 0, 1);
  Operand& known = transposed_weights_[weight.record().get()];
  if (known) return known;
  known = Weight(weight.record()->name, TransposedMatrix(*matrix));
  return known;
}

Operand Builder::Iota(const Operand& x, int64_t axis) {
  Dim size = x.dim(axis);
  return Range(Int(0), size.known() ? Int(*size.value) : AsRank0(SizeOf(x, axis)), Int(1));
}

}  // namespace ferry::torch
