// What takes and puts elements at places that are known only while running, and what sorts them.
#include <algorithm>

#include "convert/c/kernels.h"

namespace ferry::c {
namespace {

void Move(StepWriter& w, const Operand& to, const std::string& at, const Operand& from, const std::string& index) {
  if (IsPacked(to.type) || IsSmallFloat(to.type)) {
    w.Line(w.Store(to, at, w.Load(from, index)));
  } else {
    w.Line(to.c, "[", at, "] = ", from.c, "[", index, "];");
  }
}

// A place along an axis of `size`: negative ones count from the end, others are cut to it.
void WritePlace(StepWriter& w, const char* name, const std::string& text, int64_t size) {
  w.Line("int ", name, " = (int)", text, ";");
  w.Line("if (", name, " < 0) ", name, " += ", size, ";");
  w.Line("if (", name, " < 0 || ", name, " >= ", size, ") ", name, " = 0;");
}

void WriteGather(StepWriter& w) {
  const Operand &x = w.in[0], &indices = w.in[1], &y = w.out[0];
  const size_t axis = NormalizeAxis(w.node.Int("axis", 0), x.shape.rank());
  const int64_t outer = x.shape.CountBetween(0, axis), size = x.shape[axis],
                inner = x.shape.CountBetween(axis + 1, x.shape.rank()), count = indices.size();
  if (y.size() == 0) return;
  w.For("o", outer);
  w.For("k", count);
  WritePlace(w, "at", w.Load(indices, "k"), size);
  w.For("i", inner);
  Move(w, y, Cat("(o * ", count, " + k) * ", inner, " + i"), x, Cat("(o * ", size, " + at) * ", inner, " + i"));
  w.Close(3);
}

void WriteGatherElements(StepWriter& w) {
  const Operand &x = w.in[0], &indices = w.in[1], &y = w.out[0];
  const size_t axis = NormalizeAxis(w.node.Int("axis", 0), x.shape.rank());
  Nest nest{indices.shape.ToVector(), {indices.shape.Strides(), x.shape.Strides()}};
  nest.strides[1][axis] = 0;
  int opened = 0;
  const std::vector<std::string> at = w.OpenNest(nest, "i", opened);
  WritePlace(w, "at", w.Load(indices, at[0]), x.shape[axis]);
  Move(w, y, at[0], x, Cat(at[1], " + at * ", x.shape.Strides()[axis]));
  w.Close(opened);
}

// Where a tuple of indices leads: the text of a base, and the length of what lies there.
void WriteTuple(StepWriter& w, const Operand& indices, const Shape& shape, size_t first, int64_t depth,
                const std::string& tuple) {
  w.Line("int base = 0;");
  for (int64_t d = 0; d < depth; ++d) {
    w.Open("");
    WritePlace(w, "at", w.Load(indices, Cat(tuple, " * ", depth, " + ", d)), shape[first + static_cast<size_t>(d)]);
    w.Line("base = base * ", shape[first + static_cast<size_t>(d)], " + at;");
    w.Close();
  }
}

void WriteGatherNd(StepWriter& w) {
  const Operand &x = w.in[0], &indices = w.in[1], &y = w.out[0];
  const auto batch_dims = static_cast<size_t>(w.node.Int("batch_dims", 0));
  const int64_t depth = indices.shape.back(), batch = indices.shape.CountBetween(0, batch_dims),
                tuples = indices.shape.CountBetween(batch_dims, indices.shape.rank() - 1);
  const int64_t run = x.shape.CountBetween(batch_dims + static_cast<size_t>(depth), x.shape.rank()),
                part = x.shape.CountBetween(batch_dims, x.shape.rank());
  w.For("b", batch);
  w.For("t", tuples);
  WriteTuple(w, indices, x.shape, batch_dims, depth, Cat("(b * ", tuples, " + t)"));
  w.For("i", run);
  Move(w, y, Cat("(b * ", tuples, " + t) * ", run, " + i"), x, Cat("b * ", part, " + base * ", run, " + i"));
  w.Close(3);
}

void WriteReduced(StepWriter& w, const Operand& y, const std::string& at, const Operand& updates,
                  const std::string& from) {
  const std::string reduction = w.node.String("reduction", "none");
  if (reduction == "none") return Move(w, y, at, updates, from);
  const std::string c(ArithmeticC(y.type));
  w.Line("const ", c, " old = ", w.Load(y, at), ", add = ", w.Load(updates, from), ";");
  const std::string op = reduction == "add" ? "Add" : reduction == "mul" ? "Mul" : reduction == "max" ? "Max" : "Min";
  w.Line(w.Store(y, at, BinaryText(w, op, "old", "add", ArithmeticType(y.type))));
}

void CopyWhole(StepWriter& w) {
  w.MayOverwrite(0);
  if (w.out[0].size() > 0)
    w.Line("if (", w.out[0].c, " != ", w.in[0].c, ") memcpy(", w.out[0].c, ", ", w.in[0].c, ", ",
           StorageBytes(w.out[0].type, w.out[0].size()), ");");
}

void WriteScatterElements(StepWriter& w) {
  const Operand &x = w.in[0], &indices = w.in[1], &updates = w.in[2], &y = w.out[0];
  CopyWhole(w);
  const size_t axis = NormalizeAxis(w.node.Int("axis", 0), x.shape.rank());
  Nest nest{indices.shape.ToVector(), {indices.shape.Strides(), x.shape.Strides()}};
  nest.strides[1][axis] = 0;
  int opened = 0;
  const std::vector<std::string> at = w.OpenNest(nest, "i", opened);
  WritePlace(w, "place", w.Load(indices, at[0]), x.shape[axis]);
  w.Line("const int to = ", at[1], " + place * ", x.shape.Strides()[axis], ";");
  WriteReduced(w, y, "to", updates, at[0]);
  w.Close(opened);
}

void WriteScatterNd(StepWriter& w) {
  const Operand &x = w.in[0], &indices = w.in[1], &updates = w.in[2], &y = w.out[0];
  CopyWhole(w);
  const int64_t depth = indices.shape.back(), tuples = indices.shape.CountBetween(0, indices.shape.rank() - 1),
                run = x.shape.CountBetween(static_cast<size_t>(depth), x.shape.rank());
  w.For("t", tuples);
  WriteTuple(w, indices, x.shape, 0, depth, "t");
  w.For("i", run);
  WriteReduced(w, y, Cat("base * ", run, " + i"), updates, Cat("t * ", run, " + i"));
  w.Close(2);
}

void WriteTensorScatter(StepWriter& w) {
  const Operand &x = w.in[0], &updates = w.in[1], &y = w.out[0];
  CopyWhole(w);
  const size_t axis = NormalizeAxis(w.node.Int("axis", -2), x.shape.rank());
  const int64_t size = x.shape[axis], length = updates.shape[axis], batch = x.shape[0],
                middle = x.shape.CountBetween(1, axis), inner = x.shape.CountBetween(axis + 1, x.shape.rank());
  const bool circular = w.node.String("mode", "linear") == "circular";
  w.For("n", batch);
  w.For("m", middle);
  w.For("k", length);
  w.Line("int at = ", w.Has(2) ? Cat("(int)", w.in[2].c, "[n] + ") : "", "k;");
  if (circular) w.Line("at %= ", size, ";");
  w.Line("if (at < 0 || at >= ", size, ") continue;");
  w.For("i", inner);
  Move(w, y, Cat("((n * ", middle, " + m) * ", size, " + at) * ", inner, " + i"), updates,
       Cat("((n * ", middle, " + m) * ", length, " + k) * ", inner, " + i"));
  w.Close(4);
}

void WriteOneHot(StepWriter& w) {
  const Operand &indices = w.in[0], &values = w.in[2], &y = w.out[0];
  const size_t axis = NormalizeAxis(w.node.Int("axis", -1), y.shape.rank());
  const int64_t depth = y.shape[axis], outer = y.shape.CountBetween(0, axis),
                inner = y.shape.CountBetween(axis + 1, y.shape.rank());
  w.For("o", outer);
  w.For("d", depth);
  w.For("i", inner);
  w.Line("double at = (double)", w.Load(indices, Cat("o * ", inner, " + i")), ";");
  w.Line("if (at < 0) at += ", depth, ";");
  w.Line(w.Store(y, Cat("(o * ", depth, " + d) * ", inner, " + i"),
                 Cat("(int64_t)at == d ? ", w.Load(values, "1"), " : ", w.Load(values, "0"))));
  w.Close(3);
}

void WriteTopK(StepWriter& w) {
  const Operand& x = w.in[0];
  const size_t axis = NormalizeAxis(w.node.Int("axis", -1), x.shape.rank());
  const int64_t count = x.shape[axis], k = w.ConstantInts(1).at(0), outer = x.shape.CountBetween(0, axis),
                inner = x.shape.CountBetween(axis + 1, x.shape.rank());
  const char* wins = w.node.Int("largest", 1) != 0 ? ">" : "<";
  const std::string taken = w.Scratch(DType::kUInt8, count), c(ArithmeticC(x.type));
  if (k == 0) return;
  w.For("o", outer);
  w.For("i", inner);
  w.Line("memset(", taken, ", 0, ", count, ");");
  w.For("r", k);
  w.Line("int best = -1;");
  w.Line(c, " most = 0;");
  w.For("j", count);
  w.Line("const ", c, " v = ", w.Load(x, Cat("(o * ", count, " + j) * ", inner, " + i")), ";");
  w.Line("if (!", taken, "[j] && (best < 0 || v ", wins, " most",
         IsFloatType(x.type) && std::string(wins) == ">" ? " || (v != v && most == most)" : "",
         ")) best = j, most = v;");
  w.Close();
  w.Line(taken, "[best] = 1;");
  if (w.Wants(0)) w.Line(w.Store(w.out[0], Cat("(o * ", k, " + r) * ", inner, " + i"), "most"));
  if (w.Wants(1)) w.Line(w.Store(w.out[1], Cat("(o * ", k, " + r) * ", inner, " + i"), "best"));
  w.Close(3);
}

void WriteReverseSequence(StepWriter& w) {
  const Operand &x = w.in[0], &lengths = w.in[1], &y = w.out[0];
  const auto batch_axis = static_cast<size_t>(w.node.Int("batch_axis", 1)),
             time_axis = static_cast<size_t>(w.node.Int("time_axis", 0));
  const std::vector<int64_t> strides = x.shape.Strides();
  const int64_t batch = x.shape[batch_axis], time = x.shape[time_axis], inner = x.shape.CountBetween(2, x.shape.rank());
  w.For("b", batch);
  w.For("t", time);
  w.Line("const int length = (int)", lengths.c, "[b], from = t < length ? length - 1 - t : t;");
  w.For("i", inner);
  Move(w, y, Cat("b * ", strides[batch_axis], " + t * ", strides[time_axis], " + i"), x,
       Cat("b * ", strides[batch_axis], " + from * ", strides[time_axis], " + i"));
  w.Close(3);
}

void WriteMaxUnpool(StepWriter& w) {
  w.Line("memset(", w.out[0].c, ", 0, ", StorageBytes(w.out[0].type, w.out[0].size()), ");");
  // Indices count in the tensor that was pooled, which an output_shape may have made larger.
  const Shape& x = w.in[0].shape;
  std::vector<int64_t> kernel = w.node.Ints("kernel_shape"), strides = w.node.Ints("strides"),
                       pads = w.node.Ints("pads");
  const size_t rank = kernel.size();
  strides.resize(rank, 1), pads.resize(2 * rank, 0);
  std::vector<int64_t> pooled;
  bool same = true;
  for (size_t a = 0; a < rank; ++a) {
    pooled.push_back((x[a + 2] - 1) * strides[a] + kernel[a] - pads[a] - pads[a + rank]);
    same = same && pooled[a] == w.out[0].shape[a + 2];
  }
  w.For("i", w.in[0].size());
  w.Line("int64_t at = ", w.in[1].c, "[i];");
  if (!same) {
    w.Line("int64_t to = 0, unit = 1;");
    for (size_t a = rank; a-- > 0;)
      w.Line("to += at % ", pooled[a], " * unit, at /= ", pooled[a], ", unit *= ", w.out[0].shape[a + 2], ";");
    w.Line("at = to + at * unit;");
  }
  w.Line("if (at >= 0 && at < ", w.out[0].size(), ") ", w.out[0].c, "[at] = ", w.in[0].c, "[i];");
  w.Close();
}

}  // namespace

const std::vector<KernelEntry>& IndexingKernels() {
  static const std::vector<KernelEntry> kernels = {
      {"Gather", WriteGather},
      {"GatherElements", WriteGatherElements},
      {"GatherND", WriteGatherNd},
      {"ScatterElements", WriteScatterElements},
      {"Scatter", WriteScatterElements},
      {"ScatterND", WriteScatterNd},
      {"TensorScatter", WriteTensorScatter},
      {"OneHot", WriteOneHot},
      {"TopK", WriteTopK},
      {"ReverseSequence", WriteReverseSequence},
      {"MaxUnpool", WriteMaxUnpool},
  };
  return kernels;
}

}  // namespace ferry::c
