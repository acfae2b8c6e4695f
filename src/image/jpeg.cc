#include <csetjmp>
#include <cstdio>
// jpeglib.h needs FILE declared before it.
#include <jerror.h>
#include <jpeglib.h>

#include "image/image.h"

namespace ferry {
namespace {

constexpr int kMostScans = 500;  // a progressive stream of a few bytes per scan would keep the decoder busy for hours

struct ErrorState {
  jpeg_error_mgr manager;
  std::jmp_buf back;
  bool truncated = false;
};

ErrorState& StateOf(j_common_ptr info) { return *reinterpret_cast<ErrorState*>(info->err); }

struct Decoder {
  Decoder() {
    info.err = jpeg_std_error(&errors.manager);
    errors.manager.error_exit = [](j_common_ptr common) { std::longjmp(StateOf(common).back, 1); };
    errors.manager.output_message = [](j_common_ptr) {};
    errors.manager.emit_message = [](j_common_ptr common, int) {
      if (common->err->msg_code == JWRN_JPEG_EOF) StateOf(common).truncated = true;
    };
    progress.progress_monitor = [](j_common_ptr common) {
      if (reinterpret_cast<j_decompress_ptr>(common)->input_scan_number > kMostScans)
        std::longjmp(StateOf(common).back, 1);
    };
  }
  ~Decoder() { jpeg_destroy_decompress(&info); }

  jpeg_decompress_struct info{};
  ErrorState errors;
  jpeg_progress_mgr progress{};
};

// Printers' colors, the way Pillow turns them into red, green and blue.
void CmykToRgb(const uint8_t* cmyk, uint8_t* rgb, int64_t width, bool inverted) {
  for (int64_t x = 0; x < width; ++x, cmyk += 4, rgb += 3) {
    int white = inverted ? cmyk[3] : 255 - cmyk[3];
    for (int c = 0; c < 3; ++c) {
      int ink = inverted ? 255 - cmyk[c] : cmyk[c], product = ink * white + 128;
      rgb[c] = static_cast<uint8_t>(white - (((product >> 8) + product) >> 8));
    }
  }
}

// Apart from DecodeJpeg, so that a jump out of the library crosses no object that must be destroyed.
bool ReadPixels(Decoder& decoder, Bytes stream, Image& image, std::vector<uint8_t>& row) {
  jpeg_decompress_struct& info = decoder.info;
  if (setjmp(decoder.errors.back)) return false;
  jpeg_create_decompress(&info);
  info.progress = &decoder.progress;
  jpeg_mem_src(&info, stream.data(), stream.size());
  if (jpeg_read_header(&info, TRUE) != JPEG_HEADER_OK) return false;
  bool cmyk = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  bool gray = info.jpeg_color_space == JCS_GRAYSCALE;
  info.out_color_space = cmyk ? JCS_CMYK : gray ? JCS_GRAYSCALE : JCS_RGB;
  image = MakeImage(info.image_width, info.image_height, gray ? 1 : 3);
  jpeg_start_decompress(&info);
  row.resize(cmyk ? static_cast<size_t>(image.width) * 4 : 0);
  while (info.output_scanline < info.output_height) {
    uint8_t* to = image.pixels.data() + info.output_scanline * image.width * image.channels;
    JSAMPROW target = cmyk ? row.data() : to;
    jpeg_read_scanlines(&info, &target, 1);
    if (cmyk) CmykToRgb(row.data(), to, image.width, info.saw_Adobe_marker);
    if (decoder.errors.truncated) return false;
  }
  jpeg_finish_decompress(&info);
  return !decoder.errors.truncated;
}

}  // namespace

std::optional<Image> DecodeJpeg(Bytes stream) {
  Decoder decoder;
  Image image;
  std::vector<uint8_t> row;
  if (!ReadPixels(decoder, stream, image, row)) return std::nullopt;
  return image;
}

}  // namespace ferry
