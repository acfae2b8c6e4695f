#include "torch/export.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "torch/archive.h"
#include "torch/export_support.h"
#include "torch/lower/cell.h"
#include "torch/lower/finish.h"
#include "torch/lower/lowerer.h"
#include "torch/pt2_archive.h"
#include "torch/script/library.h"
#include "torch/script/script_export.h"

namespace ferry::torch {
namespace {

class ProgramExport {
 public:
  ProgramExport(const ExportedProgram& program, const ExportOptions& options)
      : program_(program),
        options_(options),
        builder_(options.opset),
        dynamic_(options.dynamic),
        shapes_(OpenInputs()),
        lowerer_(builder_,
                 {.training = options.training, .is_python = options.is_python, .opened = dynamic_.opened()}) {
    builder_.folds_weights = options.fold;
    lowerer_.keep_trace = options.keep_trace;
  }

  Exported Run() {
    std::vector<Arg> inputs;
    for (const InputSpec& spec : program_.inputs) inputs.push_back(BindInput(spec));
    CheckUnusedNames("input", options_.input_names, user_inputs_);
    ReadSizesFromInputs(builder_);
    WarnOfFixedBatch();
    dynamic_.RefuseCapturedNumbers(program_.graph);
    std::vector<Arg> outputs = lowerer_.LowerGraph(program_.graph, inputs);
    exported_.model.graph = FinishGraph(builder_, NamedOutputs(outputs));
    dynamic_.Prove(exported_.model.graph);
    WarnOfRandomNumbers(exported_.model.graph, exported_.warnings);
    FillModel();
    dynamic_.Rename(exported_.model);
    return std::move(exported_);
  }

 private:
  const TensorMeta& MetaOf(const std::string& name) const {
    auto it = program_.graph.tensors.find(name);
    if (it == program_.graph.tensors.end())
      Fail(ErrorCode::kInvalidModel, "the program does not describe '", Printable(name), "'");
    return it->second;
  }

  // The shapes of the user's tensors, with the axes opened that were asked for: known before anything is lowered.
  std::map<std::string, SymbolicShape> OpenInputs() {
    std::map<std::string, SymbolicShape> shapes;
    std::vector<std::string> names;
    size_t position = 0;
    for (const InputSpec& spec : program_.inputs) {
      if (spec.kind != InputSpec::Kind::kUser) continue;
      bool is_input = spec.argument.is<TensorName>() || spec.argument.is<SymbolName>();
      const TensorName* tensor = spec.argument.get<TensorName>();
      if (tensor) {
        names.push_back(position < options_.input_names.size() ? options_.input_names[position] : tensor->name);
        shapes[tensor->name] = dynamic_.Open(names.back(), tensor->name, MetaOf(tensor->name).sizes);
      }
      if (is_input) ++position;
    }
    dynamic_.RequireAllUsed(names);
    return shapes;
  }

  // Whether the first size of every input is a number: most likely the size of the batch at capture.
  void WarnOfFixedBatch() {
    std::string example;
    for (const Operand& input : builder_.graph().inputs) {
      if (!input.has_rank() || input.rank() < 2) continue;
      if (!input.dim(0).known()) return;
      if (example.empty()) example = input.record()->name;
    }
    if (example.empty()) return;
    exported_.warnings.push_back(
        Cat("every input has a fixed first dimension: the batch size is the one at capture. To keep it open, capture "
            "with torch.export.export(model, args, dynamic_shapes={'",
            Printable(example), "': {0: torch.export.Dim('batch')}}), or try ",
            options_.is_python ? Cat("dynamic_axes={'", Printable(example), "': {0: 'batch'}}")
                               : Cat("--dynamic ", Printable(example), ":0=batch")));
  }

  Arg BindInput(const InputSpec& spec) {
    switch (spec.kind) {
      case InputSpec::Kind::kUser: return BindUserInput(spec);
      case InputSpec::Kind::kParameter:
      case InputSpec::Kind::kBuffer:
      case InputSpec::Kind::kTensorConstant: return BindWeight(spec);
      case InputSpec::Kind::kConstant: return BindConstant(spec.argument);
      case InputSpec::Kind::kToken: return {};
      case InputSpec::Kind::kCustomObject: break;
    }
    Fail(ErrorCode::kUnsupported, "the program takes the custom object '", Printable(spec.target),
         "', which has no export");
  }

