#include <tiffio.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "image/image.h"

namespace {
// The compression of the file being opened that this build leaves out, for the error message.
thread_local const char* left_out_compression = nullptr;

int LeaveOut(const char* name) {
  left_out_compression = name;
  return 0;
}
}  // namespace

// libtiff's table of codecs names these. Defined here, they keep four rarely used compression libraries (and their
// encoders, 1.8 MB together) out of a static build.
extern "C" {
int TIFFInitLERC(TIFF*, int) { return LeaveOut("LERC"); }
int TIFFInitZSTD(TIFF*, int) { return LeaveOut("Zstandard"); }
int TIFFInitLZMA(TIFF*, int) { return LeaveOut("LZMA"); }
int TIFFInitWebP(TIFF*, int) { return LeaveOut("WebP"); }
int TIFFInitJBIG(TIFF*, int) { return LeaveOut("JBIG"); }
}

namespace ferry {
namespace {

constexpr tmsize_t kLargestAllocation = tmsize_t{2} << 30;

struct Source {
  Bytes stream;
  size_t at = 0;
};
Source& SourceOf(thandle_t handle) { return *static_cast<Source*>(handle); }

tmsize_t Read(thandle_t handle, void* to, tmsize_t count) {
  Source& source = SourceOf(handle);
  size_t given = std::min(static_cast<size_t>(count), source.stream.size() - std::min(source.at, source.stream.size()));
  if (given > 0) std::memcpy(to, source.stream.data() + source.at, given);
  source.at += given;
  return static_cast<tmsize_t>(given);
}
tmsize_t Write(thandle_t, void*, tmsize_t) { return 0; }
toff_t Seek(thandle_t handle, toff_t offset, int whence) {
  Source& source = SourceOf(handle);
  size_t base = whence == SEEK_CUR ? source.at : whence == SEEK_END ? source.stream.size() : 0;
  source.at = base + static_cast<size_t>(offset);
  return source.at;
}
int Close(thandle_t) { return 0; }
toff_t Size(thandle_t handle) { return SourceOf(handle).stream.size(); }
int Map(thandle_t, void**, toff_t*) { return 0; }
void Unmap(thandle_t, void*, toff_t) {}
int Ignore(TIFF*, void*, const char*, const char*, va_list) { return 1; }

using Handle = std::unique_ptr<TIFF, void (*)(TIFF*)>;

Handle OpenTiff(Source& source) {
  std::unique_ptr<TIFFOpenOptions, void (*)(TIFFOpenOptions*)> options(TIFFOpenOptionsAlloc(), TIFFOpenOptionsFree);
  if (!options) return {nullptr, TIFFClose};
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), kLargestAllocation);
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), Ignore, nullptr);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), Ignore, nullptr);
  return {TIFFClientOpenExt("stream", "rm", &source, Read, Write, Seek, Close, Size, Map, Unmap, options.get()),
          TIFFClose};
}

}  // namespace

std::optional<Image> DecodeTiff(Bytes stream) {
  Source source{stream};
  left_out_compression = nullptr;
  Handle tiff = OpenTiff(source);
  if (left_out_compression)
    Fail(ErrorCode::kUnsupported, "TIFF images with ", left_out_compression, " compression cannot be decoded");
  uint32_t width = 0, height = 0;
  if (!tiff || !TIFFGetField(tiff.get(), TIFFTAG_IMAGEWIDTH, &width) ||
      !TIFFGetField(tiff.get(), TIFFTAG_IMAGELENGTH, &height) || width == 0 || height == 0)
    return std::nullopt;
  CheckImageSize(width, height);
  std::vector<uint32_t> raster(size_t{width} * height);
  if (!TIFFReadRGBAImageOriented(tiff.get(), width, height, raster.data(), ORIENTATION_TOPLEFT, 1)) return std::nullopt;
  Image image = MakeImage(width, height, 3);
  uint8_t* to = image.pixels.data();
  for (uint32_t pixel : raster) {
    *to++ = static_cast<uint8_t>(TIFFGetR(pixel));
    *to++ = static_cast<uint8_t>(TIFFGetG(pixel));
    *to++ = static_cast<uint8_t>(TIFFGetB(pixel));
  }
  return image;
}

}  // namespace ferry
