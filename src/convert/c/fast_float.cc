// Products and convolutions of floats by tiles: weights in panels of eight columns, sums in registers.
#include "convert/c/fast_float.h"

#include <algorithm>

#include "convert/c/convolutions.h"
#include "convert/c/kernels.h"
#include "ops/support/fused.h"

namespace ferry::c {
namespace {

constexpr int64_t kPanel = 8;

// [K, N] in panels of eight columns, each K rows long; missing columns are 0.
Tensor PackPanels(const float* matrix, int64_t depth, int64_t columns, int64_t depth_stride, int64_t column_stride) {
  const int64_t panels = (columns + kPanel - 1) / kPanel;
  Tensor packed(DType::kFloat, Shape{panels, depth, kPanel});
  float* out = packed.MutableData<float>();
  for (int64_t p = 0; p < panels; ++p)
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t j = 0; j < kPanel; ++j) {
        const int64_t n = p * kPanel + j;
        *out++ = n < columns ? matrix[k * depth_stride + n * column_stride] : 0.0f;
      }
  return packed;
}

struct Limits {
  std::string low, high;
  bool is_all;  // the activation is nothing but these limits
};

Limits LimitsOf(const Activation& activation) {
  auto text = [](float number) { return Literal(number, DType::kFloat); };
  if (activation.kind == ActivationKind::kRelu) return {"0.0f", "INFINITY", true};
  if (activation.kind == ActivationKind::kClip) return {text(activation.alpha), text(activation.beta), true};
  return {"(-INFINITY)", "INFINITY", activation.kind == ActivationKind::kNone};
}

// Memory of the step alone: where there are vectors, which want more of it, on the stack; in the arena elsewhere.
std::string WriteRows(StepWriter& w, const char* name, int64_t with_vectors, int64_t without) {
  constexpr int64_t kMostOnStack = 12288;
  if (with_vectors > kMostOnStack) return w.Scratch(DType::kFloat, std::max(with_vectors, without));
  const std::string plain = w.Scratch(DType::kFloat, without);
  w.Line("#ifdef VECTORS");
  w.Line("float ", name, "[", with_vectors, "];");
  w.Line("(void)", plain, ";");
  w.Line("#else");
  w.Line("float *const ", name, " = ", plain, ";");
  w.Line("#endif");
  return name;
}

void WriteTile(StepWriter& w, int64_t with_vectors, int64_t without) {
  w.Line("#ifdef VECTORS");
  w.Line("enum { tile = ", with_vectors, " };");
  w.Line("#else");
  w.Line("enum { tile = ", without, " };");
  w.Line("#endif");
}

void WriteActivationPass(StepWriter& w, const Activation& activation, int64_t count) {
  w.For("i", count);
  w.Line("const float v = ", w.out[0].c, "[i];");
  w.Line(w.out[0].c, "[i] = ", ActivationText(w, activation, "v"), ";");
  w.Close();
}

}  // namespace

void WriteDense(StepWriter& w, const DenseStep& step) {
  const Limits limits = LimitsOf(step.activation);
  constexpr int64_t kFewProducts = 1024;  // panels would cost more than they save
  const bool only_low = step.activation.kind == ActivationKind::kNone || step.activation.kind == ActivationKind::kRelu;
  if (step.rows == 1 && step.depth * step.columns <= kFewProducts && only_low && !step.bias.empty() &&
      step.residual.empty()) {
    Tensor rows(DType::kFloat, Shape{step.columns, step.depth});
    for (int64_t n = 0; n < step.columns; ++n)
      for (int64_t k = 0; k < step.depth; ++k)
        rows.MutableData<float>()[n * step.depth + k] = step.weights[k * step.depth_stride + n * step.column_stride];
    w.Use("product");
    w.multiply_adds += step.depth * step.columns;
    const std::string table = w.Table(std::move(rows));
    return w.Line("product(", step.a, ", ", table, ", ", step.bias, ", ", step.depth, ", ", step.columns, ", ", step.y,
                  ", ", limits.low, ");");
  }
  w.Use("dense");
  const bool late = !limits.is_all;  // other activations, and what stands between the sum and the activation
  w.multiply_adds += step.rows * step.depth * step.columns;
  const std::string packed =
      w.Table(PackPanels(step.weights, step.depth, step.columns, step.depth_stride, step.column_stride));
  w.Line("dense(", step.a, ", ", step.a_stride, ", ", step.rows_text.empty() ? Cat(step.rows) : step.rows_text, ", ",
         packed, ", ", step.bias.empty() ? "NULL" : step.bias, ", ", step.residual.empty() ? "NULL" : step.residual,
         ", ", step.depth, ", ", step.columns, ", ", step.y, ", ", step.y_stride, ", ",
         late ? "(-INFINITY)" : limits.low, ", ", late ? "INFINITY" : limits.high, ");");
}

