// Steps on 8-bit integers: exact sums in 32 bits, then one rounding (ops/support/quantized_step.h).
#include <algorithm>
#include <cmath>

#include "convert/c/convolutions.h"
#include "convert/c/kernels.h"
#include "convert/c/quantized_panels.h"
#include "ops/support/quantized_step.h"

namespace ferry::c {
namespace {

// The text of a finished sum: a float, or a level by the helper that clamps before it rounds.
std::string Finish(StepWriter& w, const QuantizedStep& step, const std::string& column) {
  const std::string factor = Cat(w.in[2].c, "[", column, "]");
  const bool has_shift = w.Has(3) && w.in[3].type == DType::kFloat;
  const std::string value = Cat("(float)sum * ", factor, has_shift ? Cat(" + ", w.in[3].c, "[", column, "]") : "");
  if (step.is_float()) return value;
  w.Use("level");
  return Cat("level(", value, ", ", step.low, ", ", step.high, ", ", step.y_zero, ")");
}

std::string InitialSum(StepWriter& w, const std::string& column) {
  return w.Has(3) && w.in[3].type == DType::kInt32 ? Cat(w.in[3].c, "[", column, "]") : "0";
}

struct Columns {
  std::string sums, factors;  // tables: what a sum begins with, and its factor
  bool is_wide = false;       // levels may need more than 16 bits before they are cut
};

// What the fast forms need: integer sums that begin with bias and zero point, and levels far from where the magic
// number of the rounding ends. Nothing when it does not hold.
bool MakeColumns(StepWriter& w, const QuantizedStep& step, const Tensor& rows, int64_t features, int64_t depth,
                 Columns& columns) {
  if (step.is_float() || !w.in[2].constant || (w.Has(3) && (w.in[3].type != DType::kInt32 || !w.in[3].constant)))
    return false;
  Tensor sums(DType::kInt32, Shape{features});
  for (int64_t n = 0; n < features; ++n) {
    int64_t sum = 0, size = 0;
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t weight = rows.Data<int8_t>()[n * depth + k];
      sum += weight, size += std::abs(weight) * 255;
    }
    const int64_t start = (w.Has(3) ? w.in[3].constant->Data<int32_t>()[n] : 0) - step.x_zero * sum;
    if (std::abs(start) + size > INT32_MAX) return false;
    const double largest = static_cast<double>(std::abs(start) + size) * std::fabs(w.in[2].constant->Data<float>()[n]);
    if (largest > 4.0e6) return false;
    columns.is_wide |= largest > 32000;
    sums.MutableData<int32_t>()[n] = static_cast<int32_t>(start);
  }
  columns.sums = w.Table(std::move(sums));
  columns.factors = w.in[2].c;
  return true;
}

// Rows as long as a whole number of words.
Tensor PadRows(const Tensor& rows, int64_t features, int64_t depth) {
  const int64_t wide = (depth + 3) / 4 * 4;
  if (wide == depth) return rows;
  Tensor padded(DType::kInt8, Shape{features, wide});
  std::fill_n(padded.MutableData<int8_t>(), features * wide, int8_t{0});
  for (int64_t n = 0; n < features; ++n)
    std::copy_n(rows.Data<int8_t>() + n * depth, depth, padded.MutableData<int8_t>() + n * wide);
  return padded;
}

bool HasPanels(const StepWriter& w) { return w.options.target != CTarget::kAny; }

// A helper's name for the type of the input and, where they differ, the target.
std::string UseHelper(StepWriter& w, std::string_view name) {
  const std::string bytes = w.in[0].type == DType::kInt8 ? "_s8" : "_u8";
  const std::string target = w.options.target == CTarget::kX86 ? "_x86" : "_arm64";
  const std::string full = HasPanels(w) ? Cat(name, "_panels", bytes, target) : Cat(name, bytes);
  w.Use(full);
  return full;
}

struct DenseTables {
  std::string weights, wide;
};

// Panels come with sums and factors up to the end of the last one; rows are unsigned for x86-64, signed for arm64.
DenseTables MakePanels(StepWriter& w, Columns& columns, const Tensor& rows, int64_t features, int64_t depth) {
  const int64_t padded = (features + 15) / 16 * 16, depth_in_all = depth * features;
  const bool is_signed = w.in[0].type == DType::kInt8, x86 = w.options.target == CTarget::kX86;
  const int32_t shift = is_signed == x86 ? (is_signed ? -128 : 128) : 0;
  Require(rows.size() == depth_in_all, "weights have ", rows.size(), " elements, not ", depth_in_all);
  Tensor sums(DType::kInt32, Shape{padded}), factors(DType::kFloat, Shape{padded});
  const Tensor& known = w.table_tensors.back();
  for (int64_t n = 0; n < padded; ++n) {
    int32_t sum = 0;
    for (int64_t k = 0; n < features && k < depth; ++k) sum += rows.Data<int8_t>()[n * depth + k];
    sums.MutableData<int32_t>()[n] = n < features ? known.Data<int32_t>()[n] + shift * sum : 0;
    factors.MutableData<float>()[n] = n < features ? w.in[2].constant->Data<float>()[n] : 0.0f;
  }
  w.tables.back().shape = sums.shape();
  w.table_tensors.back() = std::move(sums);
  columns.factors = w.Table(std::move(factors));
  return {w.Table(PackInt8Panels(rows, features, depth)), {}};
}

DenseTables MakeTables(StepWriter& w, Columns& columns, const Tensor& rows, int64_t features, int64_t depth) {
  if (HasPanels(w)) return MakePanels(w, columns, rows, features, depth);
  return {w.Table(PadRows(rows, features, depth)), w.Scratch(DType::kInt16, 4 * ((depth + 3) / 4 * 4))};
}

void WriteDenseCall(StepWriter& w, const QuantizedStep& step, const Columns& columns, const std::string& x,
                    int64_t x_stride, const std::string& rows, const DenseTables& tables, int64_t depth,
                    int64_t features, const std::string& y) {
  const std::string name = UseHelper(w, "dense");
  w.Line(name, "((const uint8_t *)", x, ", ", x_stride, ", ", rows, ", ", tables.weights, ", ", columns.sums, ", ",
         columns.factors, ", ", depth, ", ", features, ", ", HasPanels(w) ? "" : Cat(tables.wide, ", "), "(uint8_t *)",
         y, ", ", step.low, ", ", step.high, ", ", step.y_zero,
         HasPanels(w)      ? ""
         : columns.is_wide ? ", 1"
                           : ", 0",
         ");");
}

// For four channels, pairs of taps of each, widened: what SMLAD multiplies in one. A last tap stands alone.
Tensor PackFours(const Tensor& rows, int64_t channels, int64_t taps) {
  Tensor turned(DType::kInt16, Shape{(channels + 3) / 4, taps, 4});
  std::fill_n(turned.MutableData<int16_t>(), turned.size(), int16_t{0});
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t t = 0; t < taps; ++t) {
      const int64_t at = t + 1 < taps || taps % 2 == 0 ? t / 2 * 8 + c % 4 * 2 + t % 2 : t * 4 + c % 4;
      turned.MutableData<int16_t>()[c / 4 * 4 * taps + at] = rows.Data<int8_t>()[c * taps + t];
    }
  return turned;
}

