#include <webp/decode.h>
#include <webp/demux.h>

#include <memory>

#include "image/image.h"

namespace ferry {
namespace {

// The first picture of an animation, on its canvas.
std::optional<Image> DecodeFirstFrame(Bytes stream) {
  WebPData data{stream.data(), stream.size()};
  std::unique_ptr<WebPAnimDecoder, void (*)(WebPAnimDecoder*)> decoder(WebPAnimDecoderNew(&data, nullptr),
                                                                       WebPAnimDecoderDelete);
  WebPAnimInfo info;
  uint8_t* canvas = nullptr;
  int timestamp = 0;
  if (!decoder || !WebPAnimDecoderGetInfo(decoder.get(), &info) ||
      !WebPAnimDecoderGetNext(decoder.get(), &canvas, &timestamp))
    return std::nullopt;
  Image image = MakeImage(info.canvas_width, info.canvas_height, 3);
  const uint8_t* rgba = canvas;
  for (size_t i = 0; i < image.pixels.size(); i += 3, rgba += 4)
    for (size_t c = 0; c < 3; ++c) image.pixels[i + c] = rgba[c];
  return image;
}

}  // namespace

std::optional<Image> DecodeWebp(Bytes stream) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(stream.data(), stream.size(), &features) != VP8_STATUS_OK) return std::nullopt;
  CheckImageSize(features.width, features.height);
  if (features.has_animation) return DecodeFirstFrame(stream);
  Image image = MakeImage(features.width, features.height, 3);
  if (!WebPDecodeRGBInto(stream.data(), stream.size(), image.pixels.data(), image.pixels.size(), features.width * 3))
    return std::nullopt;
  return image;
}

}  // namespace ferry
