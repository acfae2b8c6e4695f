// The portable formats: P1 to P6 and PAM (P7).
#include <algorithm>
#include <string>

#include "image/image.h"

namespace ferry {
namespace {

class PnmReader {
 public:
  explicit PnmReader(Bytes stream) : stream_(stream) {}

  // The next number of the header or of plain samples; comments run from # to the end of the line. -1 at any fault.
  int64_t Number() {
    SkipBlanks();
    int64_t value = -1;
    for (; at_ < stream_.size() && IsDigit(stream_[at_]); ++at_) {
      value = std::max<int64_t>(value, 0) * 10 + (stream_[at_] - '0');
      if (value > (int64_t{1} << 31)) return -1;
    }
    return value;
  }
  // Plain bitmaps may leave out the blanks between their digits.
  int64_t Bit() {
    SkipBlanks();
    if (at_ >= stream_.size() || (stream_[at_] != '0' && stream_[at_] != '1')) return -1;
    return stream_[at_++] - '0';
  }
  std::string Word() {
    SkipBlanks();
    std::string word;
    while (at_ < stream_.size() && !IsBlank(stream_[at_]) && word.size() < 32)
      word.push_back(static_cast<char>(stream_[at_++]));
    return word;
  }
  void Skip(size_t count) { at_ = std::min(stream_.size(), at_ + count); }
  Bytes Rest() const { return stream_.subspan(at_); }

 private:
  static bool IsDigit(uint8_t c) { return c >= '0' && c <= '9'; }
  static bool IsBlank(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
  void SkipBlanks() {
    while (at_ < stream_.size() && (IsBlank(stream_[at_]) || stream_[at_] == '#')) {
      if (stream_[at_] == '#')
        while (at_ < stream_.size() && stream_[at_] != '\n') ++at_;
      else
        ++at_;
    }
  }

  Bytes stream_;
  size_t at_ = 0;
};

struct PnmHeader {
  int64_t width = -1, height = -1, depth = 1, largest = 1;
  bool Valid() const { return width > 0 && height > 0 && depth >= 1 && depth <= 4 && largest >= 1 && largest <= 65535; }
  int channels() const { return depth >= 3 ? 3 : 1; }
};

uint8_t Scaled(int64_t value, int64_t largest) {
  return static_cast<uint8_t>((std::min(value, largest) * 255 * 2 + largest) / (2 * largest));
}

PnmHeader ReadPamHeader(PnmReader& reader) {
  PnmHeader header;
  for (;;) {
    std::string word = reader.Word();
    if (word == "ENDHDR" || word.empty()) break;
    if (word == "WIDTH")
      header.width = reader.Number();
    else if (word == "HEIGHT")
      header.height = reader.Number();
    else if (word == "DEPTH")
      header.depth = reader.Number();
    else if (word == "MAXVAL")
      header.largest = reader.Number();
    else
      reader.Word();  // the value of TUPLTYPE, which DEPTH says as well
  }
  return header;
}

// Samples in bytes, or in pairs of bytes with the high one first; those beyond three channels, or a second one beside
// gray, are transparency.
std::optional<Image> ReadBinary(const PnmHeader& header, Bytes samples) {
  size_t width = header.largest > 255 ? 2 : 1, depth = static_cast<size_t>(header.depth);
  CheckImageSize(header.width, header.height);
  auto pixels = static_cast<size_t>(header.width * header.height);
  if (samples.size() / (width * depth) < pixels) return std::nullopt;
  Image image = MakeImage(header.width, header.height, header.channels());
  uint8_t* to = image.pixels.data();
  for (size_t p = 0; p < pixels; ++p, samples = samples.subspan(width * depth)) {
    for (size_t c = 0; c < static_cast<size_t>(image.channels); ++c) {
      int64_t value = width == 1 ? samples[c] : samples[2 * c] << 8 | samples[2 * c + 1];
      *to++ = Scaled(value, header.largest);
    }
  }
  return image;
}

std::optional<Image> ReadPackedBits(const PnmHeader& header, Bytes rows) {
  size_t row_bytes = static_cast<size_t>((header.width + 7) / 8);
  CheckImageSize(header.width, header.height);
  if (rows.size() / row_bytes < static_cast<size_t>(header.height)) return std::nullopt;
  Image image = MakeImage(header.width, header.height, 1);
  uint8_t* to = image.pixels.data();
  for (int64_t y = 0; y < header.height; ++y, rows = rows.subspan(row_bytes))
    for (int64_t x = 0; x < header.width; ++x) *to++ = rows[static_cast<size_t>(x / 8)] >> (7 - x % 8) & 1 ? 0 : 255;
  return image;
}

std::optional<Image> ReadPlain(const PnmHeader& header, bool bits, PnmReader& reader) {
  CheckImageSize(header.width, header.height);
  // A plain sample takes at least one byte.
  if (reader.Rest().size() < static_cast<size_t>(header.width * header.height)) return std::nullopt;
  Image image = MakeImage(header.width, header.height, header.channels());
  for (uint8_t& sample : image.pixels) {
    int64_t value = bits ? reader.Bit() : reader.Number();
    if (value < 0) return std::nullopt;
    sample = bits ? (value ? 0 : 255) : Scaled(value, header.largest);
  }
  return image;
}

}  // namespace

std::optional<Image> DecodePnm(Bytes stream) {
  if (stream.size() < 3) return std::nullopt;
  char kind = static_cast<char>(stream[1]);
  PnmReader reader(stream.subspan(2));
  PnmHeader header;
  if (kind == '7') {
    header = ReadPamHeader(reader);
  } else {
    header.width = reader.Number();
    header.height = reader.Number();
    header.depth = kind == '3' || kind == '6' ? 3 : 1;
    if (kind != '1' && kind != '4') header.largest = reader.Number();
  }
  if (!header.Valid()) return std::nullopt;
  if (kind <= '3') return ReadPlain(header, kind == '1', reader);
  reader.Skip(1);  // exactly one blank stands between the header and binary samples
  return kind == '4' ? ReadPackedBits(header, reader.Rest()) : ReadBinary(header, reader.Rest());
}

}  // namespace ferry
