#include "graph/model.h"

#include <algorithm>

#include "base/error.h"

template class std::vector<ferry::Attribute>;
template class std::vector<ferry::Node>;

namespace ferry {

Attribute::Attribute() = default;
Attribute::Attribute(const Attribute&) = default;
Attribute::Attribute(Attribute&&) noexcept = default;
Attribute& Attribute::operator=(const Attribute&) = default;
Attribute& Attribute::operator=(Attribute&&) noexcept = default;
Attribute::~Attribute() = default;

Node::Node() = default;
Node::Node(const Node&) = default;
Node::Node(Node&&) noexcept = default;
Node& Node::operator=(const Node&) = default;
Node& Node::operator=(Node&&) noexcept = default;
Node::~Node() = default;

Graph::Graph() = default;
Graph::Graph(const Graph&) = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(const Graph&) = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

const Tensor& StoredTensor::Get() const {
  if (!problem.empty()) Fail(ErrorCode::kInvalidModel, "tensor '", Printable(name), "': ", problem);
  if (!tensor.defined())
    Fail(ErrorCode::kInvalidModel, "tensor '", Printable(name),
         "' has no data loaded; its external data file is needed");
  return tensor;
}

StoredTensor MakeStored(std::string name, Tensor tensor) {
  StoredTensor stored;
  stored.name = std::move(name);
  stored.dtype = tensor.dtype();
  stored.dtype_number = static_cast<int32_t>(tensor.dtype());
  stored.dims = tensor.shape().ToVector();
  stored.storage = tensor.dtype() == DType::kString ? StoredTensor::Storage::kTyped : StoredTensor::Storage::kRaw;
  stored.tensor = std::move(tensor);
  return stored;
}

const char* Name(AttributeType type) {
  static constexpr const char* kNames[] = {"undefined",      "float", "int",     "string",  "tensor", "graph",
                                           "floats",         "ints",  "strings", "tensors", "graphs", "sparse tensor",
                                           "sparse tensors", "type",  "types"};
  auto index = static_cast<size_t>(type);
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

namespace {
// The attribute type of each alternative of Attribute::Held, in the variant's order.
constexpr AttributeType kTypeOfAlternative[] = {
    AttributeType::kUndefined,     AttributeType::kFloat,   AttributeType::kInt,    AttributeType::kString,
    AttributeType::kTensor,        AttributeType::kGraph,   AttributeType::kFloats, AttributeType::kInts,
    AttributeType::kStrings,       AttributeType::kTensors, AttributeType::kGraphs, AttributeType::kSparseTensor,
    AttributeType::kSparseTensors, AttributeType::kType,    AttributeType::kTypes};
static_assert(std::size(kTypeOfAlternative) == std::variant_size_v<Attribute::Held>);

template <class T>
const T* Get(const Node& node, std::string_view name, const char* wanted) {
  const Attribute* attribute = node.Find(name);
  if (!attribute) return nullptr;
  if (!attribute->problem.empty()) Fail(ErrorCode::kInvalidModel, "attribute '", name, "' ", attribute->problem);
  if (const T* value = std::get_if<T>(&attribute->held)) return value;
  Fail(ErrorCode::kInvalidModel, "attribute '", name, "' must be of type ", wanted, ", is ", Name(attribute->type));
}
}  // namespace

Attribute::Attribute(std::string attribute_name, Held value)
    : name(std::move(attribute_name)), type(kTypeOfAlternative[value.index()]), held(std::move(value)) {}

const Attribute* Node::Find(std::string_view wanted) const {
  for (const Attribute& attribute : attributes)
    if (attribute.name == wanted) return &attribute;
  return nullptr;
}
Attribute* Node::Find(std::string_view wanted) {
  return const_cast<Attribute*>(static_cast<const Node*>(this)->Find(wanted));
}

int64_t Node::Int(std::string_view wanted, int64_t otherwise) const {
  const int64_t* value = Get<int64_t>(*this, wanted, "int");
  return value ? *value : otherwise;
}
float Node::Float(std::string_view wanted, float otherwise) const {
  const float* value = Get<float>(*this, wanted, "float");
  return value ? *value : otherwise;
}
std::string Node::String(std::string_view wanted, std::string_view otherwise) const {
  const std::string* value = Get<std::string>(*this, wanted, "string");
  return value ? *value : std::string(otherwise);
}
// An empty list in a file carries no element from which its type could be told apart: it reads as no value.
std::vector<int64_t> Node::Ints(std::string_view wanted) const {
  const auto* value = Get<std::vector<int64_t>>(*this, wanted, "ints");
  return value ? *value : std::vector<int64_t>{};
}
std::vector<float> Node::Floats(std::string_view wanted) const {
  const auto* value = Get<std::vector<float>>(*this, wanted, "floats");
  return value ? *value : std::vector<float>{};
}
std::vector<std::string> Node::Strings(std::string_view wanted) const {
  const auto* value = Get<std::vector<std::string>>(*this, wanted, "strings");
  return value ? *value : std::vector<std::string>{};
}
const Tensor& Node::TensorAttribute(std::string_view wanted) const {
  const auto* value = Get<std::shared_ptr<StoredTensor>>(*this, wanted, "tensor");
  if (!value || !*value) Fail(ErrorCode::kInvalidModel, "attribute '", wanted, "' is missing");
  return (*value)->Get();
}
const std::shared_ptr<Graph>& Node::Subgraph(std::string_view wanted) const {
  const auto* value = Get<std::shared_ptr<Graph>>(*this, wanted, "graph");
  if (!value || !*value) Fail(ErrorCode::kInvalidModel, "attribute '", wanted, "' is missing");
  return *value;
}
void Node::Set(std::string_view wanted, Attribute::Held value) {
  Attribute made(std::string(wanted), std::move(value));
  if (Attribute* existing = Find(wanted))
    *existing = std::move(made);
  else
    attributes.push_back(std::move(made));
}
void Node::Remove(std::string_view wanted) {
  std::erase_if(attributes, [&](const Attribute& a) { return a.name == wanted; });
}

std::string Describe(const Node& node) {
  std::string op = node.domain.empty() || node.domain == "ai.onnx"
                       ? Printable(node.op_type)
                       : Cat(Printable(node.domain), ".", Printable(node.op_type));
  if (!node.name.empty()) return Cat("node '", Printable(node.name), "' (", op, ")");
  for (const std::string& output : node.outputs)
    if (!output.empty()) return Cat("node of '", Printable(output), "' (", op, ")");
  return Cat("a nameless node (", op, ")");
}

const StoredTensor* Graph::FindInitializer(std::string_view wanted) const {
  auto it = std::find_if(initializers.begin(), initializers.end(), [&](const auto& t) { return t.name == wanted; });
  return it == initializers.end() ? nullptr : &*it;
}
const ValueInfo* Graph::FindInput(std::string_view wanted) const {
  auto it = std::find_if(inputs.begin(), inputs.end(), [&](const auto& v) { return v.name == wanted; });
  return it == inputs.end() ? nullptr : &*it;
}

std::string_view CanonicalDomain(std::string_view domain) { return domain == "ai.onnx" ? std::string_view() : domain; }

int64_t Model::OpsetOf(std::string_view wanted) const {
  for (const OpsetImport& opset : opsets)
    if (CanonicalDomain(opset.domain) == CanonicalDomain(wanted)) return opset.version;
  return 0;
}

const Function* Model::FindFunction(std::string_view wanted_domain, std::string_view name,
                                    std::string_view overload) const {
  for (const Function& function : functions)
    if (function.name == name && CanonicalDomain(function.domain) == CanonicalDomain(wanted_domain) &&
        function.overload == overload)
      return &function;
  return nullptr;
}

namespace {
void DetachSubgraphs(std::vector<Node>& nodes) {
  for (Node& node : nodes) {
    for (Attribute& attribute : node.attributes) {
      if (auto* one = std::get_if<std::shared_ptr<Graph>>(&attribute.held)) {
        if (*one) *one = std::make_shared<Graph>(CopyDeep(**one));
      } else if (auto* many = std::get_if<std::vector<std::shared_ptr<Graph>>>(&attribute.held)) {
        for (auto& graph : *many)
          if (graph) graph = std::make_shared<Graph>(CopyDeep(*graph));
      }
    }
  }
}
}  // namespace

Graph CopyDeep(const Graph& graph) {
  Graph copy = graph;
  DetachSubgraphs(copy.nodes);
  return copy;
}

Model CopyDeep(const Model& model) {
  Model copy = model;
  DetachSubgraphs(copy.graph.nodes);
  for (Function& function : copy.functions) DetachSubgraphs(function.nodes);
  for (TrainingInfo& info : copy.training) {
    if (info.initialization) DetachSubgraphs(info.initialization->nodes);
    if (info.algorithm) DetachSubgraphs(info.algorithm->nodes);
  }
  return copy;
}

}  // namespace ferry
