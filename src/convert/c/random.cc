// Random numbers. A node with a seed draws the same ones in every run: they are known when the text is written, and
// become a table. Without a seed each run draws others, for which C has no source.
#include "ops/support/random.h"

#include <algorithm>

#include "convert/c/kernels.h"
#include "ops/evaluate.h"
#include "ops/support/cast_tensor.h"

namespace ferry::c {
namespace {

void RequireSeed(const StepWriter& w) {
  if (!w.node.Has("seed")) w.Refuse("it draws other numbers in every run: give it a seed, which makes them constants");
}

std::string TableOfUniform(StepWriter& w, int64_t count) {
  RequireSeed(w);
  RandomState state = RandomStateFor(w.node);
  Tensor drawn(DType::kDouble, Shape{count});
  for (int64_t i = 0; i < count; ++i) drawn.MutableData<double>()[i] = state.Uniform();
  return w.Table(std::move(drawn));
}

// Of the input only the shape counts.
Tensor Zeros(const Operand& like) {
  Tensor zeros(like.type, like.shape);
  std::fill_n(zeros.mutable_raw(), zeros.bytes(), std::byte{0});
  return zeros;
}

void WriteDrawn(StepWriter& w) {
  RequireSeed(w);
  ferry::Value like;
  std::vector<const ferry::Value*> inputs;
  if (w.Has(0)) like = ferry::Value(Zeros(w.in[0])), inputs.push_back(&like);
  const std::string table = w.Table(EvaluateNode(w.node, inputs, RunServices())[0].tensor());
  if (w.out[0].size() > 0)
    w.Line("memcpy(", w.out[0].c, ", ", table, ", ", StorageBytes(w.out[0].type, w.out[0].size()), ");");
}

void WriteBernoulli(StepWriter& w) {
  const std::string table = TableOfUniform(w, w.out[0].size());
  w.For("i", w.out[0].size());
  w.Line(w.Store(w.out[0], "i", Cat(table, "[i] < (double)", w.Load(w.in[0], "i"), " ? 1 : 0")));
  w.Close();
}

void WriteMultinomial(StepWriter& w) {
  const int64_t rows = w.in[0].shape[0], classes = w.in[0].shape[1], samples = w.out[0].shape[1];
  if (classes == 0) w.Refuse("it has no classes to choose from");
  const std::string table = TableOfUniform(w, rows * samples), sums = w.Scratch(DType::kDouble, classes);
  const std::string odds = Cat("(double)", w.Load(w.in[0], Cat("r * ", classes, " + k")));
  w.For("r", rows);
  w.Line("double most = -(double)INFINITY, total = 0;");
  w.Line("for (int k = 0; k < ", classes, "; k++) if (", odds, " > most) most = ", odds, ";");
  w.Line("for (int k = 0; k < ", classes, "; k++) ", sums, "[k] = total += exp(", odds, " - most);");
  w.For("i", samples);
  w.Line("const double point = ", table, "[r * ", samples, " + i] * total;");
  w.Line("int k = 0;");
  w.Line("while (k < ", classes - 1, " && !(point < ", sums, "[k])) k++;");
  w.Line(w.Store(w.out[0], Cat("r * ", samples, " + i"), "k"));
  w.Close(2);
}

void WriteDropout(StepWriter& w) {
  const bool trains = w.Has(2) && *CastTensor(w.Constant(2), DType::kDouble).Data<double>() != 0;
  const double ratio = trains && w.Has(1) ? *CastTensor(w.Constant(1), DType::kDouble).Data<double>() : 0.5;
  const int64_t count = w.in[0].size();
  if (!trains || ratio == 0) {
    if (w.Wants(0)) w.Line("memcpy(", w.out[0].c, ", ", w.in[0].c, ", ", StorageBytes(w.out[0].type, count), ");");
    if (w.Wants(1)) w.Line("memset(", w.out[1].c, ", 1, ", count, ");");
    return;
  }
  RequireSeed(w);
  if (!(ratio > 0 && ratio < 1)) w.Refuse("its ratio is not at least 0 and less than 1");
  RandomState state = RandomStateFor(w.node);
  Tensor mask(DType::kBool, Shape{count});
  for (int64_t i = 0; i < count; ++i) mask.MutableData<bool>()[i] = state.Uniform() >= ratio;
  const std::string table = w.Table(std::move(mask));
  w.For("i", count);
  if (w.Wants(0))
    w.Line(w.Store(w.out[0], "i",
                   Cat(table, "[i] ? ", w.Load(w.in[0], "i"), " * ",
                       Literal(1 / (1 - ratio), ArithmeticType(w.in[0].type)), " : 0")));
  if (w.Wants(1)) w.Line(w.out[1].c, "[i] = ", table, "[i];");
  w.Close();
}

}  // namespace

const std::vector<KernelEntry>& RandomKernels() {
  static const std::vector<KernelEntry> kernels = {
      {"RandomUniform", WriteDrawn},    {"RandomNormal", WriteDrawn},  {"RandomUniformLike", WriteDrawn},
      {"RandomNormalLike", WriteDrawn}, {"Bernoulli", WriteBernoulli}, {"Multinomial", WriteMultinomial},
      {"Dropout", WriteDropout},
  };
  return kernels;
}

}  // namespace ferry::c
