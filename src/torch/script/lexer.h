// Words of TorchScript's text form, with Python's indentation as words of its own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ferry::torch::script {

struct Token {
  enum class Kind : uint8_t { kName, kInteger, kFloat, kImaginary, kString, kSymbol, kNewline, kIndent, kDedent, kEnd };
  Kind kind = Kind::kEnd;
  int line = 0;
  std::string text;  // of a string: its contents, escapes resolved
  int64_t integer = 0;
  double number = 0;
};

// Throws kInvalidModel with the line when the text is no TorchScript.
std::vector<Token> Tokenize(std::string_view text);

}  // namespace ferry::torch::script
