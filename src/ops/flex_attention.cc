#include <cmath>

#include "kernels/gemm.h"
#include "ops/operator.h"
#include "ops/support/attention.h"
#include "ops/support/cast_tensor.h"
#include "ops/support/dispatch.h"
#include "ops/support/rounding.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

struct FlexPlan {
  HeadLayout q, k, v;
  int64_t group;
  DType type, precision;
  float scale;

  explicit FlexPlan(const OpContext& context)
      : q(context.Input(0).shape(), 0, "Q"),
        k(context.Input(1).shape(), 0, "K"),
        v(context.Input(2).shape(), 0, "V"),
        type(context.Input(0).dtype()) {
    for (size_t i = 0; i < 3; ++i) {
      Require(context.Input(i).rank() == 4, "Q, K and V must have 4 axes, one has shape ", context.Input(i).shape());
      Require(context.Input(i).dtype() == type, "Q, K and V must have one type");
    }
    Require(q.batch == k.batch && k.batch == v.batch && k.heads == v.heads && k.length == v.length &&
                q.size == k.size && k.heads > 0 && q.heads % k.heads == 0,
            "Q ", context.Input(0).shape(), ", K ", context.Input(1).shape(), " and V ", context.Input(2).shape(),
            " do not go together");
    group = q.heads / k.heads;
    scale = context.node().Float("scale", 1.0f / std::sqrt(static_cast<float>(std::max<int64_t>(q.size, 1))));
    precision = SoftmaxType(context.node().Int("softmax_precision", 0),
                            type == DType::kDouble ? DType::kDouble : DType::kFloat);
  }

  Shape ScoreShape() const { return {q.batch, q.heads, q.length, k.length}; }

  // One product per head; `other` is K or V.
  std::vector<GemmBatch> Heads(int64_t a_size, const HeadLayout& other) const {
    std::vector<GemmBatch> heads;
    for (int64_t image = 0; image < q.batch; ++image)
      for (int64_t head = 0; head < q.heads; ++head)
        heads.push_back({(image * q.heads + head) * a_size, other.Offset(image, head / group)});
    return heads;
  }
};

// The values times √scale, rounded as the type would: both factors of the scores are scaled.
template <class T>
Tensor ScaledCopy(const Tensor& tensor, DType type, float scale) {
  Tensor out = WidenToFloat(tensor).Clone();
  T root = static_cast<T>(std::sqrt(scale));
  RoundTo(type, &root, 1);
  T* values = out.MutableData<T>();
  for (int64_t i = 0; i < out.size(); ++i) values[i] *= root;
  RoundTo(type, values, out.size());
  return out;
}

template <class T>
Tensor Scores(const OpContext& context, const FlexPlan& plan) {
  Tensor q = ScaledCopy<T>(context.Input(0), plan.type, plan.scale);
  Tensor k = ScaledCopy<T>(context.Input(1), plan.type, plan.scale);
  Tensor scores(kDTypeOf<T>, plan.ScoreShape());
  std::vector<GemmBatch> heads = plan.Heads(plan.q.length * plan.q.size, plan.k);
  if (scores.size() == 0) return scores;
  Gemm<T>({.m = plan.q.length,
           .n = plan.k.length,
           .k = plan.q.size,
           .a = q.Data<T>(),
           .a_row = plan.q.size,
           .b = k.Data<T>(),
           .b_row = 1,
           .b_col = plan.k.size,
           .c = scores.MutableData<T>(),
           .c_row = plan.k.length,
           .c_batch = plan.q.length * plan.k.length,
           .batches = heads},
          context.services().pool);
  RoundTo(plan.type, scores.MutableData<T>(), scores.size());
  return scores;
}

