#include "engine/session.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>

#include "bindings.h"
#include "convert.h"
#include "engine/profile.h"
#include "engine/runtime.h"
#include "interrupt.h"
#include "measure/random_input.h"
#include "measure/recording.h"
#include "onnx/reader.h"
#include "value.h"

namespace ferry::python {
namespace {

using CancelFlag = std::atomic<bool>;

// Options of runs as Python sets them; 0: those of the session.
struct PyRunOptions {
  CancelFlag cancelled{false};
  std::chrono::nanoseconds time_limit{0};
  size_t max_bytes = 0;
  int64_t max_iterations = 0;
};

double ToSeconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

std::chrono::nanoseconds FromSeconds(double seconds) {
  Require(seconds >= 0 && seconds <= 1e9, "a time limit must be 0 to 1e9 seconds, got ", seconds);
  const std::chrono::nanoseconds time(static_cast<int64_t>(seconds * 1e9));
  return seconds > 0 ? std::max(time, std::chrono::nanoseconds(1)) : time;
}

// Options as Python sets them: those of the engine, and values to take instead of initializers of the model.
struct PyOptions : SessionOptions {
  std::map<std::string, Value> initializers;
};

void ReplaceInitializers(Model& model, const std::map<std::string, Value>& values) {
  for (const auto& [name, value] : values) {
    StoredTensor* stored = nullptr;
    for (StoredTensor& candidate : model.graph.initializers)
      if (candidate.name == name) stored = &candidate;
    if (!stored) Fail(ErrorCode::kInvalidArgument, "the model has no initializer '", Printable(name), "' to replace");
    const Tensor& tensor = value.tensor();
    if (tensor.dtype() != stored->dtype || tensor.shape().ToVector() != stored->dims)
      Fail(ErrorCode::kInvalidArgument, "initializer '", Printable(name), "' is ", stored->dtype, Shape(stored->dims),
           " and can't be replaced by ", tensor.dtype(), tensor.shape());
    stored->tensor = tensor;
    stored->storage = StoredTensor::Storage::kRaw;
    stored->external = {};
    stored->problem.clear();
  }
}

// Whether a weight that another file holds is still missing after the given ones are put in.
Model ReadForReplacing(const std::string& path, const std::map<std::string, Value>& values) {
  try {
    return ReadModel(path);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound && error.code() != ErrorCode::kIo) throw;
  }
  Model model = ReadModel(path, {.load_external = false, .folder = {}});
  for (const StoredTensor& stored : model.graph.initializers)
    if (stored.storage == StoredTensor::Storage::kExternal && !values.count(stored.name)) return ReadModel(path);
  return model;
}

class PySession {
 public:
  PySession(const py::object& source, const PyOptions& options) {
    if (py::isinstance<py::bytes>(source)) {
      std::shared_ptr<const void> keep = KeepAlive(source);
      std::string_view view = source.cast<std::string_view>();
      py::gil_scoped_release unlocked;
      Model model = ReadModelFromMemory({reinterpret_cast<const std::byte*>(view.data()), view.size()}, keep);
      ReplaceInitializers(model, options.initializers);
      session_ = Session::FromModel(std::move(model), options);
    } else {
      std::string path = source.cast<std::string>();
      py::gil_scoped_release unlocked;
      if (options.initializers.empty()) {
        session_ = Session::Open(path, options);
      } else {
        Model model = ReadForReplacing(path, options.initializers);
        ReplaceInitializers(model, options.initializers);
        session_ = Session::FromModel(std::move(model), options);
      }
    }
    for (const auto* list : {&session_->inputs(), &session_->overridable_inputs()})
      for (const ValueInfo& info : *list) type_of_[info.name] = &info.type;
  }

  py::list Run(const py::object& names, const py::object& feeds, PyRunOptions* given, Profile* profile) const {
    std::vector<Value> results = RunFed(names, feeds, given, {.profile = profile});
    py::list out(results.size());
    for (size_t i = 0; i < results.size(); ++i) out[i] = ToPython(results[i]);
    return out;
  }

