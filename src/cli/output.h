// What commands print: aligned columns, numbers for people, progress on a terminal, JSON.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace ferry::cli {

void Print(std::string_view text);  // to standard output, as it is
void PrintJson(const Json& value);

// Columns wide enough for their widest cell; all but the first align by `right` where asked.
class Columns {
 public:
  explicit Columns(std::vector<bool> align_right = {}, std::string_view indent = "  ")
      : align_right_(std::move(align_right)), indent_(indent) {}
  void Add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }
  std::string Text() const;

 private:
  std::vector<bool> align_right_;
  std::string indent_;
  std::vector<std::vector<std::string>> rows_;
};

std::string HumanBytes(double bytes);                      // "4.0 kB", "475 MB"
std::string HumanCount(double count);                      // "1.25 M", "25.6 G"
std::string HumanNumber(double value);                     // three significant digits: "2.38e-07", "0.5"
std::string HumanTime(double ms);                          // "1.25 ms", "3.1 s", "720 ns"
std::string Plural(int64_t count, std::string_view noun);  // "1 node", "3 nodes"

// A sentence on standard error beside the answer.
void Note(std::string_view sentence);

// A line on the terminal that says how far a long job is: only when standard error is one, only after a second.
class Progress {
 public:
  explicit Progress(std::string_view what, int64_t total = 0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void At(int64_t done, std::string_view detail = {});

 private:
  std::string what_;
  int64_t total_;
  bool on_terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace ferry::cli
