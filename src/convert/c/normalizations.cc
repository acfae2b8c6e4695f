// Normalisations: sums in double, as the engine has them.
#include <algorithm>

#include "convert/c/kernels.h"

namespace ferry::c {
namespace {

// Rows from an axis on: mean and deviation of each.
void WriteLayerNorm(StepWriter& w) {
  const Operand &x = w.in[0], &y = w.out[0];
  const bool rms = w.node.op_type == "RMSNormalization";
  const size_t axis = NormalizeAxis(w.node.Int("axis", -1), x.shape.rank());
  const int64_t rows = x.shape.CountBetween(0, axis), count = x.shape.CountBetween(axis, x.shape.rank());
  const std::string epsilon = Literal(w.node.Float("epsilon", 1e-5f), DType::kDouble), c(ArithmeticC(x.type));
  w.For("r", rows);
  w.Line("double mean = 0, square = 0;");
  if (!rms) {
    w.Line("for (int i = 0; i < ", count, "; i++) mean += (double)", w.Load(x, Cat("r * ", count, " + i")), ";");
    w.Line("mean /= ", Literal(static_cast<double>(count), DType::kDouble), ";");
  }
  w.For("i", count);
  w.Line("const double d = (double)", w.Load(x, Cat("r * ", count, " + i")), " - mean;");
  w.Line("square += d * d;");
  w.Close();
  w.Line("const double factor = 1.0 / sqrt(square / ", Literal(static_cast<double>(count), DType::kDouble), " + ",
         epsilon, ");");
  if (w.Wants(1)) w.Line(w.Store(w.out[1], "r", "(float)mean"));
  if (w.Wants(2)) w.Line(w.Store(w.out[2], "r", "(float)factor"));
  // Parameters may be spread over more than a row.
  Nest nest{{}, {}};
  std::vector<int64_t> scale = BroadcastStrides(w.in[1].shape, x.shape),
                       bias =
                           w.Has(2) ? BroadcastStrides(w.in[2].shape, x.shape) : std::vector<int64_t>(x.shape.rank());
  const std::vector<int64_t> strides = x.shape.Strides();
  auto spread = [&](const std::vector<int64_t>& of) {
    return std::any_of(of.begin(), of.begin() + static_cast<long>(axis), [](int64_t stride) { return stride != 0; });
  };
  w.For("i", count);
  auto place = [&](const std::vector<int64_t>& of, const Shape& shape) -> std::string {
    if (!spread(of) && shape.ElementCount() == count) return "i";
    std::string text;
    for (size_t a = 0; a < x.shape.rank(); ++a)
      if (of[a] != 0)
        text += Cat(text.empty() ? "" : " + ", "(r * ", count, " + i) / ", strides[a], " % ", x.shape[a], " * ", of[a]);
    return text.empty() ? "0" : text;
  };
  w.MayOverwrite(0);
  w.Line("const ", c, " v = (", c, ")(((double)", w.Load(x, Cat("r * ", count, " + i")), " - mean) * factor);");
  w.Line(w.Store(y, Cat("r * ", count, " + i"),
                 Cat("v * ", w.Load(w.in[1], place(scale, w.in[1].shape)),
                     w.Has(2) ? Cat(" + ", w.Load(w.in[2], place(bias, w.in[2].shape))) : "")));
  w.Close(2);
}

// Groups of channels of each image; scale and bias for every channel.
void WriteGroups(StepWriter& w, int64_t groups) {
  const Operand &x = w.in[0], &y = w.out[0];
  const int64_t batch = x.shape[0], channels = x.shape[1], pixels = x.size() / std::max<int64_t>(1, batch * channels),
                size = channels / groups * pixels;
  const std::string epsilon = Literal(w.node.Float("epsilon", 1e-5f), DType::kDouble), c(ArithmeticC(x.type)),
                    at = Cat("g * ", size, " + i");
  w.MayOverwrite(0);
  w.For("g", batch * groups);
  w.Line("double mean = 0, square = 0;");
  w.Line("for (int i = 0; i < ", size, "; i++) mean += (double)", w.Load(x, at), ";");
  w.Line("mean /= ", Literal(static_cast<double>(size), DType::kDouble), ";");
  w.For("i", size);
  w.Line("const double d = (double)", w.Load(x, at), " - mean;");
  w.Line("square += d * d;");
  w.Close();
  w.Line("const double factor = 1.0 / sqrt(square / ", Literal(static_cast<double>(size), DType::kDouble), " + ",
         epsilon, ");");
  w.For("i", size);
  w.Line("const int c = g % ", groups, " * ", channels / groups, " + i / ", pixels, ";");
  w.Line("const ", c, " v = (", c, ")(((double)", w.Load(x, at), " - mean) * factor);");
  w.Line(w.Store(y, at, Cat("v * ", w.Load(w.in[1], "c"), " + ", w.Load(w.in[2], "c"))));
  w.Close(2);
}

void WriteInstanceNorm(StepWriter& w) { WriteGroups(w, w.in[0].shape[1]); }
void WriteGroupNorm(StepWriter& w) { WriteGroups(w, w.node.Int("num_groups", 1)); }

void WriteBatchNorm(StepWriter& w) {
  const Operand &x = w.in[0], &y = w.out[0];
  const int64_t channels = x.shape.rank() > 1 ? x.shape[1] : 1,
                pixels = x.shape.rank() > 1 ? x.size() / std::max<int64_t>(1, x.shape[0] * channels) : 1,
                batch = x.shape[0];
  const bool trains = w.node.Int("training_mode", 0) != 0;
  const std::string at = Cat("(n * ", channels, " + c) * ", pixels, " + p"),
                    epsilon = Literal(w.node.Float("epsilon", 1e-5f), DType::kDouble), c(ArithmeticC(x.type));
  if (!trains) w.MayOverwrite(0);
  w.For("c", channels);
  if (trains) {
    const std::string count = Literal(static_cast<double>(batch * pixels), DType::kDouble),
                      momentum = Literal(w.node.Float("momentum", 0.9f), DType::kDouble);
    w.Line("double mean = 0, variance = 0;");
    w.Line("for (int n = 0; n < ", batch, "; n++) for (int p = 0; p < ", pixels, "; p++) mean += (double)",
           w.Load(x, at), ";");
    w.Line("mean /= ", count, ";");
    w.Line("for (int n = 0; n < ", batch, "; n++) for (int p = 0; p < ", pixels, "; p++) variance += ((double)",
           w.Load(x, at), " - mean) * ((double)", w.Load(x, at), " - mean);");
    w.Line("variance /= ", count, ";");
    if (w.Wants(1))
      w.Line(w.Store(
          w.out[1], "c",
          Cat("(", c, ")((double)", w.Load(w.in[3], "c"), " * ", momentum, " + mean * (1.0 - ", momentum, "))")));
    if (w.Wants(2))
      w.Line(w.Store(
          w.out[2], "c",
          Cat("(", c, ")((double)", w.Load(w.in[4], "c"), " * ", momentum, " + variance * (1.0 - ", momentum, "))")));
  } else {
    w.Line("const double mean = (double)", w.Load(w.in[3], "c"), ", variance = (double)", w.Load(w.in[4], "c"), ";");
  }
  w.Line("const double factor = (double)", w.Load(w.in[1], "c"), " / sqrt(variance + ", epsilon, "), shift = (double)",
         w.Load(w.in[2], "c"), " - mean * factor;");
  w.For("n", batch);
  w.For("p", pixels);
  w.Line(w.Store(y, at, Cat("(", c, ")((double)", w.Load(x, at), " * factor + shift)")));
  w.Close(3);
}

void WriteLrn(StepWriter& w) {
  const Operand &x = w.in[0], &y = w.out[0];
  const int64_t batch = x.shape[0], channels = x.shape[1], pixels = x.size() / std::max<int64_t>(1, batch * channels),
                size = w.node.Int("size", 1);
  auto number = [&](const char* name, float otherwise) {
    return Literal(w.node.Float(name, otherwise), DType::kDouble);
  };
  w.For("n", batch);
  w.For("c", channels);
  w.For("p", pixels);
  w.Line("double sum = 0;");
  w.Open("for (int k = c - ", (size - 1) / 2, "; k <= c + ", size / 2, "; k++)");
  w.Line("const double v = k < 0 || k >= ", channels, " ? 0 : (double)",
         w.Load(x, Cat("(n * ", channels, " + (k < 0 || k >= ", channels, " ? 0 : k)) * ", pixels, " + p")), ";");
  w.Line("sum += v * v;");
  w.Close();
  const std::string at = Cat("(n * ", channels, " + c) * ", pixels, " + p");
  w.Line(w.Store(y, at,
                 Cat("(", ArithmeticC(x.type), ")((double)", w.Load(x, at), " / pow(", number("bias", 1), " + ",
                     number("alpha", 1e-4f), " / ", size, " * sum, ", number("beta", 0.75f), "))")));
  w.Close(3);
}

void WriteLpNorm(StepWriter& w) {
  const Operand &x = w.in[0], &y = w.out[0];
  const size_t axis = NormalizeAxis(w.node.Int("axis", -1), x.shape.rank());
  const int64_t p = w.node.Int("p", 2), outer = x.shape.CountBetween(0, axis), count = x.shape[axis],
                inner = x.shape.CountBetween(axis + 1, x.shape.rank());
  const std::string at = Cat("(o * ", count, " + k) * ", inner, " + i");
  w.MayOverwrite(0);
  w.For("o", outer);
  w.For("i", inner);
  w.Line("double sum = 0;");
  w.Line(
      "for (int k = 0; k < ", count, "; k++) sum += ",
      p == 1 ? Cat("fabs((double)", w.Load(x, at), ")") : Cat("(double)", w.Load(x, at), " * (double)", w.Load(x, at)),
      ";");
  if (p != 1) w.Line("sum = sqrt(sum);");
  w.For("k", count);
  w.Line(w.Store(y, at, Cat("sum == 0 ? 0 : (", ArithmeticC(x.type), ")((double)", w.Load(x, at), " / sum)")));
  w.Close(3);
}

void WriteMeanVariance(StepWriter& w) {
  const Operand &x = w.in[0], &y = w.out[0];
  std::vector<int64_t> listed = w.node.Has("axes") ? w.node.Ints("axes") : std::vector<int64_t>{0, 2, 3};
  const std::vector<size_t> axes = NormalizeAxes(listed, x.shape.rank());
  Nest outer{{}, {{}}}, inner{{}, {{}}};
  const std::vector<int64_t> strides = x.shape.Strides();
  int64_t count = 1;
  for (size_t a = 0; a < x.shape.rank(); ++a) {
    const bool reduced = std::find(axes.begin(), axes.end(), a) != axes.end();
    (reduced ? inner : outer).dims.push_back(x.shape[a]);
    (reduced ? inner : outer).strides[0].push_back(strides[a]);
    if (reduced) count *= x.shape[a];
  }
  int opened = 0, within = 0;
  const std::string base = w.OpenNest(outer, "i", opened)[0];
  w.Line("double mean = 0, square = 0;");
  auto each = [&](const std::string& before, const auto& body) {
    const std::string at = Cat(base, " + ", w.OpenNest(inner, "r", within)[0]);
    if (!before.empty()) w.Line(before);
    w.Line(body(at));
    w.Close(within);
  };
  each("", [&](const std::string& at) { return Cat("mean += (double)", w.Load(x, at), ";"); });
  w.Line("mean /= ", Literal(static_cast<double>(count), DType::kDouble), ";");
  each("", [&](const std::string& at) {
    return Cat("square += ((double)", w.Load(x, at), " - mean) * ((double)", w.Load(x, at), " - mean);");
  });
  w.Line("const double deviation = sqrt(square / ", Literal(static_cast<double>(count), DType::kDouble), ") + 1e-9;");
  each("", [&](const std::string& at) {
    return w.Store(y, at, Cat("(", ArithmeticC(x.type), ")(((double)", w.Load(x, at), " - mean) / deviation)"));
  });
  w.Close(opened);
}

}  // namespace

const std::vector<KernelEntry>& NormalizationKernels() {
  static const std::vector<KernelEntry> kernels = {
      {"LayerNormalization", WriteLayerNorm},
      {"RMSNormalization", WriteLayerNorm},
      {"InstanceNormalization", WriteInstanceNorm},
      {"GroupNormalization", WriteGroupNorm},
      {"BatchNormalization", WriteBatchNorm},
      {"LRN", WriteLrn},
      {"LpNormalization", WriteLpNorm},
      {"MeanVarianceNormalization", WriteMeanVariance},
  };
  return kernels;
}

}  // namespace ferry::c
