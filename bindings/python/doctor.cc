// The doctor, for ferry/_doctor.py.
#include "doctor/doctor.h"

#include <pybind11/stl.h>

#include "bindings.h"
#include "onnx/writer.h"

namespace ferry::python {
namespace {

py::list ToList(const std::vector<Finding>& findings) {
  py::list list;
  for (const Finding& finding : findings) list.append(FromJson(ToJson(finding)));
  return list;
}

// What is found, and with a path to write to, what was mended and what is left.
py::dict Doctor(const py::object& source, const std::vector<std::string>& data, const std::vector<std::string>& targets,
                const std::vector<std::string>& only, const std::string& fixed) {
  DoctorOptions options{.path = py::isinstance<py::bytes>(source) ? "" : source.cast<std::string>(),
                        .data = data,
                        .targets = targets,
                        .only = only};
  Model model = ReadAny(source);
  std::vector<Finding> findings, left;
  MendedModel mended;
  {
    py::gil_scoped_release unlocked;
    findings = Examine(model, options);
    left = findings;
    if (!fixed.empty()) {
      mended = Mend(model, options);
      WriteModel(mended.model, fixed);
      left = Examine(mended.model, options);
    }
  }
  py::dict said;
  said["findings"] = ToList(findings);
  said["left"] = ToList(left);
  py::list mendings;
  for (const Mending& mending : mended.mendings) mendings.append(FromJson(ToJson(mending)));
  said["mendings"] = mendings;
  return said;
}

}  // namespace

void BindDoctor(py::module_& m) { m.def("doctor", &Doctor); }

}  // namespace ferry::python
