#include "model_samples.h"

#include <algorithm>
#include <cstdlib>

namespace ferry::testing {

namespace fs = std::filesystem;

void WriteText(const fs::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
}

std::string ReadText(const fs::path& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

std::vector<fs::path> ArchiveModels() {
  std::vector<fs::path> models;
  for (const char* archive : {"onnx-node", "torch-models"})
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(FERRY_TEST_DATA) / archive))
      if (entry.path().extension() == ".onnx") models.push_back(entry.path());
  std::sort(models.begin(), models.end());
  return models;
}

Model FromBytes(const std::string& bytes) {
  auto kept = std::make_shared<const std::string>(bytes);
  return ReadModelFromMemory(std::as_bytes(std::span(*kept)), kept);
}

Model WeightModel(int64_t elements) {
  Model model;
  model.ir_version = 8;
  model.opsets.push_back({"", 17, {}});
  model.has_graph = true;
  model.graph.name = "weights";
  Tensor weight(DType::kFloat, {elements});
  for (int64_t i = 0; i < elements; ++i) weight.MutableData<float>()[i] = static_cast<float>(i);
  model.graph.initializers.push_back(MakeStored("w", std::move(weight)));
  Node node;
  node.op_type = "Identity";
  node.inputs = {"w"};
  node.outputs = {"y"};
  model.graph.nodes.push_back(node);
  model.graph.outputs.push_back({"y", Type::Tensor(DType::kFloat, {Dim(elements)}), {}, {}, {}});
  return model;
}

