#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/support/cast_tensor.h"
#include "ops/support/elementwise.h"
#include "ops/support/fold_axes.h"

namespace ferry {
namespace {

// Which axes are folded: those given; with none given all of them, or none where the attribute says so.
std::vector<bool> ReducedAxes(const Node& node, const std::vector<int64_t>& axes, size_t rank) {
  bool none_means_all = node.Int("noop_with_empty_axes", 0) == 0;
  std::vector<bool> reduced(rank, axes.empty() && none_means_all);
  for (size_t axis : NormalizeAxes(axes, rank)) reduced[axis] = true;
  return reduced;
}

struct Reduction {
  explicit Reduction(const OpContext& context) : x(context.Input(0)) {
    const Tensor* axes = context.OptionalInput(1);
    Require(!axes || axes->rank() <= 1, "'axes' must be a list, has shape ", axes ? axes->shape() : Shape());
    reduced = ReducedAxes(context.node(), axes ? ToInt64Vector(*axes) : std::vector<int64_t>(), x.rank());
    bool keeps = context.node().Int("keepdims", 1) != 0;
    for (size_t axis = 0; axis < x.rank(); ++axis) {
      if (reduced[axis]) set_size = CheckedProduct(set_size, x.dim(axis));
      if (!reduced[axis] || keeps) shape.push_back(reduced[axis] ? 1 : x.dim(axis));
    }
  }

  const Tensor& x;
  std::vector<bool> reduced;
  Shape shape;
  int64_t set_size = 1;
};

void Finish(OpContext& context, const Reduction& reduction, const Tensor& result) {
  Tensor& y = context.Output(0, reduction.x.dtype(), reduction.shape);
  Tensor shaped = result.Reshaped(reduction.shape);
  if (y.dtype() == DType::kBool && shaped.dtype() == DType::kUInt8) shaped = shaped.ViewedAs(DType::kBool);
  CastInto(shaped, y);
}

template <Fold kFold>
void ComputeFold(OpContext& context) {
  Reduction reduction(context);
  Tensor result = FoldAxes(context, reduction.x, reduction.reduced, kFold);
  if (kFold == Fold::kMin && reduction.x.dtype() == DType::kBool) {
    // The least upper bound of no bools is true, not 255.
    uint8_t* bytes = result.MutableData<uint8_t>();
    std::transform(bytes, bytes + result.size(), bytes, [](uint8_t byte) { return uint8_t{byte != 0}; });
  }
  Finish(context, reduction, result);
}

// Sums that a function of one number turns into the result; integers take it in double.
template <Fold kFold, class F>
void ComputeFoldThen(OpContext& context) {
  Reduction reduction(context);
  Tensor total = CastTensor(FoldAxes(context, reduction.x, reduction.reduced, kFold), DType::kDouble);
  double* values = total.MutableData<double>();
  for (int64_t i = 0; i < total.size(); ++i) values[i] = F{}(values[i]);
  Finish(context, reduction, total);
}

void ComputeReduceMean(OpContext& context) {
  Reduction reduction(context);
  Tensor total = FoldAxes(context, reduction.x, reduction.reduced, Fold::kSum);
  int64_t count = reduction.set_size;
  if (total.dtype() == DType::kDouble) {
    double* values = total.MutableData<double>();
    for (int64_t i = 0; i < total.size(); ++i) values[i] /= static_cast<double>(count);
  } else {
    Require(count > 0 || total.size() == 0, "the mean of no integers is not defined: shape ", reduction.x.shape(),
            " is empty along the reduced axes");
    bool is_signed = IsSignedInteger(reduction.x.dtype());
    int64_t* values = total.MutableData<int64_t>();
    for (int64_t i = 0; i < total.size(); ++i)
      values[i] = is_signed ? values[i] / count
                            : static_cast<int64_t>(static_cast<uint64_t>(values[i]) / static_cast<uint64_t>(count));
  }
  Finish(context, reduction, total);
}

// log Σ exp(x) as m + log Σ exp(x − m) with m the maximum: no exp overflows.
void ComputeReduceLogSumExp(OpContext& context) {
  Reduction reduction(context);
  Tensor x = IsFloating(reduction.x.dtype()) ? WidenToFloat(reduction.x) : CastTensor(reduction.x, DType::kDouble);
  Tensor largest = FoldAxes(context, x, reduction.reduced, Fold::kMax);
  Tensor shifted(x.dtype(), x.shape());
  Dispatch(FloatTypes{}, x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    // An infinite maximum cannot be subtracted; exp of it needs no help.
    T* shift = largest.MutableData<T>();
    for (int64_t i = 0; i < largest.size(); ++i) shift[i] = std::isfinite(shift[i]) ? shift[i] : T{0};
    RunBinary(context, x, largest, shifted, [](const BinaryRun& run) {
      LoopOver<T>(run, [](T value, T offset) { return std::exp(value - offset); });
    });
    Tensor total = FoldAxes(context, shifted, reduction.reduced, Fold::kSum);
    double* values = total.MutableData<double>();
    for (int64_t i = 0; i < total.size(); ++i) values[i] = std::log(values[i]) + shift[i];
    Finish(context, reduction, total);
  });
}

void InferReduce(InferContext& context) {
  const SymbolicShape* shape = context.InputShape(0);
  DType type = context.InputDType(0);
  if (!shape) return context.SetOutput(0, type);
  bool keeps = context.node().Int("keepdims", 1) != 0;
  std::vector<int64_t> axes;
  if (context.Has(1)) {
    std::optional<std::vector<int64_t>> known = context.InputInts(1);
    if (!known) {
      // Any axis may be the one: a size of 1 stays 1, the others are open.
      if (!keeps) return context.SetOutput(0, type);
      SymbolicShape open = *shape;
      for (Dim& dim : open)
        if (!dim.known() || *dim.value != 1) dim = Dim();
      return context.SetOutput(0, type, std::move(open));
    }
    axes = std::move(*known);
  }
  std::vector<bool> reduced = ReducedAxes(context.node(), axes, shape->size());
  SymbolicShape result;
  for (size_t axis = 0; axis < shape->size(); ++axis)
    if (!reduced[axis] || keeps) result.push_back(reduced[axis] ? Dim(1) : (*shape)[axis]);
  context.SetOutput(0, type, std::move(result));
}

// The product or sum of a shape's entries, where code computes an element count by hand.
template <class Join>
void InferReduceElements(InferContext& context) {
  InferReduce(context);
  std::optional<SymbolicShape> elements = ElementsOf(context, 0);
  const SymbolicShape* shape = context.InputShape(0);
  if (!elements || elements->empty() || !shape || shape->size() != 1) return;
  bool reduces_all = context.Has(1) ? context.InputInts(1) && !context.InputInts(1)->empty()
                                    : context.node().Int("noop_with_empty_axes", 0) == 0;
  bool is_index = context.InputDType(0) == DType::kInt64;
  if (!reduces_all || !is_index) return;
  Dim total = (*elements)[0];
  for (size_t i = 1; i < elements->size(); ++i) total = Join{}(total, (*elements)[i]);
  context.SetOutputElements(0, {total});
}

struct AddDims {
  Dim operator()(const Dim& a, const Dim& b) const { return a + b; }
};
struct MultiplyDims {
  Dim operator()(const Dim& a, const Dim& b) const { return a * b; }
};
struct SquareRoot {
  double operator()(double x) const { return std::sqrt(x); }
};
struct Logarithm {
  double operator()(double x) const { return std::log(x); }
};

}  // namespace

