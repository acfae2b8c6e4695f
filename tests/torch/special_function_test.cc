// Special functions against values computed with 25 digits, on both sides of every border between their methods.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/torch/lower_call.h"

namespace ferry::torch {
namespace {

// One call of an operator on vectors of doubles.
std::vector<double> Apply(const std::string& target, const std::vector<std::vector<double>>& arguments) {
  std::vector<std::pair<std::string, CallArgument>> args;
  for (const std::vector<double>& values : arguments) args.emplace_back("", Tensor::FromVector<double>(values));
  Tensor result = LowerAndRun(target, args).at(0);
  auto elements = result.Span<double>();
  return {elements.begin(), elements.end()};
}

struct Point {
  const char* target;
  double x, y;
};
constexpr Point kPoints[] = {
    {"aten.special_bessel_j0.default", 0.125, 0.996097563041985},
    {"aten.special_bessel_j0.default", 5.0, -0.177596771314338},
    {"aten.special_bessel_j0.default", 24.875, 0.0798472118945657},
    {"aten.special_bessel_j0.default", 25.125, 0.111105993293817},
    {"aten.special_bessel_j0.default", 1000.0, 0.0247866861524202},
    {"aten.special_bessel_j1.default", 0.125, 0.0623780091344947},
    {"aten.special_bessel_j1.default", 5.0, -0.327579137591465},
    {"aten.special_bessel_j1.default", 24.875, -0.137031042579213},
    {"aten.special_bessel_j1.default", 25.125, -0.111779658677214},
    {"aten.special_bessel_j1.default", 1000.0, 0.00472831190708952},
    {"aten.special_bessel_y0.default", 0.125, -1.38968062514384},
    {"aten.special_bessel_y0.default", 5.0, -0.308517625249034},
    {"aten.special_bessel_y0.default", 24.875, -0.138607435879507},
    {"aten.special_bessel_y0.default", 25.125, -0.113967340185596},
    {"aten.special_bessel_y0.default", 1000.0, 0.00471591797762281},
    {"aten.special_bessel_y1.default", 0.125, -5.19993611253477},
    {"aten.special_bessel_y1.default", 5.0, 0.147863143391227},
    {"aten.special_bessel_y1.default", 24.875, -0.0826482611435101},
    {"aten.special_bessel_y1.default", 25.125, -0.113395053074467},
    {"aten.special_bessel_y1.default", 1000.0, -0.0247843312923518},
    {"aten.special_modified_bessel_i0.default", -3.5, 7.37820343222548},
    {"aten.special_modified_bessel_i0.default", 0.125, 1.00391006635335},
    {"aten.special_modified_bessel_i0.default", 29.5, 478144163888.04},
    {"aten.special_modified_bessel_i0.default", 31.0, 2089962966491.9},
    {"aten.special_i1e.default", -3.5, -0.18739997660305},
    {"aten.special_i1e.default", 0.125, 0.0552638532416032},
    {"aten.special_i1e.default", 29.5, 0.0725073261571837},
    {"aten.special_i1e.default", 31.0, 0.0707763928343857},
    {"aten.special_scaled_modified_bessel_k0.default", 5e-07, 14.6245965664801},
    {"aten.special_scaled_modified_bessel_k0.default", 0.125, 2.50184344021913},
    {"aten.special_scaled_modified_bessel_k0.default", 5.0, 0.547807564313519},
    {"aten.special_scaled_modified_bessel_k0.default", 20.5, 0.275167035504313},
    {"aten.special_modified_bessel_k1.default", 5e-07, 1999999.99999622},
    {"aten.special_modified_bessel_k1.default", 0.125, 7.83111829911575},
    {"aten.special_modified_bessel_k1.default", 5.0, 0.00404461344545216},
    {"aten.special_modified_bessel_k1.default", 20.5, 3.52293447871125e-10},
    {"aten.special_airy_ai.default", -40.0, -0.0459339234379572},
    {"aten.special_airy_ai.default", -6.125, -0.356293985037093},
    {"aten.special_airy_ai.default", -5.875, -0.271365392386262},
    {"aten.special_airy_ai.default", 0.0, 0.355028053887817},
    {"aten.special_airy_ai.default", 2.5, 0.0157259233804705},
    {"aten.special_airy_ai.default", 5.875, 1.35580861566253e-5},
    {"aten.special_airy_ai.default", 6.125, 7.27619087488398e-6},
    {"aten.erfc.default", -2.0, 1.99532226501895},
    {"aten.erfc.default", 0.5, 0.479500122186953},
    {"aten.erfc.default", 1.5, 0.0338948535246893},
    {"aten.erfc.default", 5.875, 9.69155564527718e-17},
    {"aten.erfc.default", 6.125, 4.63322215529927e-18},
    {"aten.erfc.default", 9.0, 4.13703174651381e-37},
    {"aten.special_log_ndtr.default", -30.0, -454.321243956343},
    {"aten.special_log_ndtr.default", -1.25, -2.24762567721432},
    {"aten.special_log_ndtr.default", -1.0, -1.84102164500926},
    {"aten.special_log_ndtr.default", 0.5, -0.368946415288656},
    {"aten.special_log_ndtr.default", 4.0, -3.16717433774893e-5},
    {"aten.erfinv.default", -0.75, -0.813419847597619},
    {"aten.erfinv.default", 0.001953125, 0.00173091369241507},
    {"aten.erfinv.default", 0.9990234375, 2.33146777362195},
    {"aten.special_ndtri.default", 7.888609052210118e-31, -11.484540434973},
    {"aten.special_ndtri.default", 0.0078125, -2.41755901623651},
    {"aten.special_ndtri.default", 0.625, 0.318639363964375},
    {"aten.special_ndtri.default", 0.9990234375, 3.09726907819878},
    {"aten.lgamma.default", -2.5, -0.0562437164976741},
    {"aten.lgamma.default", 0.125, 2.0194183575538},
    {"aten.lgamma.default", 1.0, 0.0},
    {"aten.lgamma.default", 2.0, 0.0},
    {"aten.lgamma.default", 3.75, 1.48681557859342},
    {"aten.lgamma.default", 200.0, 857.933669825857},
    {"aten.digamma.default", -1.25, 3.71413912021353},
    {"aten.digamma.default", 0.125, -8.38849266329585},
    {"aten.digamma.default", 1.0, -0.577215664901533},
    {"aten.digamma.default", 70.0, 4.24133537845082},
};

TEST(SpecialFunctions, AreRightOnBothSidesOfTheirBorders) {
  for (const Point& point : kPoints) {
    double y = Apply(point.target, {{point.x}}).at(0);
    EXPECT_NEAR(y, point.y, 1e-7 * std::abs(point.y) + 1e-14) << point.target << "(" << point.x << ")";
  }
}

TEST(SpecialFunctions, KnowTheirLimits) {
  double inf = INFINITY, nan = NAN;
  struct Limit {
    const char* target;
    std::vector<double> x, y;
  } limits[] = {
      {"aten.erfc.default", {-inf, inf, nan}, {2, 0, nan}},
      {"aten.erfinv.default", {-1, 1, 0, 1.5}, {-inf, inf, 0, nan}},
      {"aten.special_ndtri.default", {0, 1, 0.5, -1, 2}, {-inf, inf, 0, nan, nan}},
      {"aten.special_entr.default", {0, -1, 1}, {0, -inf, 0}},
      {"aten.lgamma.default", {0, -3, inf, -inf, nan}, {inf, inf, inf, inf, nan}},
      {"aten.digamma.default", {0.0, -0.0, -2, nan}, {-inf, inf, nan, nan}},
      {"aten.special_bessel_j0.default", {0, inf}, {1, nan}},
      {"aten.special_airy_ai.default", {inf}, {nan}},
      {"aten.special_bessel_y0.default", {0, -1}, {-inf, nan}},
      {"aten.special_modified_bessel_k0.default", {0, -1}, {inf, nan}},
      {"aten.special_spherical_bessel_j0.default", {0, inf}, {1, 0}},
  };
  for (const Limit& limit : limits) {
    std::vector<double> y = Apply(limit.target, {limit.x});
    for (size_t i = 0; i < y.size(); ++i) {
      if (std::isnan(limit.y[i]))
        EXPECT_TRUE(std::isnan(y[i])) << limit.target << "(" << limit.x[i] << ") is " << y[i];
      else if (std::isinf(limit.y[i]))
        EXPECT_EQ(y[i], limit.y[i]) << limit.target << "(" << limit.x[i] << ")";
      else
        EXPECT_NEAR(y[i], limit.y[i], 1e-12) << limit.target << "(" << limit.x[i] << ")";
    }
  }
}

TEST(SpecialFunctions, OfTwoArguments) {
  // P(a, x), and Hurwitz's zeta(s, q), which is defined to the left of 0 for whole s only.
  std::vector<double> p = Apply("aten.igamma.default", {{0.5, 10, 10, 1000, 0, 2}, {0.25, 9.5, 10.5, 1000, 1, 0}});
  double expected[] = {0.520499877813047, 0.478173977762793, 0.602867400649189, 0.504205244180216, 1, 0};
  for (size_t i = 0; i < p.size(); ++i) EXPECT_NEAR(p[i], expected[i], 1e-9) << i;
  std::vector<double> z = Apply("aten.special_zeta.default", {{2, 3, 2, 2.5, 1}, {1, 0.25, -1.5, -1.5, 2}});
  EXPECT_NEAR(z[0], M_PI * M_PI / 6, 1e-12);
  EXPECT_NEAR(z[1], 64.663869968768460, 1e-10);
  EXPECT_NEAR(z[2], 9.3792466449891238, 1e-10);
  EXPECT_TRUE(std::isnan(z[3]));
  EXPECT_EQ(z[4], INFINITY);
}

}  // namespace
}  // namespace ferry::torch
