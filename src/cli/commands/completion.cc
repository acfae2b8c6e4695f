#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"

namespace ferry::cli {
namespace {

constexpr Position kPositions[] = {
    {.name = "SHELL", .help = "bash or zsh", .completes = Completes::kNothing, .words = "bash zsh"},
};

constexpr Example kExamples[] = {
    {"source <(ferry completion bash)", "in this shell"},
    {"ferry completion bash > ~/.local/share/bash-completion/completions/ferry", "in every bash"},
    {"ferry completion zsh > ~/.zfunc/_ferry", "in every zsh with ~/.zfunc in fpath"},
};

// Calls visit(option) for all options of a command, those that every command has last.
template <class Visit>
void ForEachOption(const Command& command, const Visit& visit) {
  for (std::span<const Option> options : {command.options, CommonOptions()})
    for (const Option& option : options) visit(option);
}

std::string BashAction(Completes completes, std::string_view words) {
  if (!words.empty()) return Cat("COMPREPLY=($(compgen -W '", words, "' -- \"$cur\"))");
  switch (completes) {
    case Completes::kFile: return "COMPREPLY=($(compgen -f -- \"$cur\"))";
    case Completes::kDirectory: return "COMPREPLY=($(compgen -d -- \"$cur\"))";
    case Completes::kModel: return "COMPREPLY=($(compgen -d -- \"$cur\") $(compgen -f -X '!*.onnx' -- \"$cur\"))";
    case Completes::kNothing: break;
  }
  return "COMPREPLY=()";
}

std::string BashCommand(const Command& command) {
  std::string out = Cat("    ", command.name, ")\n      case $prev in\n");
  std::string names;
  ForEachOption(command, [&](const Option& option) {
    names += Cat(names.empty() ? "" : " ", "--", option.name);
    if (option.value.empty()) return;
    std::string pattern = option.letter ? Cat("--", option.name, "|-", option.letter) : Cat("--", option.name);
    out += Cat("        ", pattern, ") ", BashAction(option.completes, option.words), "; return ;;\n");
  });
  out += Cat("      esac\n      if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W '", names,
             "' -- \"$cur\")); return; fi\n");
  if (!command.positions.empty()) {
    const Position& position = command.positions.front();
    out += Cat("      ", BashAction(position.completes, position.words), "\n");
  }
  return out + "      ;;\n";
}

std::string Bash() {
  std::string names, cases;
  for (const Command* command : AllCommands()) {
    names += Cat(names.empty() ? "" : " ", command->name);
    cases += BashCommand(*command);
  }
  return Cat(
      "# bash completion for ferry\n_ferry() {\n  local cur=${COMP_WORDS[COMP_CWORD]} "
      "prev=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  if [[ $COMP_CWORD -eq 1 ]]; then COMPREPLY=($(compgen -W '",
      names, " help' -- \"$cur\")); return; fi\n  case ${COMP_WORDS[1]} in\n", cases,
      "    help) COMPREPLY=($(compgen -W '", names,
      "' -- \"$cur\")) ;;\n  esac\n}\ncomplete -o filenames -F _ferry ferry\n");
}

// zsh reads ':' and brackets as its own in a description, and the whole stands in single quotes.
std::string ZshText(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\'') {
      out += "'\\''";
      continue;
    }
    if (c == ':' || c == '[' || c == ']') out += '\\';
    out += c;
  }
  return out;
}

std::string ZshAction(Completes completes, std::string_view words) {
  if (!words.empty()) return Cat("(", words, ")");
  switch (completes) {
    case Completes::kFile: return "_files";
    case Completes::kDirectory: return "_files -/";
    case Completes::kModel: return "_files -g \"*.onnx\"";
    case Completes::kNothing: break;
  }
  return " ";
}

std::string ZshCommand(const Command& command) {
  std::string out = Cat("    ", command.name, ")\n      _arguments \\\n");
  ForEachOption(command, [&](const Option& option) {
    std::string star = option.repeated ? "*" : "";
    std::string value =
        option.value.empty() ? "" : Cat(":", ZshText(option.value), ":", ZshAction(option.completes, option.words));
    out += Cat("        '", star, "--", option.name, "[", ZshText(option.help), "]", value, "' \\\n");
    if (option.letter)
      out += Cat("        '", star, "-", option.letter, "[", ZshText(option.help), "]", value, "' \\\n");
  });
  for (const Position& position : command.positions)
    out += Cat("        '",
               position.repeated   ? "*:"
               : position.optional ? "::"
                                   : ":",
               ZshText(position.name), ":", ZshAction(position.completes, position.words), "' \\\n");
  return out + "        && return 0\n      ;;\n";
}

std::string Zsh() {
  std::string described, cases;
  for (const Command* command : AllCommands()) {
    described += Cat("    '", command->name, ":", ZshText(command->summary), "'\n");
    cases += ZshCommand(*command);
  }
  return Cat(
      "#compdef ferry\n_ferry() {\n  local -a commands=(\n", described,
      "  )\n  if (( CURRENT == 2 )); then _describe command commands; return; fi\n"
      "  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n",
      cases,
      "  esac\n}\nif [[ $zsh_eval_context[-1] == loadautofunc ]]; then _ferry \"$@\"; else compdef _ferry ferry; fi\n");
}

int Run(const Arguments& arguments) {
  std::string script = arguments.positions()[0] == "bash" ? Bash() : Zsh();
  if (arguments.json())
    PrintJson(Json().Set("shell", arguments.positions()[0]).Set("script", script));
  else
    Print(script);
  return kGood;
}

}  // namespace

extern const Command command_completion;
constinit const Command command_completion = {
    .name = "completion",
    .group = Group::kFerry,
    .summary = "Print a script that completes ferry's commands and options in a shell",
    .positions = kPositions,
    .examples = kExamples,
    .run = Run,
};

}  // namespace ferry::cli
