#include "generate/byte_letters.h"

#include "base/utf8.h"

namespace ferry {
namespace {

bool IsPlain(uint32_t byte) { return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174; }

// Bytes that are no visible letter of Latin-1 get those from U+0100 on, in order: 0…32, 127…160, 173.
uint32_t LetterOf(uint8_t byte) {
  if (IsPlain(byte)) return byte;
  if (byte <= 32) return 256u + byte;
  return byte == 173 ? 256 + 67 : 256 + 33 + (byte - 127u);
}

int ByteOf(uint32_t letter) {
  if (letter < 256) return IsPlain(letter) ? static_cast<int>(letter) : -1;
  const uint32_t other = letter - 256;
  if (other <= 32) return static_cast<int>(other);
  if (other < 67) return static_cast<int>(other - 33 + 127);
  return other == 67 ? 173 : -1;
}

int HexDigit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                : -1;
}

}  // namespace

std::string ToByteLetters(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (char byte : bytes) AppendCodePoint(out, LetterOf(static_cast<uint8_t>(byte)));
  return out;
}

bool AppendFromByteLetters(std::string_view letters, std::string& out) {
  const size_t before = out.size();
  for (size_t position = 0; position < letters.size();) {
    const int byte = ByteOf(NextCodePoint(letters, position));
    if (byte < 0) {
      out.resize(before);
      return false;
    }
    out += static_cast<char>(byte);
  }
  return true;
}

int ByteOfToken(std::string_view token) {
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return -1;
  const int high = HexDigit(token[3]), low = HexDigit(token[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

std::string TokenOfByte(uint8_t byte) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
}

}  // namespace ferry