bool WriteFastConv(StepWriter& w, const QuantizedStep& step) {
  const NhwcConvPlan plan = PlanNhwcConv(w.node, w.in[0].shape, w.in[1].shape);
  const ConvPlan& conv = plan.conv;
  const WindowAxis &z = plan.axes[0], &v = plan.axes[1], &u = plan.axes[2];
  if (!w.in[1].constant || z.kernel != 1 || z.input != 1 || z.pad_begin != 0) return false;
  const int64_t taps = conv.counts.taps, pixels = conv.counts.output, depth = conv.depth();
  const bool depthwise =
      conv.group_channels == 1 && conv.group_features == 1 && conv.groups > 1 && !plan.channels_first;
  if ((conv.groups > 1 && !depthwise) || (depthwise && taps > 25)) return false;
  const Tensor rows = PackedAsRows(*w.in[1].constant, conv.features, conv.group_channels, taps);
  Columns columns;
  if (!MakeColumns(w, step, rows, conv.features, depth, columns)) return false;
  w.multiply_adds += conv.batch * pixels * conv.features * depth;
  const std::string x = Cat(w.in[0].c, " + n * ", conv.channels * conv.counts.input);
  if (depthwise) {
    const std::string name = UseHelper(w, "depthwise"), pad = w.Scratch(DType::kUInt8, conv.channels),
                      table = w.Table(HasPanels(w) ? PackTapPairs(rows, conv.channels, taps)
                                                   : PackFours(rows, conv.channels, taps));
    w.For("n", conv.batch);
    w.Line(name, "((const uint8_t *)(", x, "), ", table, ", ", columns.sums, ", ", columns.factors, ", ", pad,
           ", (uint8_t *)", w.out[0].c, " + n * ", conv.channels * pixels, ", ", conv.channels, ", ", v.input, ", ",
           u.input, ", ", v.output, ", ", u.output, ", ", v.kernel, ", ", u.kernel, ", ", v.stride, ", ", u.stride,
           ", ", v.dilation, ", ", u.dilation, ", ", v.pad_begin, ", ", u.pad_begin, ", ", step.x_zero, ", ", step.low,
           ", ", step.high, ", ", step.y_zero,
           HasPanels(w)      ? ""
           : columns.is_wide ? ", 1"
                             : ", 0",
           ");");
    w.Close();
    return true;
  }
  const int64_t wide_depth = (depth + 3) / 4 * 4;
  const DenseTables tables = MakeTables(w, columns, rows, conv.features, depth);
  if (conv.is_pointwise() && !plan.channels_first && depth % 4 == 0) {
    WriteDenseCall(w, step, columns, w.in[0].c, depth, Cat(conv.batch * pixels), tables, depth, conv.features,
                   w.out[0].c);
    return true;
  }
  w.Use("window_q");
  const int64_t tile = HasPanels(w) ? 12 : 4;
  const std::string patch = w.Scratch(DType::kUInt8, tile * wide_depth);
  w.For("n", conv.batch);
  w.For("o", v.output);
  w.Open("for (int p = 0; p < ", u.output, "; p += ", tile, ")");
  w.Line("const int count = ", u.output, " - p < ", tile, " ? ", u.output, " - p : ", tile, ";");
  w.Line("for (int q = 0; q < count; q++) window_q((const uint8_t *)(", x, "), ", patch, " + q * ", wide_depth, ", ",
         conv.channels, ", ", plan.channels_first ? conv.counts.input : 1, ", ",
         plan.channels_first ? 1 : conv.channels, ", ", v.input, ", ", u.input, ", ", v.kernel, ", ", u.kernel, ", ",
         v.dilation, ", ", u.dilation, ", o * ", v.stride, " - ", v.pad_begin, ", (p + q) * ", u.stride, " - ",
         u.pad_begin, ", ", step.x_zero, ", ", wide_depth - depth, ");");
  WriteDenseCall(w, step, columns, patch, wide_depth, "count", tables, wide_depth, conv.features,
                 Cat("(", w.out[0].c, " + ((n * ", v.output, " + o) * ", u.output, " + p) * ", conv.features, ")"));
  w.Close(3);
  return true;
}

