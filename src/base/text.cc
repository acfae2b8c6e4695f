#include "base/text.h"

#include <algorithm>
#include <cstdio>

template class std::vector<std::string>;

namespace ferry {

void AppendTo(std::string& out, std::string_view text) { out.append(text); }

void AppendTo(std::string& out, double number) {
  char digits[40];
  std::snprintf(digits, sizeof digits, "%.9g", number);
  out += digits;
}

void AppendInteger(std::string& out, int64_t number) { out += std::to_string(number); }
void AppendUnsigned(std::string& out, uint64_t number) { out += std::to_string(number); }

std::vector<std::string> SplitText(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (;;) {
    size_t end = text.find(separator, begin);
    if (end == std::string_view::npos) {
      parts.emplace_back(text.substr(begin));
      return parts;
    }
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

std::string Printable(std::string_view text, size_t longest) {
  std::string out;
  for (unsigned char c : text.substr(0, longest)) {
    if (c < 0x20 || c == 0x7f) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", c);
      out += escaped;
    } else {
      out.push_back(static_cast<char>(c));
    }
  }
  if (text.size() > longest) out += "…";
  return out;
}

// Inserted, dropped, changed and swapped letters each count one.
static size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string ClosestName(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr size_t kLongestWorthComparing = 100;
  if (word.size() > kLongestWorthComparing) return {};
  std::string best;
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kLongestWorthComparing) continue;
    size_t distance = EditDistance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace ferry
