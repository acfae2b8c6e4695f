// Windows and OS/2 bitmaps: 1 to 32 bits a pixel, palettes, bit fields, run lengths.
#include <algorithm>
#include <array>

#include "image/image.h"

namespace ferry {
namespace {

enum Compression : uint32_t { kRgb = 0, kRle8 = 1, kRle4 = 2, kBitFields = 3, kAlphaBitFields = 6 };

struct BmpHeader {
  int64_t width = 0, height = 0;
  bool top_down = false;
  uint32_t bits = 0, compression = kRgb;
  std::array<uint32_t, 3> masks{};
  std::vector<std::array<uint8_t, 3>> palette;  // red, green, blue
  size_t pixels_at = 0;
};

uint32_t Little(Bytes stream, size_t at, size_t bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < bytes && at + i < stream.size(); ++i) value |= uint32_t{stream[at + i]} << (8 * i);
  return value;
}

void ReadPalette(Bytes stream, size_t at, size_t entry_bytes, size_t count, BmpHeader& header) {
  for (size_t i = 0; i < count && at + 3 <= stream.size(); ++i, at += entry_bytes)
    header.palette.push_back({stream[at + 2], stream[at + 1], stream[at]});
}

std::optional<BmpHeader> ReadHeader(Bytes stream) {
  if (stream.size() < 26) return std::nullopt;
  BmpHeader header;
  header.pixels_at = Little(stream, 10, 4);
  uint32_t size = Little(stream, 14, 4);
  size_t after = 14 + size_t{size};
  if (size < 12 || after > stream.size()) return std::nullopt;
  bool core = size == 12;  // OS/2's first form: 16-bit sizes, palette entries of three bytes
  header.width = core ? int64_t{Little(stream, 18, 2)} : static_cast<int32_t>(Little(stream, 18, 4));
  header.height = core ? int64_t{Little(stream, 20, 2)} : static_cast<int32_t>(Little(stream, 22, 4));
  header.bits = Little(stream, core ? 24 : 28, 2);
  header.top_down = header.height < 0;
  if (header.top_down) header.height = -header.height;
  if (size >= 40) header.compression = Little(stream, 30, 4);
  bool masked = header.compression == kBitFields || header.compression == kAlphaBitFields;
  if (masked) {
    // The masks are inside the later headers and behind the older one, at the same place.
    for (size_t i = 0; i < 3; ++i) header.masks[i] = Little(stream, 54 + 4 * i, 4);
    if (size < 52) after += header.compression == kBitFields ? 12 : 16;
  } else if (header.bits == 16) {
    header.masks = {0x7c00, 0x03e0, 0x001f};
  } else if (header.bits == 32) {
    header.masks = {0xff0000, 0x00ff00, 0x0000ff};
  }
  if (header.bits <= 8) {
    size_t used = size >= 40 ? Little(stream, 46, 4) : 0, most = size_t{1} << header.bits;
    ReadPalette(stream, after, core ? 3 : 4, used == 0 ? most : std::min(used, most), header);
  }
  return header;
}

bool IsSupported(const BmpHeader& header) {
  if (header.width <= 0 || header.height <= 0) return false;
  switch (header.compression) {
    case kRgb:
      return header.bits == 1 || header.bits == 4 || header.bits == 8 || header.bits == 16 || header.bits == 24 ||
             header.bits == 32;
    case kRle8: return header.bits == 8;
    case kRle4: return header.bits == 4;
    case kBitFields:
    case kAlphaBitFields: return header.bits == 16 || header.bits == 32;
    default: return false;
  }
}

class Rows {
 public:
  Rows(const BmpHeader& header) : header_(header), image_(MakeImage(header.width, header.height, 3)) {}

  // Row y counted in the order of the file.
  uint8_t* Row(int64_t y) {
    int64_t row = header_.top_down ? y : header_.height - 1 - y;
    return image_.pixels.data() + row * header_.width * 3;
  }
  void PutIndex(int64_t x, int64_t y, size_t index) {
    static constexpr std::array<uint8_t, 3> kBlack{};
    const auto& color = index < header_.palette.size() ? header_.palette[index] : kBlack;
    std::copy(color.begin(), color.end(), Row(y) + 3 * x);
  }
  Image Take() { return std::move(image_); }

