// Tensors joined, repeated, turned.
#include <algorithm>
#include <numeric>

#include "torch/lower/families.h"

namespace ferry::torch {
namespace {

// Brought to one type; empty vectors, which PyTorch joins with anything, are left out.
Operands Joinable(Call& c, Operands parts) {
  std::vector<TensorOrNumber> values(parts.begin(), parts.end());
  DType dtype = ResultType(values);
  Operands kept;
  for (const Operand& part : parts) {
    bool is_nothing = part.rank() == 1 && SameDim(part.dim(0), Dim(0));
    if (!is_nothing) kept.push_back(c.b.Cast(part, dtype));
  }
  if (kept.empty()) kept.push_back(c.b.Cast(parts.at(0), dtype));
  return kept;
}
Result Cat(Call& c) { return c.b.Concat(Joinable(c, c.Tensors(0)), c.Int(1)); }

Result StackAlong(Call& c, Operands parts, int64_t axis) {
  std::vector<TensorOrNumber> values(parts.begin(), parts.end());
  DType dtype = ResultType(values);
  for (Operand& part : parts) part = c.b.Unsqueeze(c.b.Cast(part, dtype), {axis});
  return c.b.Concat(parts, axis);
}
Result Stack(Call& c) { return StackAlong(c, c.Tensors(0), c.Int(1)); }

Operand AtLeast(Builder& b, const Operand& x, size_t rank) {
  if (x.rank() >= rank) return x;
  if (rank == 3 && x.rank() == 2) return b.Unsqueeze(x, {2});
  if (rank == 3 && x.rank() == 1) return b.Unsqueeze(x, {0, 2});
  if (rank == 2 && x.rank() == 1) return b.Unsqueeze(x, {0});
  return b.Reshape(x, std::vector<int64_t>(rank, 1));
}
Operands AllAtLeast(Call& c, size_t rank) {
  Operands parts = c.Tensors(0);
  for (Operand& part : parts) part = AtLeast(c.b, part, rank);
  return Joinable(c, parts);
}
Result HStack(Call& c) {
  Operands parts = AllAtLeast(c, 1);
  return c.b.Concat(parts, parts.at(0).rank() == 1 ? 0 : 1);
}
Result VStack(Call& c) { return c.b.Concat(AllAtLeast(c, 2), 0); }
Result DStack(Call& c) { return c.b.Concat(AllAtLeast(c, 3), 2); }
// Vectors are columns.
Result ColumnStack(Call& c) {
  Operands parts = c.Tensors(0);
  for (Operand& part : parts)
    if (part.rank() <= 1) part = c.b.Reshape(part, {-1, 1});
  return c.b.Concat(Joinable(c, parts), 1);
}
Result BlockDiag(Call& c) {
  Operands parts = AllAtLeast(c, 2), rows;
  int64_t total = 0, before = 0;
  for (const Operand& part : parts) {
    if (!part.static_shape()) c.Unsupported("the sizes of its blocks are not known");
    total += (*part.static_shape())[1];
  }
  for (const Operand& part : parts) {
    Shape shape = *part.static_shape();
    auto zeros = [&](int64_t columns) { return c.b.Fill(0, part.dtype(), c.b.Ints({shape[0], columns})); };
    rows.push_back(c.b.Concat({zeros(before), part, zeros(total - before - shape[1])}, 1));
    before += shape[1];
  }
  return c.b.Concat(rows, 0);
}

Operand TileOf(Builder& b, const Operand& x, const std::vector<Scalar>& repeats) {
  Require(repeats.size() >= x.rank(), repeats.size(), " counts are too few for ", x.rank(), " axes");
  std::vector<int64_t> leading(repeats.size() - x.rank());
  std::iota(leading.begin(), leading.end(), 0);
  Operand full = b.Unsqueeze(x, leading);
  bool once =
      std::all_of(repeats.begin(), repeats.end(), [](const Scalar& n) { return n.is_known() && n.AsInt() == 1; });
  if (once) return full;
  std::vector<Scalar> counts = repeats;
  if (x.is_complex()) counts.push_back(Scalar(1));
  Operand tiled = b.Emit("Tile", {full.AsPairs(), b.ShapeVector(counts)});
  return x.is_complex() ? tiled.AsComplex() : tiled;
}
Result Repeat(Call& c) { return TileOf(c.b, c.Tensor(0), c.Numbers(1)); }
Result Tile(Call& c) {
  Operand x = c.Tensor(0);
  std::vector<Scalar> repeats = c.Numbers(1);
  if (repeats.size() < x.rank()) repeats.insert(repeats.begin(), x.rank() - repeats.size(), Scalar(1));
  return TileOf(c.b, x, repeats);
}
// Every element `repeats` times, next to each other.
Result RepeatInterleave(Call& c) {
  Operand x = c.Tensor(0);
  int64_t axis = 0;
  if (c.IsNone(2))
    x = c.b.Reshape(x, {-1});
  else
    axis = static_cast<int64_t>(x.Axis(c.Int(2)));
  int64_t repeats = c.Int(1);
  std::vector<Scalar> counts(x.rank() + 1, Scalar(1)), sizes = c.b.Sizes(x);
  counts[static_cast<size_t>(axis) + 1] = Scalar(repeats);
  Operand repeated = TileOf(c.b, c.b.Unsqueeze(x, {axis + 1}), counts);
  Dim size = x.dim(axis);
  sizes[static_cast<size_t>(axis)] = size.known() ? Scalar(CheckedProduct(*size.value, repeats)) : Scalar(-1);
  return c.b.View(repeated, sizes);
}
// Element i repeats[i] times: its index stands that often in a row of indices.
Operand RepeatedIndices(Builder& b, const Operand& repeats) {
  Operand counts = b.Cast(repeats, DType::kInt64);
  Operand ends = b.Emit("CumSum", {counts, b.Int(0)});
  Operand total = b.Reduce("ReduceSum", counts, {0}, false);
  Operand places = b.Range(b.Int(0), total, b.Int(1));
  // Place p belongs to the first element that ends behind it.
  Operand passed = b.LessOrEqual(b.Unsqueeze(ends, {0}), b.Unsqueeze(places, {1}));
  return b.Reduce("ReduceSum", b.Cast(passed, DType::kInt64), {1}, false);
}
Result RepeatInterleaveTensor(Call& c) {
  Operand x = c.Tensor(0), repeats = c.Tensor(1);
  int64_t axis = 0;
  if (c.IsNone(2))
    x = c.b.Reshape(x, {-1});
  else
    axis = c.Int(2);
  if (repeats.rank() == 0) repeats = c.b.Reshape(repeats, {1});
  repeats = c.b.Expand(repeats, c.b.SizeOf(x, axis));
  return c.b.Gather(x, RepeatedIndices(c.b, repeats), axis);
}
Result RepeatCounts(Call& c) { return RepeatedIndices(c.b, c.Tensor(0)); }

Operand FlipOf(Builder& b, const Operand& x, std::vector<int64_t> axes) {
  if (x.rank() == 0) return x;
  SymbolicShape shape = x.shape();
  auto has_one_order = [&](int64_t axis) {
    const Dim& size = shape[static_cast<size_t>(axis)];
    return size.known() && *size.value <= 1;
  };
  for (int64_t& axis : axes) axis = static_cast<int64_t>(x.Axis(axis));
  axes.erase(std::remove_if(axes.begin(), axes.end(), has_one_order), axes.end());
  if (axes.empty()) return x;
  auto all = [&](int64_t value) { return b.Ints(std::vector<int64_t>(axes.size(), value)); };
  Operand flipped = b.Emit("Slice", {x.AsPairs(), all(-1), all(INT64_MIN), b.Ints(axes), all(-1)});
  return x.is_complex() ? flipped.AsComplex() : flipped;
}
Result Flip(Call& c) { return FlipOf(c.b, c.Tensor(0), c.Ints(1)); }
Result FlipLr(Call& c) { return FlipOf(c.b, c.Tensor(0), {1}); }
Result FlipUd(Call& c) { return FlipOf(c.b, c.Tensor(0), {0}); }
Result Rot90(Call& c) {
  Operand x = c.Tensor(0);
  std::vector<int64_t> axes = c.Ints(2);
  switch (((c.Int(1) % 4) + 4) % 4) {
    case 1: return c.b.SwapAxes(FlipOf(c.b, x, {axes.at(1)}), axes.at(0), axes.at(1));
    case 2: return FlipOf(c.b, x, axes);
    case 3: return c.b.SwapAxes(FlipOf(c.b, x, {axes.at(0)}), axes.at(0), axes.at(1));
    default: return x;
  }
}

// The last `shift` elements come first. A shift by more than the size counts from the beginning again.
Operand RollAlong(Builder& b, const Operand& x, int64_t axis, const Scalar& shift) {
  Dim size = x.dim(axis);
  if (SameDim(size, Dim(0)) || (shift.is_known() && shift.AsInt() == 0)) return x;
  Scalar cut;
  if (shift.is_known() && size.known()) {
    int64_t by = (shift.AsInt() % *size.value + *size.value) % *size.value;
    if (by == 0) return x;
    cut = Scalar(-by);
  } else {
    cut = Scalar(Scalar::Kind::kInt, b.Neg(b.Emit("Mod", {b.AsVector(shift), b.SizeOf(x, axis)})));
  }
  return b.Concat({b.Slice(x, axis, cut, Scalar(INT64_MAX)), b.Slice(x, axis, Scalar(0), cut)}, axis);
}
Result Roll(Call& c) {
  Operand x = c.Tensor(0);
  std::vector<Scalar> shifts = c.Numbers(1);
  std::vector<int64_t> axes = c.Ints(2);
  if (x.rank() == 0) return x;
  if (axes.empty()) return c.b.Reshape(RollAlong(c.b, c.b.Reshape(x, {-1}), 0, shifts.at(0)), c.b.ShapeOf(x));
  for (size_t i = 0; i < axes.size(); ++i) x = RollAlong(c.b, x, axes[i], shifts.at(i));
  return x;
}

Result BroadcastTensors(Call& c) {
  Operands parts = c.Tensors(0), results;
  // Zeros of each shape added up have the common one.
  Operand common;
  for (const Operand& part : parts) {
    Operand zeros = c.b.Fill(0, DType::kInt64, c.b.ShapeOf(part));
    common = common ? c.b.Add(common, zeros) : zeros;
  }
  for (const Operand& part : parts) results.push_back(c.b.ExpandLike(part, common));
  return results;
}
Result MeshGridOf(Call& c, bool xy) {
  Operands parts = c.Tensors(0), results;
  std::vector<Scalar> sizes;
  for (Operand& part : parts) {
    part = part.rank() == 0 ? c.b.Reshape(part, {1}) : part;
    sizes.push_back(c.b.SizeScalar(part, 0));
  }
  if (xy && parts.size() >= 2) std::swap(sizes[0], sizes[1]);
  for (size_t i = 0; i < parts.size(); ++i) {
    size_t at = xy && parts.size() >= 2 && i < 2 ? 1 - i : i;
    std::vector<int64_t> axes;
    for (size_t axis = 0; axis < parts.size(); ++axis)
      if (axis != at) axes.push_back(static_cast<int64_t>(axis));
    results.push_back(c.b.Expand(c.b.Unsqueeze(parts[i], axes), c.b.ShapeVector(sizes)));
  }
  return results;
}
Result MeshGrid(Call& c) { return MeshGridOf(c, false); }
Result MeshGridIndexing(Call& c) { return MeshGridOf(c, c.Text(1) == "xy"); }

constexpr RuleKind kPlain = RuleKind::kPlain;

// Sequences of different lengths side by side, the shorter ones filled up.
Result PadSequence(Call& c) {
  Operands sequences = c.Tensors(0);
  if (sequences.empty()) c.Unsupported("there is no sequence");
  Operand longest = c.b.SizeOf(sequences[0], 0);
  for (size_t i = 1; i < sequences.size(); ++i) longest = c.b.Max(longest, c.b.SizeOf(sequences[i], 0));
  Operands rows;
  for (const Operand& x : sequences) {
    std::vector<Scalar> sizes = c.b.Sizes(x);
    sizes.at(0) = Scalar(Scalar::Kind::kInt, c.b.Sub(longest, c.b.SizeOf(x, 0)));
    Operand filler = c.b.Fill(c.Float(2), x.dtype(), c.b.ShapeVector(sizes));
    bool on_the_left = c.Text(3) == "left";
    Operand filled = c.b.Concat(on_the_left ? Operands{filler, x} : Operands{x, filler}, 0);
    rows.push_back(c.b.Unsqueeze(filled, {c.Bool(1) ? 0 : 1}));
  }
  return c.b.Concat(rows, c.Bool(1) ? 0 : 1);
}

constexpr Rule kRules[] = {
    {"pad_sequence(Tensor[] sequences, bool batch_first=False, float padding_value=0.0, str padding_side=\"right\")",
     PadSequence},
    {"cat(Tensor[] tensors, int dim=0)", Cat, kPlain, kComplexToo},
    {"stack(Tensor[] tensors, int dim=0)", Stack, kPlain, kComplexToo},
    {"hstack(Tensor[] tensors)", HStack, kPlain, kComplexToo},
    {"vstack(Tensor[] tensors)", VStack, kPlain, kComplexToo},
    {"dstack(Tensor[] tensors)", DStack, kPlain, kComplexToo},
    {"column_stack(Tensor[] tensors)", ColumnStack, kPlain, kComplexToo},
    {"block_diag(Tensor[] tensors)", BlockDiag, kPlain, kComplexToo},
    {"repeat(Tensor self, SymInt[] repeats)", Repeat, kPlain, kComplexToo},
    {"tile(Tensor self, SymInt[] dims)", Tile, kPlain, kComplexToo},
    {"repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None)",
     RepeatInterleave, kPlain, kComplexToo},
    {"repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? output_size=None)",
     RepeatInterleaveTensor, kPlain, kComplexToo},
    {"repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None)", RepeatCounts},
    {"flip(Tensor self, int[] dims)", Flip, kPlain, kComplexToo},
    {"fliplr(Tensor self)", FlipLr, kPlain, kComplexToo},
    {"flipud(Tensor self)", FlipUd, kPlain, kComplexToo},
    {"rot90(Tensor self, int k=1, int[] dims=[0, 1])", Rot90, kPlain, kComplexToo},
    {"roll(Tensor self, SymInt[1] shifts, int[1] dims=[])", Roll, kPlain, kComplexToo},
    {"broadcast_tensors(Tensor[] tensors)", BroadcastTensors, RuleKind::kViewOfEach, kComplexToo},
    {"meshgrid(Tensor[] tensors)", MeshGrid, RuleKind::kViewOfEach, kComplexToo},
    {"meshgrid.indexing(Tensor[] tensors, *, str indexing)", MeshGridIndexing, RuleKind::kViewOfEach, kComplexToo},
};

}  // namespace

std::span<const Rule> JoinRules() { return kRules; }

}  // namespace ferry::torch
