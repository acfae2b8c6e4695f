// The one in-memory form of a model: everything ONNX's ModelProto can say, editable, weights shared and never copied.
//
// Values are named by strings, as in the file; graph/editor.h answers "who makes and who reads this value".
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "graph/type.h"
#include "tensor/tensor.h"

namespace ferry {

struct Graph;

using Metadata = std::vector<std::pair<std::string, std::string>>;  // in file order; keys may repeat in a bad file

// Bytes of protobuf fields this version does not know, kept so that writing loses nothing.
using UnknownFields = std::string;

// A tensor inside a model: initializer, attribute, or part of a sparse tensor.
struct StoredTensor {
  enum class Storage : uint8_t {
    kRaw,       // raw_data
    kTyped,     // float_data, int32_data, string_data …
    kExternal,  // a file beside the model
  };
  struct External {
    Metadata entries;  // location, offset, length, checksum … as written
  };
  struct Segment {
    int64_t begin = 0, end = 0;
  };

  // The elements; throws with this tensor's name when they are missing or malformed.
  const Tensor& Get() const;

  std::string name;
  DType dtype = DType::kUndefined;
  int32_t dtype_number = 0;  // as written, also when it names no type we know
  std::vector<int64_t> dims;
  Storage storage = Storage::kRaw;
  Tensor tensor;        // undefined while external data is not loaded or `problem` is set
  std::string problem;  // why the elements cannot be used; empty when they can (or are not loaded)
  External external;
  std::optional<Segment> segment;
  std::string doc;
  Metadata metadata;
  UnknownFields unknown;
};

// Makes a StoredTensor that holds `tensor` (raw storage; typed for strings).
StoredTensor MakeStored(std::string name, Tensor tensor);

struct StoredSparseTensor {
  StoredTensor values;  // its name is the initializer's name
  StoredTensor indices;
  std::vector<int64_t> dims;
  UnknownFields unknown;
};

enum class AttributeType : uint8_t {
  kUndefined = 0,
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
  kTensors = 9,
  kGraphs = 10,
  kSparseTensor = 11,
  kSparseTensors = 12,
  kType = 13,
  kTypes = 14,
};
const char* Name(AttributeType type);

// Subgraphs and tensors are held by pointer: attributes are copied with their nodes, the big parts are shared.
// Whoever edits a shared subgraph makes a copy first (see CopyDeep).
struct Attribute {
  using Held = std::variant<std::monostate, float, int64_t, std::string, std::shared_ptr<StoredTensor>,
                            std::shared_ptr<Graph>, std::vector<float>, std::vector<int64_t>, std::vector<std::string>,
                            std::vector<std::shared_ptr<StoredTensor>>, std::vector<std::shared_ptr<Graph>>,
                            std::shared_ptr<StoredSparseTensor>, std::vector<std::shared_ptr<StoredSparseTensor>>, Type,
                            std::vector<Type>>;

  Attribute();
  Attribute(const Attribute&);
  Attribute(Attribute&&) noexcept;
  Attribute& operator=(const Attribute&);
  Attribute& operator=(Attribute&&) noexcept;
  ~Attribute();
  Attribute(std::string name, Held held);

  std::string name;
  AttributeType type = AttributeType::kUndefined;  // what `held` is; also set when ref_name stands for the value
  Held held;
  std::string ref_name;  // inside a function: the attribute of the call that gives the value
  std::string doc;
  std::string problem;  // set by the reader when the file's attribute contradicts itself
  UnknownFields unknown;
};

struct ValueInfo {
  std::string name;
  Type type;
  std::string doc;
  Metadata metadata;
  UnknownFields unknown;
};

struct Node {
  Node();
  Node(const Node&);
  Node(Node&&) noexcept;
  Node& operator=(const Node&);
  Node& operator=(Node&&) noexcept;
  ~Node();

  std::string name;
  std::string op_type;
  std::string domain;  // "" is ai.onnx; the reader leaves "ai.onnx" as written, IsDomain compares
  std::string overload;
  std::vector<std::string> inputs;   // "" is an omitted optional input
  std::vector<std::string> outputs;  // "" is an output nobody wants
  std::vector<Attribute> attributes;
  std::string doc;
  Metadata metadata;
  std::vector<std::string> device_configurations;  // serialized NodeDeviceConfigurationProto, carried along
  UnknownFields unknown;

