#include "torch/script/script_export.h"

#include "base/error.h"
#include "torch/export_support.h"
#include "torch/lower/finish.h"
#include "torch/script/builtins.h"
#include "torch/script/runtime_list.h"
#include "torch/script/script_inputs.h"

namespace ferry::torch {
namespace {

using script::ScriptValue;

class ScriptExport {
 public:
  ScriptExport(script::Library& library, const ExportOptions& options, bool open_batch)
      : options_(options),
        builder_(options.opset),
        lowerer_(builder_, {.training = options.training, .is_python = options.is_python}),
        interpreter_(library, lowerer_),
        inputs_(library, interpreter_, options, open_batch) {
    builder_.folds_weights = options.fold;
    builder_.names_sizes = true;
    lowerer_.keep_trace = options.keep_trace;
  }

  Exported Run() {
    ScriptValue module = interpreter_.root();
    script::Arguments arguments = inputs_.Bind(interpreter_.ForwardOf(module));
    ReadSizesFromInputs(builder_);
    CollectOutputs(interpreter_.CallForward(module, arguments), "");
    if (outputs_.empty()) Fail(ErrorCode::kUnsupported, "the program has no tensors as outputs");
    CheckUnusedNames("output", options_.output_names, outputs_.size());
    for (size_t i = 0; i < options_.output_names.size(); ++i) outputs_[i].first = options_.output_names[i];
    exported_.model.graph = FinishGraph(builder_, outputs_);
    WarnOfRandomNumbers(exported_.model.graph, exported_.warnings);
    exported_.sample_inputs = inputs_.samples();
    if (exported_.sample_inputs.size() != exported_.model.graph.inputs.size()) exported_.sample_inputs.clear();
    return std::move(exported_);
  }

  bool opened_batch() const { return inputs_.opened_batch(); }

 private:
  // Outputs in order; those of dicts and named tuples keep their names.
  void CollectOutputs(const ScriptValue& value, const std::string& name) {
    auto below = [&](const std::string& inner) { return name.empty() ? inner : Cat(name, "_", inner); };
    if (value.is_tensor() || value.is<Scalar>()) {
      static constexpr DType kTypes[] = {DType::kBool, DType::kInt64, DType::kFloat, DType::kComplex64};
      const Scalar* number = value.get<Scalar>();
      Operand output =
          number ? builder_.Of(*number, kTypes[static_cast<size_t>(number->kind())]) : interpreter_.TensorOf(value);
      outputs_.emplace_back(name.empty() ? "output" : name, output);
    } else if (const script::RuntimeList* list = value.runtime_list()) {
      outputs_.emplace_back(name.empty() ? "output" : name, script::SequenceOf(interpreter_, *list));
    } else if (const std::vector<ScriptValue>* items = value.items()) {
      const auto* tuple = value.get<ScriptValue::Tuple>();
      const script::Class* named = tuple ? (*tuple)->type : nullptr;
      for (size_t i = 0; i < items->size(); ++i)
        CollectOutputs((*items)[i], named && i < named->fields.size() ? below(named->fields[i].name)
                                                                      : Cat(name.empty() ? "output" : name, "_", i));
    } else if (const auto* dict = value.get<ScriptValue::Dict>()) {
      for (const auto& [key, held] : (*dict)->items) CollectOutputs(held, below(script::ShowValue(key)));
    } else if (!value.is_none()) {
      exported_.warnings.push_back(Cat("an output of the program is ", value.KindName(), ", which is left out"));
    }
  }

  const ExportOptions& options_;
  Builder builder_;
  Lowerer lowerer_;
  script::Interpreter interpreter_;
  script::ScriptInputs inputs_;
  Exported exported_;
  std::vector<std::pair<std::string, Operand>> outputs_;
};

}  // namespace

Exported ExportScript(Archive& archive, const ExportOptions& options) {
  Require(options.opset >= kOldestOpset, "opset ", options.opset, " is too old; exports are made for opset ",
          kOldestOpset, " and newer");
  script::Library library(archive);
  Exported exported;
  // Where nobody says which sizes are open, the batch's is, if the program allows it.
  ScriptExport open(library, options, true);
  try {
    exported = open.Run();
    if (open.opened_batch())
      exported.warnings.push_back(Cat(
          "TorchScript does not say which sizes are open: the first dimension ('batch') is, all others are as in the "
          "sample inputs; ",
          options.is_python ? "dynamic_axes={'NAME': {AXIS: 'DIM'}}" : "--dynamic NAME:AXIS=DIM",
          " says it otherwise"));
  } catch (const Error& error) {
    if (!open.opened_batch() || error.code() == ErrorCode::kInvalidModel || error.code() == ErrorCode::kLimit) throw;
    exported = ScriptExport(library, options, false).Run();
    exported.warnings.push_back(
        Cat("every size is as in the sample inputs, for the batch cannot be left open: ", error.message()));
  }
  DescribeModel(exported.model);
  return exported;
}

}  // namespace ferry::torch
