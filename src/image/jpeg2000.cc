#include <openjpeg.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "image/image.h"

namespace ferry {
namespace {

// The decoder keeps several integers for each sample, so a claim of many pixels must come with some bytes.
constexpr int64_t kFreePixels = int64_t{1} << 24;
constexpr int64_t kPixelsPerByte = 4096;

struct Source {
  Bytes stream;
  size_t at = 0;
};

OPJ_SIZE_T Read(void* to, OPJ_SIZE_T count, void* user) {
  auto& source = *static_cast<Source*>(user);
  size_t given = std::min<size_t>(count, source.stream.size() - source.at);
  if (given == 0) return static_cast<OPJ_SIZE_T>(-1);
  std::memcpy(to, source.stream.data() + source.at, given);
  source.at += given;
  return given;
}
OPJ_OFF_T Skip(OPJ_OFF_T count, void* user) {
  auto& source = *static_cast<Source*>(user);
  if (count < 0 || source.at >= source.stream.size()) return -1;
  OPJ_OFF_T skipped = std::min<OPJ_OFF_T>(count, static_cast<OPJ_OFF_T>(source.stream.size() - source.at));
  source.at += static_cast<size_t>(skipped);
  return skipped;
}
OPJ_BOOL Seek(OPJ_OFF_T to, void* user) {
  auto& source = *static_cast<Source*>(user);
  if (to < 0 || static_cast<size_t>(to) > source.stream.size()) return OPJ_FALSE;
  source.at = static_cast<size_t>(to);
  return OPJ_TRUE;
}

struct Decoder {
  explicit Decoder(Bytes bytes) : source{bytes} {
    bool boxed = bytes.size() > 4 && bytes[0] == 0;
    codec = opj_create_decompress(boxed ? OPJ_CODEC_JP2 : OPJ_CODEC_J2K);
    stream = opj_stream_create(64 << 10, OPJ_TRUE);
    opj_stream_set_user_data(stream, &source, nullptr);
    opj_stream_set_user_data_length(stream, bytes.size());
    opj_stream_set_read_function(stream, Read);
    opj_stream_set_skip_function(stream, Skip);
    opj_stream_set_seek_function(stream, Seek);
  }
  ~Decoder() {
    opj_stream_destroy(stream);
    opj_destroy_codec(codec);
    opj_image_destroy(image);
  }

  bool ReadHeader() {
    opj_dparameters_t parameters;
    opj_set_default_decoder_parameters(&parameters);
    return opj_setup_decoder(codec, &parameters) && opj_read_header(stream, codec, &image);
  }
  bool ReadPixels() { return opj_decode(codec, stream, image) && opj_end_decompress(codec, stream); }

  Source source;
  opj_codec_t* codec = nullptr;
  opj_stream_t* stream = nullptr;
  opj_image_t* image = nullptr;
};

// One sample as eight bits. Components may be sampled more coarsely than the image.
class Component {
 public:
  Component(const opj_image_comp_t& component, const opj_image_comp_t& first) : c_(component) {
    valid_ = c_.data && c_.w > 0 && c_.h > 0 && c_.prec >= 1 && c_.prec <= 31;
    // Where the first component has `first.w` columns, this one has `c_.w`.
    step_x_ = valid_ ? std::max<OPJ_UINT32>(1, c_.dx / std::max<OPJ_UINT32>(1, first.dx)) : 1;
    step_y_ = valid_ ? std::max<OPJ_UINT32>(1, c_.dy / std::max<OPJ_UINT32>(1, first.dy)) : 1;
    offset_ = c_.sgnd && valid_ ? int64_t{1} << (c_.prec - 1) : 0;
  }
  bool valid() const { return valid_; }
  uint8_t At(OPJ_UINT32 x, OPJ_UINT32 y) const {
    size_t column = std::min(x / step_x_, c_.w - 1), row = std::min(y / step_y_, c_.h - 1);
    int64_t value = c_.data[row * c_.w + column] + offset_, largest = (int64_t{1} << c_.prec) - 1;
    if (c_.prec > 8) value = (value + (int64_t{1} << (c_.prec - 9))) >> (c_.prec - 8);
    if (c_.prec < 8) value = (value * 255 * 2 + largest) / (2 * largest);
    return static_cast<uint8_t>(std::clamp<int64_t>(value, 0, 255));
  }

 private:
  const opj_image_comp_t& c_;
  bool valid_;
  OPJ_UINT32 step_x_, step_y_;
  int64_t offset_;
};

void YccToRgb(uint8_t* pixel) {
  double y = pixel[0], cb = pixel[1] - 128.0, cr = pixel[2] - 128.0;
  double rgb[] = {y + 1.402 * cr, y - 0.344136 * cb - 0.714136 * cr, y + 1.772 * cb};
  for (int c = 0; c < 3; ++c) pixel[c] = static_cast<uint8_t>(std::clamp(rgb[c] + 0.5, 0.0, 255.0));
}

std::optional<Image> Convert(const opj_image_t& decoded) {
  const opj_image_comp_t& first = decoded.comps[0];
  int channels = decoded.numcomps >= 3 ? 3 : 1;
  std::vector<Component> components;
  for (int c = 0; c < channels; ++c) {
    components.emplace_back(decoded.comps[c], first);
    if (!components.back().valid()) return std::nullopt;
  }
  bool coarse_color = channels == 3 && decoded.comps[1].dx != first.dx;
  bool ycc = channels == 3 && (decoded.color_space == OPJ_CLRSPC_SYCC || coarse_color);
  Image image = MakeImage(first.w, first.h, channels);
  uint8_t* to = image.pixels.data();
  for (OPJ_UINT32 y = 0; y < first.h; ++y) {
    for (OPJ_UINT32 x = 0; x < first.w; ++x, to += channels) {
      for (int c = 0; c < channels; ++c) to[c] = components[static_cast<size_t>(c)].At(x, y);
      if (ycc) YccToRgb(to);
    }
  }
  return image;
}

}  // namespace

std::optional<Image> DecodeJpeg2000(Bytes stream) {
  Decoder decoder(stream);
  if (!decoder.codec || !decoder.stream || !decoder.ReadHeader()) return std::nullopt;
  const opj_image_t& header = *decoder.image;
  if (header.numcomps == 0 || header.numcomps > 16 || header.x1 <= header.x0 || header.y1 <= header.y0)
    return std::nullopt;
  int64_t width = int64_t{header.x1} - header.x0, height = int64_t{header.y1} - header.y0;
  CheckImageSize(width, height);
  if (width * height > std::max(kFreePixels, static_cast<int64_t>(stream.size()) * kPixelsPerByte)) return std::nullopt;
  if (!decoder.ReadPixels()) return std::nullopt;
  return Convert(*decoder.image);
}

}  // namespace ferry
