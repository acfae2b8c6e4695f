// ZIP archives in memory, as other programs write them, which ZipWriter does not: deflated, with descriptors.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/zip.h"

namespace ferry::testing {

struct ZipPart {
  std::string name;
  std::string contents;
  bool deflated = false;
  bool descriptor = false;
};

inline void PutInteger(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(i < 8 ? value >> (8 * i) : 0));
}

inline std::string Deflate(const std::string& text) {
  std::string out(compressBound(text.size()) + 64, '\0');
  z_stream stream = {};
  deflateInit2(&stream, 9, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline std::string MakeZip(const std::vector<ZipPart>& parts) {
  std::string out, directory;
  for (const ZipPart& part : parts) {
    std::string packed = part.deflated ? Deflate(part.contents) : part.contents;
    uint64_t crc =
        crc32(0, reinterpret_cast<const Bytef*>(part.contents.data()), static_cast<uInt>(part.contents.size()));
    auto common = [&](std::string& to, bool facts) {
      PutInteger(to, 20, 2);
      PutInteger(to, part.descriptor ? 8 : 0, 2);
      PutInteger(to, part.deflated ? 8 : 0, 2);
      PutInteger(to, 0, 4);
      PutInteger(to, facts ? crc : 0, 4);
      PutInteger(to, facts ? packed.size() : 0, 4);
      PutInteger(to, facts ? part.contents.size() : 0, 4);
      PutInteger(to, part.name.size(), 2);
      PutInteger(to, 0, 2);
    };
    size_t header = out.size();
    PutInteger(out, 0x04034b50, 4);
    common(out, !part.descriptor);
    out += part.name + packed;
    if (part.descriptor) {
      PutInteger(out, 0x08074b50, 4);
      PutInteger(out, crc, 4);
      PutInteger(out, packed.size(), 4);
      PutInteger(out, part.contents.size(), 4);
    }
    PutInteger(directory, 0x02014b50, 4);
    PutInteger(directory, 20, 2);
    common(directory, true);
    PutInteger(directory, 0, 10);
    PutInteger(directory, header, 4);
    directory += part.name;
  }
  size_t begin = out.size();
  out += directory;
  PutInteger(out, 0x06054b50, 4);
  PutInteger(out, 0, 4);
  PutInteger(out, parts.size(), 2);
  PutInteger(out, parts.size(), 2);
  PutInteger(out, directory.size(), 4);
  PutInteger(out, begin, 4);
  PutInteger(out, 0, 2);
  return out;
}

inline SharedBytes Share(std::string text) {
  auto keep = std::make_shared<std::string>(std::move(text));
  return {std::as_bytes(std::span<const char>(*keep)), keep};
}

}  // namespace ferry::testing
