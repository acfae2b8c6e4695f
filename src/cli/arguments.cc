#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>

#include "base/text.h"
#include "cli/command.h"

namespace ferry::cli {
namespace {

constexpr Option kCommon[] = {
    {.name = "json", .help = "print the result as JSON"},
    {.name = "help", .letter = 'h', .help = "print this help"},
};

template <class... Parts>
[[noreturn]] void Refuse(const Parts&... parts) {
  throw UsageError{Cat(parts...)};
}

const Option* Find(const Command& command, std::string_view name, char letter) {
  for (std::span<const Option> options : {command.options, std::span<const Option>(kCommon)})
    for (const Option& option : options)
      if (letter ? option.letter == letter : option.name == name) return &option;
  return nullptr;
}

[[noreturn]] void RefuseUnknown(const Command& command, std::string_view name) {
  std::vector<std::string> names;
  for (const Option& option : command.options) names.emplace_back(option.name);
  for (const Option& option : kCommon) names.emplace_back(option.name);
  std::string closest = ClosestName(name, names);
  if (closest.empty()) Refuse("there is no option --", Printable(name));
  Refuse("there is no option --", Printable(name), "; did you mean --", closest, "?");
}

void CheckWord(std::string_view words, std::string_view word, std::string_view of) {
  if (words.empty()) return;
  std::vector<std::string> allowed = SplitText(words, ' ');
  if (std::find(allowed.begin(), allowed.end(), word) != allowed.end()) return;
  Refuse(of, " must be one of ", Join(allowed, ", "), "; got '", Printable(word), "'");
}

}  // namespace

std::span<const Option> CommonOptions() { return kCommon; }

Arguments Arguments::Parse(const Command& command, std::span<const char* const> words) {
  Arguments parsed;
  bool only_positions = false;
  for (size_t i = 0; i < words.size(); ++i) {
    std::string_view word = words[i];
    if (only_positions || word.size() < 2 || word[0] != '-') {
      parsed.positions_.emplace_back(word);
      continue;
    }
    if (word == "--") {
      only_positions = true;
      continue;
    }
    bool is_long = word[1] == '-';
    size_t equals = is_long ? word.find('=') : std::string_view::npos;
    std::string_view name = is_long ? word.substr(2, equals == word.npos ? word.npos : equals - 2) : word.substr(1, 1);
    const Option* option = Find(command, name, is_long ? 0 : word[1]);
    if (!option && is_long) RefuseUnknown(command, name);
    if (!option) Refuse("there is no option ", Printable(word));
    std::string value;
    if (option->value.empty()) {
      if (equals != word.npos) Refuse("--", name, " takes no value");
      if (!is_long && word.size() > 2) Refuse("there is no option ", Printable(word));
    } else if (equals != word.npos) {
      value = word.substr(equals + 1);
    } else if (!is_long && word.size() > 2) {
      value = word.substr(2);
    } else if (i + 1 < words.size()) {
      value = words[++i];
    } else {
      Refuse("--", option->name, " needs a value: --", option->name, " ", option->value);
    }
    CheckWord(option->words, value, Cat("--", option->name));
    if (!option->repeated && !option->value.empty() && parsed.Has(option->name))
      Refuse("--", option->name, " is given twice");
    parsed.options_.emplace_back(option->name, std::move(value));
  }
  if (parsed.wants_help()) return parsed;
  parsed.CheckPositions(command);
  for (const Option& option : command.options)
    if (option.required && !parsed.Has(option.name)) Refuse("--", option.name, " ", option.value, " is needed");
  return parsed;
}

void Arguments::CheckPositions(const Command& command) const {
  size_t least = 0, most = 0;
  for (const Position& position : command.positions) {
    if (!position.optional && positions_.size() <= least) Refuse(position.name, " is missing: ", position.help);
    if (!position.words.empty() && most < positions_.size()) CheckWord(position.words, positions_[most], position.name);
    least += !position.optional;
    most = position.repeated ? SIZE_MAX : most + 1;
  }
  if (positions_.size() > most)
    Refuse("'", Printable(positions_[most]), "' is one argument too many for ferry ", command.name);
}

bool Arguments::Has(std::string_view name) const {
  return std::any_of(options_.begin(), options_.end(), [&](const auto& option) { return option.first == name; });
}

std::string Arguments::Get(std::string_view name, std::string_view otherwise) const {
  for (auto it = options_.rbegin(); it != options_.rend(); ++it)
    if (it->first == name) return it->second;
  return std::string(otherwise);
}

std::vector<std::string> Arguments::All(std::string_view name) const {
  std::vector<std::string> values;
  for (const auto& [option, value] : options_)
    if (option == name) values.push_back(value);
  return values;
}

int64_t Arguments::Int(std::string_view name, int64_t otherwise, int64_t least, int64_t most) const {
  if (!Has(name)) return otherwise;
  std::string text = Get(name);
  char* end = nullptr;
  errno = 0;
  long long number = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != 0 || errno != 0 || number < least || number > most)
    Refuse("--", name, " must be a whole number from ", least, " to ", most, "; got '", Printable(text), "'");
  return number;
}

double Arguments::Number(std::string_view name, double otherwise) const {
  if (!Has(name)) return otherwise;
  std::string text = Get(name);
  char* end = nullptr;
  double number = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != 0 || !std::isfinite(number) || number < 0)
    Refuse("--", name, " must be a number that is not negative; got '", Printable(text), "'");
  return number;
}

uint64_t Arguments::Bytes(std::string_view name, uint64_t otherwise) const {
  if (!Has(name)) return otherwise;
  const std::string text = Get(name);
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string number = text.substr(0, digits);
  char* end = nullptr;
  double bytes = std::strtod(number.c_str(), &end);
  std::string unit = text.substr(digits);
  for (char& letter : unit)
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  // As in coreutils: K and KiB are 1024 bytes, KB 1000.
  constexpr std::string_view kPowers = "KMG";
  const size_t power = unit.empty() ? std::string_view::npos : kPowers.find(unit[0]);
  if (power != std::string_view::npos) {
    bytes *= std::pow(unit.substr(1) == "B" ? 1000.0 : 1024.0, static_cast<double>(power + 1));
    unit.erase(0, 1);
  }
  const bool is_unit = unit.empty() || unit == "B" || (unit == "IB" && power != std::string_view::npos);
  constexpr double kMost = 1e18;
  if (digits == 0 || text[0] == '.' || *end != 0 || !is_unit || bytes < 1 || bytes > kMost)
    Refuse("--", name, " must be a number of bytes, perhaps with K, M or G (KB, MB, GB: thousands); got '",
           Printable(text), "'");
  return static_cast<uint64_t>(bytes);
}

std::vector<std::pair<std::string, std::string>> Arguments::Pairs(std::string_view name) const {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string& text : All(name)) {
    // Names of values may hold '=', file names and numbers hardly do.
    size_t equals = text.rfind('=');
    if (equals == 0 || equals == text.npos || equals + 1 == text.size())
      Refuse("--", name, " needs NAME=VALUE; got '", Printable(text), "'");
    pairs.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return pairs;
}

}  // namespace ferry::cli
