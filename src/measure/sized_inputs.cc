#include "measure/sized_inputs.h"

#include "base/error.h"

namespace ferry {

SizedInputs SizeInputs(const Model& model, const std::map<std::string, int64_t>& dimensions) {
  SizedInputs sized;
  for (const ValueInfo& input : model.graph.inputs) {
    if (model.graph.FindInitializer(input.name)) continue;
    sized.infos.push_back(input);
    for (const Dim& dim : input.type.shape.value_or(SymbolicShape{}))
      if (dim.named()) sized.dimensions[dim.symbol] = 1;
  }
  for (const auto& [name, size] : dimensions) {
    if (!sized.dimensions.count(name))
      Fail(ErrorCode::kInvalidArgument, "no input has a dimension named '", Printable(name), "'");
    sized.dimensions[name] = size;
  }
  for (const ValueInfo& input : sized.infos) {
    Type type = input.type;
    if (type.shape)
      for (Dim& dim : *type.shape)
        if (dim.named()) dim = Dim(sized.dimensions.at(dim.symbol));
    sized.facts[input.name].type = std::move(type);
  }
  return sized;
}

}  // namespace ferry
