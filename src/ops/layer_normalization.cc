// Normalisation of everything from an axis on: LayerNormalization and RMSNormalization.
#include <cmath>

#include "ops/support/cast_tensor.h"
#include "ops/support/elementwise.h"
#include "ops/support/moments.h"

namespace ferry {
namespace {

// True when a parameter is the same for every row: it covers the normalised axes and nothing before them.
bool IsPerRow(const Shape& parameter, const Shape& x, size_t axis) {
  if (parameter.rank() > x.rank() || parameter.rank() < x.rank() - axis) return false;
  size_t offset = x.rank() - parameter.rank();
  for (size_t i = 0; i < parameter.rank(); ++i)
    if (parameter[i] != (i + offset < axis ? 1 : x[i + offset])) return false;
  return true;
}

struct Problem {
  Tensor x, y;         // of the compute type; y may be x
  Tensor scale, bias;  // bias may be undefined
  size_t axis;
  int64_t rows, count;
  double epsilon;
};

Tensor Parameter(const OpContext& context, size_t input, const char* name, DType compute) {
  const Tensor& tensor = context.Input(input);
  const Shape& x = context.Input(0).shape();
  Require(BroadcastShapes(x, tensor.shape()) == x, "'", name, "' of shape ", tensor.shape(),
          " cannot be broadcast to the input's shape ", x);
  return CastTensor(tensor, compute);
}

// Rows are normalised as row(x, r) says, (mean, 1/deviation); parameters that vary over rows are applied afterwards.
template <class T, class Row>
void NormalizeRows(const OpContext& context, Problem& problem, const Row& row) {
  bool fused = IsPerRow(problem.scale.shape(), problem.x.shape(), problem.axis) &&
               (!problem.bias.defined() || IsPerRow(problem.bias.shape(), problem.x.shape(), problem.axis));
  const T* x = problem.x.Data<T>();
  T* y = problem.y.MutableData<T>();
  const T* scale = fused ? problem.scale.Data<T>() : nullptr;
  const T* bias = fused && problem.bias.defined() ? problem.bias.Data<T>() : nullptr;
  int64_t count = problem.count, grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, count));
  context.ParallelFor(problem.rows, grain, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const T* from = x + r * count;
      T* to = y + r * count;
      auto [mean, factor] = row(from, r);
      auto shift = static_cast<T>(mean), stretch = static_cast<T>(factor);
      ForLookedParts(count, 1, [&](int64_t begin, int64_t end) {
        if (bias) {
          for (int64_t i = begin; i < end; ++i) to[i] = (from[i] - shift) * stretch * scale[i] + bias[i];
        } else if (scale) {
          for (int64_t i = begin; i < end; ++i) to[i] = (from[i] - shift) * stretch * scale[i];
        } else {
          for (int64_t i = begin; i < end; ++i) to[i] = (from[i] - shift) * stretch;
        }
      });
    }
  });
  if (fused) return;
  RunBinary(context, problem.y, problem.scale, problem.y,
            [](const BinaryRun& run) { LoopOver<T>(run, [](T a, T b) { return a * b; }); });
  if (problem.bias.defined())
    RunBinary(context, problem.y, problem.bias, problem.y,
              [](const BinaryRun& run) { LoopOver<T>(run, [](T a, T b) { return a + b; }); });
}

Problem MakeProblem(OpContext& context, DType compute, Tensor& y) {
  const Tensor& x = context.Input(0);
  Problem problem;
  problem.axis = NormalizeAxis(context.node().Int("axis", -1), x.rank());
  problem.rows = x.shape().CountBetween(0, problem.axis);
  problem.count = x.shape().CountBetween(problem.axis, x.rank());
  problem.epsilon = context.node().Float("epsilon", 1e-5f);
  problem.x = CastTensor(x, compute);
  problem.y = y.dtype() == compute ? y : Tensor(compute, x.shape());
  problem.scale = Parameter(context, 1, "scale", compute);
  if (context.Has(2)) problem.bias = Parameter(context, 2, "B", compute);
  return problem;
}

