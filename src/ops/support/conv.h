// What the convolutions share: checked sizes, inference, and an image seen as the columns of a matrix product.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/gemm.h"
#include "ops/infer_context.h"
#include "ops/support/window.h"
#include "tensor/shape.h"

namespace ferry {

struct ConvPlan {
  int64_t batch = 0, channels = 0, features = 0, groups = 1;
  int64_t group_channels = 0, group_features = 0;
  std::vector<WindowAxis> axes;
  WindowCounts counts;
  Shape output;

  int64_t depth() const { return group_channels * counts.taps; }  // products per output element
  // Where the weights of each (image, group) pair begin.
  std::vector<int64_t> WeightOffsets() const;
  bool is_pointwise() const;  // 1×1, stride 1, no padding
};

// Checks x [N, C, …] against w [M, C/group, …] and the node's attributes.
ConvPlan PlanConv(const Node& node, const Shape& x, const Shape& w);
// Sets output 0 from the shapes of these inputs.
void InferConv(InferContext& context, size_t x_input, size_t w_input, DType dtype);
// A per-channel vector input: [features], or one value where `may_be_single`.
void RequirePerChannel(const Shape& shape, int64_t features, const char* what);

// Columns of the product: one per output pixel, holding the window's inputs channel by channel. Batches are
// (image, group) pairs. `convert` turns a stored element into T; padding is T{0}.
template <class T, class Stored, class Convert>
class ImageSource final : public PanelSource<T> {
 public:
  ImageSource(const ConvPlan& plan, const Stored* x, Convert convert) : plan_(plan), x_(x), convert_(convert) {}

  void Pack(int64_t batch, int64_t depth, int64_t depths, int64_t line, int64_t lines, int64_t width,
            T* out) const override {
    const std::vector<WindowAxis>& axes = plan_.axes;
    const Stored* image = x_ + batch * plan_.group_channels * plan_.counts.input;
    std::vector<Segment> segments = Cut(line, lines);
    std::vector<int64_t> tap(axes.size());
    int64_t rest = depth % plan_.counts.taps;
    for (size_t a = axes.size(); a-- > 0; rest /= axes[a].kernel) tap[a] = rest % axes[a].kernel;
    int64_t channel = depth / plan_.counts.taps;
    for (int64_t i = 0; i < depths; ++i, out += width) {
      const Stored* plane = image + channel * plan_.counts.input;
      for (const Segment& segment : segments) Fill(segment, tap, plane, out + segment.at);
      for (int64_t j = lines; j < width; ++j) out[j] = T{0};
      size_t a = axes.size();
      while (a-- > 0 && ++tap[a] == axes[a].kernel) tap[a] = 0;
      if (a == static_cast<size_t>(-1)) ++channel;
    }
  }

 private:
  // Outputs of one row of pixels, next to each other along the last axis.
  struct Segment {
    int64_t at, count;           // place among the panel's lines
    int64_t first;               // output index along the last axis
    std::vector<int64_t> outer;  // output indices along the other axes
  };

  std::vector<Segment> Cut(int64_t line, int64_t lines) const {
    std::vector<Segment> segments;
    int64_t row = plan_.axes.back().output;
    for (int64_t at = 0; at < lines;) {
      int64_t pixel = line + at;
      Segment segment{at, 0, pixel % row, std::vector<int64_t>(plan_.axes.size() - 1)};
      segment.count = std::min(row - segment.first, lines - at);
      int64_t rest = pixel / row;
      for (size_t a = plan_.axes.size() - 1; a-- > 0; rest /= plan_.axes[a].output)
        segment.outer[a] = rest % plan_.axes[a].output;
      at += segment.count;
      segments.push_back(std::move(segment));
    }
    return segments;
  }

  void Fill(const Segment& segment, const std::vector<int64_t>& tap, const Stored* plane, T* out) const {
    int64_t offset = 0;
    for (size_t a = 0; a < segment.outer.size(); ++a) {
      int64_t position = plan_.axes[a].Position(segment.outer[a], tap[a]);
      if (position < 0 || position >= plan_.axes[a].input) {
        std::fill_n(out, segment.count, T{0});
        return;
      }
      offset = offset * plan_.axes[a].input + position;
    }
    const WindowAxis& last = plan_.axes.back();
    const Stored* from = plane + offset * last.input;
    OutputRange valid = ValidOutputs(last, tap.back());
    int64_t begin = std::clamp<int64_t>(valid.begin - segment.first, 0, segment.count);
    int64_t end = std::clamp<int64_t>(valid.end - segment.first, begin, segment.count);
    std::fill_n(out, begin, T{0});
    int64_t position = last.Position(segment.first, tap.back());
    if (last.stride == 1) {
      for (int64_t j = begin; j < end; ++j) out[j] = convert_(from[position + j]);
    } else {
      for (int64_t j = begin; j < end; ++j) out[j] = convert_(from[position + j * last.stride]);
    }
    std::fill(out + end, out + segment.count, T{0});
  }

  const ConvPlan& plan_;
  const Stored* x_;
  Convert convert_;
};

}  // namespace ferry
