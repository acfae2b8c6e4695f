// Runs a network on a sample and writes what was executed as an ONNX model.
#pragma once

#include <map>
#include <optional>
#include <tuple>

#include "ferry/nn/sequence_layers.hpp"

namespace ferry {
inline namespace api_v1 {
namespace nn {

struct ExportOptions {
  std::vector<std::string> input_names;   // "input", or "input_0" … without
  std::vector<std::string> output_names;  // "output", or "output_0" … without
  int64_t opset_version = 20;             // 11 to 28
  bool do_constant_folding = true;        // what depends on weights alone is computed now
  // Sizes that are open in the model: {{"input", {{0, "batch"}}}}. That they really are is tried with another size: a
  // network that fixes one of them is refused, with the operator that does.
  std::map<std::string, std::map<int64_t, std::string>> dynamic_axes;
};

struct ExportResult {
  std::vector<std::string> warnings;  // told to the warning handler too
};

namespace detail {

inline std::vector<Tensor> Outputs(const Tensor& output) { return {output}; }
inline std::vector<Tensor> Outputs(const std::vector<Tensor>& outputs) { return outputs; }
inline std::vector<Tensor> Outputs(const LSTM::Result& result) { return {result.output, result.h, result.c}; }
inline std::vector<Tensor> Outputs(const GRU::Result& result) { return {result.output, result.h}; }
template <class A, class B>
std::vector<Tensor> Outputs(const std::pair<A, B>& outputs) {
  return {outputs.first, outputs.second};
}
template <class... Tensors>
std::vector<Tensor> Outputs(const std::tuple<Tensors...>& outputs) {
  return std::apply([](const auto&... each) { return std::vector<Tensor>{each...}; }, outputs);
}

class Exporter {
 public:
  using Run = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

  Exporter(Run run, Module* module, const ExportOptions& options)
      : run_(std::move(run)), module_(module), options_(options) {}

  ExportResult Export(const std::vector<Tensor>& inputs, const std::string& path) {
    if (context.recording) Refuse("export_onnx was called while another export records");
    input_names_ = Names(options_.input_names, inputs.size(), "input");
    Recording recording = Trace(inputs);
    if (HasDynamicInputs()) ProveDynamic(recording, inputs);
    ferry::detail::Check(
        ferry_tape_write(recording.tape.get(), path.c_str(), options_.opset_version, options_.do_constant_folding));
    for (size_t i = 0; i < ferry_tape_warning_count(recording.tape.get()); ++i) {
      recording.warnings.emplace_back(ferry_tape_warning(recording.tape.get(), i));
      CurrentWarningHandler()(recording.warnings.back());
    }
    return {.warnings = std::move(recording.warnings)};
  }

 private:
  static std::vector<std::string> Names(const std::vector<std::string>& given, size_t count, const std::string& what) {
    if (given.size() > count)
      Refuse(std::to_string(given.size()) + " " + what + " names are given, there are " + std::to_string(count) + " " +
             what + "s");
    std::vector<std::string> names = given;
    while (names.size() < count) names.push_back(count == 1 ? what : what + "_" + std::to_string(names.size()));
    return names;
  }

  bool HasDynamicInputs() const {
    return std::any_of(input_names_.begin(), input_names_.end(),
                       [&](const std::string& name) { return options_.dynamic_axes.count(name) > 0; });
  }

  void WarnOfTraining() {
    if (!module_) return;
    std::string training;
    for (const auto& [name, module] : module_->named_modules())
      if (module->is_training() && (module->kind() == "Dropout" || module->kind().starts_with("BatchNorm")))
        training += (training.empty() ? "" : ", ") + name + " (" + module->kind() + ")";
    if (training.empty() && !module_->is_training()) return;
    Warn("THE MODEL IS EXPORTED IN TRAINING MODE: call eval() first unless that is meant" +
         (training.empty() ? "" : "; these layers behave differently while training: " + training));
  }

  Recording Trace(const std::vector<Tensor>& inputs) {
    static std::atomic<uint64_t> next_serial{1};
    Recording recording;
    ferry_tape* tape = nullptr;
    ferry::detail::Check(ferry_tape_create(&tape));
    recording.tape.reset(tape);
    recording.serial = next_serial++;
    if (module_)
      for (const auto& [name, tensor] : module_->state_dict()) recording.parameters.emplace(&tensor.held(), name);
    std::vector<Tensor> traced;
    for (size_t i = 0; i < inputs.size(); ++i) {
      traced.emplace_back(inputs[i].value().Share());
      Held& held = traced.back().held();
      ferry::detail::Check(ferry_tape_input(tape, input_names_[i].c_str(), held.value.handle(), &held.id));
      held.tape = recording.serial;
      held.traced = true;
    }
    context.recording = &recording;
    struct Stop {
      ~Stop() { context.recording = nullptr; }
    } stop;
    WarnOfTraining();
    std::vector<Tensor> outputs = run_(traced);
    std::vector<std::string> names = Names(options_.output_names, outputs.size(), "output");
    for (size_t i = 0; i < outputs.size(); ++i)
      ferry::detail::Check(ferry_tape_output(tape, names[i].c_str(), IdOf(recording, outputs[i])));
    for (const auto& [name, axes] : options_.dynamic_axes)
      for (const auto& [axis, dimension] : axes)
        ferry::detail::Check(ferry_tape_dynamic(tape, name.c_str(), axis, dimension.c_str()));
    return recording;
  }

  // The inputs with their dynamic sizes changed; elements are repeated or left out.
  std::vector<Tensor> Resized(const std::vector<Tensor>& inputs, const std::function<int64_t(int64_t)>& change) const {
    std::vector<Tensor> resized = inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      auto axes = options_.dynamic_axes.find(input_names_[i]);
      if (axes == options_.dynamic_axes.end()) continue;
      for (const auto& [axis, dimension] : axes->second) {
        int64_t size = inputs[i].size(axis), wanted = change(size);
        std::vector<int64_t> rows;
        for (int64_t row = 0; row < wanted; ++row) rows.push_back(row % std::max<int64_t>(size, 1));
        resized[i] = op("Gather", {resized[i], Tensor::ints(rows)}, {{"axis", inputs[i].NormalAxis(axis)}});
      }
    }
    return resized;
  }

  // Traces the network again at other sizes: it has to run the same operators with the same constants. A size of 1
  // proves nothing, for it goes together with any other; two larger ones have to work, the sample's counted.
  void ProveDynamic(const Recording& recording, const std::vector<Tensor>& inputs) {
    using Changes = std::vector<std::pair<int64_t, int64_t>>;  // a factor and what is added then
    bool starts_at_one = HasSizeOne(inputs);
    int missing = starts_at_one ? 2 : 1;
    std::string failure;
    for (const auto& [factor, offset] :
         starts_at_one ? Changes{{2, 0}, {3, 0}, {4, 0}, {5, 0}} : Changes{{2, 0}, {3, 0}, {1, 1}, {1, 2}, {1, -1}}) {
      std::optional<Recording> other = Retrace(
          inputs, [factor = factor, offset = offset](int64_t size) { return size * factor + offset; }, failure);
      if (!other) continue;
      ferry::detail::Check(ferry_tape_compare(recording.tape.get(), other->tape.get()));
      if (--missing == 0) return;
    }
    Refuse("axes are asked to be dynamic, but the network cannot be run with other sizes than the sample's: " +
           failure);
  }

  bool HasSizeOne(const std::vector<Tensor>& inputs) const {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (auto axes = options_.dynamic_axes.find(input_names_[i]); axes != options_.dynamic_axes.end())
        for (const auto& [axis, dimension] : axes->second)
          if (inputs[i].size(axis) == 1) return true;
    return false;
  }

  std::optional<Recording> Retrace(const std::vector<Tensor>& inputs, const std::function<int64_t(int64_t)>& change,
                                   std::string& failure) {
    struct Repeating {
      Repeating() { context.repeats = true; }
      ~Repeating() { context.repeats = false; }
    } repeating;
    try {
      std::vector<Tensor> resized = Resized(inputs, change);
      if (HasSizeOne(resized)) return std::nullopt;
      return Trace(resized);
    } catch (const Error& error) {
      if (failure.empty()) failure = error.what();
      return std::nullopt;
    }
  }

  Run run_;
  Module* module_;
  const ExportOptions& options_;
  std::vector<std::string> input_names_;
};

}  // namespace detail

// Runs `model` on the sample inputs and writes what was executed, and only that, to `path`: the path that C++ code
// took, loops unrolled. `model` is a Module with a forward() for these inputs, or anything that can be called with
// them.
template <class Model, class... Tensors>
ExportResult export_onnx(Model& model, const std::tuple<Tensors...>& inputs, const std::string& path,
                         const ExportOptions& options = {}) {
  auto run = [&](const std::vector<Tensor>& traced) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      if constexpr (requires { model.call(traced[I]...); })
        return detail::Outputs(model.call(traced[I]...));
      else if constexpr (requires { model.forward(traced[I]...); })
        return detail::Outputs(model.forward(traced[I]...));
      else
        return detail::Outputs(model(traced[I]...));
    }
    (std::index_sequence_for<Tensors...>());
  };
  Module* module = nullptr;
  if constexpr (std::is_base_of_v<Module, Model>) module = &model;
  return detail::Exporter(run, module, options).Export(detail::Outputs(inputs), path);
}
template <class Model>
ExportResult export_onnx(Model& model, const Tensor& input, const std::string& path,
                         const ExportOptions& options = {}) {
  return export_onnx(model, std::tuple(input), path, options);
}

}  // namespace nn
}  // namespace api_v1
}  // namespace ferry
