// A convolution over one image of random sizes and numbers, and what plain loops make of it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <vector>

#include "kernels/nhwc.h"
#include "kernels/packed_gemm.h"
#include "tests/kernels/isas.h"
#include "tests/support/random_numbers.h"

namespace ferry::testing {

struct ImageCase {
  DepthwiseConv conv;
  int64_t out_height = 0, out_features = 0;
  std::vector<float> x, weights, bias, zeros, residual;

  ImageCase() = default;
  ImageCase(ImageCase&&) = default;  // the convolution points at the numbers, which a copy would have elsewhere

  // Once the sizes are there.
  void Fill(RandomNumbers& random, int64_t features, int64_t weight_count) {
    out_features = features;
    x = random.Vector(conv.height * conv.width * conv.channels);
    weights = random.Vector(weight_count);
    bias = random.Vector(features);
    zeros.resize(static_cast<size_t>(conv.channels));
    residual = random.Vector(out_height * conv.out_width * features);
    conv.x = x.data(), conv.weights = weights.data(), conv.zeros = zeros.data();
    if (random.Bool()) conv.bias = bias.data();
    if (random.Int(0, 2) == 0) conv.residual = residual.data();
    if (random.Bool()) conv.activation = {ActivationKind::kRelu};
  }

  // product(y, x, tap, feature), summed up over the taps of a window that lie on the image.
  template <class Product>
  std::vector<double> Plain(const Product& product) const {
    std::vector<double> made;
    for (int64_t row = 0; row < out_height; ++row)
      for (int64_t column = 0; column < conv.out_width; ++column)
        for (int64_t feature = 0; feature < out_features; ++feature) {
          double sum = conv.bias ? static_cast<double>(conv.bias[feature]) : 0.0;
          for (int64_t tap = 0; tap < conv.kernel_height * conv.kernel_width; ++tap) {
            int64_t y = row * conv.stride_y + tap / conv.kernel_width * conv.dilation_y - conv.pad_top;
            int64_t at = column * conv.stride_x + tap % conv.kernel_width * conv.dilation_x - conv.pad_left;
            if (y >= 0 && y < conv.height && at >= 0 && at < conv.width) sum += product(y, at, tap, feature);
          }
          if (conv.residual) sum += static_cast<double>(conv.residual[made.size()]);
          made.push_back(conv.activation.kind == ActivationKind::kRelu && sum < 0 ? 0 : sum);
        }
    return made;
  }

  // kernel(image, first row, last row) for rows in two parts, and over the residual where there is one.
  template <class Kernel>
  std::vector<float> Run(const std::vector<float>& packed, const Kernel& kernel) const {
    std::vector<float> made = residual;
    DepthwiseConv image = conv;
    image.weights = packed.data(), image.y = made.data();
    if (image.residual) image.residual = made.data();
    kernel(image, out_height / 2, out_height);
    kernel(image, int64_t{0}, out_height / 2);
    return made;
  }

  // The same with weights as groups have them.
  template <class Kernel>
  std::vector<float> RunGrouped(const NhwcKernels& kernels, const Kernel& kernel) const {
    std::vector<float> packed(weights.size());
    PackGrouped(weights.data(), conv, kernels.lanes, packed.data());
    return Run(packed, kernel);
  }

  void ExpectNear(Isa isa, const std::vector<float>& fast, const std::vector<double>& plain, double tolerance) const {
    for (size_t i = 0; i < plain.size(); ++i)
      ASSERT_NEAR(fast[i], plain[i], tolerance) << GemmKernelsOf(isa).isa << ": " << *this << ", element " << i;
  }

  friend std::ostream& operator<<(std::ostream& out, const ImageCase& one) {
    const DepthwiseConv& conv = one.conv;
    return out << conv.height << "×" << conv.width << "×" << conv.channels << " to " << one.out_features
               << ", groups of " << conv.group_channels << " to " << conv.group_features << ", kernel "
               << conv.kernel_height << "×" << conv.kernel_width << ", strides " << conv.stride_y << " "
               << conv.stride_x << ", dilations " << conv.dilation_y << " " << conv.dilation_x << ", pads "
               << conv.pad_top << " " << conv.pad_left;
  }
};

}  // namespace ferry::testing
