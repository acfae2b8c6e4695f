// Fourier transforms as sums, Einsum, determinants.
#include <algorithm>

#include "convert/c/kernels.h"
#include "ops/support/einsum_equation.h"

namespace ferry::c {
namespace {

void WriteDft(StepWriter& w) {
  const Operand &x = w.in[0], &y = w.out[0];
  const bool inverse = w.node.Int("inverse", 0) != 0, onesided = w.node.Int("onesided", 0) != 0;
  const size_t axis = NormalizeAxis(w.Has(2) ? w.ConstantInts(2).at(0) : -2, x.shape.rank());
  const int64_t dim = x.shape[axis], parts = x.shape.back(), out_parts = y.shape.back();
  const int64_t length = w.Has(1)              ? w.ConstantInts(1).at(0)
                         : inverse && onesided ? 2 * (dim - 1)
                                               : dim,
                out = y.shape[axis];
  const int64_t wanted = inverse && onesided ? length / 2 + 1 : length, given = std::min(dim, wanted);
  const int64_t outer = x.shape.CountBetween(0, axis), inner = x.shape.CountBetween(axis + 1, x.shape.rank() - 1);
  w.For("o", outer);
  w.For("i", inner);
  w.For("k", out);
  w.Line("double re = 0, im = 0;");
  w.For("t", given);
  w.Line("const double angle = ", inverse ? "" : "-", "6.283185307179586 * (double)((int64_t)k * t % ", length, ") / ",
         length, ".0, u = cos(angle), v = sin(angle);");
  const std::string at = Cat("((o * ", dim, " + t) * ", inner, " + i) * ", parts);
  w.Line("const double a = (double)", w.Load(x, at),
         ", b = ", parts == 2 ? Cat("(double)", w.Load(x, Cat(at, " + 1"))) : "0", ";");
  if (inverse && onesided)
    w.Line("const double twice = t == 0 || 2 * t == ", length, " ? 1 : 2;"), w.Line("re += twice * (a * u - b * v);");
  else
    w.Line("re += a * u - b * v;"), w.Line("im += a * v + b * u;");
  w.Close();
  if (inverse) w.Line("re /= ", length, ".0, im /= ", length, ".0;");
  const std::string to = Cat("((o * ", out, " + k) * ", inner, " + i) * ", out_parts), c(ArithmeticC(y.type));
  w.Line(w.Store(y, to, Cat("(", c, ")re")));
  if (out_parts == 2)
    w.Line(w.Store(y, Cat(to, " + 1"), Cat("(", c, ")im")));
  else
    w.Line("(void)im;");
  w.Close(3);
}

void WriteStft(StepWriter& w) {
  const Operand &x = w.in[0], &y = w.out[0];
  const int64_t step = w.ConstantInts(1).at(0), batch = x.shape[0], samples = x.shape[1],
                parts = x.shape.rank() > 2 ? x.shape[2] : 1, frames = y.shape[1], bins = y.shape[2];
  const int64_t length = w.Has(3) ? w.ConstantInts(3).at(0) : w.in[2].size();
  w.For("n", batch);
  w.For("f", frames);
  w.For("k", bins);
  w.Line("double re = 0, im = 0;");
  w.For("t", length);
  w.Line("const double angle = -6.283185307179586 * (double)((int64_t)k * t % ", length, ") / ", length,
         ".0, u = cos(angle), v = sin(angle);");
  const std::string at = Cat("(n * ", samples, " + f * ", step, " + t) * ", parts),
                    window = w.Has(2) ? Cat(" * (double)", w.Load(w.in[2], "t")) : "";
  w.Line("const double a = (double)", w.Load(x, at), window,
         ", b = ", parts == 2 ? Cat("(double)", w.Load(x, Cat(at, " + 1")), window) : "0", ";");
  w.Line("re += a * u - b * v;");
  w.Line("im += a * v + b * u;");
  w.Close();
  const std::string to = Cat("((n * ", frames, " + f) * ", bins, " + k) * 2"), c(ArithmeticC(y.type));
  w.Line(w.Store(y, to, Cat("(", c, ")re")));
  w.Line(w.Store(y, Cat(to, " + 1"), Cat("(", c, ")im")));
  w.Close(3);
}

void WriteEinsum(StepWriter& w) {
  std::vector<size_t> ranks;
  for (const Operand& x : w.in) ranks.push_back(x.shape.rank());
  const EinsumEquation equation = EinsumEquation::Parse(w.node.String("equation", ""), ranks);
  std::vector<int64_t> sizes(equation.label_count, 1);
  for (size_t i = 0; i < w.in.size(); ++i)
    for (size_t a = 0; a < equation.terms[i].size(); ++a)
      sizes[equation.terms[i][a]] = std::max(sizes[equation.terms[i][a]], w.in[i].shape[a]);
  Nest outer, inner;
  outer.strides.resize(w.in.size() + 1), inner.strides.resize(w.in.size());
  std::vector<bool> used(equation.label_count);
  const std::vector<int64_t> own = w.out[0].shape.Strides();
  auto stride_of = [&](size_t operand, size_t label) {
    int64_t stride = 0;
    const std::vector<int64_t> strides = w.in[operand].shape.Strides();
    for (size_t a = 0; a < equation.terms[operand].size(); ++a)
      if (equation.terms[operand][a] == label && w.in[operand].shape[a] > 1) stride += strides[a];
    return stride;
  };
  for (size_t a = 0; a < equation.output.size(); ++a) {
    const size_t label = equation.output[a];
    used[label] = true;
    outer.dims.push_back(sizes[label]);
    outer.strides[0].push_back(own[a]);
    for (size_t i = 0; i < w.in.size(); ++i) outer.strides[i + 1].push_back(stride_of(i, label));
  }
  for (const std::vector<size_t>& term : equation.terms)
    for (size_t label : term) {
      if (used[label]) continue;
      used[label] = true;
      inner.dims.push_back(sizes[label]);
      for (size_t i = 0; i < w.in.size(); ++i) inner.strides[i].push_back(stride_of(i, label));
    }
  int opened = 0, within = 0;
  const std::vector<std::string> at = w.OpenNest(outer, "i", opened);
  const std::string c(ArithmeticC(w.out[0].type));
  w.Line(c, " sum = 0;");
  const std::vector<std::string> in = w.OpenNest(inner, "r", within);
  std::string product;
  for (size_t i = 0; i < w.in.size(); ++i)
    product += Cat(i ? " * " : "", w.Load(w.in[i], Cat(at[i + 1], " + ", in[i])));
  w.Line("sum = (", c, ")(sum + ", product, ");");
  w.Close(within);
  w.Line(w.Store(w.out[0], at[0], "sum"));
  w.Close(opened);
}

void WriteDet(StepWriter& w) {
  const Operand& x = w.in[0];
  const int64_t n = x.shape.back(), count = x.size() / std::max<int64_t>(1, n * n);
  const std::string m = w.Scratch(DType::kDouble, n * n);
  w.For("s", count);
  w.Line("double det = 1;");
  w.Line("for (int i = 0; i < ", n * n, "; i++) ", m, "[i] = (double)", w.Load(x, Cat("s * ", n * n, " + i")), ";");
  w.For("k", n);
  w.Line("int p = k;");
  w.Line("for (int i = k + 1; i < ", n, "; i++) if (fabs(", m, "[i * ", n, " + k]) > fabs(", m, "[p * ", n,
         " + k])) p = i;");
  w.Open("if (p != k)");
  w.Line("det = -det;");
  w.Line("for (int j = 0; j < ", n, "; j++) { const double t = ", m, "[k * ", n, " + j]; ", m, "[k * ", n,
         " + j] = ", m, "[p * ", n, " + j]; ", m, "[p * ", n, " + j] = t; }");
  w.Close();
  w.Line("det *= ", m, "[k * ", n, " + k];");
  w.Line("if (", m, "[k * ", n, " + k] == 0) break;");
  w.Open("for (int i = k + 1; i < ", n, "; i++)");
  w.Line("const double f = ", m, "[i * ", n, " + k] / ", m, "[k * ", n, " + k];");
  w.Line("for (int j = k; j < ", n, "; j++) ", m, "[i * ", n, " + j] -= f * ", m, "[k * ", n, " + j];");
  w.Close(2);
  w.Line(w.Store(w.out[0], "s", Cat("(", ArithmeticC(x.type), ")det")));
  w.Close();
}

void WriteBinarizer(StepWriter& w) {
  w.For("i", w.out[0].size());
  w.Line(w.Store(w.out[0], "i", Cat(w.Load(w.in[0], "i"), " > ", Literal(w.node.Float("threshold", 0), w.in[0].type))));
  w.Close();
}

}  // namespace

const std::vector<KernelEntry>& SignalKernels() {
  static const std::vector<KernelEntry> kernels = {{"DFT", WriteDft},
                                                   {"STFT", WriteStft},
                                                   {"Einsum", WriteEinsum},
                                                   {"Det", WriteDet},
                                                   {"ai.onnx.ml.Binarizer", WriteBinarizer}};
  return kernels;
}

}  // namespace ferry::c