struct RowFactors {
  double mean, factor;
};

// The type of the statistics, which is also the least precision they are computed in; ours is never less than float.
DType StashType(const Node& node) {
  DType type = TypeAttribute(node, "stash_type", DType::kFloat);
  Require(IsFloating(type), "attribute 'stash_type' must name a float type, is ", type);
  return type;
}

Shape StatisticsShape(const Shape& shape, size_t axis) {
  Shape out = shape;
  for (size_t i = axis; i < out.rank(); ++i) out[i] = 1;
  return out;
}

void ComputeLayerNormalization(OpContext& context) {
  const Tensor& x = context.Input(0);
  DType stash = StashType(context.node());
  Tensor& y = context.Output(0, x.dtype(), x.shape());
  Problem problem = MakeProblem(context, ComputeType(x.dtype()), y);
  Shape statistics = StatisticsShape(x.shape(), problem.axis);
  Tensor mean(DType::kDouble, statistics), inverse(DType::kDouble, statistics);
  double* means = mean.MutableData<double>();
  double* inverses = inverse.MutableData<double>();
  Dispatch(FloatTypes{}, problem.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    NormalizeRows<T>(context, problem, [&](const T* row, int64_t r) {
      Moments moments = MomentsOf(row, problem.count);
      means[r] = moments.mean;
      inverses[r] = 1 / std::sqrt(moments.variance + problem.epsilon);
      return RowFactors{means[r], inverses[r]};
    });
  });
  NarrowInto(problem.y, y);
  if (context.Wants(1)) CastInto(mean, context.Output(1, stash, statistics));
  if (context.Wants(2)) CastInto(inverse, context.Output(2, stash, statistics));
}

void InferLayerNormalization(InferContext& context) {
  InferSameAsInput(context);
  DType stash = StashType(context.node());
  const SymbolicShape* shape = context.InputShape(0);
  for (size_t output = 1; output < 3; ++output) {
    if (!shape) {
      context.SetOutput(output, stash);
      continue;
    }
    SymbolicShape statistics = *shape;
    for (size_t i = NormalizeAxis(context.node().Int("axis", -1), shape->size()); i < shape->size(); ++i)
      statistics[i] = Dim(1);
    context.SetOutput(output, stash, std::move(statistics));
  }
}

void ComputeRMSNormalization(OpContext& context) {
  const Tensor& x = context.Input(0);
  const Tensor& scale = context.Input(1);
  Require(IsFloating(x.dtype()) && IsFloating(scale.dtype()), "input and scale must be floats, got ", x.dtype(),
          " and ", scale.dtype());
  Tensor& y = context.Output(0, scale.dtype(), x.shape());
  bool is_double = x.dtype() == DType::kDouble || scale.dtype() == DType::kDouble;
  Problem problem = MakeProblem(context, is_double ? DType::kDouble : DType::kFloat, y);
  Dispatch(FloatTypes{}, problem.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    NormalizeRows<T>(context, problem, [&](const T* row, int64_t) {
      double squares =
          SumOver(row, problem.count, [](T value) { return static_cast<double>(value) * static_cast<double>(value); });
      return RowFactors{0, 1 / std::sqrt(squares / static_cast<double>(problem.count) + problem.epsilon)};
    });
  });
  CastInto(problem.y, y);
}

void InferRMSNormalization(InferContext& context) {
  Type type = context.InputType(0);
  type.dtype = context.InputDType(1);
  context.SetOutput(0, std::move(type));
}

}  // namespace

FERRY_OPERATOR(LayerNormalization,
               {.compute = ComputeLayerNormalization, .infer = InferLayerNormalization, .in_place = kInput0});
FERRY_OPERATOR(RMSNormalization,
               {.compute = ComputeRMSNormalization, .infer = InferRMSNormalization, .in_place = kInput0});

}  // namespace ferry
