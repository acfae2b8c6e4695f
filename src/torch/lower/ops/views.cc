// Tensors seen under another shape: nothing is computed.
#include <algorithm>
#include <numeric>

#include "torch/lower/families.h"

namespace ferry::torch {
namespace {

Result Same(Call& c) { return c.Tensor(0); }

// Where a size that was fixed at capture is open now, the number in the program is that axis itself when the axis stays
// where it is: everything before it is the same.
std::vector<Scalar> Reopened(Call& c, const Operand& x, std::vector<Scalar> sizes) {
  for (const auto& [dimension, captured] : c.options().opened)
    for (size_t axis = 0; axis < std::min(sizes.size(), x.rank()); ++axis) {
      Scalar own = c.b.SizeScalar(x, static_cast<int64_t>(axis));
      if (own.AsDim().symbol == dimension && sizes[axis].is_known() && sizes[axis].AsInt() == captured)
        sizes[axis] = own;
      if (!SameDim(sizes[axis].AsDim(), own.AsDim())) break;
    }
  return sizes;
}
Result View(Call& c) {
  Operand x = c.Tensor(0);
  return c.b.View(x, Reopened(c, x, c.Numbers(1)));
}
Result ViewAs(Call& c) { return c.b.View(c.Tensor(0), c.b.Sizes(c.Tensor(1))); }

Result Flatten(Call& c) {
  Operand x = c.Tensor(0);
  if (x.rank() == 0) return c.b.Reshape(x, {1});
  size_t first = x.Axis(c.Int(1)), last = x.Axis(c.Int(2));
  if (first == last) return x;
  Require(first < last, "axes ", first, " to ", last, " cannot be flattened");
  std::vector<Scalar> sizes = c.b.Sizes(x), target(sizes.begin(), sizes.begin() + static_cast<ptrdiff_t>(first));
  Dim middle(1);
  for (size_t axis = first; axis <= last; ++axis) middle = middle * sizes[axis].AsDim();
  target.push_back(middle.known() ? Scalar(*middle.value) : Scalar(int64_t{-1}));
  target.insert(target.end(), sizes.begin() + static_cast<ptrdiff_t>(last) + 1, sizes.end());
  return c.b.View(x, target);
}
Result Ravel(Call& c) { return c.b.Reshape(c.Tensor(0), {-1}); }

Result Unflatten(Call& c) {
  Operand x = c.Tensor(0);
  size_t axis = x.Axis(c.Int(1));
  std::vector<Scalar> target = c.b.Sizes(x), parts = c.Numbers(2);
  // With its size known, an open part is better named here: other axes may be open, too.
  if (x.dim(static_cast<int64_t>(axis)).known()) {
    int64_t rest = 1, open = -1;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (!parts[i].is_known())
        rest = 0;
      else if (parts[i].AsInt() == -1)
        open = static_cast<int64_t>(i);
      else
        rest = CheckedProduct(rest, parts[i].AsInt());
    }
    if (open >= 0 && rest > 0)
      parts[static_cast<size_t>(open)] = Scalar(*x.dim(static_cast<int64_t>(axis)).value / rest);
  }
  auto at = target.erase(target.begin() + static_cast<ptrdiff_t>(axis));
  target.insert(at, parts.begin(), parts.end());
  return c.b.View(x, target);
}

// Squeezes those of the axes whose size is 1. Where a size has only a name, the program's result decides.
Operand SqueezeOnes(Call& c, const Operand& x, const std::vector<size_t>& axes) {
  std::vector<int64_t> ones;
  std::vector<size_t> open;
  for (size_t axis : axes) {
    Dim size = x.dim(static_cast<int64_t>(axis));
    if (!size.known())
      open.push_back(axis);
    else if (*size.value == 1)
      ones.push_back(static_cast<int64_t>(axis));
  }
  if (!open.empty()) {
    const TensorMeta* meta = c.meta();
    if (!meta) c.Unsupported("a size that may be 1 is squeezed");
    size_t dropped = x.rank() - meta->sizes.size() - ones.size();
    if (dropped == open.size())
      ones.insert(ones.end(), open.begin(), open.end());
    else if (dropped != 0)
      c.Unsupported("it cannot be told which sizes are 1");
  }
  return c.b.Squeeze(x, ones);
}
Result Squeeze(Call& c) {
  Operand x = c.Tensor(0);
  std::vector<size_t> axes(x.rank());
  std::iota(axes.begin(), axes.end(), size_t{0});
  return SqueezeOnes(c, x, axes);
}
Result SqueezeDims(Call& c) {
  Operand x = c.Tensor(0);
  if (x.rank() == 0) return x;
  std::vector<size_t> axes;
  for (int64_t dim : c.Ints(1)) axes.push_back(x.Axis(dim));
  return SqueezeOnes(c, x, axes);
}
Result Unsqueeze(Call& c) { return c.b.Unsqueeze(c.Tensor(0), {c.Int(1)}); }

Result Permute(Call& c) { return c.b.Transpose(c.Tensor(0), c.Ints(1)); }
Result Swap(Call& c) { return c.b.SwapAxes(c.Tensor(0), c.Int(1), c.Int(2)); }
Result Transposed(Call& c) {
  Operand x = c.Tensor(0);
  return x.rank() < 2 ? x : c.b.SwapAxes(x, -1, -2);
}
Operand ConjugateOf(Call& c, const Operand& x) {
  return x.is_complex() ? c.b.MakeComplex(c.b.Real(x), c.b.Neg(c.b.Imaginary(x))) : x;
}
Result Adjoint(Call& c) {
  Operand x = c.Tensor(0);
  return ConjugateOf(c, x.rank() < 2 ? x : c.b.SwapAxes(x, -1, -2));
}
Result Reversed(Call& c) {
  Operand x = c.Tensor(0);
  std::vector<int64_t> order(x.rank());
  std::iota(order.rbegin(), order.rend(), 0);
  return c.b.Transpose(x, order);
}
Result MoveDim(Call& c) {
  Operand x = c.Tensor(0);
  std::vector<int64_t> from = c.Ints(1), to = c.Ints(2);
  Require(from.size() == to.size(), "as many sources as destinations");
  std::vector<int64_t> order(x.rank(), -1), rest;
  for (size_t i = 0; i < from.size(); ++i) order[x.Axis(to[i])] = static_cast<int64_t>(x.Axis(from[i]));
  for (size_t axis = 0; axis < x.rank(); ++axis)
    if (std::find(order.begin(), order.end(), static_cast<int64_t>(axis)) == order.end())
      rest.push_back(static_cast<int64_t>(axis));
  auto next = rest.begin();
  for (int64_t& axis : order)
    if (axis < 0) axis = *next++;
  return c.b.Transpose(x, order);
}

Result ExpandTo(Call& c, const Operand& x, const std::vector<Scalar>& sizes) {
  std::vector<Scalar> target;
  Require(sizes.size() >= x.rank(), sizes.size(), " sizes are too few for ", x.rank(), " axes");
  size_t added = sizes.size() - x.rank();
  bool same = added == 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    Dim size = sizes[i].AsDim();
    Dim before = i >= added ? x.dim(static_cast<int64_t>(i - added)) : Dim(1);
    bool keep = (size.known() && *size.value == -1) || SameDim(size, before);
    // A 1 broadcasts to whatever is there.
    target.push_back(keep ? Scalar(1) : sizes[i]);
    same = same && keep;
  }
  return same ? x : c.b.Expand(x, c.b.ShapeVector(target));
}
Result Expand(Call& c) { return ExpandTo(c, c.Tensor(0), c.Numbers(1)); }
Result ExpandAs(Call& c) { return ExpandTo(c, c.Tensor(0), c.b.Sizes(c.Tensor(1))); }

