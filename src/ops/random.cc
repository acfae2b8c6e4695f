#include "ops/support/random.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/operator.h"
#include "ops/support/cast_tensor.h"
#include "ops/support/dispatch.h"
#include "ops/support/infer.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

// What is drawn: one number per element, in row-major order.
struct Uniform {
  explicit Uniform(const Node& node) : low(node.Float("low", 0)), high(node.Float("high", 1)) {}
  double operator()(RandomState& state) const { return low + (high - low) * state.Uniform(); }
  double low, high;
};

struct Normal {
  explicit Normal(const Node& node) : mean(node.Float("mean", 0)), scale(node.Float("scale", 1)) {}
  double operator()(RandomState& state) const { return mean + scale * state.Normal(); }
  double mean, scale;
};

constexpr int64_t kElementsBetweenPolls = 1 << 16;

template <class Draw>
void Fill(OpContext& context, DType type, const Shape& shape) {
  Require(IsFloating(type), "random numbers are floats; ", type, " was asked for");
  Draw draw(context.node());
  RandomState state = RandomStateFor(context.node());
  Tensor& y = context.Output(0, type, shape);
  Tensor drawn = IsSmallFloat(type) ? Tensor(DType::kFloat, shape) : y;
  Dispatch(FloatTypes{}, drawn.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* values = drawn.MutableData<T>();
    for (int64_t i = 0; i < drawn.size(); ++i) {
      if (i % kElementsBetweenPolls == 0) context.CheckCancelled();
      values[i] = static_cast<T>(draw(state));
    }
  });
  NarrowInto(drawn, y);
}

Shape ShapeAttribute(const Node& node) {
  Require(node.Has("shape"), "attribute 'shape' is missing");
  Shape shape(node.Ints("shape"));
  shape.ElementCount();  // refuses negative and absurd sizes
  return shape;
}

template <class Draw>
void ComputeOfShape(OpContext& context) {
  Fill<Draw>(context, TypeAttribute(context.node(), "dtype", DType::kFloat), ShapeAttribute(context.node()));
}

void InferOfShape(InferContext& context) {
  context.SetOutput(0, TypeAttribute(context.node(), "dtype", DType::kFloat),
                    ToSymbolic(ShapeAttribute(context.node())));
}

template <class Draw>
void ComputeLike(OpContext& context) {
  const Tensor& like = context.Input(0);
  Fill<Draw>(context, TypeAttribute(context.node(), "dtype", like.dtype()), like.shape());
}

void InferLike(InferContext& context) {
  Type type = context.InputType(0);
  if (!type.known()) type = Type::Tensor(DType::kUndefined);
  type.dtype = TypeAttribute(context.node(), "dtype", type.dtype);
  context.SetOutput(0, std::move(type));
}

void ComputeBernoulli(OpContext& context) {
  const Tensor& x = context.Input(0);
  Require(IsFloating(x.dtype()), "probabilities must be floats, got ", x.dtype());
  RandomState state = RandomStateFor(context.node());
  Tensor probabilities = CastTensor(x, DType::kDouble), drawn(DType::kBool, x.shape());
  const double* p = probabilities.Data<double>();
  for (int64_t i = 0; i < x.size(); ++i) {
    if (i % kElementsBetweenPolls == 0) context.CheckCancelled();
    drawn.MutableData<bool>()[i] = state.Uniform() < p[i];
  }
  CastInto(drawn, context.Output(0, TypeAttribute(context.node(), "dtype", x.dtype()), x.shape()));
}

// The class whose share of the line [0, total) a point falls into.
int64_t ClassAt(const std::vector<double>& cumulative, double point) {
  auto it = std::upper_bound(cumulative.begin(), cumulative.end(), point);
  return std::min<int64_t>(it - cumulative.begin(), static_cast<int64_t>(cumulative.size()) - 1);
}

void ComputeMultinomial(OpContext& context) {
  const Tensor& x = context.Input(0);
  Require(x.rank() == 2 && x.dim(1) > 0, "the input must be [batch, classes] with at least one class, has shape ",
          x.shape());
  int64_t samples = context.node().Int("sample_size", 1);
  Require(samples >= 0, "attribute 'sample_size' is ", samples);
  RandomState state = RandomStateFor(context.node());
  Tensor logits = CastTensor(x, DType::kDouble), drawn(DType::kInt64, {x.dim(0), samples});
  int64_t classes = x.dim(1), *out = drawn.MutableData<int64_t>();
  for (int64_t row = 0; row < x.dim(0); ++row) {
    const double* log_odds = logits.Data<double>() + row * classes;
    double largest = *std::max_element(log_odds, log_odds + classes), total = 0;
    std::vector<double> cumulative;
    for (int64_t c = 0; c < classes; ++c) cumulative.push_back(total += std::exp(log_odds[c] - largest));
    for (int64_t i = 0; i < samples; ++i) {
      if (i % kElementsBetweenPolls == 0) context.CheckCancelled();
      *out++ = ClassAt(cumulative, state.Uniform() * total);
    }
  }
  DType type = TypeAttribute(context.node(), "dtype", DType::kInt32);
  Require(type == DType::kInt32 || type == DType::kInt64, "attribute 'dtype' must be int32 or int64, is ", type);
  CastInto(drawn, context.Output(0, type, drawn.shape()));
}

void InferMultinomial(InferContext& context) {
  const SymbolicShape* shape = context.InputShape(0);
  Dim batch = shape && !shape->empty() ? (*shape)[0] : Dim();
  context.SetOutput(0, TypeAttribute(context.node(), "dtype", DType::kInt32),
                    {batch, Dim(context.node().Int("sample_size", 1))});
}

}  // namespace

FERRY_OPERATOR(RandomUniform, {.compute = ComputeOfShape<Uniform>, .infer = InferOfShape, .is_random = true});
FERRY_OPERATOR(RandomUniformLike, {.compute = ComputeLike<Uniform>, .infer = InferLike, .is_random = true});
FERRY_OPERATOR(RandomNormal, {.compute = ComputeOfShape<Normal>, .infer = InferOfShape, .is_random = true});
FERRY_OPERATOR(RandomNormalLike, {.compute = ComputeLike<Normal>, .infer = InferLike, .is_random = true});
FERRY_OPERATOR(Bernoulli, {.compute = ComputeBernoulli, .infer = InferLike, .is_random = true});
FERRY_OPERATOR(Multinomial, {.compute = ComputeMultinomial, .infer = InferMultinomial, .is_random = true});

}  // namespace ferry
