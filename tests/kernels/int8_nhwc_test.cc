#include "kernels/int8_nhwc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace ferry {
namespace {

std::vector<uint8_t> Bytes(std::mt19937& random, int64_t count) {
  std::vector<uint8_t> bytes(static_cast<size_t>(count));
  for (uint8_t& value : bytes) value = static_cast<uint8_t>(random());
  return bytes;
}

TEST(Int8Image, DepthwiseIsExact) {
  std::mt19937 random(5);
  for (int round = 0; round < 1500; ++round) {
    int64_t channels = 1 + random() % (round % 2 ? 70 : 16), line = 1 + random() % 40,
            pixels = line * (1 + random() % 3), pairs = random() % 2 ? 5 : 1 + random() % 14;
    int64_t taps = 2 * pairs, sources = 20;
    std::vector<uint8_t> x = Bytes(random, sources * channels);
    std::vector<int16_t> weights(static_cast<size_t>(taps * channels));
    for (int16_t& value : weights) value = static_cast<int8_t>(random() % 8 == 0 ? 127 : random());
    std::vector<const uint8_t*> pointers(static_cast<size_t>(pixels * taps));
    for (const uint8_t*& pointer : pointers)
      pointer = x.data() + static_cast<int64_t>(random() % static_cast<uint32_t>(sources)) * channels;
    bool slides = pairs == 5 && random() % 2;
    if (slides) {
      std::fill(weights.end() - channels, weights.end(), int16_t{0});
      for (int64_t at = taps; at < pixels * taps; ++at)
        if (at / taps % line > 0 && at % taps < 9 && at % taps % 3 < 2)
          pointers[static_cast<size_t>(at)] = pointers[static_cast<size_t>(at - taps + 1)];
    }
    std::vector<int32_t> offset(static_cast<size_t>(channels + kInt8PanelWidth)),
        y(static_cast<size_t>(pixels * channels));
    for (int32_t& value : offset) value = static_cast<int32_t>(random() % 1000);
    Int8Depthwise conv;
    conv.taps = pointers.data();
    conv.slides = slides;
    conv.pixels = pixels, conv.line = line, conv.pairs = pairs, conv.channels = channels;
    conv.weights = weights.data();
    conv.flip = random() % 2 ? kSignFlip : uint8_t{0};
    conv.out.c = y.data();
    conv.out.stride = channels;
    conv.out.offset = offset.data();
    BestInt8NhwcKernels().depthwise(conv);
    // The same sums as bytes, signed or not.
    std::vector<uint8_t> bytes(y.size());
    std::vector<float> factor(offset.size()), shift(offset.size());
    for (float& value : factor) value = static_cast<float>(1 + random() % 64) / 8192.0f;
    for (float& value : shift) value = static_cast<float>(random() % 64) - 32.0f;
    conv.out.kind = Int8Output::Kind::kBytes;
    conv.out.c = bytes.data();
    conv.out.factor = factor.data();
    if (random() % 2) conv.out.shift = shift.data();
    const bool is_signed = random() % 2;
    conv.out.zero = is_signed ? -3 : 7, conv.out.low = is_signed ? -128 : 7, conv.out.high = is_signed ? 127 : 250;
    BestInt8NhwcKernels().depthwise(conv);
    for (int64_t pixel = 0; pixel < pixels; ++pixel)
      for (int64_t c = 0; c < channels; ++c) {
        int32_t sum = offset[static_cast<size_t>(c)];
        for (int64_t tap = 0; tap < taps; ++tap)
          sum += (pointers[static_cast<size_t>(pixel * taps + tap)][c] ^ conv.flip) *
                 weights[static_cast<size_t>(tap * channels + c)];
        const auto at = static_cast<size_t>(pixel * channels + c), channel = static_cast<size_t>(c);
        ASSERT_EQ(y[at], sum) << channels << " channels, " << pairs << " pairs";
        const float value = std::fma(static_cast<float>(sum), factor[channel], conv.out.shift ? shift[channel] : 0.0f);
        const int level =
            std::clamp(static_cast<int>(std::nearbyint(value)) + conv.out.zero, conv.out.low, conv.out.high);
        ASSERT_EQ(is_signed ? static_cast<int8_t>(bytes[at]) : bytes[at], level)
            << value << ", " << channels << " channels, " << pairs << " pairs";
      }
  }
}

TEST(Int8Image, AddsWithinItsLimits) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    int64_t count = 1 + random() % 100;
    std::vector<uint8_t> a = Bytes(random, count), b = Bytes(random, count), y(a.size());
    Int8Sum sum;
    sum.a = a.data(), sum.b = b.data(), sum.y = y.data();
    sum.a_flip = random() % 2 ? kSignFlip : uint8_t{0}, sum.b_flip = random() % 2 ? kSignFlip : uint8_t{0},
    sum.y_flip = random() % 2 ? kSignFlip : uint8_t{0};
    sum.a_factor = 0.75f, sum.b_factor = 0.5f, sum.added = 3.25f;
    sum.low = sum.y_flip ? -108 : 20, sum.high = sum.y_flip ? 112 : 240;
    BestInt8NhwcKernels().add(sum, count);
    auto number = [](uint8_t byte, uint8_t flip) {
      return static_cast<float>(flip ? static_cast<int8_t>(byte) : byte);
    };
    for (size_t i = 0; i < a.size(); ++i) {
      float value = 3.25f + number(a[i], sum.a_flip) * 0.75f + number(b[i], sum.b_flip) * 0.5f;
      int level = std::clamp(static_cast<int>(std::nearbyint(value)), sum.low, sum.high);
      ASSERT_EQ(number(y[i], sum.y_flip), static_cast<float>(level));
    }
  }
}

TEST(Int8Image, PoolsAndSums) {
  std::mt19937 random(9);
  for (int round = 0; round < 500; ++round) {
    int64_t channels = 1 + random() % 80, count = 1 + random() % 9;
    uint8_t flip = random() % 2 ? kSignFlip : uint8_t{0};
    std::vector<uint8_t> x = Bytes(random, channels * count), largest(static_cast<size_t>(channels));
    std::vector<const uint8_t*> pixels;
    for (int64_t i = 0; i < count; ++i) pixels.push_back(x.data() + i * channels);
    std::vector<int32_t> sums(static_cast<size_t>(channels), 5);
    BestInt8NhwcKernels().largest(pixels.data(), count, channels, flip, largest.data());
    BestInt8NhwcKernels().add_rows(x.data(), count, channels, flip, sums.data());
    for (size_t c = 0; c < largest.size(); ++c) {
      int best = 0, sum = 5;
      for (const uint8_t* pixel : pixels) best = std::max(best, pixel[c] ^ flip), sum += pixel[c] ^ flip;
      ASSERT_EQ(largest[c] ^ flip, best);
      ASSERT_EQ(sums[c], sum);
    }
  }
}

}  // namespace
}  // namespace ferry
