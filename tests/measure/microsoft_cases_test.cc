// The recorded cases of com.microsoft, run node by node: operators that become others when a model is prepared have a
// kernel of their own too, and a rule that must not contradict what comes out.
#include <gtest/gtest.h>

#include "base/directory.h"
#include "measure/difference.h"
#include "measure/test_case.h"
#include "onnx/reader.h"
#include "onnx/upgrade/upgrade.h"
#include "onnx/value_file.h"
#include "ops/evaluate.h"
#include "ops/infer_graph.h"
#include "passes/inline_functions.h"

namespace ferry {
namespace {

Value ReadInMemory(const std::string& path, const Type& type) {
  Value value = ReadValueFile(path, &type);
  return value.is_tensor() ? Value(value.tensor().Clone()) : value;
}

void AlignWeights(Graph& graph) {
  for (StoredTensor& initializer : graph.initializers) initializer.tensor = initializer.Get().Clone();
  for (Node& node : graph.nodes)
    for (Attribute& attribute : node.attributes)
      if (auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.held); body && *body) AlignWeights(**body);
}

// Empty when an inferred type says nothing false of a value.
std::string Contradiction(const Type& inferred, const Tensor& actual) {
  if (!inferred.is_tensor()) return "";
  if (inferred.dtype != DType::kUndefined && inferred.dtype != actual.dtype()) return ToText(inferred);
  if (!inferred.shape) return "";
  if (inferred.shape->size() != actual.rank()) return ToText(inferred);
  for (size_t i = 0; i < actual.rank(); ++i)
    if ((*inferred.shape)[i].known() && *(*inferred.shape)[i].value != actual.dim(i)) return ToText(inferred);
  return "";
}

void RunCase(const TestCase& test_case, Tolerance tolerance) {
  Model model = ReadModel(JoinPath(test_case.folder, "model.onnx"));
  UpgradeToNewest(model);
  InlineFunctions(model);
  AlignWeights(model.graph);
  std::vector<Value> inputs;
  FactsByName facts;
  for (size_t i = 0; i < model.graph.inputs.size(); ++i) {
    std::string path = JoinPath(test_case.folder, Cat("test_data_set_0/input_", i, ".pb"));
    if (!IsFile(path)) break;
    inputs.push_back(ReadInMemory(path, model.graph.inputs[i].type));
    facts[model.graph.inputs[i].name].type = TypeOf(inputs.back());
  }
  std::vector<Value> outputs = EvaluateGraph(model.graph, inputs, RunServices{});
  InferOptions rules_only;
  rules_only.largest_computed = 1;
  GraphFacts inferred = InferGraph(model.graph, facts, rules_only);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ValueInfo& info = model.graph.outputs[i];
    std::string path = JoinPath(test_case.folder, Cat("test_data_set_0/output_", i, ".pb"));
    Difference difference = Compare(outputs[i], ReadInMemory(path, info.type), tolerance);
    EXPECT_EQ(difference.Explain(), "") << info.name;
    EXPECT_EQ(Contradiction(inferred.Find(info.name)->type, outputs[i].tensor()), "") << info.name;
  }
}

TEST(MicrosoftCases, RunNodeByNode) {
  std::string folder = Cat(FERRY_TEST_DATA, "/ms-ops");
  CaseTolerances tolerances;
  tolerances.Load(JoinPath(folder, "tolerances.json"));
  std::vector<TestCase> cases = FindTestCases(folder);
  EXPECT_EQ(cases.size(), 645u);
  for (const TestCase& test_case : cases) {
    SCOPED_TRACE(test_case.name);
    EXPECT_NO_THROW(RunCase(test_case, tolerances.For(test_case.name)));
  }
}

}  // namespace
}  // namespace ferry
