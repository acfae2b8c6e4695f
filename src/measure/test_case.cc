#include "measure/test_case.h"

#include <new>

#include "base/directory.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "engine/session.h"
#include "measure/randomness.h"
#include "onnx/value_file.h"

namespace ferry {
namespace {

void Collect(const std::string& folder, int depth, std::vector<TestCase>& found) {
  constexpr int kDeepest = 8;
  if (IsFile(JoinPath(folder, "model.onnx"))) {
    found.push_back({std::string(LastPart(folder)), folder});
    return;
  }
  if (depth == kDeepest) return;
  for (const std::string& name : ListDirectory(folder)) {
    std::string below = JoinPath(folder, name);
    if (IsDirectory(below)) Collect(below, depth + 1, found);
  }
}

// PREFIX_0.pb, PREFIX_1.pb … in a data set, as values of the types that the model declares for them.
std::vector<Value> ReadValues(const std::string& folder, std::string_view prefix, const std::vector<ValueInfo>& infos) {
  std::vector<Value> values;
  for (size_t i = 0;; ++i) {
    std::string path = JoinPath(folder, Cat(prefix, "_", i, ".pb"));
    if (!IsFile(path)) return values;
    if (i >= infos.size())
      Fail(ErrorCode::kInvalidArgument, path, ": the model has only ", infos.size(), " ", prefix, "s");
    values.push_back(ReadValueFile(path, &infos[i].type));
  }
}

class CaseRunner {
 public:
  CaseRunner(const TestCase& test_case, Tolerance tolerance, const SessionOptions& options)
      : test_case_(test_case),
        tolerance_(tolerance),
        session_(Session::Open(JoinPath(test_case.folder, "model.onnx"), options)),
        random_(FindRandomValues(session_->model())) {}

  // The first reason why the case does not pass; empty when it does.
  std::string Run() {
    bool any = false;
    for (const std::string& name : ListDirectory(test_case_.folder)) {
      if (name.compare(0, 13, "test_data_set") != 0) continue;
      any = true;
      std::string reason = RunDataSet(JoinPath(test_case_.folder, name));
      if (!reason.empty()) return reason;
    }
    return any ? "" : "there is no test_data_set folder in it";
  }

 private:
  std::string RunDataSet(const std::string& folder) {
    const Graph& graph = session_->model().graph;
    std::vector<Value> values = ReadValues(folder, "input", graph.inputs);
    std::vector<Value> recorded = ReadValues(folder, "output", graph.outputs);
    std::vector<NamedValue> inputs;
    for (size_t i = 0; i < values.size(); ++i) inputs.emplace_back(graph.inputs[i].name, std::move(values[i]));
    std::vector<Value> outputs = session_->Run(inputs);
    if (recorded.size() != outputs.size())
      return Cat("the model has ", outputs.size(), " outputs, recorded are ", recorded.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      const std::string& name = graph.outputs[i].name;
      auto random = random_.find(name);
      std::string reason = random == random_.end() ? Compare(outputs[i], recorded[i], tolerance_).Explain()
                                                   : ExplainBadDraw(outputs[i], recorded[i], random->second);
      if (!reason.empty()) return Cat("output '", Printable(name), "': ", reason);
    }
    return {};
  }

  const TestCase& test_case_;
  Tolerance tolerance_;
  std::shared_ptr<Session> session_;
  std::map<std::string, RandomRange> random_;
};

}  // namespace

std::vector<TestCase> FindTestCases(const std::string& folder) {
  std::vector<TestCase> found;
  Collect(folder, 0, found);
  if (found.empty())
    Fail(ErrorCode::kNotFound, Printable(folder), ": there is no model.onnx in this folder or below it");
  return found;
}

void CaseTolerances::Load(const std::string& path) {
  try {
    Json tolerances = Json::Parse(MappedFile::Open(path)->text());
    for (const auto& [name, entry] : tolerances.AsObject()) {
      Tolerance& tolerance = by_name_.insert_or_assign(name, kUsual).first->second;
      if (const Json* rtol = entry.Find("rtol")) tolerance.rtol = rtol->AsDouble();
      if (const Json* atol = entry.Find("atol")) tolerance.atol = atol->AsDouble();
      if (tolerance.atol >= 1) tolerance.integers = tolerance.atol;
    }
  } catch (Error& error) {
    throw error.code() == ErrorCode::kNotFound ? error : error.At(path);
  }
}

Tolerance CaseTolerances::For(const std::string& name) const {
  auto it = by_name_.find(name);
  return it == by_name_.end() ? kUsual : it->second;
}

CaseResult RunTestCase(const TestCase& test_case, Tolerance tolerance, const SessionOptions& options) {
  CaseResult result;
  try {
    result.reason = CaseRunner(test_case, tolerance, options).Run();
  } catch (const Error& error) {
    result.reason = error.message();
  } catch (const std::bad_alloc&) {
    result.reason = "there is not enough memory";
  }
  result.passed = result.reason.empty();
  return result;
}

}  // namespace ferry
