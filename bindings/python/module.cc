// The compiled part of the Python package: sessions, and the calls that need the library. Everything a user sees is in
// ferry/*.py, which is written on top of this.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <signal.h>

#include "convert.h"
#include "engine/session.h"
#include "graph/model.h"
#include "onnx/reader.h"

namespace ferry::python {
namespace {

std::atomic<bool> interrupted{false};
struct sigaction python_handler;

void OnInterrupt(int signal) {
  interrupted.store(true, std::memory_order_relaxed);
  if (python_handler.sa_handler != SIG_DFL && python_handler.sa_handler != SIG_IGN) python_handler.sa_handler(signal);
}

// While a model runs on the main thread, Ctrl-C also ends the run. Python's own handler is called as well, so that
// KeyboardInterrupt is raised when the run returns.
class InterruptGuard {
 public:
  explicit InterruptGuard(bool watch) : watching_(watch) {
    if (!watching_) return;
    interrupted.store(false, std::memory_order_relaxed);
    struct sigaction ours = {};
    ours.sa_handler = OnInterrupt;
    sigaction(SIGINT, &ours, &python_handler);
  }
  ~InterruptGuard() {
    if (watching_) sigaction(SIGINT, &python_handler, nullptr);
  }

 private:
  bool watching_;
};

bool OnMainThread() {
  static const unsigned long main_thread =
      py::module_::import("threading").attr("main_thread")().attr("ident").cast<unsigned long>();
  return PyThread_get_thread_ident() == main_thread;
}

class PySession {
 public:
  PySession(py::object source, const SessionOptions& options) {
    if (py::isinstance<py::bytes>(source)) {
      auto* held = new py::bytes(source);
      std::shared_ptr<const void> keep(held, [](const void* p) {
        py::gil_scoped_acquire gil;
        delete static_cast<const py::bytes*>(p);
      });
      std::string_view view = *held;
      py::gil_scoped_release unlocked;
      Model model = ReadModelFromMemory({reinterpret_cast<const std::byte*>(view.data()), view.size()}, keep);
      session_ = Session::FromModel(std::move(model), options);
    } else {
      std::string path = source.cast<std::string>();
      py::gil_scoped_release unlocked;
      session_ = Session::Open(path, options);
    }
    for (const auto* list : {&session_->inputs(), &session_->overridable_inputs()})
      for (const ValueInfo& info : *list) type_of_[info.name] = &info.type;
  }

  py::list Run(py::object names, const py::dict& feeds, std::shared_ptr<std::atomic<bool>> cancel) {
    std::vector<NamedValue> inputs;
    for (auto [key, object] : feeds) {
      std::string name = key.cast<std::string>();
      static const Type kUnknown;
      auto known = type_of_.find(name);
      inputs.emplace_back(name, ToValue(object, known == type_of_.end() ? kUnknown : *known->second, Cat("input '", name, "'")));
    }
    std::vector<std::string> wanted;
    if (!names.is_none()) wanted = names.cast<std::vector<std::string>>();
    std::vector<Value> results = RunUnlocked(inputs, wanted, cancel.get());
    py::list out(results.size());
    for (size_t i = 0; i < results.size(); ++i) out[i] = ToPython(results[i]);
    return out;
  }

  const Session& session() const { return *session_; }

 private:
  std::vector<Value> RunUnlocked(const std::vector<NamedValue>& inputs, const std::vector<std::string>& wanted,
                                 const std::atomic<bool>* cancel) {
    try {
      InterruptGuard guard(!cancel && OnMainThread());
      py::gil_scoped_release unlocked;
      return session_->Run(inputs, wanted, {.cancelled = cancel ? cancel : &interrupted});
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kCancelled && PyErr_CheckSignals() != 0) throw py::error_already_set();
      throw;
    }
  }

  std::shared_ptr<Session> session_;
  std::unordered_map<std::string, const Type*> type_of_;
};

py::object DimToPython(const Dim& dim) {
  if (dim.known()) return py::int_(*dim.value);
  if (dim.named()) return py::str(dim.symbol);
  return py::none();
}

// (name, 'tensor(float)', ['batch', 3])
py::list Describe(const std::vector<ValueInfo>& infos) {
  py::list list;
  for (const ValueInfo& info : infos) {
    py::list shape;
    const Type& tensor = info.type.kind == Type::Kind::kOptional && info.type.element ? *info.type.element : info.type;
    if (tensor.shape)
      for (const Dim& dim : *tensor.shape) shape.append(DimToPython(dim));
    list.append(py::make_tuple(info.name, OnnxTypeName(info.type), shape));
  }
  return list;
}

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

PYBIND11_MODULE(_ferry, m) {
  static py::object& raise = *new py::object(py::none());  // never destroyed: the interpreter may be gone by then
  m.def("set_error_factory", [](py::object factory) { raise = std::move(factory); },
        "factory(code, message) makes the exception for an error of the library");
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const Error& error) {
      py::object made = raise(ErrorCodeName(error.code()), error.message());
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
    }
  });

  m.def("version", [] { return FERRY_VERSION; });

  py::class_<SessionOptions>(m, "Options")
      .def(py::init<>())
      .def_readwrite("threads", &SessionOptions::threads)
      .def_readwrite("optimize", &SessionOptions::optimize)
      .def_readwrite("max_iterations", &SessionOptions::max_iterations)
      .def_readwrite("free_dimensions", &SessionOptions::free_dimensions);

  py::class_<std::atomic<bool>, std::shared_ptr<std::atomic<bool>>>(m, "CancelFlag")
      .def(py::init([] { return std::make_shared<std::atomic<bool>>(false); }))
      .def("set", [](std::atomic<bool>& flag, bool value) { flag.store(value); })
      .def("get", [](const std::atomic<bool>& flag) { return flag.load(); });

  py::class_<PySession>(m, "Session")
      .def(py::init<py::object, const SessionOptions&>())
      .def("run", &PySession::Run)
      .def("inputs", [](const PySession& s) { return Describe(s.session().inputs()); })
      .def("outputs", [](const PySession& s) { return Describe(s.session().outputs()); })
      .def("overridable", [](const PySession& s) { return Describe(s.session().overridable_inputs()); })
      .def("metadata", [](const PySession& s) { return MetadataOf(s.session().model()); })
      .def("threads", [](const PySession& s) { return s.session().threads(); });
}

}  // namespace ferry::python
