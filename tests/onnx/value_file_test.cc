#include "onnx/value_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model_samples.h"
#include "onnx/encoder.h"

namespace ferry {
namespace {

using namespace testing;
using onnx::Encoder;
using ::testing::HasSubstr;

Value Parse(const std::string& bytes, const Type* expected) {
  auto kept = std::make_shared<const std::string>(bytes);
  return ReadValueFromMemory(std::as_bytes(std::span(*kept)), kept, expected);
}

void ExpectComesBack(const Value& value, const Type& type) {
  EXPECT_TRUE(Identical(value, Parse(SerializeValue(value, "name", &type), &type))) << ToText(type);
}

TEST(ValueFile, EveryKindComesBack) {
  Tensor tensor = Tensor::FromVector<float>({1, 2, 3, 4}, {2, 2});
  Type tensor_type = Type::Tensor(DType::kFloat);
  ExpectComesBack(tensor, tensor_type);
  ExpectComesBack(Tensor::FromVector<std::string>({"a", ""}), Type::Tensor(DType::kString));
  Sequence sequence{{tensor, Tensor::Scalar(1.0f)}};
  ExpectComesBack(sequence, Type::SequenceOf(tensor_type));
  ExpectComesBack(Sequence{}, Type::SequenceOf(tensor_type));
  ExpectComesBack(Sequence{{sequence, Sequence{}}}, Type::SequenceOf(Type::SequenceOf(tensor_type)));
  ExpectComesBack(tensor, Type::OptionalOf(tensor_type));
  ExpectComesBack(Nothing{}, Type::OptionalOf(tensor_type));
  ExpectComesBack(sequence, Type::OptionalOf(Type::SequenceOf(tensor_type)));
  ExpectComesBack(Sequence{{tensor, Nothing{}}}, Type::SequenceOf(Type::OptionalOf(tensor_type)));
  ExpectComesBack(Map{Tensor::FromVector<int64_t>({3, -1}), Tensor::FromVector<float>({1, 2})},
                  Type::MapOf(DType::kInt64, tensor_type));
  ExpectComesBack(Map{Tensor::FromVector<std::string>({"x", "y"}), Tensor::FromVector<int64_t>({1, 2})},
                  Type::MapOf(DType::kString, Type::Tensor(DType::kInt64)));
  ExpectComesBack(Map{Tensor::FromVector<int16_t>({-3}), Tensor::FromVector<std::string>({"v"})},
                  Type::MapOf(DType::kInt16, Type::Tensor(DType::kString)));
  ExpectComesBack(SparseTensor{{2, 3}, Tensor::FromVector<float>({5}), Tensor::FromVector<int64_t>({4})},
                  Type::SparseTensor(DType::kFloat));
}

TEST(ValueFile, FaultsNameTheFile) {
  TemporaryFolder folder;
  WriteText(folder / "bad.pb", "\x0a\xff");
  std::string error = ErrorOf([&] { ReadValueFile((folder / "bad.pb").string(), nullptr); });
  EXPECT_THAT(error, HasSubstr("bad.pb"));
  EXPECT_THAT(error, HasSubstr("byte 0"));
  WriteText(folder / "short.pb", std::string("\x08\x02\x10\x01\x4a\x03"
                                             "abc",
                                             9));
  error = ErrorOf([&] { ReadValueFile((folder / "short.pb").string(), nullptr); });
  EXPECT_THAT(error, HasSubstr("short.pb"));
  EXPECT_THAT(error, HasSubstr("needs 8 bytes"));
  EXPECT_THAT(ErrorOf([&] { ReadValueFile((folder / "none.pb").string(), nullptr); }), HasSubstr("no such file"));
}

TEST(ValueFile, HostileValuesAreRefused) {
  Type map = Type::MapOf(DType::kInt64, Type::Tensor(DType::kFloat));
  Encoder more_keys;
  more_keys.Int(onnx::map_field::kKeyType, 7);
  more_keys.Int(onnx::map_field::kKeys, 1);
  EXPECT_THAT(ErrorOf([&] { Parse(more_keys.ToString(), &map); }), HasSubstr("1 keys but 0 values"));
  Encoder bad_type;
  bad_type.Int(onnx::map_field::kKeyType, 1);
  EXPECT_THAT(ErrorOf([&] { Parse(bad_type.ToString(), &map); }), HasSubstr("keys of float"));

  std::string nested;
  for (int i = 0; i < 2'000; ++i) {
    Encoder out;
    out.Bytes(onnx::sequence_field::kSequences, nested);
    nested = out.ToString();
  }
  Type sequence = Type::SequenceOf(Type::Tensor(DType::kFloat));
  EXPECT_THAT(ErrorOf([&] { Parse(nested, &sequence); }), HasSubstr("nested"));

  Encoder external;
  external.Int(onnx::tensor_field::kDataType, 1);
  external.Int(onnx::tensor_field::kDataLocation, 1);
  EXPECT_THAT(ErrorOf([&] { Parse(external.ToString(), nullptr); }), HasSubstr("external data"));
}

}  // namespace
}  // namespace ferry
