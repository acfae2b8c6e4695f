#include "tests/torch/lower_call.h"

#include "engine/session.h"
#include "torch/export_support.h"
#include "torch/lower/finish.h"
#include "torch/lower/lowerer.h"

namespace ferry::torch {

std::vector<Tensor> LowerAndRun(const std::string& target,
                                const std::vector<std::pair<std::string, CallArgument>>& arguments) {
  Builder builder(20);
  Lowerer lowerer(builder, {});
  std::vector<std::pair<std::string, Arg>> args;
  std::vector<NamedValue> inputs;
  for (const auto& [parameter, argument] : arguments) {
    if (const Tensor* tensor = std::get_if<Tensor>(&argument)) {
      std::string name = "input" + std::to_string(inputs.size());
      Operand input = builder.AddInput(name, Type::Tensor(tensor->dtype(), ToSymbolic(tensor->shape())));
      args.emplace_back(parameter, lowerer.MakeCell(input));
      inputs.emplace_back(name, *tensor);
    } else {
      args.emplace_back(parameter, std::get<Arg>(argument));
    }
  }
  std::vector<std::pair<std::string, Operand>> outputs;
  for (const Arg& result : lowerer.Run(target, args))
    outputs.emplace_back("output" + std::to_string(outputs.size()), lowerer.Read(result));
  Model model;
  DescribeModel(model);
  model.graph = FinishGraph(builder, outputs);
  std::vector<Tensor> results;
  for (const Value& value : Session::FromModel(std::move(model), {.threads = 1})->Run(inputs))
    results.push_back(value.tensor());
  return results;
}

}  // namespace ferry::torch
