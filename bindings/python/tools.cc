// What the command line does beside running a model, for ferry/_tools.py. Answers are dicts and lists.
#include <pybind11/stl.h>

#include "bindings.h"
#include "convert.h"
#include "convert/convert.h"
#include "convert/export_model.h"
#include "engine/check_inference.h"
#include "measure/summary.h"
#include "onnx/checker/problem_report.h"
#include "onnx/reader.h"
#include "onnx/writer.h"

namespace ferry::python {

py::object FromJson(const Json& json) {
  if (json.is_null()) return py::none();
  if (json.is_bool()) return py::bool_(json.AsBool());
  if (json.is_integer()) return py::int_(json.AsInt());
  if (json.is_number()) return py::float_(json.AsDouble());
  if (json.is_string()) return py::str(json.AsString());
  if (json.is_array()) {
    py::list list;
    for (const Json& element : json.AsArray()) list.append(FromJson(element));
    return list;
  }
  py::dict dict;
  for (const auto& [key, value] : json.AsObject()) dict[py::str(key)] = FromJson(value);
  return dict;
}

Model ReadAny(const py::object& source, bool load_external) {
  if (!py::isinstance<py::bytes>(source))
    return ReadModel(source.cast<std::string>(), {.load_external = load_external, .folder = {}});
  std::string_view view = source.cast<std::string_view>();
  return ReadModelFromMemory({reinterpret_cast<const std::byte*>(view.data()), view.size()}, KeepAlive(source));
}

namespace {

py::object Check(const py::object& source, bool inference) {
  Json list = Json::Array{};
  try {
    Model model = ReadAny(source);
    for (const Problem& problem : inference ? CheckFully(model) : CheckModel(model)) list.Add(ToJson(problem));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kNotFound || error.code() == ErrorCode::kIo) throw;
    Problem problem{.rule = "file.unreadable", .message = error.message(), .remedy = "export or copy the model again"};
    list.Add(ToJson(problem));
  }
  return FromJson(list);
}

py::dict Info(const py::object& source, const std::map<std::string, int64_t>& dimensions) {
  Model model = [&] {
    try {
      return ReadAny(source);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInvalidModel || py::isinstance<py::bytes>(source)) throw;
      return ReadAny(source, false);
    }
  }();
  ModelSummary summary = Summarize(model, dimensions);
  py::dict out, opsets, operators;
  for (const OpsetImport& opset : model.opsets)
    opsets[py::str(opset.domain.empty() ? "ai.onnx" : opset.domain)] = opset.version;
  for (const auto& [name, count] : summary.operators) operators[py::str(name)] = count;
  out["name"] = model.graph.name;
  out["producer"] = model.producer_name;
  out["producer_version"] = model.producer_version;
  out["ir_version"] = model.ir_version;
  out["opsets"] = opsets;
  out["inputs"] = Describe(summary.inputs);
  out["outputs"] = Describe(summary.outputs);
  out["nodes"] = summary.nodes;
  out["operators"] = operators;
  out["parameters"] = summary.parameters;
  out["parameter_bytes"] = summary.parameter_bytes;
  out["dimensions"] = summary.dimensions;
  out["activation_bytes"] = summary.activation_bytes;
  out["multiply_adds"] = summary.multiply_adds;
  out["unknown_because"] = summary.unknown_because;
  return out;
}

py::dict Convert(const py::object& source, int64_t opset, const std::string& out) {
  Model model = ReadAny(source);
  Model converted = ConvertOpset(model, opset);
  WriteModel(converted, out);
  py::dict said;
  said["from_opset"] = model.OpsetOf("");
  said["opset"] = opset;
  said["ir_version"] = converted.ir_version;
  said["nodes"] = converted.graph.nodes.size();
  return said;
}

py::dict Export(const std::string& path, const std::string& out, int opset, const std::vector<std::string>& inputs,
                const std::vector<std::string>& outputs,
                const std::vector<std::tuple<std::string, int64_t, std::string>>& dynamic, const std::string& mode,
                const std::map<std::string, py::object>& sample) {
  torch::ExportOptions options;
  if (!sample.empty()) options.samples.emplace_back();
  for (const auto& [name, array] : sample)
    options.samples.back().emplace_back(name, ToTensor(array, DType::kUndefined, name));
  if (mode == "eval") options.training = torch::LowerOptions::Training::kConvert;
  if (mode == "training") options.training = torch::LowerOptions::Training::kKeep;
  options.opset = opset;
  options.input_names = inputs;
  options.output_names = outputs;
  for (const auto& [input, axis, dimension] : dynamic) options.dynamic.push_back({input, axis, dimension});
  torch::Exported exported = [&] {
    py::gil_scoped_release unlocked;
    torch::Exported made = ExportModel(path, options);
    WriteModel(made.model, out);
    return made;
  }();
  py::dict said;
  said["opset"] = exported.model.OpsetOf("");
  said["nodes"] = exported.model.graph.nodes.size();
  said["inputs"] = Describe(exported.model.graph.inputs);
  said["outputs"] = Describe(exported.model.graph.outputs);
  said["warnings"] = exported.warnings;
  return said;
}

}  // namespace

void BindTools(py::module_& m) {
  m.def("check", &Check);
  m.def("info", &Info);
  m.def("convert", &Convert);
  m.def("export", &Export);
  m.attr("default_opset") = torch::kDefaultOpset;
}

}  // namespace ferry::python
