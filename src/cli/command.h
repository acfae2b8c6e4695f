// What a command is: one constant per file in src/cli/commands/, from which the parser, --help, the spelling hints and
// the shell completions are all made. CMake collects them by file name: adding a command is adding a file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ferry::cli {

// What a shell offers after an option or in a position.
enum class Completes : uint8_t { kNothing, kFile, kDirectory, kModel };

struct Option {
  std::string_view name;        // without its dashes
  char letter = 0;              // one-letter form, or 0
  std::string_view value = {};  // what its value is called in --help; empty for a flag
  std::string_view help;
  Completes completes = Completes::kNothing;
  bool repeated = false;
  bool required = false;
  std::string_view words = {};  // allowed values, separated by spaces; empty: anything
};

struct Position {
  std::string_view name;
  std::string_view help;
  Completes completes = Completes::kFile;
  bool optional = false;
  bool repeated = false;
  std::string_view words = {};
};

struct Example {
  std::string_view line;
  std::string_view says;
};

enum class Group : uint8_t { kUnderstand, kRun, kMake, kFerry };

class Arguments;

struct Command {
  std::string_view name;
  Group group = Group::kRun;
  std::string_view summary;       // one line in the list of commands
  std::string_view details = {};  // a paragraph or two in its own --help
  std::span<const Position> positions = {};
  std::span<const Option> options = {};
  std::span<const Example> examples = {};
  int (*run)(const Arguments&) = nullptr;
  // Takes the words as they are, unchecked: for a command that is another program.
  int (*hand_on)(std::span<const char* const>) = nullptr;
};

// Exit status, the same for every command.
inline constexpr int kGood = 0, kAnswerIsNo = 1, kWrongUsage = 2, kUnusable = 3;

// Thrown for a wrong command line: becomes one sentence and exit status 2.
struct UsageError {
  std::string message;
};

// A command line that was checked against its command's table.
class Arguments {
 public:
  static Arguments Parse(const Command& command, std::span<const char* const> words);

  bool wants_help() const { return Has("help"); }
  bool json() const { return Has("json"); }

  const std::vector<std::string>& positions() const { return positions_; }
  bool Has(std::string_view option) const;
  std::string Get(std::string_view option, std::string_view otherwise = {}) const;  // the last one given
  std::vector<std::string> All(std::string_view option) const;
  int64_t Int(std::string_view option, int64_t otherwise, int64_t least, int64_t most) const;
  double Number(std::string_view option, double otherwise) const;     // not negative
  uint64_t Bytes(std::string_view option, uint64_t otherwise) const;  // at least one: "500M", "1.5GB"
  // Every NAME=VALUE of a repeated option.
  std::vector<std::pair<std::string, std::string>> Pairs(std::string_view option) const;

 private:
  void CheckPositions(const Command& command) const;

  std::vector<std::string> positions_;
  std::vector<std::pair<std::string_view, std::string>> options_;
};

// Options that every command has: --help and --json.
std::span<const Option> CommonOptions();

extern const Command* const kCommandTable[];
extern const size_t kCommandTableSize;
std::span<const Command* const> AllCommands();
const Command* FindCommand(std::string_view name);

std::string GeneralHelp();
std::string HelpFor(const Command& command);
std::string UsageOf(const Command& command);   // "ferry run MODEL [options]"
std::string SpellingOf(const Option& option);  // "-o, --output OUT.onnx"

// The tables of docs/cli.md, for one command and for all between marks (see scripts/cli_tables); a page for man(1).
std::string MarkdownFor(const Command& command);
std::string MarkdownTables();
std::string ManualPage();

}  // namespace ferry::cli
