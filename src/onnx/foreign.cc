#include "onnx/foreign.h"

#include <algorithm>
#include <cstdint>

namespace ferry::onnx {
namespace {

using std::string_view_literals::operator""sv;

struct Magic {
  size_t offset;
  std::string_view bytes;
  const char* meaning;
};

constexpr Magic kMagics[] = {
    {0, "PK\3\4"sv,
     "a zip archive, as PyTorch's .pt2, .pt and .pth files are; use 'ferry export' to make a .onnx of it"},
    {0, "PK\5\6"sv, "an empty zip archive"},
    {0, "\x80\2"sv,
     "a Python pickle, as PyTorch wrote checkpoints before version 1.6; save the model again from PyTorch"},
    {0, "\x80\3"sv, "a Python pickle"},
    {0, "\x80\4\x95"sv, "a Python pickle"},
    {0, "\x80\5\x95"sv, "a Python pickle"},
    {0, "\x89HDF\r\n\x1a\n"sv, "an HDF5 file, as Keras writes; convert it to ONNX with tf2onnx or keras first"},
    {0, "\x93NUMPY"sv, "a numpy .npy file: input data, not a model"},
    {0, "GGUF"sv, "a GGUF file (llama.cpp)"},
    {4, "TFL3"sv, "a TensorFlow Lite model"},
    {4, "ORTM"sv, "a model in ONNX Runtime's own .ort format; use the .onnx it was made from"},
    {0, "\x1f\x8b\x08"sv, "a gzip archive; unpack it first"},
    {0, "\xfd\x37zXZ"sv, "an xz archive; unpack it first"},
    {0, "\x28\xb5\x2f\xfd"sv, "a zstd archive; unpack it first"},
    {0, "BZh"sv, "a bzip2 archive; unpack it first"},
    {0, "7z\xbc\xaf\x27\x1c"sv, "a 7-Zip archive; unpack it first"},
    {257, "ustar"sv, "a tar archive; unpack it first"},
    {0, "\x89PNG\r\n\x1a\n"sv, "a PNG image: input data, not a model"},
    {0, "\xff\xd8\xff"sv, "a JPEG image: input data, not a model"},
    {0, "GIF8"sv, "a GIF image: input data, not a model"},
    {0, "II*\0"sv, "a TIFF image: input data, not a model"},
    {0, "MM\0*"sv, "a TIFF image: input data, not a model"},
    {8, "WEBP"sv, "a WebP image: input data, not a model"},
    {8, "WAVE"sv, "a WAV recording: input data, not a model"},
    {4, "ftyp"sv, "a video or image in an MP4 container, not a model"},
    {0, "OggS"sv, "an Ogg recording, not a model"},
    {0, "fLaC"sv, "a FLAC recording, not a model"},
    {0, "ID3"sv, "an MP3 recording, not a model"},
    {0, "%PDF-"sv, "a PDF document"},
    {0, "SQLite format 3"sv, "an SQLite database"},
    {0, "PAR1"sv, "a Parquet file: data, not a model"},
    {0, "ARROW1"sv, "an Arrow file: data, not a model"},
    {0, "ggml"sv, "a GGML file (llama.cpp)"},
    {0, "MZ"sv, "a Windows program or library"},
    {0, "\x7f\x45LF"sv, "a program or library"},
    {0, "version https://git-lfs"sv, "a Git LFS pointer: the model itself was not downloaded; run 'git lfs pull'"},
    {0, "<?xml"sv, "an XML file (an OpenVINO model consists of one and a .bin)"},
    {0, "<!DOCTYPE"sv, "a web page; the download went wrong"},
    {0, "<html"sv, "a web page; the download went wrong"},
};

// safetensors: the length of a JSON header in eight bytes, then the header.
bool IsSafetensors(std::string_view bytes) {
  if (bytes.size() < 10 || bytes[8] != '{' || bytes[9] != '"') return false;
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<unsigned char>(bytes[static_cast<size_t>(i)]);
  return length >= 2 && length <= bytes.size() - 8;
}

bool LooksLikeText(std::string_view bytes) {
  std::string_view head = bytes.substr(0, 512);
  return !head.empty() && std::all_of(head.begin(), head.end(), [](char c) {
    auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 ? byte != 0x7f : byte == '\n' || byte == '\r' || byte == '\t';
  });
}

}  // namespace

std::string DescribeForeignFormat(std::string_view bytes) {
  for (const Magic& magic : kMagics)
    if (bytes.size() > magic.offset && bytes.substr(magic.offset, magic.bytes.size()) == magic.bytes)
      return std::string("this is ") + magic.meaning;
  if (IsSafetensors(bytes)) return "this is a safetensors file: weights without a network";
  if (bytes.find_first_not_of('\0') == std::string_view::npos) return "the file holds nothing but zeros";
  if (LooksLikeText(bytes)) return "this is a text file";
  return {};
}

}  // namespace ferry::onnx
