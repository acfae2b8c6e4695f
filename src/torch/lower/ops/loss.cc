// Loss functions. `reduction` is 0 for none, 1 for the mean, 2 for the sum.
#include <cmath>
#include <numeric>

#include "torch/lower/families.h"
#include "torch/lower/ops/support.h"

namespace ferry::torch {
namespace {

Operand Reduced(Call& c, const Operand& loss, int64_t reduction) {
  if (reduction == 0) return loss;
  return c.b.Reduce(reduction == 1 ? "ReduceMean" : "ReduceSum", loss, {}, false);
}

Result MseLoss(Call& c) {
  Operands o = c.Promoted({0, 1});
  Operand d = c.b.Sub(o[0], o[1]);
  return Reduced(c, c.b.Mul(d, d), c.Int(2));
}
Result L1Loss(Call& c) {
  Operands o = c.Promoted({0, 1});
  return Reduced(c, c.b.Abs(c.b.Sub(o[0], o[1])), c.Int(2));
}
Result SmoothL1Loss(Call& c) {
  Operands o = c.Promoted({0, 1});
  double beta = c.Float(3);
  Operand d = c.b.Abs(c.b.Sub(o[0], o[1]));
  if (beta == 0) return Reduced(c, d, c.Int(2));
  Operand near = c.b.Mul(c.b.Mul(d, d), 0.5 / beta);
  return Reduced(c, c.b.Where(c.b.Less(d, beta), near, c.b.Sub(d, 0.5 * beta)), c.Int(2));
}
Result HuberLoss(Call& c) {
  Operands o = c.Promoted({0, 1});
  double delta = c.Float(3);
  Operand d = c.b.Abs(c.b.Sub(o[0], o[1]));
  Operand far = c.b.Mul(c.b.Sub(d, 0.5 * delta), delta);
  return Reduced(c, c.b.Where(c.b.LessOrEqual(d, delta), c.b.Mul(c.b.Mul(d, d), 0.5), far), c.Int(2));
}
// Logarithms are cut at -100, as PyTorch cuts them.
Result BinaryCrossEntropy(Call& c) {
  Operand x = c.Tensor(0), y = c.b.CastLike(c.Tensor(1), x), weight = c.MaybeTensor(2);
  auto log = [&](const Operand& p) { return c.b.Max(c.b.Log(p), c.b.NumberLike(-100, p)); };
  Operand cut = c.b.Max(Log1pOf(c.b, c.b.Neg(x)), c.b.NumberLike(-100, x));
  Operand loss = c.b.Sub(c.b.Mul(c.b.Sub(y, 1), cut), c.b.Mul(y, log(x)));
  if (weight) loss = c.b.Mul(loss, weight);
  return Reduced(c, loss, c.Int(3));
}
// (1 - y) x + (1 + (p - 1) y) softplus(-x)
Result BinaryCrossEntropyLogits(Call& c) {
  Operand x = c.Tensor(0), y = c.b.CastLike(c.Tensor(1), x), weight = c.MaybeTensor(2), positive = c.MaybeTensor(3);
  Operand soft = c.b.Widened("Softplus", {c.b.Neg(x)});
  if (positive) soft = c.b.Mul(c.b.Add(c.b.Mul(c.b.Sub(positive, 1), y), 1), soft);
  Operand loss = c.b.Add(c.b.Mul(c.b.Sub(1, y), x), soft);
  if (weight) loss = c.b.Mul(loss, weight);
  return Reduced(c, loss, c.Int(4));
}
Result KlDiv(Call& c) {
  Operands o = c.Promoted({0, 1});
  const Operand &x = o[0], &y = o[1];
  if (c.Bool(3)) return Reduced(c, c.b.Mul(c.b.Exp(y), c.b.Sub(y, x)), c.Int(2));
  Operand log = c.b.Where(c.b.Equal(y, 0), c.b.NumberLike(0, y), c.b.Mul(y, c.b.Log(y)));
  return Reduced(c, c.b.Sub(log, c.b.Mul(x, y)), c.Int(2));
}
Result PoissonNllLoss(Call& c) {
  Operands o = c.Promoted({0, 1});
  const Operand &x = o[0], &y = o[1];
  double eps = c.Float(4);
  Operand loss = c.Bool(2) ? c.b.Sub(c.b.Exp(x), c.b.Mul(y, x)) : c.b.Sub(x, c.b.Mul(y, c.b.Log(c.b.Add(x, eps))));
  if (c.Bool(3)) {
    // Stirling's approximation for targets above 1.
    Operand stirling = c.b.Add(c.b.Sub(c.b.Mul(y, c.b.Log(y)), y), c.b.Mul(c.b.Log(c.b.Mul(y, 2 * M_PI)), 0.5));
    loss = c.b.Add(loss, c.b.Where(c.b.LessOrEqual(y, 1), c.b.NumberLike(0, y), stirling));
  }
  return Reduced(c, loss, c.Int(5));
}

// --- classes

// Classes are axis 1, or the only axis.
int64_t ClassAxis(const Operand& x) { return x.rank() == 1 ? 0 : 1; }

struct Picked {
  Operand value, weight;  // of each target's class; 0 where it is to be ignored
};
Picked PickClasses(Call& c, const Operand& scores, const Operand& target, const Operand& weight, int64_t ignore) {
  Builder& b = c.b;
  int64_t axis = ClassAxis(scores);
  Operand classes = b.Cast(target, DType::kInt64);
  Operand kept = b.Not(b.Equal(classes, b.Int(ignore)));
  Operand safe = b.Where(kept, classes, b.Int(0));
  Operand index = b.Unsqueeze(safe, {axis});
  Operand value = b.Squeeze(b.Emit("GatherElements", {scores, index}, {{"axis", axis}}), {axis});
  Operand share = weight ? b.Gather(b.CastLike(weight, scores), safe, 0) : b.Fill(1, scores.dtype(), b.ShapeOf(safe));
  return {value, b.Where(kept, share, b.NumberLike(0, scores))};
}
// The negative log likelihoods, and the weights they are averaged with.
Operand NllOf(Call& c, const Operand& scores, const Operand& target, const Operand& weight, int64_t reduction,
              int64_t ignore, Operand* total) {
  Picked picked = PickClasses(c, scores, target, weight, ignore);
  Operand zero = c.b.NumberLike(0, scores);
  Operand loss = c.b.Where(c.b.Equal(picked.weight, 0), zero, c.b.Neg(c.b.Mul(picked.value, picked.weight)));
  if (total) *total = c.b.Reduce("ReduceSum", picked.weight, {}, false);
  if (reduction == 0) return loss;
  Operand sum = c.b.Reduce("ReduceSum", loss, {}, false);
  return reduction == 2 ? sum : c.b.Div(sum, c.b.Reduce("ReduceSum", picked.weight, {}, false));
}
Result NllLoss(Call& c) { return NllOf(c, c.Tensor(0), c.Tensor(1), c.MaybeTensor(2), c.Int(3), c.Int(4), nullptr); }
Result NllLossForward(Call& c) {
  Operand total;
  Operand loss = NllOf(c, c.Tensor(0), c.Tensor(1), c.MaybeTensor(2), c.Int(3), c.Int(4), &total);
  // Without a reduction PyTorch keeps no total.
  return Operands{loss, c.Int(3) == 0 ? c.b.NumberLike(0, loss) : total};
}

Operand ClassWeights(Call& c, const Operand& weight, const Operand& scores) {
  std::vector<int64_t> axes;
  for (size_t i = 2; i < scores.rank(); ++i) axes.push_back(static_cast<int64_t>(i) - 1);
  return c.b.Unsqueeze(c.b.CastLike(weight, scores), axes);
}
// Targets given as probabilities of each class.
Operand CrossEntropyOfProbabilities(Call& c, const Operand& logs, Operand target, const Operand& weight,
                                    int64_t reduction, double smoothing) {
  int64_t axis = ClassAxis(logs);
  if (smoothing > 0) {
    Dim classes = logs.dim(axis);
    if (!classes.known()) c.Unsupported("the number of classes is not known");
    target = c.b.Add(c.b.Mul(target, 1 - smoothing), smoothing / static_cast<double>(*classes.value));
  }
  Operand terms = c.b.Mul(logs, target);
  if (weight) terms = c.b.Mul(terms, ClassWeights(c, weight, logs));
  Operand loss = c.b.Neg(c.b.Reduce("ReduceSum", terms, {axis}, false));
  return Reduced(c, loss, reduction);  // the mean is over samples, weighted or not
}
// Part of the target's probability is spread over all classes.
Operand SmoothedCrossEntropy(Call& c, const Operand& logs, const Operand& target, const Operand& weight,
                             int64_t reduction, int64_t ignore, double smoothing) {
  Builder& b = c.b;
  int64_t axis = ClassAxis(logs);
  Dim classes = logs.dim(axis);
  if (!classes.known()) c.Unsupported("the number of classes is not known");
  Picked picked = PickClasses(c, logs, target, weight, ignore);
  Operand kept = b.Not(b.Equal(b.Cast(target, DType::kInt64), b.Int(ignore)));
  Operand zero = b.NumberLike(0, logs);
  Operand spread =
      b.Neg(b.Reduce("ReduceSum", weight ? b.Mul(logs, ClassWeights(c, weight, logs)) : logs, {axis}, false));
  spread = b.Where(kept, spread, zero);
  Operand own = b.Where(kept, b.Neg(b.Mul(picked.value, picked.weight)), zero);
  double share = smoothing / static_cast<double>(*classes.value);
  Operand loss = b.Add(b.Mul(own, 1 - smoothing), b.Mul(spread, share));
  if (reduction != 1) return Reduced(c, loss, reduction);
  return b.Div(b.Reduce("ReduceSum", loss, {}, false), b.Reduce("ReduceSum", picked.weight, {}, false));
}
Result CrossEntropy(Call& c) {
  Operand x = c.Tensor(0), target = c.Tensor(1), weight = c.MaybeTensor(2);
  double smoothing = c.Float(5);
  Operand logs = c.b.Widened("LogSoftmax", {x}, {{"axis", ClassAxis(x)}});
  if (IsFloating(target.dtype()))
    return CrossEntropyOfProbabilities(c, logs, c.b.CastLike(target, x), weight, c.Int(3), smoothing);
  if (smoothing > 0) return SmoothedCrossEntropy(c, logs, target, weight, c.Int(3), c.Int(4), smoothing);
  return NllOf(c, logs, target, weight, c.Int(3), c.Int(4), nullptr);
}

// --- margins

Operand AtLeastZero(Call& c, const Operand& x) { return c.b.Max(x, c.b.NumberLike(0, x)); }
Result MarginRankingLoss(Call& c) {
  Operands o = c.Promoted({0, 1, 2});
  Operand loss = AtLeastZero(c, c.b.Add(c.b.Mul(c.b.Neg(o[2]), c.b.Sub(o[0], o[1])), c.Float(3)));
  return Reduced(c, loss, c.Int(4));
}
// x where the target is 1, max(0, margin - x) where it is -1.
Result HingeEmbeddingLoss(Call& c) {
  Operand x = c.Tensor(0), y = c.b.CastLike(c.Tensor(1), x);
  Operand zero = c.b.NumberLike(0, x);
  Operand margin = c.b.Where(c.b.Equal(y, 1), zero, AtLeastZero(c, c.b.Sub(c.Float(2), x)));
  Operand own = c.b.Where(c.b.Equal(y, -1), zero, x);
  return Reduced(c, c.b.Add(margin, own), c.Int(3));
}
Result SoftMarginLoss(Call& c) {
  Operands o = c.Promoted({0, 1});
  return Reduced(c, Log1pOf(c.b, c.b.Exp(c.b.Neg(c.b.Mul(o[0], o[1])))), c.Int(2));
}
Operand CosineOf(Call& c, const Operand& x, const Operand& y, int64_t axis, double eps) {
  auto norm = [&](const Operand& v) {
    return c.b.Max(c.b.Reduce("ReduceL2", v, {axis}, true), c.b.NumberLike(eps, v));
  };
  return c.b.Reduce("ReduceSum", c.b.Mul(c.b.Div(x, norm(x)), c.b.Div(y, norm(y))), {axis}, false);
}
Result CosineSimilarity(Call& c) {
  Operands o = c.PromotedTo(FloatingResult(ResultType({c.Any(0), c.Any(1)})), {0, 1});
  Operand shape = c.b.Add(o[0], o[1]);
  return CosineOf(c, c.b.ExpandLike(o[0], shape), c.b.ExpandLike(o[1], shape), c.Int(2), c.Float(3));
}
Result CosineEmbeddingLoss(Call& c) {
  Operand x = c.b.ToFloat(c.Tensor(0)), y = c.b.CastLike(c.Tensor(1), x), target = c.Tensor(2);
  int64_t axis = target.rank() == 0 ? 0 : 1;
  constexpr double kEpsilon = 1e-12;
  auto sum = [&](const Operand& v) { return c.b.Reduce("ReduceSum", v, {axis}, false); };
  Operand magnitude = c.b.Sqrt(c.b.Mul(c.b.Add(sum(c.b.Mul(x, x)), kEpsilon), c.b.Add(sum(c.b.Mul(y, y)), kEpsilon)));
  Operand cosine = c.b.Div(sum(c.b.Mul(x, y)), magnitude), zero = c.b.NumberLike(0, x);
  Operand apart = c.b.Where(c.b.Equal(target, -1), AtLeastZero(c, c.b.Sub(cosine, c.Float(3))), zero);
  Operand loss = c.b.Where(c.b.Equal(target, 1), c.b.Sub(1, cosine), apart);
  return Reduced(c, loss, c.Int(4));
}
// The mean over classes of max(0, margin - x[target] + x[class])^p, the target's own class left out.
Result MultiMarginLoss(Call& c) {
  Builder& b = c.b;
  Operand x = c.Tensor(0), weight = c.MaybeTensor(4);
  bool single = x.rank() < 2;
  if (x.rank() == 0) x = b.Reshape(x, {1, 1});
  if (x.rank() == 1) x = b.Unsqueeze(x, {0});
  Operand target = b.Reshape(b.Cast(c.Tensor(1), DType::kInt64), {-1, 1});
  Operand own = b.Emit("GatherElements", {x, target}, {{"axis", int64_t{1}}});
  Operand margin = AtLeastZero(c, b.Add(b.Sub(x, own), c.Float(3)));
  if (c.Float(2) == 2) margin = b.Mul(margin, margin);
  if (weight) margin = b.Mul(margin, b.Gather(b.CastLike(weight, x), target, 0));
  margin = b.Where(b.Equal(b.Iota(x, 1), target), b.NumberLike(0, x), margin);
  Operand loss = b.Reduce("ReduceMean", margin, {1}, false);
  if (c.Int(5) == 0 && single)
    return c.Tensor(0).rank() == 0 || c.Tensor(1).rank() == 0 ? b.Reshape(loss, std::vector<int64_t>{}) : loss;
  return Reduced(c, loss, c.Int(5));
}
// |x - y + eps| in the p-norm along the last axis.
Operand DistanceOf(Call& c, const Operand& x, const Operand& y, double p, double eps, bool keep) {
  return NormAlong(c.b, c.b.Add(c.b.Sub(x, y), eps), p, {-1}, keep);
}
Result PairwiseDistance(Call& c) {
  Operands o = c.Promoted({0, 1});
  return DistanceOf(c, o[0], o[1], c.Float(2), c.Float(3), c.Bool(4));
}
Result TripletMarginLoss(Call& c) {
  Operands o = c.Promoted({0, 1, 2});
  double p = c.Float(4), eps = c.Float(5);
  Operand near = DistanceOf(c, o[0], o[1], p, eps, false), far = DistanceOf(c, o[0], o[2], p, eps, false);
  if (c.Bool(6)) far = c.b.Min(far, DistanceOf(c, o[1], o[2], p, eps, false));
  return Reduced(c, AtLeastZero(c, c.b.Add(c.b.Sub(near, far), c.Float(3))), c.Int(7));
}
// Targets list classes until the first -1. For each of them, every class that is no target may come as near as 1.
Result MultilabelMarginLoss(Call& c) {
  Builder& b = c.b;
  Operand x = c.Tensor(0), target = b.Cast(c.Tensor(1), DType::kInt64);
  bool single = x.rank() < 2;
  if (x.rank() == 0) x = b.Reshape(x, {1});
  if (target.rank() == 0) target = b.Reshape(target, {1});
  if (x.rank() == 1) {
    x = b.Unsqueeze(x, {0});
    target = b.Unsqueeze(target, {0});
  }
  Operand ended = b.Emit("CumSum", {b.Cast(b.Less(target, b.Int(0)), DType::kInt64), b.Int(1)});
  Operand listed = b.Equal(ended, b.Int(0));
  Operand safe = b.Where(listed, target, b.Int(0));
  // [batch, target, class]
  Operand hits = b.And(b.Equal(b.Unsqueeze(safe, {2}), b.Iota(x, 1)), b.Unsqueeze(listed, {2}));
  Operand is_target = b.Cast(b.Reduce("ReduceMax", b.Cast(hits, DType::kInt32), {1}, false), DType::kBool);
  Operand own = b.Emit("GatherElements", {x, safe}, {{"axis", int64_t{1}}});
  Operand margin = AtLeastZero(c, b.Add(b.Sub(b.Unsqueeze(x, {1}), b.Unsqueeze(own, {2})), 1));
  Operand counted = b.And(b.Unsqueeze(listed, {2}), b.Not(b.Unsqueeze(is_target, {1})));
  Operand sum = b.Reduce("ReduceSum", b.Where(counted, margin, b.NumberLike(0, x)), {1, 2}, false);
  Dim classes = x.dim(1);
  if (!classes.known()) c.Unsupported("the number of classes is not known");
  Operand loss = b.Div(sum, static_cast<double>(*classes.value));
  if (c.Int(2) == 0 && single) return b.Reshape(loss, std::vector<int64_t>{});
  return Reduced(c, loss, c.Int(2));
}

constexpr Rule kRules[] = {
    {"mse_loss(Tensor self, Tensor target, int reduction=Mean)", MseLoss},
    {"l1_loss(Tensor self, Tensor target, int reduction=Mean)", L1Loss},
    {"smooth_l1_loss(Tensor self, Tensor target, int reduction=Mean, float beta=1.0)", SmoothL1Loss},
    {"huber_loss(Tensor self, Tensor target, int reduction=Mean, float delta=1.0)", HuberLoss},
    {"binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean)", BinaryCrossEntropy},
    {"binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, "
     "int reduction=Mean)",
     BinaryCrossEntropyLogits},
    {"kl_div(Tensor self, Tensor target, int reduction=Mean, *, bool log_target=False)", KlDiv},
    {"poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction)",
     PoissonNllLoss},
    {"nll_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, SymInt ignore_index=-100)",
     NllLoss},
    {"nll_loss_nd(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, SymInt ignore_index=-100)",
     NllLoss},
    {"nll_loss2d(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, SymInt ignore_index=-100)",
     NllLoss},
    {"nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index)",
     NllLossForward},
    {"nll_loss2d_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index)",
     NllLossForward},
    {"cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, SymInt "
     "ignore_index=-100, "
     "float label_smoothing=0.0)",
     CrossEntropy},
    {"margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=Mean)",
     MarginRankingLoss},
    {"hinge_embedding_loss(Tensor self, Tensor target, float margin=1.0, int reduction=Mean)", HingeEmbeddingLoss},
    {"soft_margin_loss(Tensor self, Tensor target, int reduction=Mean)", SoftMarginLoss},
    {"cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08)", CosineSimilarity},
    {"cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=Mean)",
     CosineEmbeddingLoss},
    {"multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, int "
     "reduction=Mean)",
     MultiMarginLoss},
    {"multilabel_margin_loss(Tensor self, Tensor target, int reduction=Mean)", MultilabelMarginLoss},
    {"pairwise_distance(Tensor x1, Tensor x2, float p=2.0, float eps=1e-06, bool keepdim=False)", PairwiseDistance},
    {"triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2.0, float "
     "eps=1e-06, "
     "bool swap=False, int reduction=Mean)",
     TripletMarginLoss},
};

}  // namespace

std::span<const Rule> LossRules() { return kRules; }

}  // namespace ferry::torch
