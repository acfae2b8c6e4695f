// Losses of class labels, and steps of optimizers.
#include "convert/c/kernels.h"

namespace ferry::c {
namespace {

void WriteLoss(StepWriter& w) {
  const Operand &x = w.in[0], &labels = w.in[1];
  const bool softmax = w.node.op_type == "SoftmaxCrossEntropyLoss";
  const int64_t batch = x.shape[0], classes = x.shape[1], places = x.shape.CountBetween(2, x.shape.rank());
  const std::string reduction = w.node.String("reduction", "mean"), type(ArithmeticC(x.type)),
                    at = Cat("(n * ", classes, " + k) * ", places, " + p");
  w.Line("double sum = 0, whole = 0;");
  w.For("n", batch);
  w.For("p", places);
  w.Line("double shift = 0;");
  if (softmax) {
    w.Line("double most = -(double)INFINITY, total = 0;");
    w.Line("for (int k = 0; k < ", classes, "; k++) if ((double)", w.Load(x, at), " > most) most = (double)",
           w.Load(x, at), ";");
    w.Line("for (int k = 0; k < ", classes, "; k++) total += exp((double)", w.Load(x, at), " - most);");
    w.Line("shift = most + log(total);");
    if (w.Wants(1)) {
      w.For("k", classes);
      w.Line(w.Store(w.out[1], at, Cat("(", type, ")((double)", w.Load(x, at), " - shift)")));
      w.Close();
    }
  }
  w.Line("const int64_t label = (int64_t)", w.Load(labels, Cat("n * ", places, " + p")), ";");
  w.Line("double loss = 0;");
  w.Open("if (",
         w.node.Has("ignore_index") ? Cat("label != ", IntegerLiteral(w.node.Int("ignore_index", 0)), " && ") : "",
         "label >= 0 && label < ", classes, ")");
  w.Line("const int k = (int)label;");
  w.Line("const double weight = ", w.Has(2) ? Cat("(double)", w.Load(w.in[2], "k")) : "1", ";");
  w.Line("loss = (shift - (double)", w.Load(x, at), ") * weight;");
  w.Line("whole += weight;");
  w.Close();
  w.Line("sum += loss;");
  if (reduction == "none") w.Line(w.Store(w.out[0], Cat("n * ", places, " + p"), Cat("(", type, ")loss")));
  w.Close(2);
  if (reduction == "mean") w.Line(w.Store(w.out[0], "0", Cat("(", type, ")(sum / whole)")));
  if (reduction == "sum") w.Line("(void)whole;"), w.Line(w.Store(w.out[0], "0", Cat("(", type, ")sum")));
  if (reduction == "none") w.Line("(void)sum, (void)whole;");
}

}  // namespace

const std::vector<KernelEntry>& LossKernels() {
  static const std::vector<KernelEntry> kernels = {{"NegativeLogLikelihoodLoss", WriteLoss},
                                                   {"SoftmaxCrossEntropyLoss", WriteLoss}};
  return kernels;
}

}  // namespace ferry::c