  // Results stay values. `places` has one entry per result: a value whose memory it is to be written to, the name of
  // the device that it is to stay on, or None.
  py::list RunBound(const py::object& names, const py::object& feeds, const py::list& places, PyRunOptions* given,
                    Profile* profile) const {
    struct Place {
      std::optional<Tensor> tensor;
      MemorySpace* space = nullptr;  // where a tensor is made that has no place yet; null: on the host
    };
    std::vector<Place> bound;
    for (py::handle place : places) {
      if (py::isinstance<py::str>(place))
        bound.push_back({std::nullopt, &SpaceNamed(place.cast<std::string>(), 0)});
      else if (place.is_none())
        bound.emplace_back();
      else
        bound.push_back({place.cast<const PyValue&>().value.tensor()});
    }
    RunOptions options{.profile = profile};
    if (!bound.empty())
      options.place_result = [&bound](size_t index, DType dtype, const Shape& shape) {
        if (index >= bound.size()) return Tensor();
        if (bound[index].space) return Tensor(dtype, shape, *bound[index].space);
        if (!bound[index].tensor) return Tensor();
        const Tensor& there = *bound[index].tensor;
        if (there.dtype() != dtype || there.shape() != shape)
          Fail(ErrorCode::kInvalidArgument, "output ", index, " is bound to ", there.dtype(), there.shape(),
               ", and the run gives ", dtype, shape);
        return there;
      };
    std::vector<Value> results = RunFed(names, feeds, given, std::move(options));
    py::list out(results.size());
    for (size_t i = 0; i < results.size(); ++i) out[i] = py::cast(PyValue{results[i]});
    return out;
  }

  const Session& session() const { return *session_; }

 private:
  std::vector<NamedValue> InputsOf(const py::object& feeds) const {
    static const Type unknown;
    std::vector<NamedValue> inputs;
    auto add = [&](py::handle key, py::handle object) {
      if (!py::isinstance<py::str>(key))
        Fail(ErrorCode::kInvalidArgument, "the keys of the inputs must be names, got ", std::string(py::repr(key)));
      std::string name = key.cast<std::string>();
      auto known = type_of_.find(name);
      Value value = ToValue(object, known == type_of_.end() ? unknown : *known->second, name);
      inputs.emplace_back(std::move(name), std::move(value));
    };
    if (py::isinstance<py::dict>(feeds)) {
      for (auto [key, object] : py::reinterpret_borrow<py::dict>(feeds)) add(key, object);
    } else {
      for (py::handle key : feeds) add(key, feeds[key]);
    }
    return inputs;
  }

  std::vector<Value> RunFed(const py::object& names, const py::object& feeds, PyRunOptions* given,
                            RunOptions options) const {
    std::vector<NamedValue> inputs = InputsOf(feeds);
    std::vector<std::string> wanted;
    if (!names.is_none()) wanted = names.cast<std::vector<std::string>>();
    CancelFlag mine{false};
    CancelFlag& flag = given ? given->cancelled : mine;
    options.cancelled = &flag;
    if (given) {
      options.time_limit = given->time_limit;
      options.max_bytes = given->max_bytes;
      options.max_iterations = given->max_iterations;
    }
    bool interrupted = false;
    try {
      InterruptGuard guard(flag);
      py::gil_scoped_release unlocked;
      return session_->Run(inputs, wanted, options);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInvalidArgument) RequireInputNames(*session_, inputs);
      if (error.code() != ErrorCode::kCancelled || PyErr_CheckSignals() == 0) throw;
      interrupted = true;
    }
    // The caller asked to stop with Ctrl-C, not with his own flag.
    if (interrupted) flag.store(false);
    throw py::error_already_set();
  }

  std::shared_ptr<Session> session_;
  std::unordered_map<std::string, const Type*> type_of_;
};

py::dict MetadataOf(const Model& model) {
  py::dict custom;
  for (const auto& [key, value] : model.metadata) custom[py::str(key)] = value;
  py::dict out;
  out["producer_name"] = model.producer_name;
  out["graph_name"] = model.graph.name;
  out["domain"] = model.domain;
  out["description"] = model.doc;
  out["graph_description"] = model.graph.doc;
  out["version"] = model.model_version;
  out["custom_metadata_map"] = custom;
  return out;
}

}  // namespace

py::list Describe(const std::vector<ValueInfo>& infos) {
  py::list list;
  for (const ValueInfo& info : infos) {
    py::list shape;
    const Type& tensor = info.type.kind == Type::Kind::kOptional && info.type.element ? *info.type.element : info.type;
    if (tensor.shape)
      for (const Dim& dim : *tensor.shape)
        shape.append(dim.known()   ? py::object(py::int_(*dim.value))
                     : dim.named() ? py::object(py::str(dim.symbol))
                                   : py::none());
    list.append(py::make_tuple(info.name, OnnxTypeName(info.type), shape));
  }
  return list;
}

