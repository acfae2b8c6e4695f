#include "tensor/tensor.h"

#include <gtest/gtest.h>

namespace ferry {
namespace {

TEST(Tensor, SharesStorageWhenCopiedAndReshaped) {
  Tensor t = Tensor::FromVector<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  Tensor view = t.Reshaped({3, 2});
  EXPECT_EQ(view.raw(), t.raw());
  EXPECT_EQ(view.shape(), (Shape{3, 2}));
  EXPECT_NE(t.Clone().raw(), t.raw());
}

TEST(Tensor, RowsAreAView) {
  Tensor t = Tensor::FromVector<int32_t>({1, 2, 3, 4, 5, 6}, {3, 2});
  Tensor rows = t.Rows(1, 2);
  EXPECT_EQ(rows.Data<int32_t>(), t.Data<int32_t>() + 2);
  EXPECT_THROW(t.Rows(2, 2), Error);
}

TEST(Tensor, PacksFourBitElementsLowNibbleFirst) {
  Tensor packed = Tensor::Pack(DType::kInt4, Tensor::FromVector<int8_t>({-8, 7, 3}));
  EXPECT_EQ(packed.bytes(), 2u);
  EXPECT_EQ(static_cast<uint8_t>(packed.raw()[0]), 0x78);
  Tensor back = packed.Unpacked();
  EXPECT_EQ(ToInt64Vector(back), (std::vector<int64_t>{-8, 7, 3}));
}

TEST(Tensor, PacksSixBitElementsAcrossBytes) {
  Tensor codes = Tensor::FromVector<uint8_t>({0x01, 0x3f, 0x15, 0x2a, 0x33});
  Tensor packed = Tensor::Pack(DType::kFloat6E2M3, codes);
  ASSERT_EQ(packed.bytes(), 4u);
  auto* bytes = reinterpret_cast<const uint8_t*>(packed.raw());
  EXPECT_EQ(bytes[0], 0x01 | (0x3f & 0x3) << 6);
  EXPECT_EQ(bytes[1], 0x3f >> 2 | (0x15 & 0xf) << 4);
  EXPECT_EQ(bytes[2], 0x15 >> 4 | 0x2a << 2);
  EXPECT_EQ(bytes[3], 0x33);
  EXPECT_TRUE(Identical(packed.Unpacked(), codes));
}

TEST(Tensor, RefusesImpossibleShapes) {
  EXPECT_THROW(Tensor(DType::kFloat, {-1}), Error);
  EXPECT_THROW(Tensor(DType::kFloat, {int64_t{1} << 40, int64_t{1} << 40}), Error);
  EXPECT_THROW(Tensor(DType::kDouble, {int64_t{1} << 61}), Error);
}

TEST(Shape, BroadcastsAsNumpyDoes) {
  EXPECT_EQ(BroadcastShapes({3, 1}, {2, 1, 4}), (Shape{2, 3, 4}));
  EXPECT_THROW(BroadcastShapes({2}, {3}), Error);
}

TEST(Shape, KeepsManyDimensions) {
  Shape shape{1, 2, 3, 4, 5, 6, 7, 8};
  Shape moved = std::move(shape);
  EXPECT_EQ(moved.rank(), 8u);
  EXPECT_EQ(moved.ElementCount(), 40320);
  EXPECT_EQ(shape.rank(), 0u);
}

}  // namespace
}  // namespace ferry
