#include "providers/cpu/conv_filters.h"

#include <algorithm>

#include "kernels/bf16_gemm.h"

namespace ferry {

std::vector<TapChunk> CutTaps(const ConvPlan& conv, bool whole) {
  constexpr int64_t kMostDepth = 1280;
  int64_t most = whole ? conv.counts.taps : std::max<int64_t>(1, kMostDepth / conv.group_channels);
  int64_t count = (conv.counts.taps + most - 1) / most;
  std::vector<TapChunk> chunks;
  for (int64_t i = 0; i < count; ++i) {
    int64_t first = conv.counts.taps * i / count, last = conv.counts.taps * (i + 1) / count;
    chunks.push_back({first, last - first});
  }
  return chunks;
}

void Filters::Pack(const ConvPlan& conv, int64_t first, int64_t count, float* panels) const {
  constexpr int64_t kBlock = 32;  // channels that stay in the cache between being turned and being put in order
  const int64_t channels = conv.group_channels, all_taps = weight.shape().CountBetween(2, weight.rank());
  const int64_t line = channels * all_taps;
  std::vector<float> turned(all_taps > 1 ? static_cast<size_t>(kBlock * all_taps * kPanelWidth) : 0);
  for (int64_t n = 0; n < count; n += kPanelWidth) {
    const float* from = weight.Data<float>() + (first + n) * line;
    const int64_t filled = std::min(kPanelWidth, count - n);
    if (all_taps == 1) {
      TurnIntoPanel(from, line, filled, channels, panels + channels * n);
      continue;
    }
    for (int64_t block = 0; block < channels; block += kBlock) {
      const int64_t some = std::min(kBlock, channels - block);
      TurnIntoPanel(from + block * all_taps, line, filled, some * all_taps, turned.data(),
                    (channels - block - some) * all_taps);
      for (const TapChunk& chunk : chunks)
        for (int64_t tap = 0; tap < chunk.count; ++tap) {
          const float* row = turned.data() + taps[static_cast<size_t>(chunk.first + tap)] * kPanelWidth;
          float* to = panels + chunk.Offset(conv, count) + chunk.count * channels * n;
          to += (tap * channels + block) * kPanelWidth;
          for (int64_t c = 0; c < some; ++c, row += all_taps * kPanelWidth, to += kPanelWidth)
            std::copy_n(row, kPanelWidth, to);
        }
    }
  }
}

void Filters::PackGroups(const ConvPlan& conv, float* panels) const {
  const int64_t size = PackedSize(conv.depth(), conv.group_features);
  for (int64_t group = 0; group < conv.groups; ++group)
    Pack(conv, group * conv.group_features, conv.group_features, panels + group * size);
}

void Filters::PackBf16Groups(const ConvPlan& conv, uint16_t* panels) const {
  std::vector<float> panel(static_cast<size_t>(conv.depth() * kPanelWidth));
  for (int64_t group = 0; group < conv.groups; ++group)
    for (int64_t n = 0; n < conv.group_features; n += kPanelWidth) {
      Pack(conv, group * conv.group_features + n, std::min(kPanelWidth, conv.group_features - n), panel.data());
      BestBf16Kernels().narrow(panel.data(), conv.depth(), panels);
      panels += PackedBf16Size(conv.depth(), kPanelWidth);
    }
}

}  // namespace ferry
