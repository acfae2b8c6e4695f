#include "image/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "onnx/value_file.h"
#include "tests/support/nodes.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;
using Pixels = std::vector<uint8_t>;

Bytes AsBytes(const std::string& text) { return {reinterpret_cast<const uint8_t*>(text.data()), text.size()}; }
std::optional<Image> Decode(const std::string& text) { return DecodeImage(AsBytes(text)); }

TEST(Pnm, ReadsEveryKind) {
  EXPECT_EQ(Decode("P1 # a comment\n3 1\n101")->pixels, (Pixels{0, 255, 0}));
  EXPECT_EQ(Decode("P2\n2 1\n10\n5 10\n")->pixels, (Pixels{128, 255}));
  EXPECT_EQ(Decode("P3 1 1 255 1 2 3")->pixels, (Pixels{1, 2, 3}));
  EXPECT_EQ(Decode("P4\n9 1\n\x80\x80")->pixels, (Pixels{0, 255, 255, 255, 255, 255, 255, 255, 0}));
  EXPECT_EQ(Decode(std::string("P5\n2 1\n65535\n\xff\xff\x80\x00", 18))->pixels, (Pixels{255, 128}));
  EXPECT_EQ(Decode("P6\n1 1\n255\nabc")->pixels, (Pixels{'a', 'b', 'c'}));
  EXPECT_EQ(Decode("P7\nWIDTH 1\nHEIGHT 1\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB_ALPHA\nENDHDR\nabcd")->pixels,
            (Pixels{'a', 'b', 'c'}));
}

TEST(Pnm, RefusesDamage) {
  for (const char* text :
       {"P5\n2 2\n255\nab", "P5\n-1 2\n255\nab", "P5\n2", "P2 2 2 255 1 2 x", "P5\n1 1\n0\na", "P5\n1 1\n70000\nab"})
    EXPECT_FALSE(Decode(text)) << text;
  EXPECT_THAT(testing::ErrorOf([] { Decode("P5\n999999 999999\n255\nab"); }), HasSubstr("larger than"));
}

void Put(std::string& out, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(i < 4 ? value >> (8 * i) & 255 : 0));
}

// A bitmap with a 40-byte header.
std::string Bmp(int32_t width, int32_t height, uint32_t bits, uint32_t compression, const std::string& palette,
                const std::string& data) {
  std::string out = "BM";
  Put(out, 0, 8);
  Put(out, static_cast<uint32_t>(54 + palette.size()), 4);
  Put(out, 40, 4);
  Put(out, static_cast<uint32_t>(width), 4);
  Put(out, static_cast<uint32_t>(height), 4);
  Put(out, 1, 2);
  Put(out, bits, 2);
  Put(out, compression, 4);
  Put(out, 0, 12);
  Put(out, static_cast<uint32_t>(palette.size() / 4), 4);
  Put(out, 0, 4);
  return out + palette + data;
}

TEST(Bmp, ReadsPalettesBitFieldsAndRunLengths) {
  std::string two("\0\0\0\0\x30\x20\x10\0", 8), padding(3, '\0');
  EXPECT_EQ(Decode(Bmp(2, 1, 1, 0, two, "\x40" + padding))->pixels, (Pixels{0, 0, 0, 16, 32, 48}));
  EXPECT_EQ(Decode(Bmp(2, 1, 4, 0, two, "\x10" + padding))->pixels, (Pixels{16, 32, 48, 0, 0, 0}));
  EXPECT_EQ(Decode(Bmp(3, 1, 8, 1, two, std::string("\x02\x01\x00\x01", 4)))->pixels,
            (Pixels{16, 32, 48, 16, 32, 48, 0, 0, 0}));
  EXPECT_EQ(Decode(Bmp(3, 1, 4, 2, two, std::string("\x03\x10\x00\x01", 4)))->pixels,
            (Pixels{16, 32, 48, 0, 0, 0, 16, 32, 48}));
  EXPECT_EQ(Decode(Bmp(1, 1, 16, 0, "", std::string("\x00\x7c\0\0", 4)))->pixels, (Pixels{255, 0, 0}));
  std::string masks("\xff\0\0\0\0\xff\0\0\0\0\xff\0", 12), pixel("\x01\x02\x03\x04", 4);
  std::string fields = Bmp(1, 1, 32, 3, "", masks + pixel);
  fields[10] = 66;
  EXPECT_EQ(Decode(fields)->pixels, (Pixels{1, 2, 3}));
  // The first row of the file is the lowest, unless the height is negative.
  std::string rows("\1\2\3\0\4\5\6\0", 8);
  EXPECT_EQ(Decode(Bmp(1, 2, 24, 0, "", rows))->pixels, (Pixels{6, 5, 4, 3, 2, 1}));
  EXPECT_EQ(Decode(Bmp(1, -2, 24, 0, "", rows))->pixels, (Pixels{3, 2, 1, 6, 5, 4}));
}