bool WriteFastNhwcConv(StepWriter& w) {
  const NhwcConvPlan plan = PlanNhwcConv(w.node, w.in[0].shape, w.in[1].shape);
  const ConvPlan& conv = plan.conv;
  if (w.Has(4) || w.Has(5) || !w.in[1].constant || w.in[0].type != DType::kFloat) return false;
  const float* weights = w.in[1].constant->Data<float>();
  const Activation activation = ActivationOf(w.node);
  const int64_t taps = conv.counts.taps, pixels = conv.counts.output;
  const bool depthwise = conv.group_channels == 1 && conv.group_features == 1 && !plan.channels_first;
  if (conv.groups > 1 && !depthwise) return false;
  const Limits limits = LimitsOf(activation);
  const std::string bias = w.Has(2) ? w.in[2].c : "", residual = w.Has(3) ? w.in[3].c : "";
  const WindowAxis &z = plan.axes[0], &v = plan.axes[1], &u = plan.axes[2];
  if (z.kernel != 1 || z.input != 1 || z.stride != 1 || z.pad_begin != 0) return false;
  if (depthwise) {
    if (!residual.empty() || !limits.is_all || v.kernel > 16) return false;
    const bool keeps = v.stride == 1 && u.stride == 1 && v.dilation == 1 && v.input == v.output &&
                       u.input == u.output && conv.channels % 8 == 0;
    w.Use(keeps ? "depthwise_in_place" : "depthwise");
    Tensor rows(DType::kFloat, Shape{taps, conv.channels});
    for (int64_t c = 0; c < conv.channels; ++c)
      for (int64_t t = 0; t < taps; ++t) rows.MutableData<float>()[t * conv.channels + c] = weights[c * taps + t];
    const std::string table = w.Table(std::move(rows));
    w.multiply_adds += conv.batch * pixels * conv.channels * taps;
    w.For("n", conv.batch);
    if (keeps) {
      w.MayOverwrite(0);
      const std::string ring = WriteRows(w, "ring", (v.pad_begin + 1) * u.input * conv.channels,
                                         (v.pad_begin + 1) * u.input * std::min<int64_t>(conv.channels, 8));
      w.Line("depthwise_in_place(", w.in[0].c, " + n * ", conv.channels * pixels, ", ", table, ", ",
             bias.empty() ? "NULL" : bias, ", ", ring, ", ", w.out[0].c, " + n * ", conv.channels * pixels, ", ",
             conv.channels, ", ", v.input, ", ", u.input, ", ", v.kernel, ", ", u.kernel, ", ", u.dilation, ", ",
             v.pad_begin, ", ", u.pad_begin, ", ", limits.low, ", ", limits.high, ");");
      w.Close();
      return true;
    }
    w.Line("depthwise(", w.in[0].c, " + n * ", conv.channels * conv.counts.input, ", ", table, ", ",
           bias.empty() ? "NULL" : bias, ", ", w.out[0].c, " + n * ", conv.channels * pixels, ", ", conv.channels, ", ",
           v.input, ", ", u.input, ", ", v.output, ", ", u.output, ", ", v.kernel, ", ", u.kernel, ", ", v.stride, ", ",
           u.stride, ", ", v.dilation, ", ", u.dilation, ", ", v.pad_begin, ", ", u.pad_begin, ", ", limits.low, ", ",
           limits.high, ");");
    w.Close();
    return true;
  }
  const Tensor rows = PackedAsRows(*w.in[1].constant, conv.features, conv.channels, taps);
  DenseStep step{.weights = rows.Data<float>(),
                 .depth = taps * conv.channels,
                 .columns = conv.features,
                 .depth_stride = 1,
                 .column_stride = taps * conv.channels};
  step.activation = activation;
  step.bias = bias;
  step.a_stride = step.depth;
  step.y_stride = conv.features;
  const bool pointwise = conv.is_pointwise() && !plan.channels_first;
  const int64_t rows_in_all = conv.batch * pixels;
  if (pointwise && step.depth == step.columns && residual.empty() && step.depth <= 1024 && rows_in_all > 1) {
    // Some rows at a time are taken aside, so that the result may lie where the input lies.
    w.MayOverwrite(0);
    const int64_t tile = step.depth <= 512 ? 24 : 12;
    const std::string rows_aside = WriteRows(w, "rows", tile * step.depth, 2 * step.depth);
    WriteTile(w, tile, 2);
    w.Open("for (int r = 0; r < ", rows_in_all, "; r += tile)");
    w.Line("const int count = ", rows_in_all, " - r < tile ? ", rows_in_all, " - r : tile;");
    w.Line("memcpy(", rows_aside, ", ", w.in[0].c, " + r * ", step.depth, ", (size_t)count * ", step.depth * 4, ");");
    step.a = rows_aside, step.y = Cat(w.out[0].c, " + r * ", step.columns), step.rows = rows_in_all;
    step.rows_text = "count";
    WriteDense(w, step);
    w.Close();
  } else if (pointwise) {
    step.a = w.in[0].c, step.y = w.out[0].c, step.rows = conv.batch * pixels, step.residual = residual;
    WriteDense(w, step);
  } else {
    // Windows of some pixels of a row at a time, as rows of a matrix.
    w.Use("window");
    const int64_t few = std::min<int64_t>(u.output, 4), many = std::min<int64_t>(u.output, 12);
    const int64_t tile = step.depth <= 1024 ? many : few;
    const std::string patch = WriteRows(w, "patch", tile * step.depth, few * step.depth);
    WriteTile(w, tile, few);
    w.For("n", conv.batch);
    w.For("o", v.output);
    w.Open("for (int p = 0; p < ", u.output, "; p += tile)");
    w.Line("const int count = ", u.output, " - p < tile ? ", u.output, " - p : tile;");
    w.Line("const int at = ((n * ", v.output, " + o) * ", u.output, " + p) * ", conv.features, ";");
    w.Line("for (int q = 0; q < count; q++) window(", w.in[0].c, " + n * ", conv.channels * conv.counts.input, ", ",
           patch, " + q * ", step.depth, ", ", conv.channels, ", ", plan.channels_first ? conv.counts.input : 1, ", ",
           plan.channels_first ? 1 : conv.channels, ", ", v.input, ", ", u.input, ", ", v.kernel, ", ", u.kernel, ", ",
           v.dilation, ", ", u.dilation, ", o * ", v.stride, " - ", v.pad_begin, ", (p + q) * ", u.stride, " - ",
           u.pad_begin, ");");
    step.a = patch, step.y = Cat(w.out[0].c, " + at"), step.residual = residual.empty() ? "" : Cat(residual, " + at");
    step.rows = conv.batch * pixels, step.rows_text = "count";
    WriteDense(w, step);
    w.Close(3);
  }
  if (!limits.is_all) WriteActivationPass(w, activation, w.out[0].size());
  return true;
}

