#include "tensor/small_float.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ferry {
namespace {

TEST(SmallFloat, SixBitFloatsCoverTheirRange) {
  EXPECT_EQ(PackedFloatToFloat(DType::kFloat6E2M3, 0x1f), 7.5f);
  EXPECT_EQ(PackedFloatToFloat(DType::kFloat6E2M3, 0x01), 0.125f);
  EXPECT_EQ(PackedFloatToFloat(DType::kFloat6E3M2, 0x1f), 28.0f);
  EXPECT_EQ(PackedFloatToFloat(DType::kFloat6E3M2, 0x21), -0.0625f);
  EXPECT_EQ(FloatToPackedFloat(DType::kFloat6E2M3, 100.0f), 0x1f);
  EXPECT_EQ(FloatToPackedFloat(DType::kFloat6E3M2, -INFINITY), 0x3f);
}

TEST(SmallFloat, EveryCodeSurvivesTheWayThroughFloat) {
  for (DType type : {DType::kFloat4E2M1, DType::kFloat6E2M3, DType::kFloat6E3M2})
    for (int code = 0; code < 1 << BitWidth(type); ++code)
      EXPECT_EQ(FloatToPackedFloat(type, PackedFloatToFloat(type, static_cast<uint8_t>(code))), code) << ToText(type);
}

TEST(SmallFloat, PowersOfTwoRoundAsAsked) {
  EXPECT_EQ(ToFloat8E8M0(3.0f, ScaleRounding::kUp).bits, 129);
  EXPECT_EQ(ToFloat8E8M0(3.0f, ScaleRounding::kDown).bits, 128);
  EXPECT_EQ(ToFloat8E8M0(0.0f, ScaleRounding::kUp, Overflow::kSaturate).bits, 0);
  EXPECT_EQ(ToFloat8E8M0(0.0f, ScaleRounding::kNearest, Overflow::kSpecial).bits, 0xff);
  EXPECT_EQ(ToFloat8E8M0(INFINITY, ScaleRounding::kUp, Overflow::kSaturate).bits, 0xfe);
}

}  // namespace
}  // namespace ferry
