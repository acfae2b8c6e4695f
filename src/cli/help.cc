#include <algorithm>

#include "base/text.h"
#include "cli/command.h"

namespace ferry::cli {
namespace {

constexpr size_t kWidth = 100;

// Lays `text` out in lines that start at `indent`, the first one continuing a line that is `column` long already.
std::string Wrap(std::string_view text, size_t indent, size_t column) {
  std::string out;
  for (const std::string& word : SplitText(text, ' ')) {
    if (column > indent && column + 1 + word.size() > kWidth) {
      out += '\n';
      out.append(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out;
}

struct Row {
  std::string left;
  std::string_view right;
};

void AppendRows(std::string& out, const std::vector<Row>& rows) {
  constexpr size_t kWidestLeft = 32;
  size_t left_width = 0;
  for (const Row& row : rows)
    if (row.left.size() <= kWidestLeft) left_width = std::max(left_width, row.left.size());
  size_t indent = left_width + 4;
  for (const Row& row : rows) {
    out += "  " + row.left;
    if (row.left.size() > left_width) {
      out += '\n';
      out.append(indent, ' ');
    } else {
      out.append(left_width - row.left.size() + 2, ' ');
    }
    out += Wrap(row.right, indent, indent) + "\n";
  }
}

constexpr struct {
  Group group;
  std::string_view title;
} kGroups[] = {
    {Group::kUnderstand, "Understand a model"},
    {Group::kRun, "Run it"},
    {Group::kMake, "Make and change models"},
    {Group::kFerry, "Ferry itself"},
};

}  // namespace

std::string SpellingOf(const Option& option) {
  std::string text = option.letter ? Cat("-", option.letter, ", --", option.name) : Cat("--", option.name);
  if (!option.value.empty()) text += Cat(" ", option.value);
  return text;
}

std::string UsageOf(const Command& command) {
  std::string line = Cat("ferry ", command.name);
  for (const Position& position : command.positions) {
    std::string name = Cat(position.name, position.repeated ? "…" : "");
    line += position.optional ? Cat(" [", name, "]") : Cat(" ", name);
  }
  for (const Option& option : command.options)
    if (option.required) line += Cat(" --", option.name, " ", option.value, option.repeated ? "…" : "");
  return line + " [options]";
}

std::span<const Command* const> AllCommands() { return {kCommandTable, kCommandTableSize}; }

const Command* FindCommand(std::string_view name) {
  for (const Command* command : AllCommands())
    if (command->name == name) return command;
  return nullptr;
}

std::string GeneralHelp() {
  std::string out =
      "Ferry carries trained models from PyTorch to wherever they run.\n\nUsage: ferry COMMAND [arguments]\n";
  for (const auto& [group, title] : kGroups) {
    std::vector<Row> rows;
    for (const Command* command : AllCommands())
      if (command->group == group) rows.push_back({std::string(command->name), command->summary});
    if (rows.empty()) continue;
    out += Cat("\n", title, ":\n");
    AppendRows(out, rows);
  }
  return out +
         "\n'ferry COMMAND --help' shows a command's options and examples.\n"
         "Exit status: 0 done and good; 1 the answer is no; 2 wrong usage; 3 the model or input can't be used.\n";
}

std::string HelpFor(const Command& command) {
  std::string out = Cat(command.summary, "\n\nUsage: ", UsageOf(command), "\n");
  if (!command.details.empty()) {
    out += "\n";
    for (const std::string& paragraph : SplitText(command.details, '\n')) out += Wrap(paragraph, 0, 0) + "\n";
  }
  std::vector<Row> rows;
  for (const Position& position : command.positions) rows.push_back({std::string(position.name), position.help});
  if (!rows.empty()) {
    out += "\nArguments:\n";
    AppendRows(out, rows);
  }
  rows.clear();
  for (std::span<const Option> options : {command.options, CommonOptions()})
    for (const Option& option : options) rows.push_back({SpellingOf(option), option.help});
  out += "\nOptions:\n";
  AppendRows(out, rows);
  if (!command.examples.empty()) out += "\nExamples:\n";
  for (const Example& example : command.examples) out += Cat("  # ", example.says, "\n  ", example.line, "\n");
  return out;
}

}  // namespace ferry::cli