FERRY_OPERATOR(ReduceL1, {.compute = ComputeFold<Fold::kSumOfAbs>, .infer = InferReduce});
FERRY_OPERATOR(ReduceL2, {.compute = ComputeFoldThen<Fold::kSumOfSquares, SquareRoot>, .infer = InferReduce});
FERRY_OPERATOR(ReduceLogSum, {.compute = ComputeFoldThen<Fold::kSum, Logarithm>, .infer = InferReduce});
FERRY_OPERATOR(ReduceLogSumExp, {.compute = ComputeReduceLogSumExp, .infer = InferReduce});
FERRY_OPERATOR(ReduceMax, {.compute = ComputeFold<Fold::kMax>, .infer = InferReduce});
FERRY_OPERATOR(ReduceMean, {.compute = ComputeReduceMean, .infer = InferReduce});
FERRY_OPERATOR(ReduceMin, {.compute = ComputeFold<Fold::kMin>, .infer = InferReduce});
FERRY_OPERATOR(ReduceProd, {.compute = ComputeFold<Fold::kProduct>, .infer = InferReduceElements<MultiplyDims>});
FERRY_OPERATOR(ReduceSum, {.compute = ComputeFold<Fold::kSum>, .infer = InferReduceElements<AddDims>});
FERRY_OPERATOR(ReduceSumSquare, {.compute = ComputeFold<Fold::kSumOfSquares>, .infer = InferReduce});

}  // namespace ferry
