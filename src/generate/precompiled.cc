// SentencePiece keeps its replacements in a double-array trie (the layout of Darts-clone): a unit per node with the
// label that leads to it, the offset of its children, and whether a value lies there; then the texts, each ended by a
// zero.
#include <cstring>
#include <vector>

#include "base/utf8.h"
#include "generate/component.h"
#include "generate/normalizer.h"
#include "generate/unicode.h"

namespace ferry {

using namespace unicode;

namespace {

std::string FromBase64(std::string_view text) {
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    const int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    if (c == '=') break;
    if (value < 0) Fail(ErrorCode::kInvalidModel, "precompiled_charsmap is not base64");
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>(bits >> count & 0xFF);
  }
  return out;
}

class Precompiled : public Normalizer {
 public:
  explicit Precompiled(const std::string& table) {
    const std::string bytes = FromBase64(table);
    if (bytes.empty()) return;
    uint32_t trie_bytes = 0;
    if (bytes.size() >= 4) std::memcpy(&trie_bytes, bytes.data(), 4);
    if (bytes.size() < 4 || trie_bytes % 4 != 0 || trie_bytes > bytes.size() - 4)
      Fail(ErrorCode::kInvalidModel, "precompiled_charsmap says that its trie has ", trie_bytes, " bytes of ",
           bytes.size());
    units_.resize(trie_bytes / 4);
    std::memcpy(units_.data(), bytes.data() + 4, trie_bytes);
    texts_ = bytes.substr(4 + trie_bytes);
  }

  std::string Apply(const std::string& text) const override {
    std::string out;
    const std::string_view all = text;
    for (size_t position = 0; position < all.size();) {
      const size_t end = GraphemeEnd(all, position);
      const std::string_view cluster = all.substr(position, end - position);
      // Longer clusters are taken apart, as the tables' makers do.
      if (cluster.size() >= 6 || !Replace(cluster, out))
        for (size_t at = 0; at < cluster.size();) {
          const size_t begin = at;
          NextCodePoint(cluster, at);
          const std::string_view character = cluster.substr(begin, at - begin);
          if (!Replace(character, out)) out += character;
        }
      position = end;
      if (out.size() > kMostText) Fail(ErrorCode::kLimit, "normalising makes more than ", kMostText, " bytes of text");
    }
    return out;
  }

 private:
  static bool HasLeaf(uint32_t unit) { return unit >> 8 & 1; }
  static uint32_t LabelOf(uint32_t unit) { return unit & (0x80000000u | 0xFF); }
  static uint32_t OffsetOf(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }

  // The replacement for the shortest prefix that has one.
  bool Replace(std::string_view key, std::string& out) const {
    if (units_.empty()) return false;
    size_t node = OffsetOf(units_[0]);
    for (char letter : key) {
      const auto label = static_cast<unsigned char>(letter);
      node ^= label;
      if (label == 0 || node >= units_.size() || LabelOf(units_[node]) != label) return false;
      const uint32_t unit = units_[node];
      node ^= OffsetOf(unit);
      if (!HasLeaf(unit)) continue;
      if (node >= units_.size()) return false;
      const size_t begin = units_[node] & 0x7FFFFFFF;
      if (begin >= texts_.size()) return false;
      const size_t end = texts_.find('\0', begin);
      out += WithoutInvalidBytes(std::string_view(texts_).substr(begin, end == std::string::npos ? end : end - begin));
      return true;
    }
    return false;
  }

  std::vector<uint32_t> units_;
  std::string texts_;
};

}  // namespace

std::unique_ptr<const Normalizer> MakePrecompiledNormalizer(const std::string& table) {
  return std::make_unique<Precompiled>(table);
}

}  // namespace ferry
