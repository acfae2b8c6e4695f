// Comparisons for ferry/_compare.py: a model against recordings, another model, or itself run in another way.
#include <pybind11/stl.h>

#include "bindings.h"
#include "convert.h"
#include "measure/compare/report.h"

namespace ferry::python {
namespace {

// A sample as Python gives it: its name, inputs and recorded outputs by the model's names.
using GivenSample = std::tuple<std::string, std::map<std::string, py::object>, std::map<std::string, py::object>>;

struct Request {
  py::object actual, expected;  // a path or bytes; expected may be None
  std::string against;          // "unoptimised", "float64", or empty
  std::vector<std::string> files;
  std::vector<GivenSample> given;
  int64_t random = 0;
  bool edge_cases = false;
  std::map<std::string, int64_t> dimensions;
  uint64_t seed = 1;
  double rtol = 1e-3, atol = 1e-5;
  bool layers = false;
};

Side OpenSide(const py::object& source) {
  if (!py::isinstance<py::bytes>(source)) {
    auto path = source.cast<std::string>();
    return Side::Open(path, {path, false, {}});
  }
  return Side::FromModel(ReadAny(source), {"model in memory", false, {}});
}

std::vector<NamedValue> ValuesOf(const std::map<std::string, py::object>& objects, const Session& session) {
  std::map<std::string, Type> types;
  for (const auto* list : {&session.inputs(), &session.overridable_inputs(), &session.outputs()})
    for (const ValueInfo& info : *list) types[info.name] = info.type;
  std::vector<NamedValue> values;
  for (const auto& [name, object] : objects) values.emplace_back(name, ToValue(object, types[name], name));
  return values;
}

std::vector<Sample> SamplesOf(const Request& request, const Session& session, bool two_sides) {
  std::vector<Sample> samples;
  for (const std::string& path : FindRecordings(request.files)) samples.push_back(ReadSample(path, session));
  for (const auto& [name, inputs, outputs] : request.given)
    samples.push_back({name, Sample::Kind::kRecorded, ValuesOf(inputs, session), ValuesOf(outputs, session)});
  if (!two_sides) return samples;
  int64_t random = samples.empty() ? std::max<int64_t>(1, request.random) : request.random;
  for (Sample& sample : MakeRandomSamples(session, request.dimensions, random, request.seed))
    samples.push_back(std::move(sample));
  if (request.edge_cases)
    for (Sample& sample : MakeEdgeCases(samples[0])) samples.push_back(std::move(sample));
  return samples;
}

Comparison CompareNow(const Request& request) {
  CompareOptions options;
  options.tolerance = {request.rtol, request.atol};
  options.always_trace = request.layers;
  Side side = OpenSide(request.actual);
  std::optional<Side> other;
  if (!request.expected.is_none())
    other = OpenSide(request.expected);
  else if (request.against == "float64")
    other = side.With({"its float64 run", true, side.how().options});
  else if (request.against == "unoptimised")
    other = side.With({"itself unoptimised", false, {.optimize = false}});
  else if (!request.against.empty())
    Fail(ErrorCode::kInvalidArgument, "a model can be held against its 'float64' or 'unoptimised' run, not against '",
         request.against, "'");
  std::vector<Sample> samples = SamplesOf(request, side.session(), other.has_value());
  py::gil_scoped_release unlocked;
  if (!other) return CompareWithRecordings(side, samples, options);
  NameTrust trust = request.expected.is_none() ? NameTrust::kSameModel : NameTrust::kHints;
  return CompareSides(side, *other, trust, samples, options);
}

}  // namespace

void BindCompare(py::module_& m) {
  py::class_<Request>(m, "CompareRequest")
      .def(py::init<>())
      .def_readwrite("actual", &Request::actual)
      .def_readwrite("expected", &Request::expected)
      .def_readwrite("against", &Request::against)
      .def_readwrite("files", &Request::files)
      .def_readwrite("given", &Request::given)
      .def_readwrite("random", &Request::random)
      .def_readwrite("edge_cases", &Request::edge_cases)
      .def_readwrite("dimensions", &Request::dimensions)
      .def_readwrite("seed", &Request::seed)
      .def_readwrite("rtol", &Request::rtol)
      .def_readwrite("atol", &Request::atol)
      .def_readwrite("layers", &Request::layers);
  py::class_<Comparison>(m, "Comparison")
      .def("facts", [](const Comparison& c) { return FromJson(ToJson(c)); })
      .def("html", [](const Comparison& c) { return ToHtml(c); })
      .def("verdict", [](const Comparison& c) { return VerdictText(c); })
      .def("cause", [](const Comparison& c) { return CauseText(c); })
      .def("fault", [](const Comparison& c) { return c.trace && c.trace->first ? FaultText(*c.trace->first) : ""; });
  m.def("compare", &CompareNow);
}

}  // namespace ferry::python
