// GPT-2's letters for bytes: each byte is one visible character in a byte-level vocabulary.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ferry {

std::string ToByteLetters(std::string_view bytes);
// Appends the bytes; false, with nothing appended, when a character stands for none.
bool AppendFromByteLetters(std::string_view letters, std::string& out);
// The byte of "<0x41>", or -1.
int ByteOfToken(std::string_view token);
// "<0x41>"
std::string TokenOfByte(uint8_t byte);

}  // namespace ferry
