#include <cstdio>
#include <new>

#include "base/atomic_file.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/output.h"

namespace ferry::cli {
namespace {

int RefuseUsage(std::string_view command, std::string_view message) {
  std::string line = Cat("ferry", command.empty() ? "" : " ", command, ": ", message, "\n  see: ferry",
                         command.empty() ? "" : " ", command, " --help\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
  return kWrongUsage;
}

int RefuseInput(std::string_view command, bool json, std::string_view code, std::string_view message) {
  std::string line = Cat("ferry ", command, ": ", message, "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
  if (json) PrintJson(Json().Set("error", Json().Set("code", code).Set("message", message)));
  return kUnusable;
}

int RunCommand(const Command& command, const Arguments& arguments) {
  try {
    return command.run(arguments);
  } catch (const Error& error) {
    return RefuseInput(command.name, arguments.json(), ErrorCodeName(error.code()), error.message());
  } catch (const std::bad_alloc&) {
    return RefuseInput(command.name, arguments.json(), ErrorCodeName(ErrorCode::kLimit), "there is not enough memory");
  }
}

int Main(std::span<const char* const> words) {
  if (words.empty()) {
    Print(GeneralHelp());
    return kWrongUsage;
  }
  std::string_view name = words[0];
  if (name == "--help" || name == "-h" || name == "help") {
    std::string_view form = words.size() > 1 ? std::string_view(words[1]) : "";
    if (form == "--markdown" || form == "--man") {
      Print(form == "--man" ? ManualPage() : MarkdownTables());
      return kGood;
    }
    const Command* about = name == "help" && words.size() > 1 ? FindCommand(words[1]) : nullptr;
    Print(about ? HelpFor(*about) : GeneralHelp());
    return kGood;
  }
  if (name == "--version") name = "version";
  const Command* command = FindCommand(name);
  if (!command) {
    std::vector<std::string> names;
    for (const Command* known : AllCommands()) names.emplace_back(known->name);
    std::string closest = ClosestName(name, names);
    return RefuseUsage("", Cat("there is no command '", Printable(name), "'",
                               closest.empty() ? "" : Cat("; did you mean '", closest, "'?")));
  }
  if (command->hand_on) return command->hand_on(words.subspan(1));
  try {
    Arguments arguments = Arguments::Parse(*command, words.subspan(1));
    if (arguments.wants_help()) {
      Print(HelpFor(*command));
      return kGood;
    }
    return RunCommand(*command, arguments);
  } catch (const UsageError& error) {
    return RefuseUsage(command->name, error.message);
  }
}

}  // namespace
}  // namespace ferry::cli

int main(int count, char** words) {
  ferry::ReportFileSizeLimit();
  int status = ferry::cli::Main({words + 1, static_cast<size_t>(count > 0 ? count - 1 : 0)});
  // Output that never reached the disk or the pipe is not a success.
  if (std::fflush(stdout) != 0 && status == ferry::cli::kGood) status = ferry::cli::kUnusable;
  return status;
}
