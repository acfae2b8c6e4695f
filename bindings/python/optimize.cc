// Smaller models, for ferry/_optimize.py.
#include "convert/optimize.h"

#include <pybind11/stl.h>

#include "bindings.h"
#include "doctor/proof.h"
#include "onnx/writer.h"

namespace ferry::python {
namespace {

// `path` may be empty: the bytes are given back only.
py::dict Optimize(const py::object& source, const std::map<std::string, int64_t>& dimensions,
                  const std::vector<std::string>& data, const std::string& path, bool unproved) {
  const Model model = ReadAny(source);
  OptimizedModel made;
  Proof proof;
  std::string bytes;
  bool holds = false;
  {
    py::gil_scoped_release unlocked;
    made = OptimizeModel(model, {dimensions});
    const Model before = WithDimensions(model, dimensions);
    const DoctorOptions options{.path = {}, .data = data, .targets = {}, .only = {}};
    const Patient patient(before, options);
    if (unproved)
      ProveSameWhereItRuns(patient, made.model, proof);
    else
      ProveSameOutputs(patient, made.model, proof);
    holds = Holds(proof);
    if (holds && !path.empty()) WriteModel(made.model, path);
    if (holds && path.empty()) bytes = SerializeModel(made.model);
  }
  py::list steps;
  for (const ProofStep& step : proof) steps.append(py::make_tuple(step.what, step.holds, step.max_abs, step.detail));
  py::dict said;
  said["proved"] = holds;
  said["nodes_before"] = made.nodes_before;
  said["nodes_after"] = made.nodes_after;
  said["weight_bytes_before"] = made.weight_bytes_before;
  said["weight_bytes_after"] = made.weight_bytes_after;
  said["done"] = made.done;
  said["proof"] = steps;
  said["model"] = holds && path.empty() ? py::object(py::bytes(bytes)) : py::object(py::none());
  return said;
}

}  // namespace

void BindOptimize(py::module_& m) { m.def("optimize", &Optimize); }

}  // namespace ferry::python
