#include <png.h>

#include <cstring>

#include "image/image.h"

namespace ferry {
namespace {

constexpr png_alloc_size_t kLargestChunk = 64 << 20;

struct Decoder {
  explicit Decoder(Bytes bytes) : rest(bytes) {
    png = png_create_read_struct(
        PNG_LIBPNG_VER_STRING, nullptr, [](png_structp p, png_const_charp) { png_longjmp(p, 1); },
        [](png_structp, png_const_charp) {});
    if (png) info = png_create_info_struct(png);
  }
  ~Decoder() { png_destroy_read_struct(&png, &info, nullptr); }

  static void Read(png_structp png, png_bytep to, size_t count) {
    auto& self = *static_cast<Decoder*>(png_get_io_ptr(png));
    if (count > self.rest.size()) png_error(png, "the stream ends");
    std::memcpy(to, self.rest.data(), count);
    self.rest = self.rest.subspan(count);
  }

  png_structp png = nullptr;
  png_infop info = nullptr;
  Bytes rest;
};

// Apart from DecodePng, so that a jump out of the library crosses no object that must be destroyed.
bool ReadPixels(Decoder& decoder, size_t stream_size, Image& image, std::vector<png_bytep>& rows) {
  png_structp png = decoder.png;
  if (setjmp(png_jmpbuf(png))) return false;
  png_set_read_fn(png, &decoder, Decoder::Read);
  png_set_chunk_malloc_max(png, kLargestChunk);
  png_set_user_limits(png, 0x7fffffff, 0x7fffffff);
  png_read_info(png, decoder.info);
  png_uint_32 width = png_get_image_width(png, decoder.info), height = png_get_image_height(png, decoder.info);
  CheckImageSize(width, height);
  // Deflate makes nothing more than 1032 times smaller.
  if (png_get_rowbytes(png, decoder.info) * height / 1040 > stream_size) return false;
  png_set_expand(png);
  png_set_strip_16(png);
  png_set_strip_alpha(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, decoder.info);
  int channels = png_get_channels(png, decoder.info);
  if (channels != 1 && channels != 3) return false;
  image = MakeImage(width, height, channels);
  rows.resize(height);
  for (png_uint_32 y = 0; y < height; ++y)
    rows[y] = image.pixels.data() + size_t{y} * width * static_cast<size_t>(channels);
  png_read_image(png, rows.data());
  png_read_end(png, nullptr);
  return true;
}

}  // namespace

std::optional<Image> DecodePng(Bytes stream) {
  Decoder decoder(stream);
  if (!decoder.info) return std::nullopt;
  Image image;
  std::vector<png_bytep> rows;
  if (!ReadPixels(decoder, stream.size(), image, rows)) return std::nullopt;
  return image;
}

}  // namespace ferry
