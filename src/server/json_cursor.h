// Walks through a JSON text without building a tree: requests are mostly numbers, which go straight into tensors.
#pragma once

#include <string>
#include <string_view>

namespace ferry::server {

// Every function throws Refusal (invalid argument), saying the byte, where the text is not what it asks for.
class JsonCursor {
 public:
  static constexpr int kMostDepth = 100;

  explicit JsonCursor(std::string_view text) : text_(text) {}

  char Peek();        // the next byte that is no space; 0 at the end
  bool Take(char c);  // moves past it if it is next
  void Expect(char c);
  void ExpectEnd();
  std::string ReadString();
  // Moves past one value of any kind, whose text it gives.
  std::string_view SkipValue();

  // For objects and arrays: `if (cursor.Begin('{')) do { … } while (cursor.Next('}'));`
  bool Begin(char open);  // false: it is empty, and passed already
  bool Next(char close);
  std::string_view ReadKey();  // valid until the next one is read

  size_t position() const { return at_; }
  std::string_view rest() const { return text_.substr(at_); }
  void Advance(size_t bytes) { at_ += bytes; }
  [[noreturn]] void Fail(std::string_view why) const;

 private:
  void SkipString();

  std::string_view text_;
  size_t at_ = 0;
  std::string key_;  // one with escapes
};

void AppendJsonString(std::string& out, std::string_view text);  // quoted; what is not UTF-8 becomes U+FFFD

}  // namespace ferry::server
