#include "kernels/int8_winograd.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace ferry {
namespace {

// A row of tiles with everything that its results are made of.
struct Trial {
  Trial(std::mt19937& random, int64_t outputs)
      : outputs(outputs),
        tiles(1 + static_cast<int64_t>(random() % 20)),
        channels(kInt8WinogradChannels * (1 + static_cast<int64_t>(random() % 3))),
        features(kInt8WinogradChannels * (1 + static_cast<int64_t>(random() % 3))),
        width(outputs * tiles + 2),
        flip(random() % 2 ? kSignFlip : uint8_t{0}) {
    extreme = random() % 4 == 0;  // all sums are as large as they can be
    pixels.resize(static_cast<size_t>((outputs + 2) * width * channels));
    for (uint8_t& value : pixels) value = static_cast<uint8_t>(extreme ? 255 ^ flip : random());
    weights.resize(static_cast<size_t>(features * channels * 9));
    int8_t far = random() % 2 ? 127 : -128;
    for (int8_t& value : weights) value = extreme ? far : static_cast<int8_t>(random());
  }

  int32_t At(int64_t y, int64_t x, int64_t c) const {
    return pixels[static_cast<size_t>((y * width + x) * channels + c)] ^ flip;
  }
  int32_t Expected(int64_t y, int64_t x, int64_t feature) const {
    int32_t sum = 0;
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t tap = 0; tap < 9; ++tap)
        sum += At(y + tap / 3, x + tap % 3, c) * weights[static_cast<size_t>((feature * channels + c) * 9 + tap)];
    return sum;
  }

  int64_t outputs, tiles, channels, features, width;
  uint8_t flip;
  bool extreme;
  std::vector<uint8_t> pixels;
  std::vector<int8_t> weights;
};

std::vector<int16_t> TransformInput(const Trial& trial, const Int8WinogradKernels& kernels, int64_t points) {
  std::vector<const uint8_t*> pointers;
  for (int64_t i = 0; i < (trial.outputs + 2) * trial.width; ++i)
    pointers.push_back(trial.pixels.data() + i * trial.channels);
  std::vector<int16_t> made(static_cast<size_t>(points * trial.tiles * trial.channels));
  kernels.input({trial.tiles, trial.channels, pointers.data(), trial.flip, made.data(), trial.tiles * trial.channels});
  return made;
}

// [points, channels, features]
std::vector<int16_t> TransformWeights(const Trial& trial, const Int8WinogradKernels& kernels, int64_t points) {
  const int64_t channels = trial.channels, features = trial.features;
  std::vector<int16_t> made(static_cast<size_t>(points * channels * features));
  std::vector<int8_t> turned(static_cast<size_t>(9 * features));
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t i = 0; i < 9 * features; ++i)
      turned[static_cast<size_t>(i)] =
          trial.weights[static_cast<size_t>((i % features * channels + c) * 9 + i / features)];
    kernels.filter(turned.data(), features, made.data() + c * features, channels * features);
  }
  return made;
}

// [points, tiles, features], by the kernel for 16-bit weights where there is one.
std::vector<int32_t> Multiply(const Trial& trial, const Int8WinogradKernels& kernels, int64_t points,
                              const std::vector<int16_t>& input) {
  int64_t size = trial.channels * trial.features;
  const std::vector<int16_t> weights = TransformWeights(trial, kernels, points);
  std::vector<int16_t> packed(static_cast<size_t>(points * size));
  std::vector<int32_t> sums(static_cast<size_t>(points * trial.tiles * trial.features));
  auto* multiply = BestInt8Kernels().multiply_shorts;
  for (int64_t n = 0; n < trial.features; ++n)
    for (int64_t c = 0; c < trial.channels; ++c)
      for (int64_t point = 0; point < points; ++point) {
        int16_t weight = weights[static_cast<size_t>(point * size + c * trial.features + n)];
        packed[static_cast<size_t>(point * size + PackedShortsIndex(trial.channels, c, n))] = weight;
        for (int64_t tile = 0; !multiply && tile < trial.tiles; ++tile) {
          auto at = static_cast<size_t>((point * trial.tiles + tile) * trial.features + n);
          int32_t product = input[static_cast<size_t>((point * trial.tiles + tile) * trial.channels + c)] * weight;
          sums[at] = static_cast<int32_t>(static_cast<uint32_t>(sums[at]) + static_cast<uint32_t>(product));
        }
      }
  for (int64_t point = 0; multiply && point < points; ++point) {
    Int8Product product{input.data() + point * trial.tiles * trial.channels, trial.tiles, trial.channels};
    product.packed = packed.data() + point * size;
    product.columns = trial.features;
    product.out.c = sums.data() + point * trial.tiles * trial.features;
    product.out.stride = trial.features;
    multiply(product);
  }
  return sums;
}

TEST(Int8Winograd, GivesTheSumsOfThePlainConvolution) {
  std::mt19937 random(29);
  for (int round = 0; round < 60; ++round) {
    const Int8WinogradTable& table = BestInt8WinogradTable();
    const Int8WinogradKernels& kernels = round % 2 ? table.of_4 : table.of_2;
    Trial trial(random, kernels.outputs);
    int64_t points = (kernels.outputs + 2) * (kernels.outputs + 2);
    std::vector<int32_t> sums = Multiply(trial, kernels, points, TransformInput(trial, kernels, points));
    Int8WinogradSums row;
    row.tiles = trial.tiles, row.features = trial.features;
    row.from = sums.data(), row.point_stride = trial.tiles * trial.features;
    row.rows = 1 + static_cast<int64_t>(random()) % kernels.outputs;
    row.columns = trial.tiles * kernels.outputs - static_cast<int64_t>(random()) % kernels.outputs;
    row.line = row.columns + 1;
    std::vector<int32_t> made(static_cast<size_t>(kernels.outputs * row.line * trial.features), -77);
    row.out.c = made.data();
    row.out.stride = trial.features;
    kernels.output(row);
    for (int64_t y = 0; y < kernels.outputs; ++y)
      for (int64_t x = 0; x < row.line; ++x)
        for (int64_t n = 0; n < trial.features; n += trial.extreme ? 15 : 1) {
          int32_t expected = y < row.rows && x < row.columns ? trial.Expected(y, x, n) : -77;
          ASSERT_LT(std::abs(int64_t{expected}), kernels.limit);
          ASSERT_EQ(made[static_cast<size_t>((y * row.line + x) * trial.features + n)], expected)
              << kernels.outputs << " of " << trial.tiles << "×" << trial.channels << "×" << trial.features;
        }
  }
}

}  // namespace
}  // namespace ferry