void WriteFusedMatMul(StepWriter& w) {
  const bool turned = w.node.Int("transB", 0) != 0;
  const int64_t depth = w.in[1].shape[turned ? 1 : 0], columns = w.in[1].shape[turned ? 0 : 1],
                rows = w.in[0].size() / std::max<int64_t>(depth, 1);
  const Activation activation = ActivationOf(w.node);
  const bool scaled = w.Has(4);
  if (!w.in[1].constant) w.Refuse("its matrix is not constant");
  DenseStep step{.weights = w.in[1].constant->Data<float>(),
                 .depth = depth,
                 .columns = columns,
                 .depth_stride = turned ? 1 : columns,
                 .column_stride = turned ? depth : 1};
  step.a = w.in[0].c, step.y = w.out[0].c, step.rows = rows, step.a_stride = depth, step.y_stride = columns,
  step.activation = activation;
  if (w.Has(2)) step.bias = w.in[2].c;
  if (w.Has(3) && !scaled) step.residual = w.in[3].c;
  WriteDense(w, step);
  if (!LimitsOf(activation).is_all) WriteActivationPass(w, activation, rows * columns);
  if (!scaled) return;
  w.For("r", rows);
  w.For("n", columns);
  w.Line(w.out[0].c, "[r * ", columns, " + n] = ", w.out[0].c, "[r * ", columns, " + n] * ", w.in[4].c, "[n]",
         w.Has(3) ? Cat(" + ", w.in[3].c, "[r * ", columns, " + n]") : "", ";");
  w.Close(2);
}

