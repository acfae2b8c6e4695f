// Steps on 8-bit integers: exact sums in 32 bits, then one rounding (ops/support/quantized_step.h).
#include <algorithm>
#include <cmath>

#include "convert/c/convolutions.h"
#include "convert/c/kernels.h"
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

void WriteDenseCall(StepWriter& w, const QuantizedStep& step, const Columns& columns, const std::string& x,
                    int64_t x_stride, const std::string& rows, const std::string& table, int64_t depth,
                    int64_t features, const std::string& wide, const std::string& y) {
  const char* name = w.in[0].type == DType::kInt8 ? "dense_s8" : "dense_u8";
  w.Use(name);
  w.Line(name, "((const uint8_t *)", x, ", ", x_stride, ", ", rows, ", ", table, ", ", columns.sums, ", ",
         columns.factors, ", ", depth, ", ", features, ", ", wide, ", (uint8_t *)", y, ", ", step.low, ", ", step.high,
         ", ", step.y_zero, ", ", columns.is_wide ? 1 : 0, ");");
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
    // For four channels, pairs of taps of each, widened: what SMLAD multiplies in one. A last tap stands alone.
    const int64_t fours = (conv.channels + 3) / 4;
    Tensor turned(DType::kInt16, Shape{fours, taps, 4});
    std::fill_n(turned.MutableData<int16_t>(), turned.size(), int16_t{0});
    for (int64_t c = 0; c < conv.channels; ++c)
      for (int64_t t = 0; t < taps; ++t) {
        const int64_t at = t + 1 < taps || taps % 2 == 0 ? t / 2 * 8 + c % 4 * 2 + t % 2 : t * 4 + c % 4;
        turned.MutableData<int16_t>()[c / 4 * 4 * taps + at] = rows.Data<int8_t>()[c * taps + t];
      }
    const char* name = w.in[0].type == DType::kInt8 ? "depthwise_s8" : "depthwise_u8";
    w.Use(name);
    const std::string pad = w.Scratch(DType::kUInt8, conv.channels), table = w.Table(std::move(turned));
    w.For("n", conv.batch);
    w.Line(name, "((const uint8_t *)(", x, "), ", table, ", ", columns.sums, ", ", columns.factors, ", ", pad,
           ", (uint8_t *)", w.out[0].c, " + n * ", conv.channels * pixels, ", ", conv.channels, ", ", v.input, ", ",
           u.input, ", ", v.output, ", ", u.output, ", ", v.kernel, ", ", u.kernel, ", ", v.stride, ", ", u.stride,
           ", ", v.dilation, ", ", u.dilation, ", ", v.pad_begin, ", ", u.pad_begin, ", ", step.x_zero, ", ", step.low,
           ", ", step.high, ", ", step.y_zero, ", ", columns.is_wide ? 1 : 0, ");");
    w.Close();
    return true;
  }
  const int64_t wide_depth = (depth + 3) / 4 * 4;
  const std::string table = w.Table(PadRows(rows, conv.features, depth)),
                    wide = w.Scratch(DType::kInt16, 4 * wide_depth);
  if (conv.is_pointwise() && !plan.channels_first && depth % 4 == 0) {
    WriteDenseCall(w, step, columns, w.in[0].c, depth, Cat(conv.batch * pixels), table, depth, conv.features, wide,
                   w.out[0].c);
    return true;
  }
  w.Use("window_q");
  const std::string patch = w.Scratch(DType::kUInt8, 4 * wide_depth);
  w.For("n", conv.batch);
  w.For("o", v.output);
  w.Open("for (int p = 0; p < ", u.output, "; p += 4)");
  w.Line("const int count = ", u.output, " - p < 4 ? ", u.output, " - p : 4;");
  w.Line("for (int q = 0; q < count; q++) window_q((const uint8_t *)(", x, "), ", patch, " + q * ", wide_depth, ", ",
         conv.channels, ", ", plan.channels_first ? conv.counts.input : 1, ", ",
         plan.channels_first ? 1 : conv.channels, ", ", v.input, ", ", u.input, ", ", v.kernel, ", ", u.kernel, ", ",
         v.dilation, ", ", u.dilation, ", o * ", v.stride, " - ", v.pad_begin, ", (p + q) * ", u.stride, " - ",
         u.pad_begin, ", ", step.x_zero, ", ", wide_depth - depth, ");");
  WriteDenseCall(w, step, columns, patch, wide_depth, "count", table, wide_depth, conv.features, wide,
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
      const std::string table = w.Table(matrix), wide = w.Scratch(DType::kInt16, 4 * depth);
      return WriteDenseCall(w, step, columns, w.in[0].c, depth, Cat(rows), table, depth, count, wide, w.out[0].c);
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
