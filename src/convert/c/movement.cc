// What only moves elements: the operator itself is run on the numbers of its elements, and what comes out is written as
// loops where it is regular, as a table where it is not.
#include <algorithm>

#include "convert/c/kernels.h"
#include "ops/evaluate.h"
#include "ops/operator.h"

namespace ferry::c {
namespace {

// The input index of every output element; -1 for what is not an element.
std::vector<int64_t> SourceOf(StepWriter& w, size_t output, std::vector<size_t> data) {
  std::vector<ferry::Value> values(w.in.size());
  std::vector<const ferry::Value*> inputs(w.in.size(), nullptr);
  int64_t next = 1;
  for (size_t i = 0; i < w.in.size(); ++i) {
    if (!w.Has(i)) continue;
    if (std::find(data.begin(), data.end(), i) != data.end()) {
      // The house's own operators are of floats.
      const bool is_own = w.node.domain == kInternalDomain;
      Tensor numbers(is_own ? DType::kFloat : DType::kInt64, w.in[i].shape);
      if (is_own && numbers.size() > (1 << 24)) w.Refuse("it moves too many elements");
      for (int64_t e = 0; e < numbers.size(); ++e, ++next) {
        if (is_own)
          numbers.MutableData<float>()[e] = static_cast<float>(next);
        else
          numbers.MutableData<int64_t>()[e] = next;
      }
      values[i] = ferry::Value(std::move(numbers));
    } else {
      Tensor constant = w.Constant(i);
      // The value that fills gaps becomes 0, which stands for none.
      if (w.node.op_type == "Pad" && i == 2) constant = Tensor::Scalar<int64_t>(0).Reshaped(w.in[i].shape);
      values[i] = ferry::Value(std::move(constant));
    }
    inputs[i] = &values[i];
  }
  std::vector<ferry::Value> made = EvaluateNode(w.node, inputs, RunServices());
  const Tensor& result = made[output].tensor();
  std::vector<int64_t> source(static_cast<size_t>(result.size()));
  for (size_t e = 0; e < source.size(); ++e)
    source[e] =
        (result.dtype() == DType::kFloat ? static_cast<int64_t>(result.Data<float>()[e]) : result.Data<int64_t>()[e]) -
        1;
  return source;
}

// base + Σ index · stride, if the map is that.
bool FindStrides(const std::vector<int64_t>& source, const Shape& shape, int64_t& base, std::vector<int64_t>& strides) {
  strides.assign(shape.rank(), 0);
  if (source.empty()) return true;
  base = source[0];
  const std::vector<int64_t> own = shape.Strides();
  for (size_t a = 0; a < shape.rank(); ++a)
    if (shape[a] > 1) strides[a] = source[static_cast<size_t>(own[a])] - base;
  std::vector<int64_t> at(shape.rank());
  for (int64_t value : source) {
    int64_t expected = base;
    for (size_t a = 0; a < at.size(); ++a) expected += at[a] * strides[a];
    if (value != expected) return false;
    for (size_t a = at.size(); a-- > 0 && ++at[a] == shape[a];) at[a] = 0;
  }
  return true;
}

// Complex numbers are moved as pairs.
void StoreMoved(StepWriter& w, const Operand& to, const std::string& at, const Operand& from,
                const std::string& index) {
  if (IsComplex(to.type)) {
    w.Line(to.c, "[2 * (", at, ")] = ", from.c, "[2 * (", index, ")];");
    w.Line(to.c, "[2 * (", at, ") + 1] = ", from.c, "[2 * (", index, ") + 1];");
  } else if (IsPacked(to.type)) {
    w.Line(w.Store(to, at, w.Load(from, index)));
  } else {
    w.Line(to.c, "[", at, "] = ", from.c, "[", index, "];");
  }
}

void CopyAffine(StepWriter& w, const Operand& from, const Operand& to, const Shape& shape, int64_t from_base,
                std::vector<int64_t> from_strides, int64_t to_base, std::vector<int64_t> to_strides) {
  if (shape.ElementCount() == 0) return;
  Nest nest{shape.ToVector(), {std::move(to_strides), std::move(from_strides)}};
  nest.Collapse();
  const bool plain = !IsPacked(to.type) && !IsComplex(to.type);
  if (nest.dims.size() <= 1 && plain && (nest.dims.empty() || (nest.strides[0][0] == 1 && nest.strides[1][0] == 1))) {
    const int64_t count = nest.dims.empty() ? 1 : nest.dims[0];
    if (count >= 4)
      return w.Line("memcpy(", to.c, " + ", to_base, ", ", from.c, " + ", from_base, ", ", StorageBytes(to.type, count),
                    ");");
  }
  int opened = 0;
  std::vector<std::string> at = w.OpenNest(nest, "i", opened);
  auto shifted = [](const std::string& index, int64_t base) { return base == 0 ? index : Cat(index, " + ", base); };
  StoreMoved(w, to, shifted(at[0], to_base), from, shifted(at[1], from_base));
  w.Close(opened);
}

Tensor IndexTable(const std::vector<int64_t>& source) {
  const int64_t count = static_cast<int64_t>(source.size()),
                largest = source.empty() ? 0 : *std::max_element(source.begin(), source.end());
  if (largest <= INT16_MAX) {
    Tensor table(DType::kInt16, Shape{count});
    for (int64_t i = 0; i < count; ++i)
      table.MutableData<int16_t>()[i] = static_cast<int16_t>(source[static_cast<size_t>(i)]);
    return table;
  }
  Tensor table(DType::kInt32, Shape{count});
  for (int64_t i = 0; i < count; ++i)
    table.MutableData<int32_t>()[i] = static_cast<int32_t>(source[static_cast<size_t>(i)]);
  return table;
}

void WriteMap(StepWriter& w, const Operand& from, const Operand& to, const std::vector<int64_t>& source,
              const std::string& gap) {
  int64_t base = 0;
  std::vector<int64_t> strides;
  if (FindStrides(source, to.shape, base, strides) && base >= 0 &&
      (source.empty() || *std::min_element(source.begin(), source.end()) >= 0))
    return CopyAffine(w, from, to, to.shape, base, strides, 0, to.shape.Strides());
  const bool gaps = std::find(source.begin(), source.end(), -1) != source.end();
  // A rectangle inside gaps: filled first.
  const std::string table = w.Table(IndexTable(source));
  w.For("i", to.size());
  w.Line("const int at = ", table, "[i];");
  if (gaps) {
    w.Open("if (at < 0)");
    w.Line(w.Store(to, "i", gap));
    w.Line("continue;");
    w.Close();
  }
  StoreMoved(w, to, "i", from, "at");
  w.Close();
}

void WriteMover(StepWriter& w) {
  for (size_t o = 0; o < w.out.size(); ++o)
    if (w.Wants(o)) WriteMap(w, w.in[0], w.out[o], SourceOf(w, o, {0}), "0");
}

void WritePad(StepWriter& w) {
  const Operand &x = w.in[0], &y = w.out[0];
  const std::string gap = w.Has(2) ? w.Load(w.in[2], "0") : "0";
  if (w.node.String("mode", "constant") != "constant") return WriteMap(w, x, y, SourceOf(w, 0, {0}), "0");
  const std::vector<int64_t> pads = w.ConstantInts(1);
  std::vector<int64_t> axes;
  if (w.Has(3)) axes = w.ConstantInts(3);
  if (axes.empty())
    for (size_t a = 0; a < x.shape.rank(); ++a) axes.push_back(static_cast<int64_t>(a));
  const std::vector<size_t> order = NormalizeAxes(axes, x.shape.rank());
  const std::vector<int64_t> xs = x.shape.Strides(), ys = y.shape.Strides();
  int64_t from = 0, to = 0;
  Shape inside = x.shape;
  Require(pads.size() == 2 * order.size(), "pads do not fit the axes");
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t a = order[i];
    const int64_t begin = pads[i], end = pads[i + order.size()];
    inside[a] = std::max<int64_t>(0, inside[a] + std::min<int64_t>(begin, 0) + std::min<int64_t>(end, 0));
    from += std::max<int64_t>(-begin, 0) * xs[a];
    to += std::max<int64_t>(begin, 0) * ys[a];
  }
  w.For("i", y.size());
  w.Line(w.Store(y, "i", gap));
  w.Close();
  CopyAffine(w, x, y, inside, from, xs, to, ys);
}

void WriteConcat(StepWriter& w) {
  const Operand& y = w.out[0];
  const size_t axis = NormalizeAxis(w.node.Int("axis", 0), y.shape.rank());
  int64_t at = 0;
  for (const Operand& x : w.in) {
    if (!x) continue;
    CopyAffine(w, x, y, x.shape, 0, x.shape.Strides(), at * y.shape.Strides()[axis], y.shape.Strides());
    at += x.shape[axis];
  }
}

void WriteTrilu(StepWriter& w) {
  const Operand& y = w.out[0];
  const int64_t rows = y.shape[y.shape.rank() - 2], columns = y.shape.back();
  const bool upper = w.node.Int("upper", 1) != 0;
  w.MayOverwrite(0);
  w.For("s", y.size() / std::max<int64_t>(1, rows * columns));
  w.For("i", rows);
  w.For("j", columns);
  w.Line("const int at = (s * ", rows, " + i) * ", columns, " + j;");
  w.Line(w.Store(y, "at",
                 Cat("j - i ", upper ? ">= " : "<= ", w.Has(1) ? Cat("(int)", w.in[1].c, "[0]") : "0", " ? ",
                     w.Load(w.in[0], "at"), " : 0")));
  w.Close(3);
}

void WriteEyeLike(StepWriter& w) {
  const int64_t rows = w.out[0].shape[0], columns = w.out[0].shape[1];
  w.For("i", rows);
  w.For("j", columns);
  w.Line(w.Store(w.out[0], Cat("i * ", columns, " + j"), Cat("j - i == ", IntegerLiteral(w.node.Int("k", 0)))));
  w.Close(2);
}

}  // namespace

const std::vector<KernelEntry>& MovementKernels() {
  static const std::vector<KernelEntry> kernels = {
      {"Transpose", WriteMover},
      {"Slice", WriteMover},
      {"Compress", WriteMover},
      {"Expand", WriteMover},
      {"Tile", WriteMover},
      {"DepthToSpace", WriteMover},
      {"CenterCropPad", WriteMover},
      {"SpaceToDepth", WriteMover},
      {"Split", WriteMover},
      {"Squeeze", WriteMover},
      {"Unsqueeze", WriteMover},
      {"ferry.NhwcShuffle", WriteMover},
      {"Pad", WritePad},
      {"Concat", WriteConcat},
      {"Trilu", WriteTrilu},
      {"EyeLike", WriteEyeLike},
  };
  return kernels;
}

}  // namespace ferry::c
