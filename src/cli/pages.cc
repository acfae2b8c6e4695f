// The tables of docs/cli.md and the manual page, from the same tables as --help.
#include "base/text.h"
#include "base/version.h"
#include "cli/command.h"

namespace ferry::cli {
namespace {

std::string Escaped(std::string_view text, std::string_view what) {
  std::string out;
  for (char c : text) {
    if (what.find(c) != what.npos) out += '\\';
    out += c;
  }
  return out;
}

// roff takes a dot or quote at the start of a line for its own, and a plain '-' for a hyphen.
std::string Roff(std::string_view text) {
  std::string out = Escaped(text, "\\-");
  return !out.empty() && (out[0] == '.' || out[0] == '\'') ? "\\&" + out : out;
}

void AddEntry(std::string& out, std::string_view name, std::string_view help) {
  out += Cat(".TP\n.B ", Roff(name), "\n", Roff(help), "\n");
}

std::string Suffix(bool repeated, bool required) {
  return Cat(repeated ? " (may be repeated)" : "", required ? " (needed)" : "");
}

void AddManSection(std::string& out, const Command& command) {
  out += Cat(".SS ", Roff(UsageOf(command)), "\n", Roff(command.summary), ".\n");
  for (const std::string& paragraph : SplitText(command.details, '\n'))
    if (!paragraph.empty()) out += Cat(".PP\n", Roff(paragraph), "\n");
  for (const Position& position : command.positions) AddEntry(out, position.name, position.help);
  for (const Option& option : command.options)
    AddEntry(out, SpellingOf(option), Cat(option.help, Suffix(option.repeated, option.required)));
  for (const Example& example : command.examples)
    out += Cat(".PP\n", Roff(example.says), ":\n.PP\n.nf\n", Roff(example.line), "\n.fi\n");
}

}  // namespace

std::string MarkdownFor(const Command& command) {
  std::string out = Cat("    ", UsageOf(command), "\n\n| | |\n|---|---|\n");
  for (const Position& position : command.positions)
    out += Cat("| `", position.name, "` | ", Escaped(position.help, "|"), Suffix(position.repeated, false), " |\n");
  for (const Option& option : command.options)
    out += Cat("| `", Escaped(SpellingOf(option), "|"), "` | ", Escaped(option.help, "|"),
               option.words.empty() ? "" : Cat(": ", Join(SplitText(option.words, ' '), ", ")),
               Suffix(option.repeated, option.required), " |\n");
  return out;
}

std::string MarkdownTables() {
  std::string out;
  for (const Command* command : AllCommands())
    out += Cat("<!-- ferry ", command->name, ": made by scripts/cli_tables -->\n", MarkdownFor(*command),
               "<!-- end -->\n");
  return out;
}

std::string ManualPage() {
  std::string out =
      Cat(".TH FERRY 1 \"\" \"ferry ", kVersion, "\"\n.SH NAME\nferry \\- ",
          "carries trained models from PyTorch to wherever they run\n.SH SYNOPSIS\n.B ferry\n",
          ".I COMMAND\n[arguments]\n.SH DESCRIPTION\n",
          "Exports PyTorch programs to ONNX, and reads, checks, explains, runs, compares and measures ONNX ",
          "models. Every command has the options\n.B \\-\\-help\nand\n.B \\-\\-json\n(print the result as ",
          "JSON).\n.SH COMMANDS\n");
  for (const Command* command : AllCommands()) AddManSection(out, *command);
  return out +
         ".SH EXIT STATUS\n0 done and good; 1 the answer is no; 2 wrong usage; 3 the model or input cannot be used.\n";
}

}  // namespace ferry::cli
