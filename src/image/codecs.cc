#include "image/image.h"

namespace ferry {

std::optional<Image> DecodeBy(Codec codec, Bytes stream) {
  switch (codec) {
    case Codec::kJpeg: return DecodeJpeg(stream);
    case Codec::kJpeg2000: return DecodeJpeg2000(stream);
    case Codec::kPng: return DecodePng(stream);
    case Codec::kTiff: return DecodeTiff(stream);
    case Codec::kWebp: return DecodeWebp(stream);
  }
  return std::nullopt;
}

}  // namespace ferry