void WritePlainConv(StepWriter& w, const QuantizedStep& step, bool last) {
  ConvLoops conv;
  bool x_last = last;
  if (last) {
    const NhwcConvPlan plan = PlanNhwcConv(w.node, w.in[0].shape, w.in[1].shape);
    conv.plan = plan.conv;
    x_last = !plan.channels_first;
  } else {
    conv.plan = PlanConv(w.node, w.in[0].shape, w.in[1].shape);
  }
  conv.x_shape = w.in[0].shape, conv.y_shape = w.out[0].shape, conv.x_last = x_last, conv.y_last = last;
  conv.sum_type = "int32_t", conv.initial = InitialSum(w, "f");
  conv.product = [&](const std::string& x, const std::string& k) {
    return Cat("(", w.in[0].c, "[", x, "] - ", IntegerLiteral(step.x_zero), ") * ", w.in[1].c, "[", k, "]");
  };
  conv.store = [&](const std::string& at) { return w.Store(w.out[0], at, Finish(w, step, "f")); };
  WriteConvLoops(w, conv);
}

void WriteQuantizedNhwcConv(StepWriter& w) {
  const QuantizedStep step = QuantizedStep::Read(w.node);
  if (w.options.fast && WriteFastConv(w, step)) return;
  w.tables.clear(), w.table_tensors.clear(), w.scratch.clear();
  WritePlainConv(w, step, true);
}

void WriteQuantizedConv(StepWriter& w) { WritePlainConv(w, QuantizedStep::Read(w.node), false); }