TEST(Bmp, RefusesDamage) {
  EXPECT_FALSE(Decode(Bmp(2, 2, 24, 0, "", "abc")));
  EXPECT_FALSE(Decode(Bmp(2, 2, 7, 0, "", std::string(64, 'x'))));
  EXPECT_FALSE(Decode(Bmp(2, 2, 8, 1, "", std::string("\x00\x09zz", 4))));
  EXPECT_FALSE(Decode("BM"));
  EXPECT_THAT(testing::ErrorOf([] { Decode(Bmp(0x7fffffff, 0x7fffffff, 24, 0, "", "abc")); }),
              HasSubstr("larger than"));
}

TEST(Image, ConvertsBetweenGrayAndColor) {
  Image color{1, 1, 3, {255, 0, 0}};
  EXPECT_EQ(ToGray(color).pixels, (Pixels{76}));
  EXPECT_EQ(ToColor(Image{1, 1, 1, {9}}).pixels, (Pixels{9, 9, 9}));
}

TEST(ImageDecoder, GivesAnEmptyImageForWhatItCannotDecode) {
  Node node = testing::OneNode("ImageDecoder", 1);
  EXPECT_EQ(testing::RunNode(node, {Tensor::FromVector<uint8_t>({1, 2, 3})})[0].tensor().shape(), (Shape{0, 0, 3}));
  node.Set("pixel_format", std::string("Grayscale"));
  EXPECT_EQ(testing::RunNode(node, {Tensor(DType::kUInt8, {0})})[0].tensor().shape(), (Shape{0, 0, 1}));
  node.Set("pixel_format", std::string("CMYK"));
  EXPECT_THAT(testing::ErrorOf([&] { testing::RunNode(node, {Tensor::FromVector<uint8_t>({1})}); }),
              HasSubstr("RGB, BGR or Grayscale"));
}

#ifdef FERRY_IMAGE
// Every format's conformance case, cut short and with bytes changed: answered or refused, never a crash.
TEST(Image, SurvivesDamagedStreams) {
  std::mt19937 random(7);
  for (const char* name : {"bmp_rgb", "jpeg2k_rgb", "jpeg_rgb", "png_rgb", "pnm_rgb", "tiff_rgb", "webp_rgb"}) {
    std::string path =
        Cat(FERRY_TEST_DATA, "/onnx-node/test_image_decoder_decode_", name, "/test_data_set_0/input_0.pb");
    Tensor stream = ReadValueFile(path, nullptr).tensor();
    std::span<const uint8_t> bytes = stream.Span<uint8_t>();
    ASSERT_TRUE(DecodeImage(bytes)) << name;
    EXPECT_FALSE(DecodeImage(bytes.first(bytes.size() / 2))) << name;
    for (int round = 0; round < 300; ++round) {
      Pixels damaged(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(round % 3 == 0 ? random() % bytes.size()
                                                                                               : bytes.size()));
      for (int change = 0; change < round % 8 && !damaged.empty(); ++change)
        damaged[random() % std::min<size_t>(damaged.size(), round % 2 ? 64 : damaged.size())] =
            static_cast<uint8_t>(random());
      try {
        DecodeImage(damaged);
      } catch (const Error&) {
      }
    }
  }
}
#endif

}  // namespace
}  // namespace ferry