Result AtLeast1d(Call& c) {
  Operand x = c.Tensor(0);
  return x.rank() >= 1 ? x : c.b.Reshape(x, {1});
}
Operand AtLeast2dOf(Call& c, const Operand& x) {
  if (x.rank() >= 2) return x;
  return x.rank() == 0 ? c.b.Reshape(x, {1, 1}) : c.b.Unsqueeze(x, {0});
}
Operand AtLeast3dOf(Call& c, const Operand& x) {
  if (x.rank() >= 3) return x;
  if (x.rank() == 2) return c.b.Unsqueeze(x, {2});
  return x.rank() == 0 ? c.b.Reshape(x, {1, 1, 1}) : c.b.Unsqueeze(x, {0, 2});
}
Result AtLeast2d(Call& c) { return AtLeast2dOf(c, c.Tensor(0)); }
Result AtLeast3d(Call& c) { return AtLeast3dOf(c, c.Tensor(0)); }
template <Operand (*Of)(Call&, const Operand&)>
Result OfEach(Call& c) {
  Operands results;
  for (const Operand& x : c.Tensors(0)) results.push_back(Of(c, x));
  return results;
}
Operand AtLeast1dOf(Call& c, const Operand& x) { return x.rank() >= 1 ? x : c.b.Reshape(x, {1}); }

Result RealPart(Call& c) {
  Operand x = c.Tensor(0);
  return x.is_complex() ? c.b.Real(x) : x;
}
Result ImaginaryPart(Call& c) { return c.b.Imaginary(c.Tensor(0)); }
Result AsReal(Call& c) { return c.Tensor(0).AsPairs(); }
Result AsComplex(Call& c) { return c.Tensor(0).AsComplex(); }
Result Conjugate(Call& c) { return ConjugateOf(c, c.Tensor(0)); }

constexpr RuleKind kView = RuleKind::kView;
constexpr RuleKind kPlain = RuleKind::kPlain;