  const Attribute* Find(std::string_view name) const;
  Attribute* Find(std::string_view name);
  bool Has(std::string_view name) const { return Find(name) != nullptr; }
  // Attribute values with their defaults. A value of another type is an error that names the attribute.
  int64_t Int(std::string_view name, int64_t otherwise) const;
  float Float(std::string_view name, float otherwise) const;
  std::string String(std::string_view name, std::string_view otherwise) const;
  std::vector<int64_t> Ints(std::string_view name) const;  // empty when absent
  std::vector<float> Floats(std::string_view name) const;
  std::vector<std::string> Strings(std::string_view name) const;
  const Tensor& TensorAttribute(std::string_view name) const;  // throws when absent
  const std::shared_ptr<Graph>& Subgraph(std::string_view name) const;
  void Set(std::string_view name, Attribute::Held held);
  void Remove(std::string_view name);

  bool HasInput(size_t i) const { return i < inputs.size() && !inputs[i].empty(); }
  bool HasOutput(size_t i) const { return i < outputs.size() && !outputs[i].empty(); }
};

// "node 'fc1' (Gemm)", or by its first output when it has no name: how errors speak of a node.
std::string Describe(const Node& node);

struct QuantizationAnnotation {
  std::string tensor_name;
  Metadata parameters;
  UnknownFields unknown;
};

struct Graph {
  Graph();
  Graph(const Graph&);
  Graph(Graph&&) noexcept;
  Graph& operator=(const Graph&);
  Graph& operator=(Graph&&) noexcept;
  ~Graph();

  std::string name;
  std::string doc;
  std::vector<Node> nodes;
  std::vector<StoredTensor> initializers;
  std::vector<StoredSparseTensor> sparse_initializers;
  std::vector<ValueInfo> inputs;
  std::vector<ValueInfo> outputs;
  std::vector<ValueInfo> value_infos;
  std::vector<QuantizationAnnotation> quantization;
  Metadata metadata;
  UnknownFields unknown;

  const StoredTensor* FindInitializer(std::string_view name) const;
  const ValueInfo* FindInput(std::string_view name) const;
};

struct OpsetImport {
  std::string domain;
  int64_t version = 0;
  UnknownFields unknown;
};

struct Function {
  std::string name;
  std::string domain;
  std::string overload;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<std::string> attributes;        // without default
  std::vector<Attribute> attribute_defaults;  // with default
  std::vector<Node> nodes;
  std::vector<OpsetImport> opsets;
  std::vector<ValueInfo> value_infos;
  std::string doc;
  Metadata metadata;
  UnknownFields unknown;
};

struct TrainingInfo {
  std::optional<Graph> initialization;
  std::optional<Graph> algorithm;
  Metadata initialization_binding;
  Metadata update_binding;
  UnknownFields unknown;
};

struct Model {
  int64_t ir_version = 0;
  std::vector<OpsetImport> opsets;
  std::string producer_name;
  std::string producer_version;
  std::string domain;
  int64_t model_version = 0;
  std::string doc;
  Graph graph;
  bool has_graph = false;
  Metadata metadata;
  std::vector<TrainingInfo> training;
  std::vector<Function> functions;
  std::vector<std::string> device_configurations;  // serialized DeviceConfigurationProto
  UnknownFields unknown;

  // The imported version of a domain ("" and "ai.onnx" are one); 0 when it is not imported.
  int64_t OpsetOf(std::string_view domain) const;
  const Function* FindFunction(std::string_view domain, std::string_view name, std::string_view overload) const;
};

// "" for both spellings of the standard domain.
std::string_view CanonicalDomain(std::string_view domain);

// A copy that shares weights but no graph: editing it leaves the original alone.
Graph CopyDeep(const Graph& graph);
Model CopyDeep(const Model& model);

// Calls visit(const Graph&) for the graph and every graph inside its nodes, outermost first.
template <class Visit>
void ForEachGraph(const Graph& graph, const Visit& visit);
template <class Visit>
void ForEachSubgraph(const Node& node, const Visit& visit) {
  for (const Attribute& attribute : node.attributes) {
    if (auto* one = std::get_if<std::shared_ptr<Graph>>(&attribute.held)) {
      if (*one) visit(**one);
    } else if (auto* many = std::get_if<std::vector<std::shared_ptr<Graph>>>(&attribute.held)) {
      for (const auto& g : *many)
        if (g) visit(*g);
    }
  }
}
template <class Visit>
void ForEachGraph(const Graph& graph, const Visit& visit) {
  visit(graph);
  for (const Node& node : graph.nodes) ForEachSubgraph(node, [&](const Graph& inner) { ForEachGraph(inner, visit); });
}

}  // namespace ferry

extern template class std::vector<ferry::Attribute>;
extern template class std::vector<ferry::Node>;