 private:
  const BmpHeader& header_;
  Image image_;
};

struct Field {
  explicit Field(uint32_t mask) : mask(mask) {
    if (mask == 0) return;
    while (!(mask >> shift & 1)) ++shift;
    largest = mask >> shift;
  }
  uint8_t Get(uint32_t pixel) const {
    return largest == 0 ? 0
                        : static_cast<uint8_t>((uint64_t{(pixel & mask) >> shift} * 255 * 2 + largest) /
                                               (2 * uint64_t{largest}));
  }
  uint32_t mask, shift = 0, largest = 0;
};

std::optional<Image> ReadUncompressed(const BmpHeader& header, Bytes data) {
  CheckImageSize(header.width, header.height);
  size_t row_bytes = (static_cast<size_t>(header.width) * header.bits + 31) / 32 * 4;
  // The last row may come without its padding.
  size_t last_row = (static_cast<size_t>(header.width) * header.bits + 7) / 8;
  if (data.size() < row_bytes * static_cast<size_t>(header.height - 1) + last_row) return std::nullopt;
  Rows rows(header);
  std::array<Field, 3> fields{Field(header.masks[0]), Field(header.masks[1]), Field(header.masks[2])};
  size_t bytes = header.bits / 8;
  for (int64_t y = 0; y < header.height; ++y) {
    const uint8_t* from = data.data() + static_cast<size_t>(y) * row_bytes;
    uint8_t* to = rows.Row(y);
    for (int64_t x = 0; x < header.width; ++x, to += 3) {
      if (header.bits <= 8) {
        size_t bit = static_cast<size_t>(x) * header.bits;
        rows.PutIndex(x, y, from[bit / 8] >> (8 - header.bits - bit % 8) & ((1u << header.bits) - 1));
      } else if (header.bits == 24) {
        std::reverse_copy(from + 3 * x, from + 3 * x + 3, to);
      } else {
        uint32_t pixel = Little({from + bytes * static_cast<size_t>(x), bytes}, 0, bytes);
        for (size_t c = 0; c < 3; ++c) to[c] = fields[c].Get(pixel);
      }
    }
  }
  return rows.Take();
}

// Pairs of a count and an index (or two alternating ones of four bits); a count of zero escapes to the end of a line
// (0), the end of the image (1), a jump (2), or literal indices, padded to an even number of bytes.
std::optional<Image> ReadRunLengths(const BmpHeader& header, Bytes data) {
  Rows rows(header);
  bool half = header.compression == kRle4;
  int64_t x = 0, y = 0;
  size_t at = 0;
  for (int64_t row = 0; row < header.height; ++row)  // what no run reaches has the first color
    for (int64_t column = 0; column < header.width; ++column) rows.PutIndex(column, row, 0);
  auto put = [&](uint8_t index) {
    if (x < header.width && y < header.height) rows.PutIndex(x, y, index);
    ++x;
  };
  auto nibble = [](uint8_t byte, size_t i) { return static_cast<uint8_t>(i % 2 == 0 ? byte >> 4 : byte & 15); };
  while (at + 2 <= data.size() && y < header.height) {
    uint8_t count = data[at], value = data[at + 1];
    at += 2;
    if (count > 0) {
      for (size_t i = 0; i < count; ++i) put(half ? nibble(value, i) : value);
    } else if (value == 0) {
      x = 0;
      ++y;
    } else if (value == 1) {
      return rows.Take();
    } else if (value == 2) {
      if (at + 2 > data.size()) return std::nullopt;
      x += data[at];
      y += data[at + 1];
      at += 2;
    } else {
      size_t bytes = half ? (size_t{value} + 1) / 2 : value;
      if (at + bytes > data.size()) return std::nullopt;
      for (size_t i = 0; i < value; ++i) put(half ? nibble(data[at + i / 2], i) : data[at + i]);
      at += bytes + bytes % 2;
    }
  }
  if (y < header.height) return std::nullopt;
  return rows.Take();
}

}  // namespace

std::optional<Image> DecodeBmp(Bytes stream) {
  std::optional<BmpHeader> header = ReadHeader(stream);
  if (!header || !IsSupported(*header) || header->pixels_at > stream.size()) return std::nullopt;
  Bytes data = stream.subspan(header->pixels_at);
  if (header->compression == kRle4 || header->compression == kRle8) {
    // A run of two bytes paints at most 255 pixels, a jump skips at most 255 rows.
    CheckImageSize(header->width, header->height);
    return ReadRunLengths(*header, data);
  }
  return ReadUncompressed(*header, data);
}

}  // namespace ferry
