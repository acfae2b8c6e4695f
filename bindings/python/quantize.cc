// Models in fewer bits, for ferry/_quantize.py.
#include "convert/quantize/quantize.h"

#include <pybind11/stl.h>

#include "bindings.h"
#include "interrupt.h"
#include "onnx/writer.h"

namespace ferry::python {
namespace {

using namespace quantize;

template <class Enum, size_t kCount>
Enum Word(const py::dict& options, const char* key, const char* const (&words)[kCount], Enum otherwise) {
  if (!options.contains(key)) return otherwise;
  const std::string word = py::cast<std::string>(options[key]);
  std::vector<std::string> all(words, words + kCount);
  for (size_t i = 0; i < kCount; ++i)
    if (word == words[i]) return static_cast<Enum>(i);
  Fail(ErrorCode::kInvalidArgument, key, " cannot be '", Printable(word), "'; it is one of ", Join(all, ", "));
}

template <class T>
void Take(const py::dict& options, const char* key, T& to) {
  if (options.contains(key)) to = py::cast<T>(options[key]);
}

QuantizeOptions OptionsFrom(const py::dict& said) {
  static constexpr const char* kReaders[] = {"cpu", "onnxruntime", "tensorrt", "tflite"};
  static constexpr const char* kRanges[] = {"best", "minmax", "percentile", "entropy", "mse"};
  static constexpr const char* kMethods[] = {"best", "nearest", "search", "gptq"};
  QuantizeOptions options;
  std::optional<int> bits;
  if (said.contains("bits")) bits = py::cast<int>(said["bits"]);
  SetForm(options, said.contains("form") ? py::cast<std::string>(said["form"]) : "int8", bits);
  options.conventions = Conventions::For(Word(said, "target", kReaders, Reader::kCpu));
  options.ranges = Word(said, "ranges", kRanges, RangeMethod::kBest);
  options.weights = Word(said, "method", kMethods, WeightMethod::kBest);
  Take(said, "data", options.data);
  Take(said, "test", options.test);
  Take(said, "percentile", options.percentile);
  Take(said, "block", options.block);
  Take(said, "standard_blocks", options.standard_blocks);
  Take(said, "qoperator", options.qoperator);
  if (options.qoperator) options.conventions.whole_bias = true;
  Take(said, "symmetric", options.conventions.symmetric_activations);
  Take(said, "signed_activations", options.conventions.signed_activations);
  Take(said, "per_channel", options.conventions.per_channel);
  Take(said, "unsigned_weights", options.conventions.unsigned_weights);
  Take(said, "seven_bits", options.conventions.seven_bits);
  Take(said, "whole_bias", options.conventions.whole_bias);
  Take(said, "nodes", options.nodes);
  Take(said, "keep", options.keep);
  Take(said, "operators", options.operators);
  Take(said, "half_inputs", options.half_inputs);
  Take(said, "methods", options.methods);
  Take(said, "threads", options.threads);
  Take(said, "least_snr", options.least_snr);
  Take(said, "keep_rows", options.keep_rows);
  if (said.contains("budget")) options.budget = ParseBudget(py::cast<std::string>(said["budget"]));
  return options;
}

// `path` may be empty: the bytes are given back only.
py::dict Quantize(const py::object& source, const py::dict& said, const std::string& path, bool external) {
  const Model model = ReadAny(source);
  const QuantizeOptions options = OptionsFrom(said);
  QuantizedModel made;
  std::string bytes;
  {
    py::gil_scoped_release unlocked;
    made = QuantizeModel(model, options);
    WriteOptions how;
    if (external) how.external = WriteOptions::External::kAlways;
    if (!path.empty()) WriteModel(made.model, path, how);
    if (path.empty()) bytes = SerializeModel(made.model);
  }
  py::dict result;
  result["report"] = FromJson(ToJson(made.report));
  result["text"] = ToText(made.report);
  result["html"] = ToHtml(made.report);
  result["model"] = path.empty() ? py::object(py::bytes(bytes)) : py::object(py::none());
  return result;
}

}  // namespace

void BindQuantize(py::module_& m) { m.def("quantize", &Quantize); }

}  // namespace ferry::python
