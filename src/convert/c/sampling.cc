// Images read between their pixels: DeformConv, RoiAlign, and the grids of AffineGrid.
#include <cmath>

#include "convert/c/kernels.h"
#include "ops/support/conv.h"

namespace ferry::c {
namespace {

// The element that a tap reads, moved by its offset, into `columns`; then the products with all features.
void WriteDeformConv(StepWriter& w) {
  const Operand &x = w.in[0], &offset = w.in[2], &y = w.out[0];
  const ConvPlan plan = PlanConv(w.node, x.shape, w.in[1].shape);
  const size_t rank = plan.axes.size();
  constexpr size_t kMostAxes = 8;
  if (rank > kMostAxes) w.Refuse("so many axes are not written as C");
  const DType type = ArithmeticType(x.type);
  const std::string c(StoredType(type));
  const int64_t groups = w.node.Int("offset_group", 1), taps = plan.counts.taps, pixels = plan.counts.output;
  Require(groups >= 1 && plan.channels % groups == 0, "its channels cannot be split into offset groups");
  const std::string columns = w.Scratch(type, plan.channels * taps);
  w.multiply_adds += plan.batch * plan.features * pixels * plan.depth();
  w.For("n", plan.batch);
  std::string pixel = "0";
  for (size_t a = 0; a < rank; ++a) {
    w.For(Cat("o", a), plan.axes[a].output);
    pixel = a == 0 ? "o0" : Cat("(", pixel, ") * ", plan.axes[a].output, " + o", a);
  }
  w.Line("const int pixel = ", pixel, ";");
  w.For("c", plan.channels);
  std::string tap = "0";
  for (size_t a = 0; a < rank; ++a) {
    w.For(Cat("k", a), plan.axes[a].kernel);
    tap = a == 0 ? "k0" : Cat("(", tap, ") * ", plan.axes[a].kernel, " + k", a);
  }
  w.Line("const int tap = ", tap, ", row = (n * ", groups, " + c / ", plan.channels / groups, ") * ", taps, " + tap;");
  std::string inside;
  for (size_t a = 0; a < rank; ++a) {
    const WindowAxis& axis = plan.axes[a];
    w.Line("const ", c, " p", a, " = (", c, ")(o", a, " * ", axis.stride, " + k", a, " * ", axis.dilation, " - ",
           axis.pad_begin, ") + ", w.Load(offset, Cat("(row * ", rank, " + ", a, ") * ", pixels, " + pixel")), ";");
    inside += Cat(a == 0 ? "" : " && ", "p", a, " > -1 && p", a, " < ", axis.input);
  }
  w.Line(c, " v = 0;");
  w.Open("if (", inside, ")");
  for (size_t a = 0; a < rank; ++a)
    w.Line("const int low", a, " = (int)", Math("floor", type), "(p", a, ");"),
        w.Line("const ", c, " rest", a, " = p", a, " - (", c, ")low", a, ";");
  w.For("m", int64_t{1} << rank);
  w.Line(c, " weight = ", w.Has(4) ? w.Load(w.in[4], Cat("row * ", pixels, " + pixel")) : Literal(1, type), ";");
  w.Line("int at = 0, there = 1, q;");
  for (size_t a = 0; a < rank; ++a) {
    w.Line("q = low", a, " + (m >> ", a, " & 1);");
    w.Line("if (q < 0 || q >= ", plan.axes[a].input, ") there = 0;");
    w.Line("weight *= (m >> ", a, " & 1) ? rest", a, " : ", Literal(1, type), " - rest", a, ";");
    w.Line("at = at * ", plan.axes[a].input, " + q;");
  }
  w.Line("if (there) v += weight * ", w.Load(x, Cat("(n * ", plan.channels, " + c) * ", plan.counts.input, " + at")),
         ";");
  w.Close(2);
  w.Line(columns, "[c * ", taps, " + tap] = v;");
  w.Close(static_cast<int>(rank) + 1);
  w.For("f", plan.features);
  w.Line(c, " sum = ", w.Has(3) ? w.Load(w.in[3], "f") : Literal(0, type), ";");
  w.Line("for (int k = 0; k < ", plan.depth(), "; k++) sum += ", w.Load(w.in[1], Cat("f * ", plan.depth(), " + k")),
         " * ", columns, "[f / ", plan.group_features, " * ", plan.depth(), " + k];");
  w.Line(w.Store(y, Cat("(n * ", plan.features, " + f) * ", pixels, " + pixel"), "sum"));
  w.Close(static_cast<int>(rank) + 2);
}

// start, bin and grid of a region along one axis, as variables that end in `letter`.
void WriteRegionAxis(StepWriter& w, char letter, DType type, const std::string& from, const std::string& to,
                     bool half_pixel, int64_t bins, int64_t size) {
  const std::string c(StoredType(type)), scale = Literal(w.node.Float("spatial_scale", 1.0f), type),
                                         shift = half_pixel ? Literal(0.5, type) : Literal(0, type);
  w.Line("const ", c, " start_", letter, " = ", from, " * ", scale, " - ", shift, ";");
  w.Line(c, " length_", letter, " = ", to, " * ", scale, " - ", shift, " - start_", letter, ";");
  if (!half_pixel) w.Line("if (length_", letter, " < 1) length_", letter, " = 1;");
  w.Line("const ", c, " bin_", letter, " = length_", letter, " / ", Literal(static_cast<double>(bins), type), ";");
  const int64_t ratio = w.node.Int("sampling_ratio", 0), most = 64 * (size + 1);
  if (ratio > 0)
    w.Line("const int grid_", letter, " = ", ratio, ";");
  else
    w.Line("const int grid_", letter, " = bin_", letter, " > 0 ? bin_", letter, " > ", most, " ? ", most, " : (int)",
           Math("ceil", type), "(bin_", letter, ") : 0;");
}

// The two pixels and their weights of a sampling point; goes on with the next one where it lies outside.
void WriteSample(StepWriter& w, char letter, const char* bin, const char* sample, DType type, int64_t size) {
  const std::string c(StoredType(type)), at = Cat("at_", letter), low = Cat("low_", letter),
                                         high = Cat("high_", letter), rest = Cat("rest_", letter);
  w.Line(c, " ", at, " = start_", letter, " + (", c, ")", bin, " * bin_", letter, " + ((", c, ")", sample, " + ",
         Literal(0.5, type), ") * bin_", letter, " / (", c, ")grid_", letter, ", ", rest, ";");
  w.Line("int ", low, ", ", high, ";");
  w.Open("if (!(", at, " >= -1 && ", at, " <= ", size, "))");
  if (w.node.String("mode", "avg") == "max") w.Line("if (!any || best < 0) best = 0;"), w.Line("any = 1;");
  w.Line("continue;");
  w.Close();
  w.Line("if (", at, " < 0) ", at, " = 0;");
  w.Line(low, " = (int)", at, ";");
  w.Line("if (", low, " >= ", size - 1, ") ", low, " = ", high, " = ", size - 1, ", ", rest, " = 0;");
  w.Line("else ", high, " = ", low, " + 1, ", rest, " = ", at, " - (", c, ")", low, ";");
}

void WriteRoiAlign(StepWriter& w) {
  const Operand &x = w.in[0], &rois = w.in[1], &images = w.in[2], &y = w.out[0];
  const DType type = ArithmeticType(x.type);
  const std::string c(StoredType(type)), one = Literal(1, type);
  const bool is_max = w.node.String("mode", "avg") == "max",
             half_pixel = w.node.String("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  const int64_t count = y.shape[0], channels = y.shape[1], oh = y.shape[2], ow = y.shape[3], height = x.shape[2],
                width = x.shape[3];
  if (height == 0 || width == 0) w.Refuse("its images have no pixels");
  w.For("r", count);
  w.Line("const int64_t named = ", w.Load(images, "r"), ";");
  w.Line("const int image = named < 0 || named >= ", x.shape[0], " ? 0 : (int)named;");
  WriteRegionAxis(w, 'x', type, w.Load(rois, "r * 4"), w.Load(rois, "r * 4 + 2"), half_pixel, ow, width);
  WriteRegionAxis(w, 'y', type, w.Load(rois, "r * 4 + 1"), w.Load(rois, "r * 4 + 3"), half_pixel, oh, height);
  w.For("c", channels);
  w.Line("const int plane = (image * ", channels, " + c) * ", height * width, ";");
  w.For("i", oh);
  w.For("j", ow);
  w.Line(c, " best = 0;");
  if (is_max) w.Line("int any = 0;");
  w.Open("for (int u = 0; u < grid_y; u++)");
  WriteSample(w, 'y', "i", "u", type, height);
  w.Open("for (int v = 0; v < grid_x; v++)");
  WriteSample(w, 'x', "j", "v", type, width);
  w.Open("");
  const char *rows[] = {"low_y", "high_y"}, *columns[] = {"low_x", "high_x"};
  for (int k = 0; k < 4; ++k)
    w.Line("const ", c, " v", k, " = ", k / 2 ? "rest_y" : Cat("(", one, " - rest_y)"), " * ",
           k % 2 ? "rest_x" : Cat("(", one, " - rest_x)"), " * ",
           w.Load(x, Cat("plane + ", rows[k / 2], " * ", width, " + ", columns[k % 2])), ";");
  if (is_max) {
    w.Line("const ", c, " a = v0 > v1 ? v0 : v1, b = v2 > v3 ? v2 : v3, most = a > b ? a : b;");
    w.Line("if (!any || most > best) best = most;");
    w.Line("any = 1;");
  } else {
    w.Line("best += v0 + v1 + v2 + v3;");
  }
  w.Close(3);
  if (!is_max) w.Line("if (grid_x * grid_y > 1) best /= (", c, ")(grid_x * grid_y);");
  w.Line(w.Store(y, Cat("((r * ", channels, " + c) * ", oh, " + i) * ", ow, " + j"), "best"));
  w.Close(4);
}

void WriteAffineGrid(StepWriter& w) {
  const Operand &theta = w.in[0], &y = w.out[0];
  const size_t axes = y.shape.rank() - 2;
  const bool corners = w.node.Int("align_corners", 0) != 0;
  std::vector<std::string> centres;
  for (size_t a = 0; a < axes; ++a) {
    const int64_t count = y.shape[a + 1];
    Tensor table(DType::kDouble, Shape{count});
    for (int64_t i = 0; i < count; ++i) {
      const double place = static_cast<double>(i), size = static_cast<double>(count);
      table.MutableData<double>()[i] = !corners     ? -1.0 + (2.0 * place + 1.0) / size
                                       : count == 1 ? 0.0
                                                    : -1.0 + 2.0 * place / (size - 1.0);
    }
    centres.push_back(w.Table(std::move(table)));
  }
  w.For("n", y.shape[0]);
  std::string place = "n";
  for (size_t a = 0; a < axes; ++a)
    w.For(Cat("p", a), y.shape[a + 1]), place = Cat("(", place, " * ", y.shape[a + 1], " + p", a, ")");
  w.For("k", static_cast<int64_t>(axes));
  const std::string row = Cat("(n * ", axes, " + k) * ", axes + 1);
  w.Line("double sum = (double)", w.Load(theta, Cat(row, " + ", axes)), ";");
  for (size_t a = 0; a < axes; ++a)
    w.Line("sum += (double)", w.Load(theta, Cat(row, " + ", a)), " * ", centres[axes - 1 - a], "[p", axes - 1 - a,
           "];");
  w.Line(w.Store(y, Cat(place, " * ", axes, " + k"), Cat("(", ArithmeticC(y.type), ")sum")));
  w.Close(static_cast<int>(axes) + 2);
}

}  // namespace

const std::vector<KernelEntry>& SamplingKernels() {
  static const std::vector<KernelEntry> kernels = {
      {"DeformConv", WriteDeformConv}, {"RoiAlign", WriteRoiAlign}, {"AffineGrid", WriteAffineGrid}};
  return kernels;
}

}  // namespace ferry::c
