#include "tests/torch/export_case.h"

#include "base/error.h"
#include "convert/export_model.h"
#include "engine/session.h"
#include "measure/difference.h"
#include "tensor/npz.h"

namespace ferry::torch {
namespace {

// Complex inputs are pairs to an ONNX model.
Tensor AsModelInput(const Tensor& tensor) {
  if (!IsComplex(tensor.dtype())) return tensor;
  Shape shape = tensor.shape();
  shape.push_back(2);
  DType part = tensor.dtype() == DType::kComplex128 ? DType::kDouble : DType::kFloat;
  return Tensor::Borrow(part, shape, tensor.raw(), std::make_shared<Tensor>(tensor));
}

std::string CompareRecording(const Session& session, const std::string& path) {
  std::vector<Tensor> given, expected;
  for (const auto& [name, tensor] : ReadNpz(path)) {
    if (name.starts_with("in"))
      given.push_back(AsModelInput(tensor));
    else if (name.starts_with("out"))
      expected.push_back(tensor);
  }
  std::vector<NamedValue> inputs;
  for (size_t i = 0; i < given.size() && i < session.inputs().size(); ++i)
    inputs.emplace_back(session.inputs()[i].name, given[i]);
  std::vector<Value> outputs = session.Run(inputs);
  if (outputs.size() < expected.size())
    return Cat("the model has ", outputs.size(), " outputs, the recording ", expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    Difference difference = Compare(outputs[i], Value(expected[i]), {.rtol = 1e-3, .atol = 1e-4}, TypeRule::kRecorded);
    if (!difference.within()) return Cat("out", i, ": ", difference.Explain());
  }
  return {};
}

}  // namespace

CaseOutcome RunExportCase(const std::string& program, const std::vector<std::string>& recordings,
                          const ExportOptions& options) {
  CaseOutcome outcome;
  Exported exported;
  try {
    exported = ExportModel(program, options);
  } catch (const Error& error) {
    outcome.kind = CaseOutcome::Kind::kRefused;
    outcome.reason = error.code() == ErrorCode::kInternal ? Cat("INTERNAL ", error.message()) : error.message();
    return outcome;
  }
  outcome.nodes = exported.model.graph.nodes.size();
  try {
    std::shared_ptr<Session> session = Session::FromModel(std::move(exported.model), {.threads = 1});
    for (const std::string& recording : recordings) {
      outcome.reason = CompareRecording(*session, recording);
      if (!outcome.reason.empty()) break;
    }
  } catch (const Error& error) {
    outcome.reason = Cat("does not run: ", error.message());
  }
  if (!outcome.reason.empty()) outcome.kind = CaseOutcome::Kind::kWrong;
  return outcome;
}

}  // namespace ferry::torch