namespace {

// Field 1000 holding the number 7: a field that no version of ONNX has.
const std::string kUnknownField("\xc0\x3e\x07", 3);

std::vector<Attribute> AttributesOfEveryType() {
  auto tensor = std::make_shared<StoredTensor>(MakeStored("t", Tensor::FromVector<int64_t>({1, -2, 3})));
  auto graph = std::make_shared<Graph>();
  graph->name = "inner";
  graph->initializers.push_back(MakeStored("c", Tensor::Scalar(2.5f)));
  auto sparse = std::make_shared<StoredSparseTensor>();
  sparse->values = MakeStored("s", Tensor::FromVector<float>({1.5f, 2.5f}));
  sparse->indices = MakeStored("", Tensor::FromVector<int64_t>({1, 5}));
  sparse->dims = {2, 3};
  Type type = Type::SequenceOf(Type::Tensor(DType::kFloat, {Dim(2), Dim::Named("n"), Dim()}));
  return {Attribute("f", 1.25f),
          Attribute("i", int64_t{-7}),
          Attribute("s", std::string("text\0with zero", 14)),
          Attribute("t", tensor),
          Attribute("g", graph),
          Attribute("fs", std::vector<float>{1, -0.0f}),
          Attribute("is", std::vector<int64_t>{1, INT64_MIN, INT64_MAX}),
          Attribute("ss", std::vector<std::string>{"a", "", "c"}),
          Attribute("ts", std::vector<std::shared_ptr<StoredTensor>>{tensor, tensor}),
          Attribute("gs", std::vector<std::shared_ptr<Graph>>{graph}),
          Attribute("sp", sparse),
          Attribute("sps", std::vector<std::shared_ptr<StoredSparseTensor>>{sparse}),
          Attribute("tp", type),
          Attribute("tps", std::vector<Type>{type, Type::MapOf(DType::kString, Type::Tensor(DType::kInt64))}),
          Attribute("empty_ints", std::vector<int64_t>{}),
          Attribute("empty_tensors", std::vector<std::shared_ptr<StoredTensor>>{})};
}

Function SampleFunction() {
  Function function;
  function.name = "Twice";
  function.domain = "custom";
  function.overload = "v2";
  function.inputs = {"x", "y"};
  function.outputs = {"z"};
  function.attributes = {"alpha"};
  function.attribute_defaults = {Attribute("beta", 0.5f)};
  Node node;
  node.op_type = "LeakyRelu";
  node.inputs = {"x", "", "y"};
  node.outputs = {"z"};
  Attribute reference;
  reference.name = "alpha";
  reference.type = AttributeType::kFloat;
  reference.ref_name = "alpha";
  node.attributes.push_back(reference);
  function.nodes.push_back(node);
  function.opsets.push_back({"", 21, kUnknownField});
  function.value_infos.push_back({"x", Type::Tensor(DType::kFloat), "an input", {{"k", "v"}}, kUnknownField});
  function.doc = "doubles";
  function.metadata = {{"a", "b"}};
  function.unknown = kUnknownField;
  return function;
}

ValueInfo SampleInput() {
  Type type = Type::Tensor(DType::kFloat, {Dim(0), Dim::Named("batch"), Dim(), Dim(-1)});
  type.denotation = "IMAGE";
  (*type.shape)[0].denotation = "DATA_BATCH";
  (*type.shape)[1].unknown_fields = std::make_shared<const std::string>(kUnknownField);
  type.unknown_fields =
      std::make_shared<const Type::Unknown>(Type::Unknown{kUnknownField, kUnknownField, kUnknownField});
  return {"x", type, "doc", {{"k", ""}}, kUnknownField};
}

void FillGraph(Graph& graph) {
  graph.name = "main";
  graph.doc = "a graph";
  Node node;
  node.name = "n";
  node.op_type = "Everything";
  node.domain = "custom";
  node.overload = "o";
  node.inputs = {"x", "", "w"};
  node.outputs = {"", "y"};
  node.attributes = AttributesOfEveryType();
  node.attributes[0].doc = "a float";
  node.attributes[0].unknown = kUnknownField;
  node.doc = "all of it";
  node.metadata = {{"k", "v"}, {"k2", "v2"}};
  node.device_configurations = {std::string("\x0a\x01\x63", 3)};
  node.unknown = kUnknownField;
  graph.nodes.push_back(node);
  StoredTensor weight = MakeStored("w", Tensor::FromVector<double>({1, 2, 3, 4}, {2, 2}));
  weight.segment = StoredTensor::Segment{1, 9};
  weight.doc = "a weight";
  weight.metadata = {{"m", "n"}};
  weight.unknown = kUnknownField;
  graph.initializers = {weight, MakeStored("names", Tensor::FromVector<std::string>({"a", "", "c"}))};
  StoredSparseTensor sparse;
  sparse.values = MakeStored("sparse", Tensor::FromVector<float>({3}));
  sparse.indices = MakeStored("", Tensor::FromVector<int64_t>({2}));
  sparse.dims = {4};
  sparse.unknown = kUnknownField;
  graph.sparse_initializers.push_back(sparse);
  graph.inputs.push_back(SampleInput());
  Type opaque;
  opaque.kind = Type::Kind::kOpaque;
  opaque.opaque_domain = "d";
  opaque.opaque_name = "n";
  graph.inputs.push_back({"opaque", opaque, {}, {}, {}});
  graph.inputs.push_back({"untyped", {}, {}, {}, {}});
  graph.outputs.push_back({"y", Type::OptionalOf(Type::Tensor(DType::kInt4, SymbolicShape{})), {}, {}, {}});
  graph.value_infos.push_back({"v", Type::SparseTensor(DType::kFloat), {}, {}, {}});
  graph.quantization.push_back({"w", {{"SCALE_TENSOR", "s"}}, kUnknownField});
  graph.metadata = {{"g", "h"}};
  graph.unknown = kUnknownField;
}

}  // namespace

Model FullModel() {
  Model model;
  model.ir_version = 14;
  model.opsets = {{"", 25, kUnknownField}, {"custom", 1, {}}};
  model.producer_name = "tests";
  model.producer_version = "1";
  model.domain = "org.example";
  model.model_version = 3;
  model.doc = "everything";
  model.has_graph = true;
  FillGraph(model.graph);
  model.metadata = {{"key", "value"}, {"", ""}};
  TrainingInfo training;
  training.initialization.emplace();
  training.initialization->name = "init";
  training.algorithm.emplace();
  training.algorithm->name = "step";
  training.initialization_binding = {{"w", "w0"}};
  training.update_binding = {{"w", "w1"}};
  training.unknown = kUnknownField;
  model.training.push_back(training);
  model.functions.push_back(SampleFunction());
  model.device_configurations = {std::string("\x0a\x01\x63\x10\x02", 5)};
  model.unknown = kUnknownField;
  return model;
}

}  // namespace ferry::testing
