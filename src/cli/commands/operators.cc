#include "cli/command.h"
#include "cli/output.h"
#include "measure/operator_page.h"
#include "ops/operator.h"

namespace ferry::cli {
namespace {

int Run(const Arguments& arguments) {
  if (!arguments.json()) {
    Print(OperatorPage());
    return kGood;
  }
  Json list = Json::Array{};
  for (const Operator* op : AllOperators()) list.Add(Json().Set("domain", op->domain).Set("name", op->name));
  PrintJson(Json().Set("operators", std::move(list)));
  return kGood;
}

}  // namespace

extern const Command command_operators;
constinit const Command command_operators = {
    .name = "operators",
    .group = Group::kFerry,
    .summary = "List the operators Ferry can run, with versions and types",
    .run = Run,
};

}  // namespace ferry::cli
