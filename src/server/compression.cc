#include "server/compression.h"

#include <zlib.h>

#include <algorithm>

#include "server/refusal.h"

namespace ferry::server {
namespace {

constexpr size_t kStep = 64 * 1024;
constexpr int kWindow = 15, kGzipWindow = 15 + 16;

struct Inflating {
  explicit Inflating(int window) { ok = inflateInit2(&stream, window) == Z_OK; }
  ~Inflating() {
    if (ok) inflateEnd(&stream);
  }
  z_stream stream{};
  bool ok;
};

struct Deflating {
  explicit Deflating(int window) { ok = deflateInit2(&stream, 1, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY) == Z_OK; }
  ~Deflating() {
    if (ok) deflateEnd(&stream);
  }
  z_stream stream{};
  bool ok;
};

}  // namespace

std::string Decompress(std::string_view bytes, Coding coding, size_t most) {
  Inflating inflating(coding == Coding::kGzip ? kGzipWindow : kWindow);
  if (!inflating.ok) Refuse(Code::kInternal, "zlib cannot be used");
  z_stream& stream = inflating.stream;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string out;
  int result = Z_OK;
  while (result != Z_STREAM_END) {
    const size_t had = out.size();
    if (had > most)
      Refuse(Code::kInvalidArgument, "the decompressed request is larger than the allowed ", most, " bytes");
    out.resize(had + std::max(kStep, std::min(had, size_t{16} << 20)));
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + had);
    stream.avail_out = static_cast<uInt>(out.size() - had);
    const uInt room = stream.avail_out;
    result = inflate(&stream, Z_NO_FLUSH);
    out.resize(had + (room - stream.avail_out));
    if (result != Z_OK && result != Z_STREAM_END)
      Refuse(Code::kInvalidArgument, "the compressed request is damaged or cut off");
    if (result == Z_OK && stream.avail_in == 0 && out.size() == had)
      Refuse(Code::kInvalidArgument, "the compressed request is cut off");
  }
  if (out.size() > most)
    Refuse(Code::kInvalidArgument, "the decompressed request is larger than the allowed ", most, " bytes");
  return out;
}

std::string Compress(std::string_view bytes, Coding coding) {
  Deflating deflating(coding == Coding::kGzip ? kGzipWindow : kWindow);
  if (!deflating.ok) Refuse(Code::kInternal, "zlib cannot be used");
  z_stream& stream = deflating.stream;
  std::string out;
  out.resize(deflateBound(&stream, bytes.size()) + 32);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) Refuse(Code::kInternal, "the answer cannot be compressed");
  out.resize(out.size() - stream.avail_out);
  return out;
}

}  // namespace ferry::server
