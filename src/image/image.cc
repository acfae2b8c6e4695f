#include "image/image.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"

namespace ferry {
namespace {

// Larger than any camera's picture; a few kilobytes can claim to be more.
constexpr int64_t kMostPixels = int64_t{1} << 28;
constexpr int64_t kLongestSide = int64_t{1} << 20;

bool StartsWith(Bytes stream, std::string_view magic, size_t at = 0) {
  return stream.size() >= at + magic.size() &&
         std::equal(magic.begin(), magic.end(), stream.begin() + static_cast<std::ptrdiff_t>(at),
                    [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
}

using namespace std::string_view_literals;

bool IsTiff(Bytes stream) {
  return StartsWith(stream, "II*\0"sv) || StartsWith(stream, "MM\0*"sv) || StartsWith(stream, "II+\0"sv) ||
         StartsWith(stream, "MM\0+"sv);
}
bool IsJpeg2000(Bytes stream) {
  return StartsWith(stream, "\0\0\0\x0cjP  "sv) || StartsWith(stream, "\xff\x4f\xff\x51"sv);
}
bool IsPnm(Bytes stream) { return stream.size() > 2 && stream[0] == 'P' && stream[1] >= '1' && stream[1] <= '7'; }

}  // namespace

std::optional<Image> DecodeImage(Bytes stream) {
  if (StartsWith(stream, "BM")) return DecodeBmp(stream);
  if (IsPnm(stream)) return DecodePnm(stream);
  if (StartsWith(stream, "\xff\xd8\xff")) return DecodeBy(Codec::kJpeg, stream);
  if (StartsWith(stream, "\x89PNG\r\n\x1a\n")) return DecodeBy(Codec::kPng, stream);
  if (StartsWith(stream, "RIFF") && StartsWith(stream, "WEBP", 8)) return DecodeBy(Codec::kWebp, stream);
  if (IsTiff(stream)) return DecodeBy(Codec::kTiff, stream);
  if (IsJpeg2000(stream)) return DecodeBy(Codec::kJpeg2000, stream);
  return std::nullopt;
}

void CheckImageSize(int64_t width, int64_t height) {
  if (width > kLongestSide || height > kLongestSide || (height > 0 && width > kMostPixels / height))
    Fail(ErrorCode::kLimit, "an image of ", width, " × ", height, " pixels is larger than the ", kMostPixels,
         " pixels that are decoded at most");
}

Image MakeImage(int64_t width, int64_t height, int channels) {
  CheckImageSize(width, height);
  return {height, width, channels, std::vector<uint8_t>(static_cast<size_t>(width * height * channels))};
}

Image ToGray(const Image& image) {
  if (image.channels == 1) return image;
  Image gray = MakeImage(image.width, image.height, 1);
  const uint8_t* rgb = image.pixels.data();
  for (uint8_t& value : gray.pixels) {
    value = static_cast<uint8_t>((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
    rgb += 3;
  }
  return gray;
}

Image ToColor(Image image) {
  if (image.channels == 3) return image;
  Image color = MakeImage(image.width, image.height, 3);
  uint8_t* rgb = color.pixels.data();
  for (uint8_t value : image.pixels) rgb = std::fill_n(rgb, 3, value);
  return color;
}

}  // namespace ferry