  static Arg BindConstant(const Argument& argument) {
    if (const int64_t* integer = argument.get<int64_t>()) return Scalar(*integer);
    if (const double* number = argument.get<double>()) return Scalar(*number);
    if (const bool* truth = argument.get<bool>()) return Scalar(*truth);
    if (const std::string* text = argument.get<std::string>()) return *text;
    return {};
  }

  Arg BindUserInput(const InputSpec& spec) {
    if (const SymbolName* symbol = spec.argument.get<SymbolName>()) {
      Operand input = builder_.AddInput(InputName(symbol->name), Type::Tensor(DType::kInt64, SymbolicShape{}));
      auto it = program_.graph.symbols.find(symbol->name);
      return Scalar(Scalar::Kind::kInt, input, it == program_.graph.symbols.end() ? Dim() : it->second);
    }
    const TensorName* tensor = spec.argument.get<TensorName>();
    if (!tensor) return BindConstant(spec.argument);
    const TensorMeta& meta = MetaOf(tensor->name);
    if (meta.dtype == DType::kUndefined || meta.layout != kStridedLayout)
      Fail(ErrorCode::kUnsupported, "input '", Printable(tensor->name),
           "' has an element type or layout that ONNX lacks");
    std::string name = InputName(tensor->name);
    bool is_complex = IsComplex(meta.dtype);
    SymbolicShape shape = shapes_.at(tensor->name);
    if (is_complex) shape.push_back(Dim(2));
    DType stored = !is_complex ? meta.dtype : meta.dtype == DType::kComplex128 ? DType::kDouble : DType::kFloat;
    Operand input = builder_.AddInput(name, Type::Tensor(stored, std::move(shape)));
    if (size_t at = tensor_inputs_++; at < program_.sample_inputs.size())
      exported_.sample_inputs.emplace_back(name, AsPairs(program_.sample_inputs[at]));
    Arg cell = lowerer_.MakeCell(is_complex ? input.AsComplex() : input);
    // Strides and sizes at capture say nothing once a size is open.
    return dynamic_.opened().empty() ? Described(cell, meta) : cell;
  }

  static Arg Described(Arg cell, const TensorMeta& meta) {
    (*cell.get<std::shared_ptr<Cell>>())->meta = &meta;
    return cell;
  }

  std::string InputName(const std::string& own) {
    size_t at = user_inputs_++;
    return at < options_.input_names.size() ? options_.input_names[at] : own;
  }

  Arg BindWeight(const InputSpec& spec) {
    auto it = program_.weights.find(spec.target);
    if (it == program_.weights.end())
      Fail(ErrorCode::kInvalidModel, "the archive has no elements for '", Printable(spec.target), "'");
    const Tensor& tensor = it->second;
    const TensorName* name = spec.argument.get<TensorName>();
    const TensorMeta& meta = MetaOf(name ? name->name : std::string());
    std::optional<Shape> shape = ToConcrete(meta.sizes);
    if (meta.dtype != tensor.dtype() || !shape || !(*shape == tensor.shape()))
      Fail(ErrorCode::kInvalidModel, "'", Printable(spec.target), "' is stored as ", tensor.dtype(), tensor.shape(),
           ", the program says ", meta.dtype, meta.sizes);
    // Weights that are tied in the module stay one.
    std::string place = Cat(reinterpret_cast<uintptr_t>(tensor.raw()), tensor.dtype(), tensor.shape());
    auto [known, is_new] = by_place_.emplace(place, Operand());
    if (is_new || tensor.size() == 0) known->second = builder_.Weight(spec.target, AsPairs(tensor));
    Operand weight = known->second;
    return Described(lowerer_.MakeCell(IsComplex(tensor.dtype()) ? weight.AsComplex() : weight), meta);
  }

