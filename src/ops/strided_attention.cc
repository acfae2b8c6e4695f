// StridedAttention: softmax(q · k · scale + mask) · v where each operand is read from a larger tensor by an offset and
// strides. Made by pipelines of devices out of FusedAttention and the transposes, slices and splits before it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/operator.h"

namespace ferry {
namespace {

// [offset, image, head, row, column] of an operand.
std::vector<int64_t> ViewOf(const Node& node, const char* name) {
  std::vector<int64_t> view = node.Ints(name);
  if (view.size() != 5) Fail(ErrorCode::kInternal, "attribute '", name, "' has ", view.size(), " numbers instead of 5");
  return view;
}

void RequireInside(const std::vector<int64_t>& view, std::initializer_list<int64_t> sizes, const Tensor& tensor,
                   const char* what) {
  int64_t last = view[0];
  size_t i = 1;
  for (int64_t size : sizes) last += (size - 1) * view[i++];
  Require(view[0] >= 0 && last < tensor.size(), what, " is read at ", last, " of ", tensor.shape());
}

void ComputeStridedAttention(OpContext& context) {
  const Node& node = context.node();
  const std::vector<int64_t> sizes = node.Ints("sizes");
  if (sizes.size() != 7) Fail(ErrorCode::kInternal, "attribute 'sizes' has ", sizes.size(), " numbers instead of 7");
  const int64_t batch = sizes[0], heads = sizes[1], sharing = sizes[2], queries = sizes[3], keys = sizes[4],
                depth = sizes[5], values = sizes[6];
  const std::vector<int64_t> q = ViewOf(node, "q_view"), k = ViewOf(node, "k_view"), v = ViewOf(node, "v_view"),
                             out = ViewOf(node, "out_view"), m = ViewOf(node, "mask_view");
  const Tensor* mask = context.OptionalInput(3);
  RequireInside(q, {batch, heads, queries, depth}, context.Input(0), "the query");
  RequireInside(k, {batch, heads / sharing, keys, depth}, context.Input(1), "the key");
  RequireInside(v, {batch, heads / sharing, keys, values}, context.Input(2), "the value");
  const int64_t mask_images = node.Int("mask_images", batch);  // after so many it begins again
  Require(mask_images >= 1, "a mask for ", mask_images, " images");
  if (mask) RequireInside(m, {std::min(batch, mask_images), heads, queries, keys}, *mask, "the mask");
  const float *from_q = context.Input(0).Data<float>() + q[0], *from_k = context.Input(1).Data<float>() + k[0],
              *from_v = context.Input(2).Data<float>() + v[0];
  Tensor& made = context.Output(0, DType::kFloat, Shape(node.Ints("shape")));
  RequireInside(out, {batch, heads, queries, values}, made, "the result");
  float* to = made.MutableData<float>();
  const double scale = node.Float("scale", 1);
  std::vector<double> weights(static_cast<size_t>(keys));
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t row = 0; row < queries; ++row) {
        double largest = -std::numeric_limits<double>::infinity(), sum = 0;
        for (int64_t key = 0; key < keys; ++key) {
          double score = 0;
          for (int64_t d = 0; d < depth; ++d)
            score += double{from_q[b * q[1] + h * q[2] + row * q[3] + d * q[4]]} *
                     double{from_k[b * k[1] + h / sharing * k[2] + key * k[3] + d * k[4]]};
          score *= scale;
          if (mask)
            score += double{mask->Data<float>()[m[0] + b % mask_images * m[1] + h * m[2] + row * m[3] + key * m[4]]};
          weights[static_cast<size_t>(key)] = score;
          largest = std::max(largest, score);
        }
        for (double& weight : weights) sum += weight = std::exp(weight - largest);
        for (int64_t i = 0; i < values; ++i) {
          double joined = 0;
          for (int64_t key = 0; key < keys; ++key)
            joined += weights[static_cast<size_t>(key)] *
                      double{from_v[b * v[1] + h / sharing * v[2] + key * v[3] + i * v[4]]};
          joined /= sum;
          if (node.Int("nan_to_zero", 0) != 0 && std::isnan(joined)) joined = 0;
          to[out[0] + b * out[1] + h * out[2] + row * out[3] + i * out[4]] = static_cast<float>(joined);
        }
      }
}

void InferStridedAttention(InferContext& context) {
  const Type& q = context.InputType(0);
  context.SetOutput(0, q.is_tensor() ? q.dtype : DType::kFloat, ToSymbolic(Shape(context.node().Ints("shape"))));
}

}  // namespace

FERRY_OPERATOR_IN(internal, StridedAttention, {.compute = ComputeStridedAttention, .infer = InferStridedAttention});

}  // namespace ferry