void WriteQuantizedMatMul(StepWriter& w) {
  const QuantizedStep step = QuantizedStep::Read(w.node);
  const bool turned = w.node.Int("transB", 0) != 0;
  const int64_t depth = w.in[0].shape.back(), count = w.out[0].shape.back(),
                rows = w.in[0].size() / std::max<int64_t>(1, depth);
  Columns columns;
  if (w.options.fast && w.in[1].constant) {
    Tensor matrix(DType::kInt8, Shape{count, depth});
    for (int64_t n = 0; n < count; ++n)
      for (int64_t k = 0; k < depth; ++k)
        matrix.MutableData<int8_t>()[n * depth + k] =
            w.in[1].constant->Data<int8_t>()[turned ? n * depth + k : k * count + n];
    if (depth % 4 == 0 && MakeColumns(w, step, matrix, count, depth, columns)) {
      w.multiply_adds += rows * count * depth;
      const DenseTables tables = MakeTables(w, columns, matrix, count, depth);
      return WriteDenseCall(w, step, columns, w.in[0].c, depth, Cat(rows), tables, depth, count, w.out[0].c);
    }
  }
  w.For("r", rows);
  w.For("n", count);
  w.Line("int32_t sum = ", InitialSum(w, "n"), ";");
  w.For("k", depth);
  w.Line("sum += (", w.in[0].c, "[r * ", depth, " + k] - ", IntegerLiteral(step.x_zero), ") * ", w.in[1].c, "[",
         turned ? Cat("n * ", depth, " + k") : Cat("k * ", count, " + n"), "];");
  w.Close();
  w.Line(w.Store(w.out[0], Cat("r * ", count, " + n"), Finish(w, step, "n")));
  w.Close(2);
}

void WriteQuantizedAdd(StepWriter& w) {
  const QuantizedStep step = QuantizedStep::Read(w.node);
  const float a_factor = w.node.Float("a_factor", 1), b_factor = w.node.Float("b_factor", 1);
  const float b_zero = b_factor * static_cast<float>(w.node.Int("b_zero", 0));
  const float added = static_cast<float>(step.y_zero) - std::fma(a_factor, static_cast<float>(step.x_zero), b_zero);
  auto number = [](float value) { return Literal(value, DType::kFloat); };
  w.MayOverwrite(0), w.MayOverwrite(1);
  w.Use("level");
  w.For("i", w.out[0].size());
  w.Line(w.Store(w.out[0], "i",
                 Cat("level((float)", w.in[0].c, "[i] * ", number(a_factor), " + ((float)", w.in[1].c, "[i] * ",
                     number(b_factor), " + ", number(added), "), ", step.low, ", ", step.high, ", 0)")));
  w.Close();
}

void WriteQuantizedLookup(StepWriter& w) {
  w.MayOverwrite(0);
  w.For("i", w.out[0].size());
  w.Line(w.out[0].c, "[i] = ", w.in[1].c, "[(uint8_t)", w.in[0].c, "[i]];");
  w.Close();
}

void WriteQuantizedMean(StepWriter& w) {
  const QuantizedStep step = QuantizedStep::Read(w.node);
  const bool last = w.node.Int("channels_last", 0) != 0;
  const Shape& x = w.in[0].shape;
  const int64_t batch = x[0], channels = last ? x.back() : x[1],
                pixels = w.in[0].size() / std::max<int64_t>(1, batch * channels);
  const float factor = w.node.Float("factor", 1) / static_cast<float>(std::max<int64_t>(1, pixels));
  w.Use("level");
  w.For("n", batch);
  w.For("c", channels);
  w.Line("int32_t sum = ", -pixels * step.x_zero, ";");
  w.For("p", pixels);
  w.Line("sum += ", w.in[0].c,
         last ? Cat("[(n * ", pixels, " + p) * ", channels, " + c];")
              : Cat("[(n * ", channels, " + c) * ", pixels, " + p];"));
  w.Close();
  w.Line(w.Store(w.out[0], Cat("n * ", channels, " + c"),
                 Cat("level((float)sum * ", Literal(factor, DType::kFloat), ", ", step.low, ", ", step.high, ", ",
                     step.y_zero, ")")));
  w.Close(2);
}

}  // namespace

const std::vector<KernelEntry>& QuantizedKernels() {
  static const std::vector<KernelEntry> kernels = {
      {"ferry.QuantizedNhwcConv", WriteQuantizedNhwcConv}, {"ferry.QuantizedConv", WriteQuantizedConv},
      {"ferry.QuantizedMatMul", WriteQuantizedMatMul},     {"ferry.QuantizedAdd", WriteQuantizedAdd},
      {"ferry.QuantizedLookup", WriteQuantizedLookup},     {"ferry.QuantizedMean", WriteQuantizedMean},
  };
  return kernels;
}

}  // namespace ferry::c