  std::vector<std::pair<std::string, Operand>> NamedOutputs(const std::vector<Arg>& outputs) {
    std::vector<std::pair<std::string, Operand>> named;
    size_t user_outputs = 0;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const OutputSpec& spec = program_.outputs[i];
      if (spec.kind == OutputSpec::Kind::kToken || spec.kind == OutputSpec::Kind::kGradient) continue;
      if (spec.kind != OutputSpec::Kind::kUser && spec.kind != OutputSpec::Kind::kLoss) {
        exported_.warnings.push_back(Cat("the program writes to '", Printable(spec.target),
                                         "'; an ONNX model keeps no state, so this is left out"));
        continue;
      }
      size_t at = user_outputs++;
      Operand value = OutputValue(outputs[i]);
      if (!value) continue;
      named.emplace_back(at < options_.output_names.size() ? options_.output_names[at] : std::string(), value);
    }
    CheckUnusedNames("output", options_.output_names, user_outputs);
    if (named.empty()) Fail(ErrorCode::kUnsupported, "the program has no outputs");
    return named;
  }

  Operand OutputValue(const Arg& output) {
    if (output.get<std::shared_ptr<Cell>>()) return lowerer_.Read(output);
    const Scalar* scalar = output.get<Scalar>();
    if (!scalar) return {};
    static constexpr DType kTypes[] = {DType::kBool, DType::kInt64, DType::kFloat, DType::kComplex64};
    return builder_.Of(*scalar, kTypes[static_cast<size_t>(scalar->kind())]);
  }

  void FillModel() {
    Model& model = exported_.model;
    DescribeModel(model);
    for (const auto& [symbol, range] : program_.ranges) {
      std::string lowest = range.lowest ? std::to_string(*range.lowest) : "",
                  highest = range.highest ? std::to_string(*range.highest) : "";
      model.metadata.emplace_back(Cat("ferry.range.", dynamic_.NewName(symbol)), Cat(lowest, "..", highest));
    }
  }

  const ExportedProgram& program_;
  const ExportOptions& options_;
  Builder builder_;
  DynamicAxes dynamic_;
  std::map<std::string, SymbolicShape> shapes_;
  Lowerer lowerer_;
  Exported exported_;
  size_t user_inputs_ = 0, tensor_inputs_ = 0;
  std::map<std::string, Operand> by_place_;
};

}  // namespace

Exported ExportProgram(const ExportedProgram& program, const ExportOptions& options) {
  Require(options.opset >= kOldestOpset, "opset ", options.opset, " is too old; exports are made for opset ",
          kOldestOpset, " and newer");
  return ProgramExport(program, options).Run();
}

namespace {

constexpr const char* kSaveTheProgram =
    "\nSave the program in Python: torch.export.save(torch.export.export(model.eval(), (x,)), 'model.pt2'), or "
    "torch.jit.script(model.eval()).save('model.pt')";

// What torch.save wrote: the most common thing to be tried instead of a program.
[[noreturn]] void ExplainCheckpoint(Archive& archive) {
  if (!archive.Has("data.pkl")) Fail(ErrorCode::kUnsupported, "the archive holds no program", kSaveTheProgram);
  bool is_module = false;
  try {
    archive.ReadPickle("data.pkl");
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    is_module = true;
  }
  if (is_module)
    Fail(ErrorCode::kUnsupported,
         "this is a pickled module (torch.save(model)): it names Python classes, whose code is "
         "not in the file",
         kSaveTheProgram);
  Fail(ErrorCode::kUnsupported, "these are weights without a program (torch.save(model.state_dict()))",
       kSaveTheProgram);
}

}  // namespace

Exported ExportArchive(Archive& archive, const ExportOptions& options) {
  if (script::HoldsScript(archive)) return ExportScript(archive, options);
  if (!HoldsExportedProgram(archive)) ExplainCheckpoint(archive);
  return ExportProgram(ReadPt2(archive), options);
}

Exported ExportFile(const std::string& path, const ExportOptions& options) {
  std::shared_ptr<Archive> archive = Archive::Open(path);
  try {
    return ExportArchive(*archive, options);
  } catch (Error& error) {
    throw error.At(Printable(path));
  }
}

}  // namespace ferry::torch
