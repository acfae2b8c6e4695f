#include "base/version.h"

#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "ops/operator.h"

namespace ferry::cli {
namespace {

int Run(const Arguments& arguments) {
  auto operators = AllOperators().size();
  if (arguments.json())
    PrintJson(Json().Set("version", kVersion).Set("operators", operators));
  else
    Print(Cat("ferry ", kVersion, " (", operators, " operators)\n"));
  return kGood;
}

}  // namespace

extern const Command command_version;
constinit const Command command_version = {
    .name = "version",
    .group = Group::kFerry,
    .summary = "Print the version of Ferry",
    .run = Run,
};

}  // namespace ferry::cli