// Runs a body that must give back a tensor like the one it got.
Tensor Modified(const OpContext& context, const char* attribute, Tensor tensor) {
  if (!context.node().Has(attribute)) return tensor;
  Subgraph& body = context.subgraph(attribute);
  Require(body.input_count() == 1 && body.output_count() == 1, attribute, " must have one input and one output");
  Value input = tensor;
  std::vector<Value> results = body.Run(std::span(&input, 1));
  const Tensor& result = results[0].tensor();
  Require(result.dtype() == tensor.dtype() && result.shape() == tensor.shape(), attribute, " made ", result.dtype(),
          result.shape(), " of ", tensor.dtype(), tensor.shape());
  return result;
}

// Rows of scores become probabilities, in a tensor of the softmax type.
Tensor Probabilities(const OpContext& context, const FlexPlan& plan, const Tensor& scores) {
  Tensor wide = WidenToFloat(scores).Clone();
  Dispatch(FloatTypes{}, wide.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* values = wide.MutableData<T>();
    int64_t row = plan.k.length;
    context.ParallelFor(row > 0 ? wide.size() / row : 0, 1 + 4096 / std::max<int64_t>(row, 1),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) SoftmaxRow(plan.precision, values + i * row, row);
                        });
  });
  return CastTensor(wide, plan.precision);
}

void ComputeFlexAttention(OpContext& context) {
  FlexPlan plan(context);
  Tensor scores;
  Dispatch(FloatTypes{}, ComputeType(plan.type),
           [&](auto tag) { scores = Scores<typename decltype(tag)::type>(context, plan); });
  scores = Modified(context, "score_mod", CastTensor(scores, plan.precision));
  Tensor probabilities = Modified(context, "prob_mod", Probabilities(context, plan, scores));

  Tensor& y = context.Output(0, plan.type, Shape{plan.q.batch, plan.q.heads, plan.q.length, plan.v.size});
  Tensor wide = WidenToFloat(probabilities), v = CastTensor(context.Input(2), wide.dtype());
  Tensor result(wide.dtype(), y.shape());
  std::vector<GemmBatch> heads = plan.Heads(plan.q.length * plan.k.length, plan.v);
  Dispatch(FloatTypes{}, wide.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (result.size() == 0) return;
    Gemm<T>({.m = plan.q.length,
             .n = plan.v.size,
             .k = plan.k.length,
             .a = wide.Data<T>(),
             .a_row = plan.k.length,
             .b = v.Data<T>(),
             .b_row = plan.v.size,
             .c = result.MutableData<T>(),
             .c_row = plan.v.size,
             .c_batch = plan.q.length * plan.v.size,
             .batches = heads},
            context.services().pool);
    RoundTo(plan.precision, result.MutableData<T>(), result.size());
  });
  CastInto(result, y);
}

void InferFlexAttention(InferContext& context) {
  const SymbolicShape* q = context.InputShape(0);
  const SymbolicShape* v = context.InputShape(2);
  for (const SymbolicShape* shape : {q, v})
    if (shape) Require(shape->size() == 4, "Q, K and V must have 4 axes, one has shape ", *shape);
  SymbolicShape out(4);
  if (q) std::copy_n(q->begin(), 3, out.begin());
  if (v) out[3] = (*v)[3];
  if (v && out[0].unknown()) out[0] = (*v)[0];

  SymbolicShape scores = out;
  scores[3] = v ? (*v)[2] : Dim();
  DType type = context.InputDType(0);
  DType precision =
      SoftmaxType(context.node().Int("softmax_precision", 0), type == DType::kDouble ? DType::kDouble : DType::kFloat);
  ValueFacts body_input{.type = Type::Tensor(precision, std::move(scores))};
  for (const char* body : {"score_mod", "prob_mod"})
    if (context.node().Has(body)) context.InferSubgraph(body, std::span(&body_input, 1));
  context.SetOutput(0, type, std::move(out));
}

}  // namespace

FERRY_OPERATOR_IN(preview, FlexAttention,
                  {.compute = ComputeFlexAttention, .infer = InferFlexAttention, .has_subgraphs = true});

}  // namespace ferry
