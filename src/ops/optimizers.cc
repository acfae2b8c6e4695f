// One step of gradient descent for any number of tensors: Adagrad, Adam, Momentum.
#include <cmath>
#include <string>
#include <vector>

#include "ops/operator.h"
#include "ops/support/cast_tensor.h"
#include "ops/support/dispatch.h"

namespace ferry {
namespace {

double Scalar(const OpContext& context, size_t input, const char* name) {
  const Tensor& tensor = context.Input(input);
  Require(tensor.size() == 1, "'", name, "' must be a scalar, has shape ", tensor.shape());
  return *CastTensor(tensor, DType::kDouble).Data<double>();
}

// Inputs 2… are n tensors, then their n gradients, then n of each kind of state; outputs are the new tensors and
// states. update(x, gradient, states) changes one element of each in place.
template <size_t kStates, class Update>
void Step(OpContext& context, const Update& update) {
  constexpr size_t kKinds = 2 + kStates;
  Require(context.input_count() > 2 && (context.input_count() - 2) % kKinds == 0, "takes R, T and then ", kKinds,
          " inputs per optimised tensor, got ", context.input_count());
  size_t tensors = (context.input_count() - 2) / kKinds;
  for (size_t t = 0; t < tensors; ++t) {
    const Tensor& x = context.Input(2 + t);
    Dispatch(FloatTypes{}, x.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T* from[kKinds];
      T* to[1 + kStates];
      for (size_t kind = 0; kind < kKinds; ++kind) {
        const Tensor& input = context.Input(2 + kind * tensors + t);
        Require(input.shape() == x.shape(), "input ", 2 + kind * tensors + t, " must have the shape of its tensor, ",
                x.shape(), ", has ", input.shape());
        from[kind] = input.Data<T>();
      }
      for (size_t kind = 0; kind < 1 + kStates; ++kind)
        to[kind] = context.Output(kind * tensors + t, x.dtype(), x.shape()).template MutableData<T>();
      for (int64_t i = 0; i < x.size(); ++i) {
        double value = from[0][i], states[kStates];
        for (size_t s = 0; s < kStates; ++s) states[s] = from[2 + s][i];
        update(value, static_cast<double>(from[1][i]), states);
        to[0][i] = static_cast<T>(value);
        for (size_t s = 0; s < kStates; ++s) to[1 + s][i] = static_cast<T>(states[s]);
      }
    });
  }
}

void ComputeAdagrad(OpContext& context) {
  const Node& node = context.node();
  double decay = node.Float("decay_factor", 0), epsilon = node.Float("epsilon", 1e-6f),
         norm = node.Float("norm_coefficient", 0);
  double rate = Scalar(context, 0, "R") / (1 + Scalar(context, 1, "T") * decay);
  Step<1>(context, [=](double& x, double gradient, double* squares) {
    double regularized = norm * x + gradient;
    squares[0] += regularized * regularized;
    x -= rate * regularized / (std::sqrt(squares[0]) + epsilon);
  });
}

void ComputeAdam(OpContext& context) {
  const Node& node = context.node();
  double alpha = node.Float("alpha", 0.9f), beta = node.Float("beta", 0.999f), epsilon = node.Float("epsilon", 1e-6f);
  double norm = node.Float("norm_coefficient", 0), norm_post = node.Float("norm_coefficient_post", 0);
  double rate = Scalar(context, 0, "R"), step = Scalar(context, 1, "T");
  if (step > 0) rate *= std::sqrt(1 - std::pow(beta, step)) / (1 - std::pow(alpha, step));
  Step<2>(context, [=](double& x, double gradient, double* averages) {
    double regularized = norm * x + gradient;
    averages[0] = alpha * averages[0] + (1 - alpha) * regularized;
    averages[1] = beta * averages[1] + (1 - beta) * regularized * regularized;
    x = (1 - norm_post) * (x - rate * averages[0] / (std::sqrt(averages[1]) + epsilon));
  });
}

void ComputeMomentum(OpContext& context) {
  const Node& node = context.node();
  for (const char* name : {"alpha", "beta", "mode", "norm_coefficient"})
    Require(node.Has(name), "attribute '", name, "' is missing");
  std::string mode = node.String("mode", "");
  Require(mode == "standard" || mode == "nesterov", "attribute 'mode' must be \"standard\" or \"nesterov\", is \"",
          Printable(mode), "\"");
  double alpha = node.Float("alpha", 0), norm = node.Float("norm_coefficient", 0), rate = Scalar(context, 0, "R");
  double beta = Scalar(context, 1, "T") > 0 ? node.Float("beta", 0) : 1;
  bool is_nesterov = mode == "nesterov";
  Step<1>(context, [=](double& x, double gradient, double* momentum) {
    double regularized = norm * x + gradient;
    momentum[0] = alpha * momentum[0] + beta * regularized;
    x -= rate * (is_nesterov ? regularized + alpha * momentum[0] : momentum[0]);
  });
}

// Outputs are the inputs from the third on, without the gradients.
template <size_t kStates>
void InferStep(InferContext& context) {
  if (context.input_count() < 2 || (context.input_count() - 2) % (2 + kStates) != 0) return;
  size_t tensors = (context.input_count() - 2) / (2 + kStates);
  for (size_t output = 0; output < context.output_count(); ++output)
    context.SetOutput(output, context.InputType(2 + output + (output < tensors ? 0 : tensors)));
}

}  // namespace

FERRY_OPERATOR_IN(training, Adagrad, {.compute = ComputeAdagrad, .infer = InferStep<1>});
FERRY_OPERATOR_IN(training, Adam, {.compute = ComputeAdam, .infer = InferStep<2>});
FERRY_OPERATOR_IN(training, Momentum, {.compute = ComputeMomentum, .infer = InferStep<1>});

}  // namespace ferry
