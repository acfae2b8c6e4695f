// Inference held against what really comes out, on every case of ONNX's own operator tests, on random cases, and on
// every value inside.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/directory.h"
#include "engine/prepare.h"
#include "measure/test_case.h"
#include "onnx/reader.h"
#include "onnx/value_file.h"
#include "ops/evaluate.h"
#include "ops/infer_graph.h"
#include "tests/support/codecs.h"

namespace ferry {
namespace {

// Operators whose output sizes depend on the values that flow through them.
const std::set<std::string> kSizedByValues = {"NonZero",      "Unique",           "Compress",   "NonMaxSuppression",
                                              "StringSplit",  "StringNormalizer", "Loop",       "If",
                                              "ImageDecoder", "SequenceAt",       "SequenceMap"};

struct LoadedCase {
  std::string name;
  Graph graph;
  std::vector<Value> inputs;
  std::map<std::string, Value> values;  // everything that was computed
};

LoadedCase Load(const TestCase& test_case) {
  LoadedCase loaded{test_case.name, PrepareGraph(ReadModel(JoinPath(test_case.folder, "model.onnx"))), {}, {}};
  for (size_t i = 0; i < loaded.graph.inputs.size(); ++i) {
    std::string path = JoinPath(test_case.folder, Cat("test_data_set_0/input_", i, ".pb"));
    if (!IsFile(path)) break;
    Value value = ReadValueFile(path, &loaded.graph.inputs[i].type);
    loaded.inputs.push_back(value.is_tensor() ? Value(value.tensor().Clone()) : value);
  }
  EvaluateGraph(loaded.graph, loaded.inputs, RunServices{}, {}, &loaded.values);
  return loaded;
}

using NamedSizes = std::map<std::string, int64_t>;

// Why `inferred` does not describe `actual`; empty when it does.
std::string Contradiction(const Type& inferred, const Value& actual, const NamedSizes& names) {
  if (inferred.kind == Type::Kind::kOptional)
    return actual.is_nothing() || !inferred.element ? "" : Contradiction(*inferred.element, actual, names);
  Type type = TypeOf(actual);
  if (inferred.kind == Type::Kind::kSequence) {
    if (!actual.is_sequence()) return "is no sequence";
    for (const Value& element : actual.sequence().elements)
      if (std::string why = Contradiction(*inferred.element, element, names); !why.empty()) return why;
    return "";
  }
  if (!inferred.known()) return "nothing is inferred";
  if (!inferred.is_tensor()) return inferred.kind == type.kind ? "" : Cat("is ", type);
  if (inferred.dtype != type.dtype) return Cat("is ", type);
  if (!inferred.shape) return "";
  if (inferred.shape->size() != type.shape->size()) return Cat("is ", type);
  for (size_t axis = 0; axis < type.shape->size(); ++axis) {
    const Dim& dim = (*inferred.shape)[axis];
    int64_t size = *(*type.shape)[axis].value;
    if (dim.known() && *dim.value != size) return Cat("is ", type);
    auto named = names.find(dim.symbol);
    if (dim.named() && named != names.end() && named->second != size)
      return Cat("is ", type, ", ", dim, " is ", named->second);
  }
  return "";
}

std::string ElementsContradiction(const ValueFacts& facts, const Value& actual, const NamedSizes& names) {
  if (!facts.elements || !actual.is_tensor()) return "";
  std::vector<int64_t> values = ToInt64Vector(actual.tensor());
  if (values.size() != facts.elements->size())
    return Cat("has ", values.size(), " elements, inferred ", *facts.elements);
  for (size_t i = 0; i < values.size(); ++i) {
    const Dim& dim = (*facts.elements)[i];
    auto named = names.find(dim.symbol);
    bool wrong =
        dim.known() ? *dim.value != values[i] : dim.named() && named != names.end() && named->second != values[i];
    if (wrong) return Cat("element ", i, " is ", values[i], ", inferred ", *facts.elements);
  }
  return "";
}

bool IsComplete(const Type& type) { return !type.is_tensor() || (type.shape && ToConcrete(*type.shape)); }

void ExpectTrue(const LoadedCase& loaded, const GraphFacts& facts, const NamedSizes& names) {
  for (const Node& node : loaded.graph.nodes) {
    for (const std::string& output : node.outputs) {
      auto actual = loaded.values.find(output);
      if (output.empty() || actual == loaded.values.end() || !actual->second.present()) continue;
      const ValueFacts* found = facts.Find(output);
      ASSERT_TRUE(found) << loaded.name << ": " << output;
      EXPECT_EQ(Contradiction(found->type, actual->second, names), "")
          << loaded.name << ": " << Describe(node) << " '" << output << "', inferred " << ToText(found->type);
      EXPECT_EQ(ElementsContradiction(*found, actual->second, names), "") << loaded.name << ": " << Describe(node);
    }
  }
}

// The rules alone; with `largest` 1, single numbers are computed on the way.
InferOptions RulesOnly(int64_t largest) {
  InferOptions options;
  options.largest_computed = largest;
  return options;
}

template <class Check>
void ForEachCase(const Check& check) {
  for (const char* folder : {"onnx-node", "peers-random"}) {
    for (const TestCase& test_case : FindTestCases(JoinPath(FERRY_TEST_DATA, folder))) {
      try {
        if (testing::IsForThisBuild(ReadModel(JoinPath(test_case.folder, "model.onnx")).graph)) check(Load(test_case));
      } catch (const Error& error) {
        ADD_FAILURE() << test_case.name << ": " << error.message();
      }
    }
  }
}

TEST(InferCases, NamedSizesAreNeverWrong) {
  ForEachCase([](const LoadedCase& loaded) {
    FactsByName inputs;
    NamedSizes names;
    for (size_t i = 0; i < loaded.inputs.size(); ++i) {
      if (!loaded.inputs[i].is_tensor() || !loaded.graph.inputs[i].type.is_tensor()) continue;
      const Tensor& tensor = loaded.inputs[i].tensor();
      SymbolicShape shape;
      for (size_t axis = 0; axis < tensor.rank(); ++axis) {
        shape.push_back(Dim::Named(Cat("in", i, "_", axis)));
        names[shape.back().symbol] = tensor.dim(axis);
      }
      inputs[loaded.graph.inputs[i].name].type = Type::Tensor(tensor.dtype(), std::move(shape));
    }
    ExpectTrue(loaded, InferGraph(loaded.graph, inputs, RulesOnly(-1)), names);
  });
}

TEST(InferCases, ShapesAndValuesDetermineEverythingButWhatDependsOnData) {
  ForEachCase([](const LoadedCase& loaded) {
    FactsByName inputs;
    for (size_t i = 0; i < loaded.inputs.size(); ++i)
      if (loaded.inputs[i].is_tensor() && loaded.graph.inputs[i].type.is_tensor())
        inputs[loaded.graph.inputs[i].name] = FactsOf(loaded.inputs[i].tensor());
    GraphFacts facts = InferGraph(loaded.graph, inputs, RulesOnly(1));
    ExpectTrue(loaded, facts, {});
    bool by_values = false;
    for (const Node& node : loaded.graph.nodes) by_values = by_values || kSizedByValues.count(node.op_type) > 0;
    for (const ValueInfo& output : loaded.graph.outputs) {
      const ValueFacts* found = facts.Find(output.name);
      EXPECT_TRUE(by_values || (found && IsComplete(found->type)))
          << loaded.name << ": '" << output.name << "' is inferred as " << (found ? ToText(found->type) : "nothing");
    }
  });
}

}  // namespace
}  // namespace ferry
