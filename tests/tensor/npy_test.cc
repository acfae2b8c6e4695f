#include "tensor/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "tensor/npz.h"
#include "tests/support/temporary_folder.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;

using testing::TemporaryPath;

// The bytes of a .npy file with the given header text and elements.
std::string MakeNpy(const std::string& dictionary, const std::string& elements, int version = 1) {
  std::string header = dictionary;
  while ((header.size() + 11) % 64 != 0) header.push_back(' ');
  header.push_back('\n');
  std::string out = "\x93NUMPY";
  out.push_back(static_cast<char>(version));
  out.push_back('\0');
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) out.push_back(static_cast<char>(header.size() >> (8 * i)));
  return out + header + elements;
}

std::string Dictionary(const std::string& descr, const std::string& shape, bool fortran = false) {
  return "{'descr': " + descr + ", 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape + ", }";
}

Tensor Read(std::string file) {
  auto keep = std::make_shared<std::string>(std::move(file));
  return ReadNpy(SharedBytes{std::as_bytes(std::span<const char>(*keep)), keep});
}

std::string ErrorOf(const std::string& file) {
  try {
    Read(file);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

std::string Encoded(const Tensor& tensor) {
  NpyPieces pieces = EncodeNpy(tensor);
  return pieces.header + std::string(reinterpret_cast<const char*>(pieces.bytes().data()), pieces.bytes().size());
}

TEST(Npy, EveryTypeComesBack) {
  for (int number = 1; number < kDTypeCount; ++number) {
    auto dtype = static_cast<DType>(number);
    if (dtype == DType::kString) continue;
    Tensor tensor = Tensor::Zeros(dtype, {2, 4});
    for (size_t i = 0; i < tensor.bytes(); ++i)
      tensor.mutable_raw()[i] = static_cast<std::byte>(dtype == DType::kBool ? i % 2 : 0x12 * (i + 1));
    Tensor back = Read(Encoded(tensor));
    EXPECT_TRUE(Identical(back, tensor)) << Name(dtype);
  }
}

TEST(Npy, ElementsBeginAtAMultipleOf64) {
  for (Shape shape : {Shape{}, Shape{7}, Shape{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0}})
    EXPECT_EQ(EncodeNpy(Tensor::Zeros(DType::kFloat, shape)).header.size() % 64, 0u);
}

TEST(Npy, StringsComeBack) {
  Tensor text =
      Tensor::FromVector<std::string>({"a", "", "h\xC3\xA9llo \xF0\x9F\x98\x80", std::string("x\0y", 3)}, {2, 2});
  EXPECT_TRUE(Identical(Read(Encoded(text)), text));
  Tensor bytes = Tensor::FromVector<std::string>({"\xff\xfe", "ab"});
  EXPECT_THAT(EncodeNpy(bytes).header, HasSubstr("|S2"));
  EXPECT_TRUE(Identical(Read(Encoded(bytes)), bytes));
  EXPECT_THROW(EncodeNpy(Tensor::FromVector<std::string>({std::string("a\0", 2)})), Error);
}

TEST(Npy, ReadsBigEndianAndFortranOrder) {
  std::string big = MakeNpy(Dictionary("'>i2'", "(2, 3)", true), std::string("\0\1\0\2\0\3\0\4\0\5\0\6", 12));
  Tensor tensor = Read(big);
  EXPECT_EQ(tensor.dtype(), DType::kInt16);
  EXPECT_EQ(ToInt64Vector(tensor), (std::vector<int64_t>{1, 3, 5, 2, 4, 6}));
  Tensor text = Read(MakeNpy(Dictionary("'|S1'", "(2, 2)", true), "acbd"));
  EXPECT_EQ(text.Data<std::string>()[1], "b");
  Tensor complex = Read(MakeNpy(Dictionary("'>c8'", "(1,)"), std::string("\x3f\x80\0\0\x40\0\0\0", 8)));
  EXPECT_EQ(complex.Data<std::complex<float>>()[0], std::complex<float>(1, 2));
}

TEST(Npy, ReadsLaterVersionsAndLaxSpelling) {
  for (int version : {1, 2, 3})
    EXPECT_EQ(ToInt64Vector(Read(MakeNpy(Dictionary("'|u1'", "(3L,)"), "\1\2\3", version))),
              (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(Read(MakeNpy("{\"shape\":(),\"fortran_order\":False,\"descr\":\"|u1\"}", "\5")).rank(), 0u);
}

TEST(Npy, TakesRawVoidOfTwoBytesForBFloat16) {
  EXPECT_EQ(Read(MakeNpy(Dictionary("'<V2'", "(1,)"), "\x80\x3f")).dtype(), DType::kBFloat16);
  EXPECT_THAT(ErrorOf(MakeNpy(Dictionary("'|V1'", "(1,)"), "\x80")), HasSubstr("view(numpy.uint8)"));
}

TEST(Npy, BoolsAreZeroOrOne) {
  Tensor tensor = Read(MakeNpy(Dictionary("'|b1'", "(3,)"), std::string("\0\1\7", 3)));
  EXPECT_EQ(tensor.raw()[2], std::byte{1});
}

TEST(Npy, MapsAlignedElementsAndCopiesOthers) {
  std::string path = TemporaryPath("mapped.npy");
  Tensor tensor = Tensor::FromVector<float>({1, 2, 3});
  WriteNpy(path, tensor);
  Tensor back = ReadNpy(path);
  EXPECT_TRUE(back.buffer()->is_borrowed());
  EXPECT_TRUE(Identical(back, tensor));
  auto keep = std::make_shared<std::string>("x" + Encoded(tensor));
  Tensor copied = ReadNpy(SharedBytes{std::as_bytes(std::span<const char>(*keep)).subspan(1), keep});
  EXPECT_TRUE(copied.IsAligned(4));
  EXPECT_TRUE(Identical(copied, tensor));
}

TEST(Npy, RefusesObjectsAndUnknownTypes) {
  EXPECT_THAT(ErrorOf(MakeNpy(Dictionary("'|O'", "(1,)"), "x")), HasSubstr("Python objects"));
  for (std::string descr : {"'<f16'", "'<M8[ns]'", "'<f3'", "''", "'<'", "[('a', '<f4'), ('b', '<f4')]",
                            "[('a', '<f4')]", "[('float8e5m2', '<u2')]", "[('a', [('b', '<f4')])]", "('<f4', (2,))"})
    EXPECT_NE(ErrorOf(MakeNpy(Dictionary(descr, "(1,)"), "\0\0\0\0")), "") << descr;
}

TEST(Npy, RefusesHeadersThatLie) {
  std::string four(4, '\0');
  for (std::string shape : {"(2,)", "(-1,)", "(99999999999999999999,)", "(4294967296, 4294967296, 4)", "1", "(1",
                            "(1 1)", "(1,,)", "(1.0,)"})
    EXPECT_NE(ErrorOf(MakeNpy(Dictionary("'<f4'", shape), four)), "") << shape;
  EXPECT_NE(ErrorOf(MakeNpy(Dictionary("'<U0'", "(1000000000000,)"), "")), "");
  EXPECT_NE(ErrorOf(MakeNpy(Dictionary("'<U99999999999999'", "(1,)"), "")), "");
  EXPECT_NE(ErrorOf(MakeNpy("{'descr': '<f4', 'shape': (1,), }", four)), "");
  EXPECT_NE(ErrorOf(MakeNpy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", four)), "");
  EXPECT_NE(ErrorOf(MakeNpy("{'descr': __import__('os').system('x'), 'fortran_order': False, 'shape': (1,), }", four)),
            "");
  EXPECT_NE(ErrorOf(MakeNpy(Dictionary("'<f4'", "(1,)"), four, 9)), "");
  EXPECT_NE(ErrorOf(MakeNpy(Dictionary("'<U1'", "(1,)"), std::string("\0\0\x11\0", 4))), "");
}

TEST(Npy, RefusesEveryCut) {
  std::string file = Encoded(Tensor::FromVector<float>({1, 2, 3, 4, 5, 6}, {2, 3}));
  ASSERT_EQ(ErrorOf(file), "");
  for (size_t length = 0; length < file.size(); ++length) EXPECT_NE(ErrorOf(file.substr(0, length)), "") << length;
}

TEST(Npz, ComesBackInOrder) {
  std::string path = TemporaryPath("order.npz");
  NamedTensors tensors = {{"z", Tensor::FromVector<float>({1, 2})},
                          {"a/b", Tensor::FromVector<int64_t>({1}, {1, 1})},
                          {"half", Tensor::Zeros(DType::kBFloat16, {3})},
                          {"empty", Tensor::Zeros(DType::kDouble, {0, 4})}};
  WriteNpz(path, tensors);
  NamedTensors back = ReadNpz(path);
  ASSERT_EQ(back.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(back[i].first, tensors[i].first);
    EXPECT_TRUE(Identical(back[i].second, tensors[i].second));
  }
  EXPECT_TRUE(back[0].second.buffer()->is_borrowed());
}

TEST(Npz, RefusesEveryCut) {
  std::string path = TemporaryPath("whole.npz"), cut_path = TemporaryPath("cut.npz");
  WriteNpz(path, {{"x", Tensor::FromVector<float>({1, 2})}, {"y", Tensor::FromVector<bool>({true, false})}});
  std::ifstream stream(path, std::ios::binary);
  std::string file((std::istreambuf_iterator<char>(stream)), {});
  for (size_t length = 0; length < file.size(); ++length) {
    std::ofstream(cut_path, std::ios::binary) << file.substr(0, length);
    EXPECT_THROW(ReadNpz(cut_path), Error) << length;
  }
}

class WithNumpy : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") != 0) GTEST_SKIP() << "numpy is not installed";
  }
  static int Python(const std::string& code) { return std::system(("/usr/bin/python3 -c \"" + code + "\"").c_str()); }
};

TEST_F(WithNumpy, NumpyReadsWhatWeWrite) {
  std::string path = TemporaryPath("ours.npz");
  WriteNpz(path, {{"f", Tensor::FromVector<float>({1.5f, -2}, {1, 2})},
                  {"t", Tensor::FromVector<std::string>({"h\xC3\xA9", "abc"})},
                  {"b", Tensor::FromVector<BFloat16>({{0x3f80}})},
                  {"i", Tensor::Pack(DType::kInt4, Tensor::FromVector<int8_t>({-8, 7, 1}))},
                  {"s", Tensor::Scalar<int64_t>(7)}});
  EXPECT_EQ(Python("import numpy as n; d = n.load('" + path +
                   "'); assert d['f'].tolist() == [[1.5, -2]] and d['t'].tolist() == ['h\\u00e9', 'abc'] and "
                   "d['b']['bfloat16'].tolist() == [0x3f80] and d['i']['int4'].tolist() == [-8, 7, 1] and d['s'] == 7"),
            0);
}

TEST_F(WithNumpy, WeReadWhatNumpyWrites) {
  std::string path = TemporaryPath("theirs.npz");
  for (std::string save : {"savez", "savez_compressed"}) {
    ASSERT_EQ(Python("import numpy as n; n." + save + "('" + path +
                     "', f=n.asfortranarray(n.arange(6.).reshape(2, 3)), t=n.array(['h\\u00e9', 'abc']), "
                     "h=n.array([1, 2], '>f2'), c=n.array(1+2j), b=n.array([True, False]), e=n.zeros((0, 3), 'u1'))"),
              0);
    NamedTensors back = ReadNpz(path);
    ASSERT_EQ(back.size(), 6u);
    EXPECT_TRUE(Identical(back[0].second, Tensor::FromVector<double>({0, 1, 2, 3, 4, 5}, {2, 3})));
    EXPECT_TRUE(Identical(back[1].second, Tensor::FromVector<std::string>({"h\xC3\xA9", "abc"})));
    EXPECT_TRUE(Identical(back[2].second, Tensor::FromVector<Float16>({{0x3c00}, {0x4000}})));
    EXPECT_TRUE(Identical(back[3].second, Tensor::Scalar(std::complex<double>(1, 2))));
    EXPECT_TRUE(Identical(back[4].second, Tensor::FromVector<bool>({true, false})));
    EXPECT_EQ(back[5].second.shape(), (Shape{0, 3}));
  }
}

}  // namespace
}  // namespace ferry
