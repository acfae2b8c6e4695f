// Operators that only move elements, held against numpy's rules on odd types, empty shapes and out-of-range requests.
#include "ops/support/movement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "tests/support/nodes.h"

namespace ferry {
namespace {

using testing::Elements;
using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::OneNode;
using testing::RunNode;
using Ints = std::vector<int64_t>;
using Strings = std::vector<std::string>;

Value IntList(Ints values) { return Tensor::FromVector<int64_t>(values); }
Value IntTensor(Ints values, Shape shape) { return Tensor::FromVector<int64_t>(values, std::move(shape)); }
Value Scalar(int64_t value) { return Tensor::Scalar(value); }

Value Counting(Shape shape) {
  Ints values(static_cast<size_t>(shape.ElementCount()));
  std::iota(values.begin(), values.end(), 0);
  return IntTensor(values, shape);
}

Value Nibbles(std::vector<int8_t> values, Shape shape) {
  return Tensor::Pack(DType::kInt4, Tensor::FromVector<int8_t>(values, std::move(shape)));
}
Ints Unpacked(const Value& value) { return ToInt64Vector(value.tensor().Unpacked()); }

// A transpose written the slow way, for every element width and for shapes larger than a tile.
TEST(Transpose, AgreesWithIndexArithmetic) {
  std::mt19937 random(7);
  const Shape shapes[] = {{5}, {33, 47}, {3, 20, 18}, {2, 3, 1, 17}, {4, 2, 3, 5, 2}, {300, 301}};
  for (DType dtype : {DType::kInt8, DType::kFloat16, DType::kFloat, DType::kDouble, DType::kComplex128}) {
    for (const Shape& shape : shapes) {
      Tensor x(dtype, shape);
      for (size_t i = 0; i < x.bytes(); ++i) x.mutable_raw()[i] = static_cast<std::byte>(random());
      Ints perm(shape.rank());
      std::iota(perm.begin(), perm.end(), 0);
      std::shuffle(perm.begin(), perm.end(), random);
      Tensor y = RunNode(OneNode("Transpose", 1, {{"perm", perm}}), {x})[0].tensor();
      std::vector<int64_t> from_strides = shape.Strides();
      size_t width = x.bytes() / static_cast<size_t>(x.size());
      std::vector<int64_t> index(shape.rank());
      bool same = true;
      for (int64_t i = 0; i < y.size(); ++i) {
        int64_t rest = i, from = 0;
        for (size_t a = shape.rank(); a-- > 0;) {
          from += rest % y.dim(a) * from_strides[static_cast<size_t>(perm[a])];
          rest /= y.dim(a);
        }
        same = same && std::memcmp(y.raw() + static_cast<size_t>(i) * width,
                                   x.raw() + static_cast<size_t>(from) * width, width) == 0;
      }
      EXPECT_TRUE(same) << ToText(dtype) << ToText(shape);
    }
  }
}

TEST(Transpose, MovesPackedElementsAndStrings) {
  auto packed = RunNode(OneNode("Transpose", 1), {Nibbles({1, 2, 3, -4, -5, -6}, {2, 3})});
  EXPECT_EQ(packed[0].tensor().dtype(), DType::kInt4);
  EXPECT_EQ(Unpacked(packed[0]), (Ints{1, -4, 2, -5, 3, -6}));
  auto text = RunNode(OneNode("Transpose", 1), {Tensor::FromVector<std::string>({"a", "b", "c", "d"}, {2, 2})});
  EXPECT_EQ(Elements<std::string>(text[0]), (Strings{"a", "c", "b", "d"}));
  EXPECT_THAT(ErrorOf([] {
                RunNode(OneNode("Transpose", 1, {{"perm", Ints{0, 0}}}), {Counting({2, 2})});
              }),
              HasSubstr("given twice"));
}

TEST(Reshape, CopiesInfersAndRefuses) {
  auto shape_of = [](Shape from, Ints to, int64_t allow_zero) {
    return RunNode(OneNode("Reshape", 2, {{"allowzero", allow_zero}}), {Counting(from), IntList(to)})[0]
        .tensor()
        .shape();
  };
  EXPECT_EQ(shape_of({2, 3, 4}, {0, -1}, 0), (Shape{2, 12}));
  EXPECT_EQ(shape_of({1}, {}, 0), Shape{});
  EXPECT_EQ(shape_of({0, 3}, {3, 0}, 1), (Shape{3, 0}));
  EXPECT_EQ(shape_of({0, 6}, {0, -1, 2}, 0), (Shape{0, 3, 2}));
  EXPECT_THAT(ErrorOf([&] { shape_of({0, 3}, {0, -1}, 1); }), HasSubstr("both 0 and -1"));
  EXPECT_THAT(ErrorOf([&] { shape_of({2, 3}, {4, -1}, 0); }), HasSubstr("cannot be reshaped"));
  EXPECT_THAT(ErrorOf([&] { shape_of({2, 3}, {-1, -1}, 0); }), HasSubstr("more than one -1"));
  EXPECT_THAT(ErrorOf([&] { shape_of({2, 3}, {2, 3, 0}, 0); }), HasSubstr("no such axis"));
  EXPECT_THAT(ErrorOf([&] { shape_of({2, 3}, {INT64_MAX, INT64_MAX}, 0); }), HasSubstr("["));
}

TEST(Reshape, SharesTheElements) {
  Value x = Counting({2, 3});
  EXPECT_EQ(RunNode(OneNode("Reshape", 2), {x, IntList({6})})[0].tensor().raw(), x.tensor().raw());
}

Ints Sliced(Shape shape, Ints starts, Ints ends, Ints axes, Ints steps) {
  return Elements<int64_t>(RunNode(OneNode("Slice", 5), {Counting(std::move(shape)), IntList(starts), IntList(ends),
                                                         IntList(axes), IntList(steps)})[0]);
}

TEST(Slice, ClampsAsTheTextSays) {
  EXPECT_EQ(Sliced({5}, {INT64_MIN}, {INT64_MAX}, {0}, {2}), (Ints{0, 2, 4}));
  EXPECT_EQ(Sliced({5}, {INT64_MAX}, {INT64_MIN}, {0}, {-2}), (Ints{4, 2, 0}));
  EXPECT_EQ(Sliced({5}, {-1}, {-4}, {-1}, {-1}), (Ints{4, 3, 2}));
  EXPECT_EQ(Sliced({5}, {-100}, {INT64_MIN}, {0}, {-1}), (Ints{0}));
  EXPECT_EQ(Sliced({5}, {0}, {5}, {0}, {INT64_MAX}), (Ints{0}));
  EXPECT_EQ(Sliced({5}, {4}, {INT64_MIN}, {0}, {INT64_MIN}), (Ints{4}));
  EXPECT_EQ(Sliced({5}, {3}, {3}, {0}, {1}), Ints{});
  EXPECT_EQ(Sliced({0, 2}, {0}, {9}, {0}, {-1}), Ints{});
  EXPECT_EQ(Sliced({3, 4}, {2, 1}, {-9, 4}, {0, 1}, {-1, 2}), (Ints{9, 11, 5, 7, 1, 3}));
  EXPECT_THAT(ErrorOf([] { Sliced({5}, {0}, {5}, {0}, {0}); }), HasSubstr("cannot be 0"));
  EXPECT_THAT(ErrorOf([] { Sliced({5}, {0}, {5, 6}, {0}, {1}); }), HasSubstr("different lengths"));
  EXPECT_THAT(ErrorOf([] { Sliced({5}, {0}, {5}, {1}, {1}); }), HasSubstr("axis 1 is out of range"));
}

TEST(Concat, TakesEmptyPartsAndChecksTheRest) {
  auto concat = [](std::vector<Value> parts, int64_t axis) {
    return RunNode(OneNode("Concat", parts.size(), {{"axis", axis}}), parts)[0].tensor();
  };
  Tensor joined = concat({Counting({2, 1}), Counting({2, 0}), Counting({2, 2})}, -1);
  EXPECT_EQ(ToInt64Vector(joined), (Ints{0, 0, 1, 1, 2, 3}));
  EXPECT_THAT(ErrorOf([&] { concat({Counting({2, 1}), Counting({3, 1})}, 1); }), HasSubstr("does not go beside"));
  EXPECT_THAT(ErrorOf([&] { concat({Scalar(1), Scalar(2)}, 0); }), HasSubstr("scalars"));
  EXPECT_EQ(Unpacked(concat({Nibbles({1, 2, 3}, {3}), Nibbles({-1}, {1})}, 0)), (Ints{1, 2, 3, -1}));
}

TEST(Split, LastPartsAreSmaller) {
  auto sizes = [](int64_t whole, size_t parts) {
    Ints lengths;
    for (const Value& part :
         RunNode(OneNode("Split", 1, {{"num_outputs", static_cast<int64_t>(parts)}}, "", parts), {Counting({whole})}))
      lengths.push_back(part.tensor().dim(0));
    return lengths;
  };
  EXPECT_EQ(sizes(7, 3), (Ints{3, 3, 1}));
  EXPECT_EQ(sizes(5, 4), (Ints{2, 2, 1, 0}));
  EXPECT_EQ(sizes(0, 2), (Ints{0, 0}));
  auto split = [](Ints lengths) {
    RunNode(OneNode("Split", 2, {}, "", lengths.size()), {Counting({4}), IntList(lengths)});
  };
  EXPECT_THAT(ErrorOf([&] { split({1, 2}); }), HasSubstr("leaves 1"));
  EXPECT_THAT(ErrorOf([&] { split({INT64_MAX, INT64_MAX}); }), HasSubstr("more than the 4"));
  EXPECT_THAT(ErrorOf([&] { split({-1, 5}); }), HasSubstr("negative"));
}

TEST(Gather, NamesTheBadIndex) {
  EXPECT_THAT(ErrorOf([] {
                RunNode(OneNode("Gather", 2, {{"axis", int64_t{1}}}), {Counting({2, 3}), IntList({0, 3})});
              }),
              HasSubstr("index 3 is out of range for axis 1 of size 3"));
  auto row = RunNode(OneNode("Gather", 2), {Counting({2, 3}), Scalar(-1)});
  EXPECT_EQ(row[0].tensor().shape(), Shape{3});
  EXPECT_EQ(Elements<int64_t>(row[0]), (Ints{3, 4, 5}));
  EXPECT_EQ(
      Elements<int64_t>(RunNode(OneNode("Gather", 2, {{"axis", int64_t{1}}}), {Counting({2, 3}), IntList({2, 0})})[0]),
      (Ints{2, 0, 5, 3}));
  EXPECT_EQ(RunNode(OneNode("Gather", 2), {Counting({0, 3}), IntTensor({}, {0})})[0].tensor().shape(), (Shape{0, 3}));
}

TEST(GatherElements, MayBeSmallerThanTheData) {
  auto picked = RunNode(OneNode("GatherElements", 2, {{"axis", int64_t{1}}}),
                        {Counting({3, 2, 2}), IntTensor({1, -2, 0}, {3, 1, 1})});
  EXPECT_EQ(Elements<int64_t>(picked[0]), (Ints{2, 4, 8}));
  EXPECT_THAT(ErrorOf([] {
                RunNode(OneNode("GatherElements", 2), {Counting({2, 2}), IntTensor({0, 0, 0}, {1, 3})});
              }),
              HasSubstr("larger than data"));
}

TEST(GatherND, ChecksTuplesAndBatches) {
  auto gather = [](Value data, Value indices, int64_t batch_dims) {
    return RunNode(OneNode("GatherND", 2, {{"batch_dims", batch_dims}}), {data, indices})[0].tensor();
  };
  EXPECT_EQ(ToInt64Vector(gather(Counting({2, 2, 2}), IntTensor({1, 0}, {2, 1}), 1)), (Ints{2, 3, 4, 5}));
  EXPECT_THAT(ErrorOf([&] { gather(Counting({2}), IntTensor({0, 0}, {1, 2}), 0); }), HasSubstr("do not fit"));
  EXPECT_THAT(ErrorOf([&] { gather(Counting({2, 2}), IntTensor({0}, {1, 1}), 1); }), HasSubstr("batch axis 0 differs"));
  EXPECT_THAT(ErrorOf([&] { gather(Counting({2, 2}), IntTensor({2}, {1, 1}), 0); }), HasSubstr("index 2"));
}

Ints Padded(Ints values, Ints pads, std::string mode) {
  return Elements<int64_t>(
      RunNode(OneNode("Pad", 3, {{"mode", std::move(mode)}}), {IntList(values), IntList(pads), Scalar(9)})[0]);
}

TEST(Pad, RepeatsBeyondTheLengthAndCuts) {
  EXPECT_EQ(Padded({1, 2, 3}, {1, -1}, "constant"), (Ints{9, 1, 2}));
  EXPECT_EQ(Padded({1, 2, 3}, {-2, 2}, "constant"), (Ints{3, 9, 9}));
  EXPECT_EQ(Padded({1, 2, 3}, {-5, 5}, "constant"), (Ints{9, 9, 9}));
  EXPECT_EQ(Padded({1, 2, 3}, {4, 5}, "wrap"), (Ints{3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2}));
  EXPECT_EQ(Padded({1, 2, 3}, {4, 5}, "reflect"), (Ints{1, 2, 3, 2, 1, 2, 3, 2, 1, 2, 3, 2}));
  EXPECT_EQ(Padded({1, 2, 3}, {-1, 2}, "wrap"), (Ints{2, 3, 2, 3}));
  EXPECT_EQ(Padded({1}, {2, 2}, "reflect"), (Ints{1, 1, 1, 1, 1}));
  EXPECT_EQ(Padded({1, 2}, {2, 1}, "edge"), (Ints{1, 1, 1, 2, 2}));
  EXPECT_EQ(Padded({}, {1, 1}, "constant"), (Ints{9, 9}));
  EXPECT_THAT(ErrorOf([] { Padded({}, {1, 1}, "edge"); }), HasSubstr("nothing to repeat"));
  EXPECT_THAT(ErrorOf([] { Padded({1, 2}, {-2, -1}, "constant"); }), HasSubstr("cannot be padded"));
  EXPECT_THAT(ErrorOf([] { Padded({1, 2}, {INT64_MIN, INT64_MAX}, "constant"); }), HasSubstr("cannot be padded"));
  EXPECT_THAT(ErrorOf([] { Padded({1}, {1}, "constant"); }), HasSubstr("two for each"));
  EXPECT_THAT(ErrorOf([] { Padded({1}, {int64_t{1} << 50, 0}, "constant"); }), HasSubstr("larger than any machine"));
}

TEST(Pad, RepeatsSeveralAxesAtOnce) {
  Node node = OneNode("Pad", 2, {{"mode", std::string("wrap")}});
  auto out = RunNode(node, {Counting({2, 2, 2}), IntList({0, 1, 0, 1, 0, 0})});
  EXPECT_EQ(out[0].tensor().shape(), (Shape{3, 3, 2}));
  EXPECT_EQ(Elements<int64_t>(out[0]), (Ints{2, 3, 0, 1, 2, 3, 6, 7, 4, 5, 6, 7, 2, 3, 0, 1, 2, 3}));
}

TEST(Tile, RepeatsEveryAxis) {
  EXPECT_EQ(Elements<int64_t>(RunNode(OneNode("Tile", 2), {Counting({2, 1}), IntList({2, 3})})[0]),
            (Ints{0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(RunNode(OneNode("Tile", 2), {Counting({2}), IntList({0})})[0].tensor().shape(), Shape{0});
  EXPECT_THAT(ErrorOf([] { RunNode(OneNode("Tile", 2), {Counting({2}), IntList({-1})}); }), HasSubstr("out of range"));
  EXPECT_THAT(ErrorOf([] {
                RunNode(OneNode("Tile", 2), {Counting({2}), IntList({INT64_MAX})});
              }),
              HasSubstr("out of range"));
}

TEST(Expand, BroadcastsBothWays) {
  auto out = RunNode(OneNode("Expand", 2), {Counting({3, 1}), IntList({2, 1, 2})});
  EXPECT_EQ(out[0].tensor().shape(), (Shape{2, 3, 2}));
  EXPECT_EQ(Elements<int64_t>(out[0]), (Ints{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(RunNode(OneNode("Expand", 2), {Counting({3, 1}), IntList({1, 0})})[0].tensor().shape(), (Shape{3, 0}));
  EXPECT_THAT(ErrorOf([] {
                RunNode(OneNode("Expand", 2), {Counting({1}), IntList({int64_t{1} << 60})});
              }),
              HasSubstr("more than can be addressed"));
}

TEST(ConstantOfShape, RefusesWhatCannotBe) {
  EXPECT_THAT(ErrorOf([] { RunNode(OneNode("ConstantOfShape", 1), {IntList({-1})}); }), HasSubstr("negative"));
  EXPECT_THAT(ErrorOf([] {
                RunNode(OneNode("ConstantOfShape", 1), {IntList({1 << 30, 1 << 30, 1 << 30})});
              }),
              HasSubstr("more elements"));
  EXPECT_EQ(RunNode(OneNode("ConstantOfShape", 1), {IntList({})})[0].tensor().shape(), Shape{});
}

TEST(Trilu, ClampsTheDiagonal) {
  auto lower = [](int64_t k) {
    return Elements<int64_t>(RunNode(OneNode("Trilu", 2, {{"upper", int64_t{0}}}), {Counting({2, 3}), Scalar(k)})[0]);
  };
  EXPECT_EQ(lower(0), (Ints{0, 0, 0, 3, 4, 0}));
  EXPECT_EQ(lower(INT64_MAX), (Ints{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(lower(INT64_MIN), (Ints{0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(Elements<int64_t>(RunNode(OneNode("Trilu", 1), {Counting({3, 2})})[0]), (Ints{0, 1, 0, 3, 0, 0}));
}

TEST(OneHot, TakesNumbersOfAnyType) {
  Value values = Tensor::FromVector<std::string>({"off", "on"});
  auto out = RunNode(OneNode("OneHot", 3),
                     {Tensor::FromVector<float>({1.9f, -1.0f, NAN, 1e30f}), Tensor::Scalar(2.0f), values});
  EXPECT_EQ(Elements<std::string>(out[0]), (Strings{"off", "on", "off", "on", "off", "off", "off", "off"}));
  EXPECT_THAT(ErrorOf([&] { RunNode(OneNode("OneHot", 3), {Scalar(1), Scalar(-2), values}); }), HasSubstr("negative"));
}

TEST(NonZero, KnowsWhatZeroIs) {
  auto count = [](Value value) { return RunNode(OneNode("NonZero", 1), {value})[0].tensor().shape(); };
  EXPECT_EQ(count(Tensor::FromVector<float>({-0.0f, NAN, 0.0f})), (Shape{1, 1}));
  EXPECT_EQ(count(Tensor::FromVector<std::string>({"", "0"})), (Shape{1, 1}));
  EXPECT_EQ(count(Tensor::FromVector<std::complex<double>>({{-0.0, -0.0}, {0, 1}})), (Shape{1, 1}));
  EXPECT_EQ(count(Scalar(3)), (Shape{0, 1}));
  EXPECT_EQ(count(Counting({0, 3})), (Shape{2, 0}));
}

TEST(Compress, SelectsFromTheFlattenedInputToo) {
  Value condition = Tensor::FromVector<bool>({false, true, true});
  EXPECT_EQ(Elements<int64_t>(RunNode(OneNode("Compress", 2), {Counting({2, 2}), condition})[0]), (Ints{1, 2}));
  EXPECT_THAT(ErrorOf([&] {
                RunNode(OneNode("Compress", 2, {{"axis", int64_t{0}}}), {Counting({2, 2}), condition});
              }),
              HasSubstr("selects position 2"));
}

TEST(Range, CountsWithoutOverflow) {
  auto range = [](int64_t start, int64_t limit, int64_t delta) {
    return Elements<int64_t>(RunNode(OneNode("Range", 3), {Scalar(start), Scalar(limit), Scalar(delta)})[0]);
  };
  EXPECT_EQ(range(10, 4, -2), (Ints{10, 8, 6}));
  EXPECT_EQ(range(3, 3, 1), Ints{});
  EXPECT_EQ(range(INT64_MAX - 1, INT64_MAX, 5), (Ints{INT64_MAX - 1}));
  EXPECT_EQ(range(INT64_MIN, INT64_MAX, INT64_MAX), (Ints{INT64_MIN, -1, INT64_MAX - 1}));
  EXPECT_THAT(ErrorOf([&] { range(0, 1, 0); }), HasSubstr("cannot be 0"));
  EXPECT_THAT(ErrorOf([&] { range(INT64_MIN, INT64_MAX, 1); }), HasSubstr("too long"));
  EXPECT_THAT(ErrorOf([] {
                RunNode(OneNode("Range", 3), {Tensor::Scalar(0.0f), Tensor::Scalar(INFINITY), Tensor::Scalar(1.0f)});
              }),
              HasSubstr("has no length"));
}

TEST(CopyStrided, CutsLongRunsAndKeepsTheRest) {
  constexpr int64_t kLong = (1 << 17) + 3;
  Value x = Counting({kLong});
  Tensor y =
      RunNode(OneNode("Slice", 5), {x, IntList({INT64_MAX}), IntList({INT64_MIN}), IntList({0}), IntList({-1})})[0]
          .tensor();
  bool reversed = true;
  for (int64_t i = 0; i < kLong; ++i) reversed = reversed && y.Data<int64_t>()[i] == kLong - 1 - i;
  EXPECT_TRUE(reversed);
}

}  // namespace
}  // namespace ferry
