// Images taken at other places: Resize, GridSample, Col2Im.
#include <cmath>

#include "convert/c/kernels.h"
#include "ops/support/resample.h"

namespace ferry::c {
namespace {

struct Pass {
  size_t axis;
  AxisTaps taps;
  int64_t input, output;
};

void WritePass(StepWriter& w, const Pass& pass, const Shape& shape, const Operand& from, const Operand& to,
               float extrapolation) {
  const int64_t outer = shape.CountBetween(0, pass.axis), inner = shape.CountBetween(pass.axis + 1, shape.rank()),
                count = pass.taps.count;
  const bool single = count == 1 && pass.taps.outside.empty();
  Require(single || !pass.taps.weight.empty(), "an extrapolated nearest resize is not written as C");
  Tensor places(DType::kInt32, Shape{pass.output * count}),
      weights(ArithmeticType(to.type) == DType::kDouble ? DType::kDouble : DType::kFloat, Shape{pass.output * count});
  for (int64_t i = 0; i < pass.output * count; ++i) {
    const auto at = static_cast<size_t>(i);
    const bool outside = !pass.taps.outside.empty() && pass.taps.outside[static_cast<size_t>(i / count)];
    places.MutableData<int32_t>()[i] = outside ? -1 : static_cast<int32_t>(pass.taps.input[at]);
    if (pass.taps.weight.empty()) continue;  // nearest
    if (weights.dtype() == DType::kDouble)
      weights.MutableData<double>()[i] = pass.taps.weight[at];
    else
      weights.MutableData<float>()[i] = static_cast<float>(pass.taps.weight[at]);
  }
  const std::string place = w.Table(std::move(places));
  w.For("o", outer);
  w.For("k", pass.output);
  w.For("i", inner);
  const std::string at = Cat("(o * ", pass.output, " + k) * ", inner, " + i");
  auto source = [&](const std::string& tap) {
    return w.Load(from, Cat("(o * ", pass.input, " + ", place, "[", tap, "]) * ", inner, " + i"));
  };
  if (single) {
    w.Line(w.Store(to, at, source("k")));
  } else {
    if (!IsFloatType(to.type)) w.Refuse(Cat("not for ", Name(to.type)));
    const std::string weight = w.Table(std::move(weights)), c(ArithmeticC(to.type));
    w.Line(c, " sum = 0;");
    if (!pass.taps.outside.empty())
      w.Open("if (", place, "[k * ", count, "] < 0)"), w.Line(w.Store(to, at, Literal(extrapolation, to.type))),
          w.Line("continue;"), w.Close();
    w.Line("for (int t = 0; t < ", count, "; t++) if (", weight, "[k * ", count, " + t] != 0) sum += ", weight, "[k * ",
           count, " + t] * ", source(Cat("k * ", count, " + t")), ";");
    w.Line(w.Store(to, at, "sum"));
  }
  w.Close(3);
}

void WriteResize(StepWriter& w) {
  const Operand &x = w.in[0], &y = w.out[0];
  auto filled = [&](size_t i) { return w.Has(i) && w.in[i].size() > 0 ? &w.Constant(i) : nullptr; };
  const ResizeAttributes attributes(w.node);
  const std::vector<ResizeAxis> axes =
      PlanResize(w.node, attributes, x.shape, attributes.coordinates == CoordinateMode::kCrop ? filled(1) : nullptr,
                 filled(2), filled(3));
  std::vector<Pass> passes;
  for (size_t a = 0; a < axes.size(); ++a)
    if (!axes[a].is_identity(attributes))
      passes.push_back({a, MakeTaps(attributes, axes[a]), axes[a].input, axes[a].output});
  if (passes.empty()) return w.Line("memcpy(", y.c, ", ", x.c, ", ", StorageBytes(y.type, y.size()), ");");
  Shape shape = x.shape;
  Operand from = x;
  for (size_t p = 0; p < passes.size(); ++p) {
    const bool last = p + 1 == passes.size();
    shape[passes[p].axis] = passes[p].output;
    Operand to = y;
    if (!last) {
      to.type = ArithmeticType(x.type);
      to.c = w.Scratch(to.type, shape.ElementCount());
    }
    WritePass(w, passes[p], shape, from, to, attributes.extrapolation);
    from = to;
  }
}

void WriteGridSample(StepWriter& w) {
  const Operand &x = w.in[0], &grid = w.in[1], &y = w.out[0];
  const size_t rank = x.shape.rank() - 2;
  const std::string mode = w.node.String("mode", "linear"), padding = w.node.String("padding_mode", "zeros");
  const bool corners = w.node.Int("align_corners", 0) != 0, nearest = mode == "nearest", cubic = mode == "cubic";
  const int taps = nearest ? 1 : cubic ? 4 : 2;
  const int64_t batch = x.shape[0], channels = x.shape[1], pixels = y.shape.CountBetween(2, y.shape.rank()),
                inputs = x.shape.CountBetween(2, x.shape.rank());
  w.For("n", batch);
  w.For("p", pixels);
  w.Line("int place[", rank, "][", taps, "];");
  w.Line("double weight[", rank, "][", taps, "];");
  for (size_t a = 0; a < rank; ++a) {
    // The grid names the last axis first.
    const int64_t size = x.shape[a + 2];
    const std::string s = Cat(size), low = corners ? "0.0" : "-0.5",
                      high = corners ? Cat(size - 1, ".0") : Cat(size - 1, ".5");
    w.Open("");
    w.Line("double v = (double)", w.Load(grid, Cat("(n * ", pixels, " + p) * ", rank, " + ", rank - 1 - a)), ";");
    w.Line("v = ", corners ? Cat("(v + 1) / 2 * ", size - 1) : Cat("((v + 1) * ", s, " - 1) / 2"), ";");
    if (nearest) w.Line("v = rint(v);");
    w.Use("reflect");
    if (padding == "border" && !cubic) w.Line("v = v < 0 ? 0 : v > ", size - 1, " ? ", size - 1, " : v;");
    if (padding == "reflection" && !cubic) w.Line("v = reflect(v, ", low, ", ", high, ");");
    w.Line("const double base = floor(v), t = v - base;");
    w.Line("const double first = base ", cubic ? "- 1" : "", ";");
    w.For("k", taps);
    w.Line("double at = first + k;");
    if (padding == "border") w.Line("at = at < 0 ? 0 : at > ", size - 1, " ? ", size - 1, " : at;");
    if (padding == "reflection")
      w.Line("at = rint(reflect(at, ", low, ", ", high, "));"),
          w.Line("at = at < 0 ? 0 : at > ", size - 1, " ? ", size - 1, " : at;");
    w.Line("place[", a, "][k] = at >= 0 && at < ", s, " ? (int)at : -1;");
    if (nearest)
      w.Line("weight[", a, "][k] = 1 + 0 * t;");
    else if (!cubic)
      w.Line("weight[", a, "][k] = k ? t : 1 - t;");
    else
      w.Line("const double d = fabs(k - 1 - t);"),
          w.Line("weight[", a, "][k] = d <= 1 ? (1.25 * d - 2.25) * d * d + 1 : ((-0.75 * d + 3.75) * d - 6) * d + 3;");
    w.Close(2);
  }
  w.For("c", channels);
  w.Line("double sum = 0;");
  std::string at = "0", product = "1", inside = "1";
  for (size_t a = 0; a < rank; ++a) {
    w.For(Cat("k", a), taps);
    at = a == 0 ? Cat("place[0][k0]") : Cat("(", at, ") * ", x.shape[a + 2], " + place[", a, "][k", a, "]");
    product += Cat(" * weight[", a, "][k", a, "]");
    inside += Cat(" && place[", a, "][k", a, "] >= 0");
  }
  w.Line("if (", inside, ") sum += ", product, " * (double)",
         w.Load(x, Cat("(n * ", channels, " + c) * ", inputs, " + ", at)), ";");
  w.Close(static_cast<int>(rank));
  w.Line(w.Store(y, Cat("(n * ", channels, " + c) * ", pixels, " + p"),
                 IsFloatType(y.type) ? Cat("(", ArithmeticC(y.type), ")sum") : "sum"));
  w.Close(3);
}

void WriteCol2Im(StepWriter& w) {
  const Operand &x = w.in[0], &y = w.out[0];
  const std::vector<int64_t> image = w.ConstantInts(1), block = w.ConstantInts(2);
  const size_t rank = image.size();
  auto per_axis = [&](const char* name, int64_t otherwise, size_t count) {
    std::vector<int64_t> values = w.node.Ints(name);
    if (values.empty()) values.assign(count, otherwise);
    return values;
  };
  const std::vector<int64_t> dilations = per_axis("dilations", 1, rank), strides = per_axis("strides", 1, rank),
                             pads = per_axis("pads", 0, 2 * rank);
  std::vector<int64_t> steps;
  int64_t taps = 1, columns = 1, pixels = 1;
  for (size_t a = 0; a < rank; ++a) {
    steps.push_back((image[a] + pads[a] + pads[a + rank] - dilations[a] * (block[a] - 1) - 1) / strides[a] + 1);
    taps *= block[a], columns *= steps[a], pixels *= image[a];
  }
  const int64_t batch = x.shape[0], channels = y.shape[1];
  w.For("i", y.size());
  w.Line(w.Store(y, "i", "0"));
  w.Close();
  w.For("n", batch * channels);
  std::string from = "n", place = "n";
  for (size_t a = 0; a < rank; ++a)
    w.For(Cat("k", a), block[a]), from = Cat("(", from, " * ", block[a], " + k", a, ")");
  for (size_t a = 0; a < rank; ++a) {
    w.For(Cat("s", a), steps[a]);
    from = Cat("(", from, " * ", steps[a], " + s", a, ")");
    w.Line("const int i", a, " = s", a, " * ", strides[a], " + k", a, " * ", dilations[a], " - ", pads[a], ";");
    w.Line("if (i", a, " < 0 || i", a, " >= ", image[a], ") continue;");
    place = Cat("(", place, " * ", image[a], " + i", a, ")");
  }
  w.Line("const int to = ", place, ";");
  w.Line(w.Store(y, "to", Cat(w.Load(y, "to"), " + ", w.Load(x, from))));
  w.Close(static_cast<int>(2 * rank) + 1);
}

}  // namespace

const std::vector<KernelEntry>& NhwcKernels() {
  static const std::vector<KernelEntry> kernels = {
      {"Resize", WriteResize}, {"GridSample", WriteGridSample}, {"Col2Im", WriteCol2Im}};
  return kernels;
}

}  // namespace ferry::c
