// Encoded images to pixels: the formats of ONNX's ImageDecoder. Nothing here trusts the stream: sizes are checked
// before memory is taken, and a stream that does not decode is an answer, not an error.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ferry {

struct Image {
  int64_t height = 0;
  int64_t width = 0;
  int channels = 3;             // 3: red, green, blue; 1: gray. Transparency is dropped.
  std::vector<uint8_t> pixels;  // row by row, channels together
};

using Bytes = std::span<const uint8_t>;

// The image in the stream, told apart by its first bytes: BMP, JPEG, JPEG 2000, PNG, PNM, TIFF, WebP. Nothing when the
// stream is damaged or of another format; kLimit when it is larger than is ever decoded; kUnsupported when it uses
// something this build lacks.
std::optional<Image> DecodeImage(Bytes stream);

Image ToGray(const Image& image);  // ITU-R 601 luma, as Pillow rounds it
Image ToColor(Image image);        // three equal channels from one

// For the decoders: throws kLimit for absurd sizes.
Image MakeImage(int64_t width, int64_t height, int channels);
void CheckImageSize(int64_t width, int64_t height);

std::optional<Image> DecodeBmp(Bytes stream);
std::optional<Image> DecodePnm(Bytes stream);

// The formats that need a library. Programs are linked with codecs.cc, or with no_codecs.cc, which refuses them all.
enum class Codec { kJpeg, kJpeg2000, kPng, kTiff, kWebp };
std::optional<Image> DecodeBy(Codec codec, Bytes stream);

std::optional<Image> DecodeJpeg(Bytes stream);
std::optional<Image> DecodeJpeg2000(Bytes stream);
std::optional<Image> DecodePng(Bytes stream);
std::optional<Image> DecodeTiff(Bytes stream);
std::optional<Image> DecodeWebp(Bytes stream);

}  // namespace ferry