const std::vector<Helper>& FloatHelpers() {
  static const std::vector<Helper> helpers = {
      {"dense",
       R"(/* y = limits(a * w + bias + residual): panels of 8 columns */
static void dense(const float *a, int a_stride, int rows, const float *w, const float *bias, const float *residual, int depth,
                  int columns, float *y, int y_stride, float low, float high) {
#ifdef VECTORS
  /* as many rows as stay near the processor while all columns go by */
  const int most = 65536 / (depth + 1) / TILE_ROWS * TILE_ROWS + TILE_ROWS;
  for (int r = 0; r < rows; r += most) {
    const int some = rows - r < most ? rows - r : most;
    for (int n = 0; n < columns; n += TILE_PANELS * 8) {
      const int width = columns - n < TILE_PANELS * 8 ? columns - n : TILE_PANELS * 8;
      const float *panel[TILE_PANELS], *const from = a + r * a_stride, *const add = residual ? residual + r * y_stride + n : NULL;
      float *const to = y + r * y_stride + n;
      float b[TILE_PANELS * 8] = {0};
      for (int j = 0; j < TILE_PANELS; j++) panel[j] = w + (n + (j * 8 < width ? j * 8 : 0)) * depth;
      for (int j = 0; bias && j < width; j++) b[j] = bias[n + j];
      if (width > TILE_PANELS * 4) tiles(from, a_stride, panel, depth, b, add, to, y_stride, width, low, high, some, TILE_PARTS);
      else tiles(from, a_stride, panel, depth, b, add, to, y_stride, width, low, high, some, TILE_PARTS / 2);
    }
  }
#else
  for (int n = 0; n < columns; n += 8) {
    const int width = columns - n < 8 ? columns - n : 8;
    float b[8] = {0};
    if (bias)
      for (int j = 0; j < width; j++) b[j] = bias[n + j];
    for (int r = 0; r < rows; r++) {
      const float *p = a + r * a_stride, *q = w;
      float s0 = b[0], s1 = b[1], s2 = b[2], s3 = b[3], s4 = b[4], s5 = b[5], s6 = b[6], s7 = b[7];
      for (int k = 0; k < depth; k++, q += 8) {
        const float v = p[k];
        s0 = MADD(v, q[0], s0);
        s1 = MADD(v, q[1], s1);
        s2 = MADD(v, q[2], s2);
        s3 = MADD(v, q[3], s3);
        s4 = MADD(v, q[4], s4);
        s5 = MADD(v, q[5], s5);
        s6 = MADD(v, q[6], s6);
        s7 = MADD(v, q[7], s7);
      }
      {
        const float s[8] = {s0, s1, s2, s3, s4, s5, s6, s7};
        for (int j = 0; j < width; j++) {
          float v2 = s[j];
          if (residual) v2 += residual[r * y_stride + n + j];
          y[r * y_stride + n + j] = v2 < low ? low : v2 > high ? high : v2;
        }
      }
    }
    w += depth * 8;
  }
#endif
}
)",
       {"dense_tiles"}},
      {"product",
       R"(static void product(const float *a, const float *w, const float *bias, int depth, int columns, float *y, float low) {
  for (; columns > 0; columns--) {
    const float *p = a;
    float s = *bias++;
    for (int k = depth; k > 0; k--) s = MADD(*p++, *w++, s);
    *y++ = s < low ? low : s;
  }
}
)",
       {"madd"}},
      {"depthwise_in_place",
       R"(/* rows that are about to be overwritten are kept in a ring, of all channels or of eight at a time */
static void depthwise_in_place(const float *x, const float *w, const float *bias, float *ring, float *y, int channels, int height,
                               int width, int kh, int kw, int dw, int top, int left, float low, float high) {
#ifdef VECTORS
  const int line = width * channels;
  const float *row[16];
  for (int o = 0; o < height; o++) {
    memcpy(ring + o % (top + 1) * line, x + o * line, (size_t)line * 4);
    for (int i = 0; i < kh; i++) {
      const int u = o - top + i;
      row[i] = u < 0 || u >= height ? NULL : u <= o ? ring + u % (top + 1) * line : x + u * line;
    }
    depthwise_row(row, w, bias, y + o * line, channels, width, width, kh, kw, 1, dw, left, low, high);
  }
#else
  for (int c = 0; c < channels; c += 8)
    for (int o = 0; o < height; o++) {
      float *kept = ring + o % (top + 1) * width * 8;
      for (int p = 0; p < width; p++) memcpy(kept + p * 8, x + (o * width + p) * channels + c, 32);
      for (int p = 0; p < width; p++) {
        float *to = y + (o * width + p) * channels + c;
        float s0 = 0, s1 = 0, s2 = 0, s3 = 0, s4 = 0, s5 = 0, s6 = 0, s7 = 0;
        if (bias) s0 = bias[c], s1 = bias[c + 1], s2 = bias[c + 2], s3 = bias[c + 3], s4 = bias[c + 4], s5 = bias[c + 5], s6 = bias[c + 6], s7 = bias[c + 7];
        for (int i = 0; i < kh; i++) {
          const int u = o - top + i, stride = u <= o ? 8 : channels;
          const float *row = u <= o ? ring + (u + top + 1) % (top + 1) * width * 8 : x + u * width * channels + c;
          if (u < 0 || u >= height) continue;
          for (int j = 0; j < kw; j++) {
            const int v = p - left + j * dw;
            const float *f = row + v * stride, *g = w + (i * kw + j) * channels + c;
            if (v < 0 || v >= width) continue;
            s0 = MADD(f[0], g[0], s0);
            s1 = MADD(f[1], g[1], s1);
            s2 = MADD(f[2], g[2], s2);
            s3 = MADD(f[3], g[3], s3);
            s4 = MADD(f[4], g[4], s4);
            s5 = MADD(f[5], g[5], s5);
            s6 = MADD(f[6], g[6], s6);
            s7 = MADD(f[7], g[7], s7);
          }
        }
        to[0] = s0 < low ? low : s0 > high ? high : s0;
        to[1] = s1 < low ? low : s1 > high ? high : s1;
        to[2] = s2 < low ? low : s2 > high ? high : s2;
        to[3] = s3 < low ? low : s3 > high ? high : s3;
        to[4] = s4 < low ? low : s4 > high ? high : s4;
        to[5] = s5 < low ? low : s5 > high ? high : s5;
        to[6] = s6 < low ? low : s6 > high ? high : s6;
        to[7] = s7 < low ? low : s7 > high ? high : s7;
      }
    }
#endif
}
)",
       {"depthwise_row"}},
      {"window", R"(/* the inputs of one window as a row: taps, then channels */
static void window(const float *x, float *to, int channels, int channel_stride, int pixel_stride, int height, int width, int kh,
                   int kw, int dh, int dw, int top, int left) {
  for (int i = 0; i < kh; i++)
    for (int j = 0; j < kw; j++, to += channels) {
      const int u = top + i * dh, v = left + j * dw;
      const float *from = x + (u * width + v) * pixel_stride;
      if (u < 0 || u >= height || v < 0 || v >= width) {
        for (int c = 0; c < channels; c++) to[c] = 0.0f;
      } else if (channel_stride == 1) {
        for (int c = 0; c < channels; c++) to[c] = from[c];
      } else {
        for (int c = 0; c < channels; c++) to[c] = from[c * channel_stride];
      }
    }
}
)"},
      {"depthwise",
       R"(static void depthwise(const float *x, const float *w, const float *bias, float *y, int channels, int height, int width, int oh,
                      int ow, int kh, int kw, int sh, int sw, int dh, int dw, int top, int left, float low, float high) {
#ifdef VECTORS
  const float *row[16];
  for (int o = 0; o < oh; o++, y += ow * channels) {
    for (int i = 0; i < kh; i++) {
      const int u = o * sh - top + i * dh;
      row[i] = u < 0 || u >= height ? NULL : x + u * width * channels;
    }
    depthwise_row(row, w, bias, y, channels, width, ow, kh, kw, sw, dw, left, low, high);
  }
#else
  for (int o = 0; o < oh; o++)
    for (int p = 0; p < ow; p++, y += channels) {
      int c = 0;
      for (; c + 8 <= channels; c += 8) {
        float s[8] = {0};
        if (bias) memcpy(&s, bias + c, 32);
        for (int i = 0; i < kh; i++) {
          const int u = o * sh - top + i * dh;
          if (u < 0 || u >= height) continue;
          for (int j = 0; j < kw; j++) {
            const int v = p * sw - left + j * dw;
            if (v < 0 || v >= width) continue;
            {
              const float *f = x + (u * width + v) * channels + c, *g = w + (i * kw + j) * channels + c;
              s[0] = MADD(f[0], g[0], s[0]);
              s[1] = MADD(f[1], g[1], s[1]);
              s[2] = MADD(f[2], g[2], s[2]);
              s[3] = MADD(f[3], g[3], s[3]);
              s[4] = MADD(f[4], g[4], s[4]);
              s[5] = MADD(f[5], g[5], s[5]);
              s[6] = MADD(f[6], g[6], s[6]);
              s[7] = MADD(f[7], g[7], s[7]);
            }
          }
        }
        for (int k = 0; k < 8; k++) y[c + k] = s[k] < low ? low : s[k] > high ? high : s[k];
      }
      for (; c < channels; c++) {
        float s = bias ? bias[c] : 0.0f;
        for (int i = 0; i < kh; i++)
          for (int j = 0; j < kw; j++) {
            const int u = o * sh - top + i * dh, v = p * sw - left + j * dw;
            if (u >= 0 && u < height && v >= 0 && v < width) s = MADD(x[(u * width + v) * channels + c], w[(i * kw + j) * channels + c], s);
          }
        y[c] = s < low ? low : s > high ? high : s;
      }
    }
#endif
}
)",
       {"depthwise_row"}},
  };
  return helpers;
}

}  // namespace ferry::c
