#include <algorithm>
#include <limits>
#include <optional>

#include "base/work_poll.h"
#include "ops/operator.h"
#include "ops/support/scalar.h"

namespace ferry {
namespace {

struct Box {
  float x_min, y_min, x_max, y_max;
  float Area() const { return (x_max - x_min) * (y_max - y_min); }
};

Box ReadBox(const float* box, bool is_centered) {
  if (is_centered) return {box[0] - box[2] / 2, box[1] - box[3] / 2, box[0] + box[2] / 2, box[1] + box[3] / 2};
  return {std::min(box[1], box[3]), std::min(box[0], box[2]), std::max(box[1], box[3]), std::max(box[0], box[2])};
}

bool OverlapsMoreThan(const Box& a, const Box& b, float threshold) {
  float width = std::min(a.x_max, b.x_max) - std::max(a.x_min, b.x_min);
  float height = std::min(a.y_max, b.y_max) - std::max(a.y_min, b.y_min);
  if (!(width > 0 && height > 0)) return false;
  float shared = width * height, either = a.Area() + b.Area() - shared;
  return a.Area() > 0 && b.Area() > 0 && either > 0 && shared / either > threshold;
}

struct Limits {
  int64_t most_boxes = 0;
  float overlap = 0;
  std::optional<float> score;
};

Limits ReadLimits(const OpContext& context) {
  Limits limits;
  if (context.Has(2))
    limits.most_boxes = std::max<int64_t>(0, ScalarInt(context.Input(2), "max_output_boxes_per_class"));
  if (context.Has(3)) limits.overlap = static_cast<float>(ScalarFloat(context.Input(3), "iou_threshold"));
  Require(limits.overlap >= 0 && limits.overlap <= 1, "iou_threshold ", double{limits.overlap},
          " is not within 0 and 1");
  if (context.Has(4)) limits.score = static_cast<float>(ScalarFloat(context.Input(4), "score_threshold"));
  return limits;
}

// The boxes that stay, best score first; of equal scores the earlier box is better.
std::vector<int64_t> SelectBoxes(const std::vector<Box>& boxes, const float* scores, const Limits& limits) {
  std::vector<int64_t> order;
  for (size_t i = 0; i < boxes.size(); ++i)
    if (!limits.score || scores[i] >= *limits.score) order.push_back(static_cast<int64_t>(i));
  // A score that is not a number is worse than any other.
  auto rank = [&](int64_t i) { return scores[i] != scores[i] ? -std::numeric_limits<float>::infinity() : scores[i]; };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return rank(a) > rank(b); });
  std::vector<int64_t> kept;
  WorkPoll poll;
  for (int64_t candidate : order) {
    if (static_cast<int64_t>(kept.size()) >= limits.most_boxes) break;
    poll(static_cast<int64_t>(kept.size()));
    bool stays = std::none_of(kept.begin(), kept.end(), [&](int64_t other) {
      return OverlapsMoreThan(boxes[static_cast<size_t>(candidate)], boxes[static_cast<size_t>(other)], limits.overlap);
    });
    if (stays) kept.push_back(candidate);
  }
  return kept;
}

void ComputeNonMaxSuppression(OpContext& context) {
  const Tensor& boxes = context.Input(0);
  const Tensor& scores = context.Input(1);
  bool fits = boxes.rank() == 3 && boxes.dim(2) == 4 && scores.rank() == 3 && scores.dim(0) == boxes.dim(0) &&
              scores.dim(2) == boxes.dim(1);
  Require(fits, "boxes must be [batch, n, 4] and scores [batch, classes, n], they are ", boxes.shape(), " and ",
          scores.shape());
  int64_t is_centered = context.node().Int("center_point_box", 0);
  Require(is_centered == 0 || is_centered == 1, "center_point_box must be 0 or 1, is ", is_centered);
  Limits limits = ReadLimits(context);
  int64_t batches = boxes.dim(0), classes = scores.dim(1), count = boxes.dim(1);
  std::vector<int64_t> selected;
  for (int64_t batch = 0; batch < batches && limits.most_boxes > 0; ++batch) {
    std::vector<Box> corners;
    for (int64_t i = 0; i < count; ++i)
      corners.push_back(ReadBox(boxes.Data<float>() + (batch * count + i) * 4, is_centered != 0));
    for (int64_t kind = 0; kind < classes; ++kind) {
      context.CheckCancelled();
      const float* class_scores = scores.Data<float>() + (batch * classes + kind) * count;
      for (int64_t box : SelectBoxes(corners, class_scores, limits))
        selected.insert(selected.end(), {batch, kind, box});
    }
  }
  Tensor& out = context.Output(0, DType::kInt64, {static_cast<int64_t>(selected.size() / 3), 3});
  std::copy(selected.begin(), selected.end(), out.MutableData<int64_t>());
}

void InferNonMaxSuppression(InferContext& context) {
  bool selects_none = !context.Has(2);
  context.SetOutput(0, DType::kInt64, {selects_none ? Dim(0) : Dim(), Dim(3)});
}

}  // namespace

FERRY_OPERATOR(NonMaxSuppression, {.compute = ComputeNonMaxSuppression, .infer = InferNonMaxSuppression});

}  // namespace ferry