constexpr Rule kRules[] = {
    {"alias(Tensor self)", Same, kView, kComplexToo},
    {"detach(Tensor self)", Same, kView, kComplexToo},
    {"lift_fresh(Tensor self)", Same, kView, kComplexToo},
    {"lift(Tensor self)", Same, kPlain, kComplexToo},
    {"positive(Tensor self)", Same, kView, kComplexToo},
    {"resolve_conj(Tensor self)", Same, kView, kComplexToo},
    {"resolve_neg(Tensor self)", Same, kView, kComplexToo},
    {"contiguous(Tensor self, *, MemoryFormat memory_format=0)", Same, RuleKind::kMaybeView, kComplexToo},
    {"clone(Tensor self, *, MemoryFormat? memory_format=None)", Same, kPlain, kComplexToo},
    {"view(Tensor self, SymInt[] size)", View, kView, kComplexToo},
    {"reshape(Tensor self, SymInt[] shape)", View, RuleKind::kMaybeView, kComplexToo},
    {"_unsafe_view(Tensor self, SymInt[] size)", View, kView, kComplexToo},
    {"_reshape_alias(Tensor self, SymInt[] size, SymInt[] stride)", View, kView, kComplexToo},
    {"view_as(Tensor self, Tensor other)", ViewAs, kView, kComplexToo},
    {"reshape_as(Tensor self, Tensor other)", ViewAs, RuleKind::kMaybeView, kComplexToo},
    {"flatten.using_ints(Tensor self, int start_dim=0, int end_dim=-1)", Flatten, RuleKind::kMaybeView, kComplexToo},
    {"ravel(Tensor self)", Ravel, RuleKind::kMaybeView, kComplexToo},
    {"unflatten.int(Tensor self, int dim, SymInt[] sizes)", Unflatten, kView, kComplexToo},
    {"squeeze(Tensor self)", Squeeze, kView, kComplexToo},
    {"squeeze.dim,dims(Tensor self, int[] dim)", SqueezeDims, kView, kComplexToo},
    {"unsqueeze(Tensor self, int dim)", Unsqueeze, kView, kComplexToo},
    {"permute(Tensor self, int[] dims)", Permute, kView, kComplexToo},
    {"transpose.int(Tensor self, int dim0, int dim1)", Swap, kView, kComplexToo},
    {"swapdims(Tensor self, int dim0, int dim1)", Swap, kView, kComplexToo},
    {"swapaxes(Tensor self, int axis0, int axis1)", Swap, kView, kComplexToo},
    {"t(Tensor self)", Transposed, kView, kComplexToo},
    {"mT(Tensor self)", Transposed, kView, kComplexToo},
    {"numpy_T(Tensor self)", Reversed, kView, kComplexToo},
    {"mH(Tensor self)", Adjoint, RuleKind::kReadOnly, kComplexToo},
    {"matrix_H(Tensor self)", Adjoint, RuleKind::kReadOnly, kComplexToo},
    {"adjoint(Tensor self)", Adjoint, RuleKind::kReadOnly, kComplexToo},
    {"movedim.int,intlist(Tensor self, int[] source, int[] destination)", MoveDim, kView, kComplexToo},
    {"moveaxis.int,intlist(Tensor self, int[] source, int[] destination)", MoveDim, kView, kComplexToo},
    {"expand(Tensor self, SymInt[] size, *, bool implicit=False)", Expand, kView, kComplexToo},
    {"expand_as(Tensor self, Tensor other)", ExpandAs, kView, kComplexToo},
    {"broadcast_to(Tensor self, SymInt[] size)", Expand, kView, kComplexToo},
    {"atleast_1d(Tensor self)", AtLeast1d, kView, kComplexToo},
    {"atleast_2d(Tensor self)", AtLeast2d, kView, kComplexToo},
    {"atleast_3d(Tensor self)", AtLeast3d, kView, kComplexToo},
    {"atleast_1d.Sequence(Tensor[] tensors)", OfEach<AtLeast1dOf>, RuleKind::kViewOfEach, kComplexToo},
    {"atleast_2d.Sequence(Tensor[] tensors)", OfEach<AtLeast2dOf>, RuleKind::kViewOfEach, kComplexToo},
    {"atleast_3d.Sequence(Tensor[] tensors)", OfEach<AtLeast3dOf>, RuleKind::kViewOfEach, kComplexToo},
    {"real(Tensor self)", RealPart, RuleKind::kReadOnly, kComplexToo},
    {"imag(Tensor self)", ImaginaryPart, RuleKind::kReadOnly, kComplexToo},
    {"view_as_real(Tensor self)", AsReal, RuleKind::kReadOnly, kComplexToo},
    {"view_as_complex(Tensor self)", AsComplex, RuleKind::kReadOnly},
    {"conj(Tensor self)", Conjugate, RuleKind::kReadOnly, kComplexToo},
    {"_conj(Tensor self)", Conjugate, RuleKind::kReadOnly, kComplexToo},
    {"conj_physical(Tensor self)", Conjugate, kPlain, kComplexToo},
};

}  // namespace

std::span<const Rule> ViewRules() { return kRules; }

}  // namespace ferry::torch
