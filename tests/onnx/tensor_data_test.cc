#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "graph/equal.h"
#include "model_samples.h"
#include "onnx/aligned.h"
#include "onnx/encoder.h"
#include "onnx/writer.h"

namespace ferry {
namespace {

using namespace testing;
using namespace onnx::tensor_field;
using onnx::Encoder;
using onnx::Tag;
using ::testing::HasSubstr;

std::string ModelWithTensor(const std::function<void(Encoder&)>& body) {
  Encoder out;
  out.Int(onnx::model_field::kIrVersion, 8);
  out.Message(onnx::model_field::kGraph, [&] { out.Message(onnx::graph_field::kInitializer, [&] { body(out); }); });
  return out.ToString();
}

// Reads a tensor, writes it, reads it again: the second reading, which must equal the first.
StoredTensor ReadTwice(const std::function<void(Encoder&)>& body) {
  Model first = FromBytes(ModelWithTensor(body));
  Model second = FromBytes(SerializeModel(first));
  std::string difference;
  EXPECT_TRUE(EqualModels(first, second, &difference)) << difference;
  EXPECT_EQ(first.graph.initializers[0].storage, second.graph.initializers[0].storage);
  return second.graph.initializers.at(0);
}

void Header(Encoder& out, int64_t type, const std::vector<int64_t>& dims) {
  for (int64_t dim : dims) out.Int(kDims, dim);
  out.Int(kDataType, type);
}

StoredTensor Packed(DType type, std::vector<int64_t> dims, Tag field, const std::vector<int64_t>& numbers) {
  return ReadTwice([&](Encoder& out) {
    Header(out, static_cast<int64_t>(type), dims);
    out.Message(field, [&] {
      for (int64_t number : numbers) out.PackedVarint(static_cast<uint64_t>(number));
    });
  });
}

StoredTensor Raw(DType type, std::vector<int64_t> dims, std::string_view bytes) {
  return ReadTwice([&](Encoder& out) {
    Header(out, static_cast<int64_t>(type), dims);
    out.Bytes(kRawData, bytes);
  });
}

TEST(TensorData, IntegersOfEveryWidthFromTheirTypedFields) {
  EXPECT_EQ(ToInt64Vector(Packed(DType::kInt32, {2}, kInt32Data, {-5, INT32_MAX}).Get()),
            (std::vector<int64_t>{-5, INT32_MAX}));
  EXPECT_EQ(ToInt64Vector(Packed(DType::kInt16, {2}, kInt32Data, {-5, 300}).Get()), (std::vector<int64_t>{-5, 300}));
  EXPECT_EQ(ToInt64Vector(Packed(DType::kInt8, {2}, kInt32Data, {-128, 127}).Get()), (std::vector<int64_t>{-128, 127}));
  EXPECT_EQ(ToInt64Vector(Packed(DType::kUInt8, {2}, kInt32Data, {0, 255}).Get()), (std::vector<int64_t>{0, 255}));
  EXPECT_EQ(ToInt64Vector(Packed(DType::kUInt16, {1}, kInt32Data, {65535}).Get()), (std::vector<int64_t>{65535}));
  EXPECT_EQ(ToInt64Vector(Packed(DType::kInt64, {2}, kInt64Data, {INT64_MIN, 7}).Get()),
            (std::vector<int64_t>{INT64_MIN, 7}));
  EXPECT_EQ(ToInt64Vector(Packed(DType::kUInt32, {1}, kUInt64Data, {4294967295}).Get()),
            (std::vector<int64_t>{4294967295}));
  EXPECT_EQ(Packed(DType::kUInt64, {1}, kUInt64Data, {-1}).Get().Data<uint64_t>()[0], UINT64_MAX);
  EXPECT_EQ(Packed(DType::kFloat16, {1}, kInt32Data, {0xbc00}).Get().Data<Float16>()[0].bits, 0xbc00);
  EXPECT_EQ(Packed(DType::kBFloat16, {1}, kInt32Data, {0x3f80}).Get().Data<BFloat16>()[0].bits, 0x3f80);
  EXPECT_EQ(Packed(DType::kFloat8E5M2, {1}, kInt32Data, {0x7c}).Get().Data<Float8E5M2>()[0].bits, 0x7c);
}

TEST(TensorData, PackedTypesFromInt32Data) {
  EXPECT_EQ(ToInt64Vector(Packed(DType::kInt4, {3}, kInt32Data, {0x7f, 0x08}).Get().Unpacked()),
            (std::vector<int64_t>{-1, 7, -8}));
  EXPECT_EQ(ToInt64Vector(Packed(DType::kUInt2, {5}, kInt32Data, {0xe4, 0x02}).Get().Unpacked()),
            (std::vector<int64_t>{0, 1, 2, 3, 2}));
  EXPECT_THAT(Packed(DType::kInt4, {3}, kInt32Data, {0x7f, 0x08, 0x01}).problem, HasSubstr("needs 2 numbers"));
}

TEST(TensorData, NumbersThatAreNoElementsAreNoted) {
  EXPECT_THAT(Packed(DType::kUInt8, {1}, kInt32Data, {256}).problem, HasSubstr("256 in int32_data"));
  EXPECT_THAT(Packed(DType::kInt8, {1}, kInt32Data, {-129}).problem, HasSubstr("-129"));
  EXPECT_THAT(Packed(DType::kFloat16, {1}, kInt32Data, {-1}).problem, HasSubstr("-1"));
  EXPECT_THAT(Packed(DType::kUInt32, {1}, kUInt64Data, {4294967296}).problem, HasSubstr("4294967296"));
}

TEST(TensorData, BoolsAreZeroOrOneWhateverTheFileHolds) {
  Tensor raw = Raw(DType::kBool, {4}, std::string_view("\0\1\2\xff", 4)).Get();
  EXPECT_EQ(std::memcmp(raw.raw(), "\0\1\1\1", 4), 0);
  Tensor typed = Packed(DType::kBool, {3}, kInt32Data, {0, 1, 256}).Get();
  EXPECT_EQ(std::memcmp(typed.raw(), "\0\1\1", 3), 0);
}

TEST(TensorData, FloatsPackedOrOneByOne) {
  auto one_by_one = ReadTwice([](Encoder& out) {
    Header(out, 1, {3});
    for (float f : {1.5f, -2.0f, 0.0f}) out.Float(kFloatData, f);
  });
  EXPECT_EQ(one_by_one.Get().Data<float>()[1], -2.0f);
  float numbers[] = {1, 2, 3, 4};
  auto complex = ReadTwice([&](Encoder& out) {
    Header(out, 14, {2});
    out.Bytes(kFloatData, {reinterpret_cast<const char*>(numbers), sizeof(numbers)});
  });
  EXPECT_EQ(complex.Get().Data<std::complex<float>>()[1], std::complex<float>(3, 4));
}

TEST(TensorData, StringsKeepTheirBytes) {
  auto strings = ReadTwice([](Encoder& out) {
    Header(out, 8, {2});
    out.Bytes(kStringData, std::string_view("a\0b", 3));
    out.Bytes(kStringData, "");
  });
  EXPECT_EQ(strings.Get().Data<std::string>()[0], std::string("a\0b", 3));
  EXPECT_THAT(Raw(DType::kString, {1}, "abc").problem, HasSubstr("raw_data"));
}

TEST(TensorData, SizesThatDoNotFitAreNotedAndTheBytesKept) {
  EXPECT_THAT(Raw(DType::kFloat, {2}, "1234567").problem, HasSubstr("needs 8 bytes, but raw_data holds 7"));
  EXPECT_THAT(Raw(DType::kFloat, {2}, "123456789").problem, HasSubstr("holds 9"));
  EXPECT_THAT(Raw(DType::kFloat, {-1}, "").problem, HasSubstr("negative"));
  EXPECT_THAT(Raw(DType::kFloat, {INT64_MAX, INT64_MAX}, "").problem, HasSubstr("more elements"));
  EXPECT_THAT(Raw(DType::kDouble, {int64_t{1} << 61}, "").problem, HasSubstr("more than can be addressed"));
  EXPECT_THAT(Raw(DType::kFloat, {int64_t{1} << 40}, "").problem, HasSubstr("raw_data holds 0"));
  EXPECT_THAT(Packed(DType::kInt64, {3}, kInt64Data, {1, 2}).problem, HasSubstr("needs 3 numbers"));
  EXPECT_THAT(Packed(DType::kInt64, {3}, kInt32Data, {1, 2, 3}).problem, HasSubstr("int32_data"));
  EXPECT_THAT(ReadTwice([](Encoder& out) { Header(out, 1, {2}); }).problem, HasSubstr("no elements"));
  EXPECT_EQ(ReadTwice([](Encoder& out) { Header(out, 1, {2, 0}); }).problem, "");
  EXPECT_EQ(Raw(DType::kFloat, {0}, "").problem, "");
}

TEST(TensorData, TypesAndPlacesThatDoNotExistAreNoted) {
  StoredTensor unknown = Raw(static_cast<DType>(99), {1}, "1234");
  EXPECT_THAT(unknown.problem, HasSubstr("element type number 99"));
  EXPECT_EQ(unknown.dtype_number, 99);
  EXPECT_THAT(ReadTwice([](Encoder& out) { out.Int(kDims, 1); }).problem, HasSubstr("no element type"));
  EXPECT_THAT(ReadTwice([](Encoder& out) {
                Header(out, 1, {1});
                out.Bytes(kRawData, "1234");
                out.Int(kDataLocation, 5);
              }).problem,
              HasSubstr("data location 5"));
  EXPECT_THAT(ReadTwice([](Encoder& out) {
                Header(out, 1, {1});
                out.Bytes(kRawData, "1234");
                out.Float(kFloatData, 1);
              }).problem,
              HasSubstr("another field"));
}

TEST(TensorData, SmallTensorsAreAlignedAndLargeOnesOnRequest) {
  for (int64_t elements : {4, 5000}) {
    for (size_t shift = 0; shift < 8; ++shift) {
      Model model = WeightModel(elements);
      model.graph.doc = std::string(shift + 1, 'd');
      Model read = FromBytes(SerializeModel(model));
      Tensor tensor = read.graph.initializers[0].Get();
      if (elements == 4) {
        EXPECT_TRUE(tensor.IsAligned(4));
      }
      Tensor usable = AlignedForUse(tensor);
      EXPECT_TRUE(usable.IsAligned(4));
      EXPECT_EQ(tensor.IsAligned(4), usable.raw() == tensor.raw()) << "copied only when it must be";
      EXPECT_TRUE(Identical(usable, model.graph.initializers[0].tensor));
    }
  }
}

}  // namespace
}  // namespace ferry
