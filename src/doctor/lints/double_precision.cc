// float64 inside a network whose inputs and outputs are not: usually a Python number that found its way in.
#include <algorithm>

#include "base/error.h"
#include "doctor/lint.h"
#include "engine/check_inference.h"
#include "graph/stored_tensors.h"
#include "measure/elements.h"

namespace ferry {
namespace {

bool IsDouble(const Type& type) { return type.dtype == DType::kDouble; }

// A model that is meant to be double says so at its door.
bool IsMeantToBeDouble(const Graph& graph) {
  auto is_double = [](const ValueInfo& value) { return IsDouble(value.type); };
  return std::any_of(graph.inputs.begin(), graph.inputs.end(), is_double) ||
         std::any_of(graph.outputs.begin(), graph.outputs.end(), is_double);
}

void Look(const Patient& patient, FindingList& findings) {
  const Graph& graph = patient.model().graph;
  if (IsMeantToBeDouble(graph)) return;
  for (const StoredTensor& tensor : graph.initializers)
    if (tensor.dtype == DType::kDouble)
      findings.Add({.value = tensor.name}, "initializer in double precision")
          .evidence.emplace_back("elements", Cat(tensor.tensor.size()));
  for (const Node& node : graph.nodes)
    for (const std::string& output : node.outputs) {
      const Type* type = output.empty() ? nullptr : patient.TypeOf(output);
      if (!type || !IsDouble(*type)) continue;
      Finding& finding = findings.Add(PlaceOf(node), "computes in double precision");
      finding.place.value = output;
      finding.evidence.emplace_back("type", ToText(*type));
      break;
    }
}

Tensor ToFloat(const Tensor& tensor) {
  std::vector<double> numbers = ToDoubles(tensor);
  Tensor floats(DType::kFloat, tensor.shape());
  std::copy(numbers.begin(), numbers.end(), floats.MutableData<float>());
  return floats;
}

void Fix(const Patient&, Model& model, FixLog& log) {
  int64_t tensors = 0, casts = 0;
  ForEachStoredTensor(model, [&](StoredTensor& stored) {
    if (stored.dtype != DType::kDouble || !stored.tensor.defined()) return;
    StoredTensor made = MakeStored(stored.name, ToFloat(stored.tensor));
    made.doc = stored.doc;
    made.metadata = stored.metadata;
    stored = std::move(made);
    ++tensors;
  });
  constexpr auto kDouble = static_cast<int64_t>(DType::kDouble), kFloat = static_cast<int64_t>(DType::kFloat);
  ForEachNode(model, [&](Node& node, const std::string&) {
    for (const char* name : {"to", "dtype", "output_datatype"}) {
      Attribute* attribute = node.Find(name);
      if (!attribute || !std::holds_alternative<int64_t>(attribute->held)) continue;
      if (std::get<int64_t>(attribute->held) != kDouble) continue;
      attribute->held = kFloat;
      ++casts;
    }
  });
  ForEachGraph(model.graph, [&](const Graph& found) {
    auto& infos = const_cast<Graph&>(found).value_infos;
    infos.erase(std::remove_if(infos.begin(), infos.end(), [](const ValueInfo& info) { return IsDouble(info.type); }),
                infos.end());
  });
  for (const Problem& problem : CheckFully(model))
    if (problem.severity == Severity::kError)
      Fail(ErrorCode::kUnsupported, "cannot be written in single precision: ", ToText(problem));
  log.changes.push_back(Cat(tensors, " constants and ", casts, " casts are single precision now"));
}

}  // namespace

extern const Lint lint_double_precision;
constinit const Lint lint_double_precision = {
    .name = "double-precision",
    .meaning = "A network with single-precision inputs and outputs computes in single precision.",
    .remedy = "Give constants the network's type before exporting, or let 'ferry doctor --fix' try single precision.",
    .look = Look,
    .stage = 50,
    .fix = Fix,
};

}  // namespace ferry
