#include "passes/gradient_builder.h"

namespace ferry {
namespace {

using Context = GradientContext;

// y = x̂·scale + bias with x̂ = (x − mean)/deviation over `axes`: what flows back to x when mean and deviation depend on
// it.
std::string NormalizedInput(Context& c, const std::string& g, const std::string& normalized,
                            const std::string& inverse_deviation, const std::vector<int64_t>& axes) {
  auto mean = [&](const std::string& a) { return c.Op("ReduceMean", {a, c.Ints(axes)}, {{"keepdims", int64_t{1}}}); };
  std::string along = c.Mul(normalized, mean(c.Mul(g, normalized)));
  return c.Mul(inverse_deviation, c.Sub(c.Sub(g, mean(g)), along));
}

struct Statistics {
  std::string normalized, inverse_deviation;
};

Statistics Normalize(Context& c, const std::string& x, const std::vector<int64_t>& axes, double epsilon) {
  auto mean = [&](const std::string& a) { return c.Op("ReduceMean", {a, c.Ints(axes)}, {{"keepdims", int64_t{1}}}); };
  std::string centered = c.Sub(x, mean(x));
  std::string variance = c.Add(mean(c.Mul(centered, centered)), c.Scalar(epsilon, x));
  std::string inverse = c.Op("Reciprocal", {c.Op("Sqrt", {variance})});
  return {c.Mul(centered, inverse), inverse};
}

void LayerNormalization(Context& c) {
  if ((c.node().HasOutput(1) && !c.G(1).empty()) || (c.node().HasOutput(2) && !c.G(2).empty()))
    c.Unsupported("the result depends on its mean or deviation output");
  int64_t axis = c.node().Int("axis", -1);
  auto rank = static_cast<int64_t>(c.RankOf(0));
  std::vector<int64_t> axes;
  for (int64_t a = axis < 0 ? axis + rank : axis; a < rank; ++a) axes.push_back(a);
  Statistics s = Normalize(c, c.In(0), axes, c.node().Float("epsilon", 1e-5f));
  if (c.Needs(0)) c.Give(0, NormalizedInput(c, c.Mul(c.G(), c.In(1)), s.normalized, s.inverse_deviation, axes));
  if (c.Needs(1)) c.GiveReduced(1, c.Mul(c.G(), s.normalized));
  if (c.Needs(2)) c.GiveReduced(2, c.G());
}

void BatchNormalization(Context& c) {
  std::vector<int64_t> around, spread;  // all axes but the channels' one; where a vector of channels gets its ones
  for (size_t a = 0; a < c.RankOf(0); ++a)
    if (a != 1) around.push_back(static_cast<int64_t>(a));
  for (size_t a = 2; a < c.RankOf(0); ++a) spread.push_back(static_cast<int64_t>(a - 1));
  auto per_channel = [&](const std::string& a) { return spread.empty() ? a : c.Op("Unsqueeze", {a, c.Ints(spread)}); };
  double epsilon = c.node().Float("epsilon", 1e-5f);
  std::string scaled = c.Mul(c.G(), per_channel(c.In(1)));
  if (c.node().Int("training_mode", 0) != 0) {
    Statistics s = Normalize(c, c.In(0), around, epsilon);
    if (c.Needs(0)) c.Give(0, NormalizedInput(c, scaled, s.normalized, s.inverse_deviation, around));
    if (c.Needs(1)) c.Give(1, c.Sum(c.Mul(c.G(), s.normalized), around, false));
  } else {
    const std::string& x = c.In(0);
    std::string variance = c.Add(c.In(4), c.Scalar(epsilon, c.In(4)));
    std::string inverse = c.Op("Reciprocal", {c.Op("Sqrt", {variance})});
    std::string centered = c.Sub(x, per_channel(c.In(3))), dx = c.Mul(scaled, per_channel(inverse));
    c.Give(0, dx);
    if (c.Needs(1)) c.Give(1, c.Mul(c.Sum(c.Mul(c.G(), centered), around, false), inverse));
    if (c.Needs(3)) c.Give(3, c.Neg(c.Sum(dx, around, false)));
    if (c.Needs(4)) {
      std::string sum = c.Sum(c.Mul(dx, centered), around, false);
      c.Give(4, c.Div(c.Mul(sum, c.Scalar(-0.5, sum)), variance));
    }
  }
  if (c.Needs(2)) c.Give(2, c.Sum(c.G(), around, false));
}

void GlobalAveragePool(Context& c) {
  std::string count = c.Op("Div", {c.Op("Size", {c.In(0)}), c.Op("Size", {c.Out()})});
  c.Give(0, c.Op("Expand", {c.Div(c.G(), c.CastLike(count, c.G())), c.ShapeOf(c.In(0))}));
}

// The places of the largest elements are an output of the pooling; asked for if the graph does not.
void MaxPool(Context& c) {
  if (c.node().Int("storage_order", 0) != 0) c.Unsupported("column-major indices");
  Node& node = c.mutable_node();
  if (!node.HasOutput(1)) {
    node.outputs.resize(2);
    node.outputs[1] = c.FreshName(node.outputs[0] + "_places");
  }
  std::string flat = c.Ints({-1});
  std::string zeros = c.Op("Reshape", {c.FilledLike(c.In(0), 0), flat});
  std::string sums =
      c.Op("ScatterElements", {zeros, c.Op("Reshape", {node.outputs[1], flat}), c.Op("Reshape", {c.G(), flat})},
           {{"axis", int64_t{0}}, {"reduction", std::string("add")}});
  c.Give(0, c.ReshapeLike(sums, c.In(0)));
}

// Every element of a window gets the same share. Channels are taken as images of their own, so that one kernel of ones
// spreads the shares.
void AveragePool(Context& c) {
  const Node& node = c.node();
  size_t spatial = c.RankOf(0) - 2;
  if (node.Int("ceil_mode", 0) != 0) c.Unsupported("ceil_mode");
  std::string automatic = node.String("auto_pad", "NOTSET");
  if (automatic != "NOTSET" && automatic != "VALID") c.Unsupported("auto_pad");
  std::vector<int64_t> kernel = node.Ints("kernel_shape"), pads = node.Ints("pads");
  if (kernel.size() != spatial) c.Unsupported("its 'kernel_shape' does not fit the input");
  pads.resize(2 * spatial, 0);
  std::vector<Attribute> window{{"pads", pads}};
  for (const char* name : {"strides", "dilations"})
    if (std::vector<int64_t> values = node.Ints(name); !values.empty()) window.push_back({name, values});
  std::vector<int64_t> kernel_dims{1, 1};
  kernel_dims.insert(kernel_dims.end(), kernel.begin(), kernel.end());
  std::string ones = c.Op("Expand", {c.Scalar(1, c.G()), c.Ints(kernel_dims)});
  auto images = [&](const std::string& a) {
    std::string tail = c.Op("Shape", {a}, {{"start", int64_t{2}}});
    return c.Op("Reshape", {a, c.Op("Concat", {c.Ints({-1, 1}), tail}, {{"axis", int64_t{0}}})});
  };
  std::string x_ones = images(c.FilledLike(c.In(0), 1)), g = images(c.G());
  std::string count = node.Int("count_include_pad", 0) != 0 ? c.Op("ReduceSum", {ones}, {{"keepdims", int64_t{0}}})
                                                            : c.Op("Conv", {x_ones, ones}, window);
  std::vector<int64_t> before(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(spatial));
  before.resize(2 * spatial, 0);
  window[0] = {"pads", before};
  std::string full = c.Op("ConvTranspose", {c.Div(g, count), ones}, window);
  c.Give(0, c.ReshapeLike(c.FitTo(full, x_ones), c.In(0)));
}

void Dropout(Context& c) {
  const Node& node = c.node();
  if (!node.HasInput(2)) return c.Give(0, c.G());
  const Tensor* training = c.ConstantOf(c.In(2));
  if (training && training->size() == 1 && !*training->Data<bool>()) return c.Give(0, c.G());
  Node& dropout = c.mutable_node();
  if (!dropout.HasOutput(1)) {
    dropout.outputs.resize(2);
    dropout.outputs[1] = c.FreshName(dropout.outputs[0] + "_mask");
  }
  // While training, what is kept is scaled up; otherwise everything is kept as it is.
  std::string ratio = node.HasInput(1) ? c.CastLike(c.In(1), c.G()) : c.Scalar(0.5, c.G());
  std::string kept = c.Sub(c.Scalar(1, c.G()), c.Where(c.In(2), ratio, c.Scalar(0, c.G())));
  c.Give(0, c.Div(c.Mul(c.G(), c.CastLike(dropout.outputs[1], c.G())), kept));
}

// Where each target class is, as 1 among zeros along axis 1; all zeros for targets that are ignored. Times the class
// weights, divided by what the mean divides by.
std::string WeightedTargets(Context& c, const std::string& scores, const std::string& targets, bool has_weights) {
  std::string one_hot;
  std::string classes = c.DimOf(scores, 1), values = c.CastLike(c.Constant(Tensor::FromVector<float>({0, 1})), scores);
  std::string safe = targets, counted;
  if (c.node().Has("ignore_index")) {
    std::string ignored = c.CastLike(c.Constant(Tensor::Scalar<int64_t>(c.node().Int("ignore_index", -1))), targets);
    std::string is_ignored = c.Op("Equal", {targets, ignored});
    safe = c.Where(is_ignored, c.CastLike(c.Constant(Tensor::Scalar<int64_t>(0)), targets), targets);
    counted = c.Op("Unsqueeze", {c.CastLike(c.Op("Not", {is_ignored}), scores), c.Ints({1})});
  }
  one_hot = c.Op("OneHot", {safe, classes, values}, {{"axis", int64_t{1}}});
  if (!counted.empty()) one_hot = c.Mul(one_hot, counted);
  if (has_weights) {
    std::vector<int64_t> around{0};
    for (size_t a = 2; a < c.RankOf(0); ++a) around.push_back(static_cast<int64_t>(a));
    one_hot = c.Mul(one_hot, c.Op("Unsqueeze", {c.In(2), c.Ints(around)}));
  }
  return one_hot;
}

// The gradient of a loss with respect to the log-probabilities of all classes.
std::string LossGradient(Context& c, const std::string& scores) {
  if (c.Needs(2)) c.Unsupported("the class weights depend on the variables");
  std::string targets = WeightedTargets(c, scores, c.In(1), c.node().HasInput(2));
  std::string reduction = c.node().String("reduction", "mean"), g = c.G();
  if (reduction == "none")
    g = c.Op("Unsqueeze", {g, c.Ints({1})});
  else if (reduction == "mean")
    g = c.Div(g, c.Op("ReduceSum", {targets}, {{"keepdims", int64_t{0}}}));
  return c.Neg(c.Mul(g, targets));
}

void NegativeLogLikelihoodLoss(Context& c) { c.Give(0, LossGradient(c, c.In(0))); }

void SoftmaxCrossEntropyLoss(Context& c) {
  std::string softmax = c.Op("Softmax", {c.In(0)}, {{"axis", int64_t{1}}}), g;
  if (!c.G(0).empty()) g = LossGradient(c, c.In(0));
  if (c.node().HasOutput(1) && !c.G(1).empty()) g = g.empty() ? c.G(1) : c.Add(g, c.G(1));
  c.Give(0, c.Sub(g, c.Mul(softmax, c.Sum(g, {1}, true))));
}

}  // namespace

std::span<const GradientRule> NetworkGradients() {
  static constexpr GradientRule kRules[] = {
      {"LayerNormalization", LayerNormalization},
      {"BatchNormalization", BatchNormalization},
      {"GlobalAveragePool", GlobalAveragePool},
      {"MaxPool", MaxPool},
      {"AveragePool", AveragePool},
      {"Dropout", Dropout},
      {"NegativeLogLikelihoodLoss", NegativeLogLikelihoodLoss},
      {"SoftmaxCrossEntropyLoss", SoftmaxCrossEntropyLoss},
  };
  return kRules;
}

}  // namespace ferry
