#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ops/support/fft.h"
#include "tests/support/nodes.h"

namespace ferry {
namespace {

using testing::Elements;
using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::InferNode;
using testing::OneNode;
using testing::RunNode;

std::vector<Complex<double>> Signal(int64_t length) {
  std::vector<Complex<double>> signal;
  for (int64_t i = 0; i < length; ++i)
    signal.push_back({std::sin(1.0 + 3.7 * static_cast<double>(i * i % 101)), std::cos(0.3 * static_cast<double>(i))});
  return signal;
}

Complex<double> Definition(const std::vector<Complex<double>>& x, size_t k) {
  Complex<double> sum;
  for (size_t n = 0; n < x.size(); ++n) {
    double angle = -2 * M_PI * static_cast<double>(k * n % x.size()) / static_cast<double>(x.size());
    sum.re += x[n].re * std::cos(angle) - x[n].im * std::sin(angle);
    sum.im += x[n].re * std::sin(angle) + x[n].im * std::cos(angle);
  }
  return sum;
}

TEST(Fft, EveryLengthMeetsTheDefinition) {
  for (int64_t length :
       {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 15, 16, 17, 30, 34, 64, 77, 97, 101, 120, 128, 143, 169, 210, 251}) {
    std::vector<Complex<double>> x = Signal(length), y = x;
    Fft<double> fft(length);
    fft.Forward(y);
    for (size_t k = 0; k < y.size(); ++k) {
      Complex<double> expected = Definition(x, k);
      EXPECT_NEAR(y[k].re, expected.re, 1e-11) << "length " << length << ", frequency " << k;
      EXPECT_NEAR(y[k].im, expected.im, 1e-11) << "length " << length << ", frequency " << k;
    }
    fft.Backward(y);
    for (size_t n = 0; n < y.size(); ++n) EXPECT_NEAR(y[n].re / static_cast<double>(length), x[n].re, 1e-12) << length;
  }
}

TEST(RealFft, AgreesWithTheComplexOneAndComesBack) {
  for (int64_t length : {1, 2, 3, 4, 5, 6, 10, 16, 17, 34, 59, 100}) {
    std::vector<Complex<double>> x = Signal(length), spectrum;
    std::vector<double> signal, back;
    for (Complex<double>& value : x) {
      value.im = 0;
      signal.push_back(value.re);
    }
    RealFft<double> fft(length);
    fft.Forward(signal, spectrum);
    ASSERT_EQ(static_cast<int64_t>(spectrum.size()), length / 2 + 1);
    for (size_t k = 0; k < spectrum.size(); ++k) EXPECT_NEAR(spectrum[k].im, Definition(x, k).im, 1e-11) << length;
    fft.Backward(spectrum, back);
    for (size_t n = 0; n < back.size(); ++n)
      EXPECT_NEAR(back[n] / static_cast<double>(length), signal[n], 1e-12) << length;
  }
}

Value Scalar(int64_t value) { return Tensor::Scalar<int64_t>(value); }
Value Doubles(std::vector<double> values, Shape shape) { return Tensor::FromVector<double>(values, std::move(shape)); }

TEST(Dft, PadsAndCutsToTheGivenLength) {
  Node node = OneNode("DFT", 2);
  auto padded = RunNode(node, {Doubles({1, 1}, {2, 1}), Scalar(4)});
  EXPECT_EQ(padded[0].tensor().shape(), (Shape{4, 2}));
  std::vector<double> expected{2, 0, 1, -1, 0, 0, 1, 1};
  EXPECT_THAT(Elements<double>(padded[0]), ::testing::Pointwise(::testing::DoubleNear(1e-12), expected));
  auto cut = RunNode(node, {Doubles({1, 5, 9}, {3, 1}), Scalar(1)});
  EXPECT_EQ(Elements<double>(cut[0]), (std::vector<double>{1, 0}));
}

TEST(Dft, RefusesWhatTheTextExcludes) {
  Node node = OneNode("DFT", 3);
  Value x = Doubles({1, 2, 3, 4}, {2, 2});
  EXPECT_THAT(ErrorOf([&] { RunNode(node, {x, Value(), Scalar(1)}); }), HasSubstr("real and imaginary parts"));
  EXPECT_THAT(ErrorOf([&] { RunNode(node, {x, Scalar(0), Value()}); }), HasSubstr("at least 1"));
  EXPECT_THAT(ErrorOf([&] { RunNode(node, {Doubles({1, 2, 3}, {1, 3})}); }), HasSubstr("must be 1 (real) or 2"));
  node.Set("onesided", int64_t{1});
  EXPECT_THAT(ErrorOf([&] { RunNode(node, {x}); }), HasSubstr("needs a real input"));
}

TEST(Dft, InfersFromConstants) {
  Node node = OneNode("DFT", 2, {{"onesided", int64_t{1}}});
  ValueFacts length{Type::Tensor(DType::kInt64, {})};
  ValueFacts x{Type::Tensor(DType::kFloat, {Dim::Named("n"), 10, 1})};
  EXPECT_EQ(ToText(InferNode(node, {x, length})[0].type), "float[n, ?, 2]");
  length.constant = Tensor::Scalar<int64_t>(16);
  EXPECT_EQ(ToText(InferNode(node, {x, length})[0].type), "float[n, 9, 2]");
  EXPECT_EQ(ToText(InferNode(OneNode("DFT", 1, {{"inverse", int64_t{1}}, {"onesided", int64_t{1}}}), {x})[0].type),
            "float[n, 18, 1]");
}

TEST(Stft, ComplexSignalsAreTwoSided) {
  Node node = OneNode("STFT", 4, {{"onesided", int64_t{0}}});
  auto out = RunNode(node, {Doubles({0, 1, 0, 1, 0, 1}, {1, 3, 2}), Scalar(1), Value(), Scalar(2)});
  EXPECT_EQ(out[0].tensor().shape(), (Shape{1, 2, 2, 2}));
  EXPECT_EQ(Elements<double>(out[0]), (std::vector<double>{0, 2, 0, 0, 0, 2, 0, 0}));
  node.Set("onesided", int64_t{1});
  EXPECT_THAT(ErrorOf([&] { RunNode(node, {Doubles({0, 1}, {1, 1, 2}), Scalar(1)}); }), HasSubstr("set onesided to 0"));
}

TEST(Stft, RefusesFramesThatDoNotFit) {
  Node node = OneNode("STFT", 4);
  Value x = Doubles({1, 2, 3, 4}, {1, 4, 1});
  EXPECT_THAT(ErrorOf([&] { RunNode(node, {x, Scalar(0), Value(), Scalar(2)}); }), HasSubstr("frame_step"));
  EXPECT_THAT(ErrorOf([&] { RunNode(node, {x, Scalar(1), Value(), Scalar(5)}); }), HasSubstr("longer than the signal"));
  EXPECT_THAT(ErrorOf([&] {
                RunNode(node, {x, Scalar(1), Doubles({1, 1, 1}, {3}), Scalar(2)});
              }),
              HasSubstr("window has 3"));
}

TEST(Windows, WorkForEverySizeAndType) {
  Node node = OneNode("HannWindow", 1, {{"periodic", int64_t{0}}});
  EXPECT_EQ(Elements<float>(RunNode(node, {Scalar(1)})[0]), (std::vector<float>{1}));
  EXPECT_EQ(RunNode(node, {Scalar(0)})[0].tensor().size(), 0);
  EXPECT_THAT(ErrorOf([&] { RunNode(node, {Scalar(-1)}); }), HasSubstr("must not be negative"));
  EXPECT_THAT(ErrorOf([&] { RunNode(node, {Scalar(int64_t{1} << 40)}); }), HasSubstr("is too long"));
  node.Set("output_datatype", static_cast<int64_t>(DType::kUInt8));
  EXPECT_EQ(Elements<uint8_t>(RunNode(node, {Scalar(3)})[0]), (std::vector<uint8_t>{0, 1, 0}));
  node.Set("output_datatype", static_cast<int64_t>(DType::kString));
  EXPECT_THAT(ErrorOf([&] { RunNode(node, {Scalar(3)}); }), HasSubstr("names no numeric type"));
}

TEST(MelWeightMatrix, RefusesABandOutsideTheSpectrum) {
  auto run = [](float upper) {
    return RunNode(OneNode("MelWeightMatrix", 5),
                   {Scalar(4), Scalar(16), Scalar(8000), Tensor::Scalar<float>(0), Tensor::Scalar<float>(upper)});
  };
  EXPECT_EQ(run(3000)[0].tensor().shape(), (Shape{9, 4}));
  EXPECT_THAT(ErrorOf([&] { run(30000); }), HasSubstr("of a spectrum of 9 bins"));
}

}  // namespace
}  // namespace ferry