void BindSession(py::module_& m) {
  py::class_<PyOptions>(m, "Options")
      .def(py::init<>())
      .def_readwrite("threads", &PyOptions::threads)
      .def_readwrite("optimize", &PyOptions::optimize)
      .def_readwrite("exact", &PyOptions::exact)
      .def_readwrite("tune", &PyOptions::tune)
      .def_readwrite("cache", &PyOptions::cache_folder)
      .def_readwrite("provider", &PyOptions::provider)
      .def_readwrite("device_memory", &PyOptions::device_memory)
      .def_property(
          "precision",
          [](const PyOptions& options) {
            constexpr const char* kNames[] = {"float32", "bf16", "tf32", "fp16"};
            return kNames[static_cast<size_t>(options.precision)];
          },
          [](PyOptions& options, const std::string& name) { options.precision = PrecisionNamed(name); })
      .def_property(
          "max_iterations", [](const PyOptions& options) { return options.limits.iterations; },
          [](PyOptions& options, int64_t count) { options.limits.iterations = count; })
      .def_property(
          "time_limit", [](const PyOptions& options) { return ToSeconds(options.limits.time); },
          [](PyOptions& options, double seconds) { options.limits.time = FromSeconds(seconds); })
      .def_property(
          "max_bytes", [](const PyOptions& options) { return options.limits.bytes; },
          [](PyOptions& options, size_t bytes) { options.limits.bytes = bytes; })
      .def_property(
          "max_expanded_nodes", [](const PyOptions& options) { return options.limits.expanded_nodes; },
          [](PyOptions& options, size_t nodes) { options.limits.expanded_nodes = nodes; })
      .def_readwrite("max_programs", &PyOptions::max_programs)
      .def_readwrite("runtime", &PyOptions::runtime)
      .def_readwrite("free_dimensions", &PyOptions::free_dimensions)
      .def("set_initializer", [](PyOptions& options, const std::string& name, const PyValue& value) {
        options.initializers[name] = value.value;
      });

  py::class_<Runtime, std::shared_ptr<Runtime>>(m, "Runtime")
      .def(py::init([](int threads) { return std::make_shared<Runtime>(threads); }))
      .def("threads", &Runtime::threads);

  py::class_<PyRunOptions>(m, "RunOptions")
      .def(py::init([] { return std::make_unique<PyRunOptions>(); }))
      .def("set_cancelled", [](PyRunOptions& options, bool value) { options.cancelled.store(value); })
      .def("cancelled", [](const PyRunOptions& options) { return options.cancelled.load(); })
      .def_property(
          "time_limit", [](const PyRunOptions& options) { return ToSeconds(options.time_limit); },
          [](PyRunOptions& options, double seconds) { options.time_limit = FromSeconds(seconds); })
      .def_readwrite("max_bytes", &PyRunOptions::max_bytes)
      .def_readwrite("max_iterations", &PyRunOptions::max_iterations);

  py::class_<Profile>(m, "Profile")
      .def(py::init<>())
      .def("write", &Profile::Write, py::call_guard<py::gil_scoped_release>())
      .def("start_ns", &Profile::start_ns)
      .def("__len__", &Profile::size);

  py::class_<PySession>(m, "Session")
      .def(py::init<py::object, const PyOptions&>())
      .def("run", &PySession::Run)
      .def("run_bound", &PySession::RunBound)
      .def("inputs", [](const PySession& s) { return Describe(s.session().inputs()); })
      .def("outputs", [](const PySession& s) { return Describe(s.session().outputs()); })
      .def("overridable", [](const PySession& s) { return Describe(s.session().overridable_inputs()); })
      .def("metadata", [](const PySession& s) { return MetadataOf(s.session().model()); })
      .def("threads", [](const PySession& s) { return s.session().threads(); })
      .def("random_inputs", [](const PySession& s, std::map<std::string, int64_t> dimensions, uint64_t seed) {
        py::dict out;
        for (const NamedValue& input : MakeRandomInputs(s.session(), {seed, std::move(dimensions)}))
          out[py::str(input.first)] = ToPython(input.second);
        return out;
      });
}

}  // namespace ferry::python
