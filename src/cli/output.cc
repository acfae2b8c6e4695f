#include "cli/output.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/process.h"
#include "base/text.h"

namespace ferry::cli {
namespace {

// Columns on a terminal: UTF-8 continuation bytes take none.
size_t DisplayWidth(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string Formatted(const char* format, double value) {
  char text[40];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string Scaled(double value, std::initializer_list<const char*> units) {
  auto unit = units.begin();
  while (std::abs(value) >= 999.5 && unit + 1 != units.end()) value /= 1000, ++unit;
  bool plain = unit == units.begin();
  std::string number = Formatted(plain ? "%.0f" : value < 9.995 ? "%.2f" : value < 99.95 ? "%.1f" : "%.0f", value);
  return **unit == 0 ? number : Cat(number, " ", *unit);
}

}  // namespace

void Print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void PrintJson(const Json& value) { Print(value.Dump() + "\n"); }

std::string Columns::Text() const {
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], DisplayWidth(row[i]));
  }
  std::string out;
  for (const auto& row : rows_) {
    out += indent_;
    for (size_t i = 0; i < row.size(); ++i) {
      size_t padding = widths[i] - DisplayWidth(row[i]);
      bool right = i < align_right_.size() && align_right_[i];
      if (i > 0) out += "  ";
      if (right) out.append(padding, ' ');
      out += row[i];
      if (!right && i + 1 < row.size()) out.append(padding, ' ');
    }
    out += '\n';
  }
  return out;
}

std::string HumanBytes(double bytes) { return Scaled(bytes, {"B", "kB", "MB", "GB", "TB", "PB"}); }
std::string HumanCount(double count) { return Scaled(count, {"", "k", "M", "G", "T", "P"}); }
std::string HumanNumber(double value) { return Formatted("%.3g", value); }
std::string HumanTime(double ms) { return Scaled(ms * 1e6, {"ns", "µs", "ms", "s"}); }

std::string Plural(int64_t count, std::string_view noun) { return Cat(count, " ", noun, count == 1 ? "" : "s"); }

Progress::Progress(std::string_view what, int64_t total)
    : what_(what),
      total_(total),
      on_terminal_(ErrorsGoToTerminal()),
      next_(std::chrono::steady_clock::now() + std::chrono::seconds(1)) {}

void Note(std::string_view sentence) {
  const std::string line = Cat("note: ", sentence, "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void Progress::At(int64_t done, std::string_view detail) {
  if (!on_terminal_) return;
  auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds(100);
  shown_ = true;
  std::string line = Cat("\r\033[K", what_, " ", done, total_ > 0 ? Cat(" of ", total_) : "",
                         detail.empty() ? "" : "  ", Printable(detail, 60));
  std::fwrite(line.data(), 1, line.size(), stderr);
}

Progress::~Progress() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

}  // namespace ferry::cli
