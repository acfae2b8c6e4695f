// Corners of single rules, as PyTorch has them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "tests/torch/lower_call.h"

namespace ferry::torch {
namespace {

using testing::ElementsAre;

Tensor Floats(const std::vector<float>& values) { return Tensor::FromVector<float>(values); }
Tensor Floats(const std::vector<float>& values, Shape shape) { return Tensor::FromVector<float>(values, shape); }
Tensor Longs(const std::vector<int64_t>& values) { return Tensor::FromVector<int64_t>(values); }
Arg Ints(const std::vector<int64_t>& values) {
  Arg::List list;
  for (int64_t value : values) list.emplace_back(Scalar(value));
  return list;
}
template <class T>
std::vector<T> Elements(const Tensor& tensor) {
  auto span = tensor.Span<T>();
  return {span.begin(), span.end()};
}

TEST(Rules, CircularPaddingWrapsWhatIsLeftAfterCutting) {
  Tensor y = LowerAndRun(
      "aten.pad.default",
      {{"self", Floats({1, 2, 3, 4}, {1, 4})}, {"pad", Ints({-1, 1})}, {"mode", Arg(std::string("circular"))}})[0];
  EXPECT_THAT(Elements<float>(y), ElementsAre(2, 3, 4, 2));
}

TEST(Rules, FlippingLeavesAxesOfOneElementAlone) {
  auto flip = [](Tensor x) { return LowerAndRun("aten.flip.default", {{"self", x}, {"dims", Ints({0, -1})}})[0]; };
  EXPECT_THAT(Elements<float>(flip(Floats({1, 2, 3}, {1, 3}))), ElementsAre(3, 2, 1));
  EXPECT_THAT(Elements<float>(flip(Floats({1, 2, 3, 4}, {2, 2}))), ElementsAre(4, 3, 2, 1));
  EXPECT_EQ(flip(Floats({}, {2, 0})).shape(), Shape({2, 0}));
}

TEST(Rules, BicubicSamplesRepeatTheBorder) {
  // A column of samples that leaves a 2 × 2 image at its right side: PyTorch blends the border with itself.
  Tensor image = Floats({1, 2, 3, 4}, {1, 1, 2, 2}), grid = Floats({1.5f, 0, 9, 0}, {1, 1, 2, 2});
  Tensor y = LowerAndRun("aten.grid_sampler.default", {{"input", image},
                                                       {"grid", grid},
                                                       {"interpolation_mode", Arg(Scalar(2))},
                                                       {"padding_mode", Arg(Scalar(1))},
                                                       {"align_corners", Arg(Scalar(true))}})[0];
  EXPECT_NEAR(Elements<float>(y)[1], 3, 1e-5);            // far outside: the mean of 2 and 4
  EXPECT_NEAR(Elements<float>(y)[0], 3.10546875f, 1e-5);  // a quarter out: the cubic overshoots
}

TEST(Rules, ArgumentsAreFoundByTheNameOfTheirOverload) {
  Tensor y = LowerAndRun(
      "aten.scatter.value",
      {{"self", Floats({0, 0, 0})}, {"dim", Arg(Scalar(0))}, {"index", Longs({2, 0})}, {"value", Arg(Scalar(7.0))}})[0];
  EXPECT_THAT(Elements<float>(y), ElementsAre(7, 0, 7));
}

TEST(Rules, RunningMaximaKeepTheLastOfEqualsAndEveryNaN) {
  auto y = LowerAndRun("aten.cummax.default", {{"self", Floats({1, 3, 3, 2, NAN, 9})}, {"dim", Arg(Scalar(0))}});
  EXPECT_THAT(Elements<int64_t>(y[1]), ElementsAre(0, 1, 2, 2, 4, 4));
  EXPECT_EQ(Elements<float>(y[0])[3], 3);
  EXPECT_TRUE(std::isnan(Elements<float>(y[0])[5]));
}

TEST(Rules, QuantilesInterpolate) {
  Tensor y = LowerAndRun("aten.quantile.default", {{"self", Floats({4, 1, 3, 2})}, {"q", Floats({0, 0.5f, 0.9f})}})[0];
  EXPECT_THAT(Elements<float>(y), ElementsAre(1, 2.5f, testing::FloatNear(3.7f, 1e-5f)));
}

TEST(Rules, CommonDivisorsOfAnything) {
  Tensor y = LowerAndRun("aten.gcd.default", {{"self", Longs({12, 0, -8, 0})}, {"other", Longs({18, 5, 12, 0})}})[0];
  EXPECT_THAT(Elements<int64_t>(y), ElementsAre(6, 5, 4, 0));
  y = LowerAndRun("aten.lcm.default", {{"self", Longs({4, 0, -3})}, {"other", Longs({6, 5, 7})}})[0];
  EXPECT_THAT(Elements<int64_t>(y), ElementsAre(12, 0, 21));
}

TEST(Rules, TheNextFloatIsTheNextFloat) {
  std::vector<float> from = {1, 1, -1, 0, 0, 0x1p-126f, 1e-42f, 3.4028235e38f, INFINITY, 5, 1.9999999f};
  std::vector<float> to = {2, 0, 0, 1, -1, 0, 1, INFINITY, 0, 5, 3};
  Tensor y = LowerAndRun("aten.nextafter.default", {{"self", Floats(from)}, {"other", Floats(to)}})[0];
  for (size_t i = 0; i < from.size(); ++i) EXPECT_EQ(Elements<float>(y)[i], std::nextafter(from[i], to[i])) << from[i];
}

TEST(Rules, SingularValuesOfBothShapes) {
  // diag(3, 4) turned by 45 degrees, and a matrix of rank 1.
  float h = std::sqrt(0.5f);
  Tensor y = LowerAndRun("aten.linalg_svdvals.default", {{"A", Floats({3 * h, -3 * h, 4 * h, 4 * h}, {2, 2})}})[0];
  EXPECT_THAT(Elements<float>(y), ElementsAre(testing::FloatNear(4, 1e-5f), testing::FloatNear(3, 1e-5f)));
  y = LowerAndRun("aten.linalg_svdvals.default", {{"A", Floats({1, 2, 2, 2, 4, 4}, {2, 3})}})[0];
  EXPECT_THAT(Elements<float>(y),
              ElementsAre(testing::FloatNear(std::sqrt(45.0f), 1e-5f), testing::FloatNear(0, 1e-6f)));
}

TEST(Rules, ALimitOnOneSideIsKeptWhereTheTypeHasToBeWidened) {
  Tensor flags = Tensor::FromVector<bool>({true, false});
  Tensor y = LowerAndRun("aten.clamp.default", {{"self", flags}, {"max", Arg(Scalar(false))}})[0];
  EXPECT_EQ(y.dtype(), DType::kBool);
  EXPECT_THAT(Elements<bool>(y), ElementsAre(false, false));
}

TEST(Rules, ListsThatAreTooShortAreRefused) {
  Tensor image = Floats(std::vector<float>(64, 1.0f), {1, 1, 4, 4, 4});
  try {
    LowerAndRun("aten.adaptive_max_pool3d.default", {{"self", image}, {"output_size", Ints({2, 2})}});
    FAIL() << "two sizes were taken for three axes";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidModel);
    EXPECT_THAT(error.what(), testing::HasSubstr("shorter than the operator needs"));
  }
}

TEST(Rules, NothingIsNoTensor) {
  EXPECT_THROW(LowerAndRun("aten.stack.default", {{"tensors", Arg(Arg::List{Arg()})}, {"dim", Arg(Scalar(0))}}), Error);
}

TEST(Rules, NumbersThatCannotBeAreRefused) {
  Tensor image = Floats(std::vector<float>(16, 1.0f), {1, 1, 4, 4});
  auto columns = [&](int64_t kernel, int64_t stride) {
    return LowerAndRun("aten.im2col.default", {{"self", image},
                                               {"kernel_size", Ints({kernel, kernel})},
                                               {"dilation", Ints({1, 1})},
                                               {"padding", Ints({0, 0})},
                                               {"stride", Ints({stride, stride})}});
  };
  EXPECT_EQ(columns(2, 2)[0].shape(), (Shape{1, 4, 4}));
  EXPECT_THROW(columns(2, 0), Error);
  EXPECT_THROW(columns(2, -1), Error);
  EXPECT_THROW(columns(int64_t{1} << 40, 1), Error);
  EXPECT_THROW(columns(5, 1), Error);
  EXPECT_THROW(LowerAndRun("aten.channel_shuffle.default", {{"self", image}, {"groups", Arg(Scalar(0))}}), Error);
  EXPECT_THROW(LowerAndRun("aten.pixel_unshuffle.default", {{"self", image}, {"downscale_factor", Arg(Scalar(0))}}),
               Error);
}

TEST(Rules, WhatIsWrittenOneByOneHasAnEnd) {
  constexpr int64_t kHuge = int64_t{1} << 40;
  Tensor row = Floats({1, 2, 3, 4, 5}, {5});
  auto refuses = [](const char* target, const std::vector<std::pair<std::string, CallArgument>>& args) {
    EXPECT_THROW(LowerAndRun(target, args), Error) << target;
  };
  auto number = [](int64_t value) { return Arg(Scalar(value)); };
  EXPECT_EQ(LowerAndRun("aten.split.Tensor", {{"self", row}, {"split_size", number(2)}}).size(), 3u);
  EXPECT_EQ(LowerAndRun("aten.chunk.default", {{"self", row}, {"chunks", number(2)}}).size(), 2u);
  for (int64_t chunks : {int64_t{0}, int64_t{-1}, kHuge})
    refuses("aten.chunk.default", {{"self", row}, {"chunks", number(chunks)}});
  refuses("aten.split.Tensor", {{"self", row}, {"split_size", number(-1)}});
  refuses("aten.tensor_split.sections", {{"self", row}, {"sections", number(kHuge)}});
  refuses("aten.diff.default", {{"self", row}, {"n", number(kHuge)}});
  refuses("aten.vander.default", {{"x", row}, {"N", number(kHuge)}});
  refuses("aten.fft_fftfreq.default", {{"n", number(kHuge)}, {"d", Arg(Scalar(1.0))}});
  refuses("aten.tril_indices.default", {{"row", number(kHuge)}, {"col", number(kHuge)}});
  refuses("aten.linspace.default", {{"start", number(0)}, {"end", number(1)}, {"steps", number(-1)}});
}

TEST(Rules, ListsThatDoNotFitTheTensorAreRefused) {
  Tensor image = Floats({1, 2, 3, 4}, {2, 2});
  auto refuses = [](const char* target, const std::vector<std::pair<std::string, CallArgument>>& args) {
    EXPECT_THROW(LowerAndRun(target, args), Error) << target;
  };
  refuses("aten.repeat.default", {{"self", image}, {"repeats", Ints({2})}});
  refuses("aten.expand.default", {{"self", image}, {"size", Ints({2})}});
  refuses("aten.expand.default", {{"self", image}, {"size", Ints({int64_t{1} << 60, 2, 2})}});
  refuses("aten.constant_pad_nd.default", {{"self", image}, {"pad", Ints({1, 1, 1, 1, 1, 1})}});
  refuses("aten.constant_pad_nd.default", {{"self", image}, {"pad", Ints({1, INT64_MAX})}});
  refuses("aten.hstack.default", {{"tensors", Arg(Arg::List{})}});
  refuses("aten.as_strided.default", {{"self", image}, {"size", Ints({2, 2})}, {"stride", Ints({1})}});
  refuses("aten.flatten.using_ints", {{"self", image}, {"start_dim", Arg(Scalar(1))}, {"end_dim", Arg(Scalar(0))}});
}

TEST(Rules, AntialiasingBetweenCornersIsRefused) {
  Tensor image = Floats({1, 2, 3, 4}, {1, 1, 2, 2});
  auto resized = [&](int64_t size, bool align_corners) {
    return LowerAndRun(
        "aten._upsample_bilinear2d_aa.default",
        {{"self", image}, {"output_size", Ints({size, size})}, {"align_corners", Arg(Scalar(align_corners))}})[0];
  };
  EXPECT_THROW(resized(3, true), Error);
  EXPECT_EQ(resized(3, false).shape(), (Shape{1, 1, 3, 3}));
  EXPECT_THAT(Elements<float>(resized(2, true)), ElementsAre(1, 2, 3, 4));
}

TEST(Rules, ReplicatingGoesOnWhereOneSideIsCut) {
  auto padded = [](int64_t before, int64_t after) {
    Tensor row = Floats({1, 2, 3}, {1, 1, 3});
    return Elements<float>(
        LowerAndRun("aten.replication_pad1d.default", {{"self", row}, {"padding", Ints({before, after})}})[0]);
  };
  EXPECT_THAT(padded(-3, 2), ElementsAre(3, 3));
  EXPECT_THAT(padded(2, -3), ElementsAre(1, 1));
  EXPECT_THAT(padded(-1, 2), ElementsAre(2, 3, 3, 3));
  EXPECT_THAT(padded(-1, -1), ElementsAre(2));
  EXPECT_THROW(padded(-5, 1), Error);
}

TEST(Rules, PlacesOfSingleNumbersAndOfNothing) {
  Tensor number = Floats({7}, {});
  EXPECT_THAT(Elements<int64_t>(LowerAndRun("aten.nonzero_numpy.default", {{"self", number}})[0]), ElementsAre(0));
  Tensor none(DType::kInt64, {2, 0});
  Tensor picked =
      LowerAndRun("aten.gather.default", {{"self", Floats({1, 2, 3})}, {"dim", Arg(Scalar(0))}, {"index", none}})[0];
  EXPECT_EQ(picked.shape(), (Shape{2, 0}));
  EXPECT_EQ(picked.dtype(), DType::kFloat);
}

TEST(Rules, RollsGoRound) {
  auto rolled = [](int64_t shift) {
    Tensor row = Floats({1, 2, 3, 4, 5}, {5});
    return Elements<float>(LowerAndRun("aten.roll.default", {{"self", row}, {"shifts", Ints({shift})}})[0]);
  };
  EXPECT_THAT(rolled(7), ElementsAre(4, 5, 1, 2, 3));
  EXPECT_THAT(rolled(-1), ElementsAre(2, 3, 4, 5, 1));
  EXPECT_THAT(rolled(INT64_MIN), ElementsAre(4, 5, 1, 2, 3));
}

TEST(Rules, AdaptivePoolsNeedWindowsThatExist) {
  Tensor image = Floats(std::vector<float>(16, 1.0f), {1, 1, 4, 4}), empty(DType::kFloat, {1, 1, 0, 4});
  for (const char* pool : {"aten.adaptive_max_pool2d.default", "aten.adaptive_avg_pool2d.default"}) {
    auto pooled = [&](const Tensor& from, int64_t size) {
      return LowerAndRun(pool, {{"self", from}, {"output_size", Ints({size, size})}})[0].shape();
    };
    EXPECT_EQ(pooled(image, 3), (Shape{1, 1, 3, 3})) << pool;
    EXPECT_EQ(pooled(image, 0), (Shape{1, 1, 0, 0})) << pool;
    EXPECT_THROW(pooled(image, -3), Error) << pool;
    EXPECT_THROW(pooled(image, int64_t{1} << 40), Error) << pool;
    EXPECT_THROW(pooled(empty, 3), Error) << pool;
  }
}

// Boxes of torchvision's nms: a float is held against the double that the program has.
TEST(Rules, BoxesAreSuppressedAboveTheThreshold) {
  Tensor boxes = Floats({0, 0, 10, 3, 0, 0, 10, 10, 0, 0, 10, 9}, {3, 4}), scores = Floats({0.5f, 0.9f, 0.8f});
  auto nms = [&](double threshold) {
    return Elements<int64_t>(
        LowerAndRun("torchvision.nms.default",
                    {{"dets", boxes}, {"scores", scores}, {"iou_threshold", Arg(Scalar(threshold))}})[0]);
  };
  EXPECT_THAT(nms(0.95), ElementsAre(1, 2, 0));
  EXPECT_THAT(nms(0.5), ElementsAre(1, 0));
  EXPECT_THAT(nms(0.3), ElementsAre(1));  // the overlap is 0.3 as a float, which is above the double 0.3
  EXPECT_THAT(nms(0.31), ElementsAre(1, 0));
}

}  // namespace
}  // namespace ferry::torch
