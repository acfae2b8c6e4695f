// A model's graph as JSON, for pages that draw it, and single weights of it.
#include <emscripten.h>

#include <cstring>

#include "api/handles.h"
#include "base/json.h"
#include "onnx/reader.h"

using namespace ferry;

namespace {

constexpr size_t kLongestList = 64;

template <class T>
Json FirstOf(const std::vector<T>& values) {
  Json list = Json::Array{};
  for (size_t i = 0; i < std::min(values.size(), kLongestList); ++i) list.Add(values[i]);
  if (values.size() > kLongestList) list.Add(Cat("… ", values.size(), " in all"));
  return list;
}

Json TypeJson(const Type& type) {
  Json json;
  json.Set("type", OnnxTypeName(type));
  if (type.shape) {
    Json shape = Json::Array{};
    for (const Dim& dim : *type.shape)
      shape.Add(dim.known() ? Json(*dim.value) : dim.named() ? Json(dim.symbol) : Json());
    json.Set("shape", std::move(shape));
  }
  return json;
}

Json TensorJson(const StoredTensor& tensor) {
  Json json;
  json.Set("name", tensor.name).Set("dtype", Name(tensor.dtype)).Set("dims", Json::List(tensor.dims));
  if (!tensor.problem.empty()) json.Set("problem", tensor.problem);
  return json;
}

Json GraphJson(const Graph& graph, int depth);

struct AttributeJson {
  int depth;
  Json operator()(std::monostate) const { return {}; }
  Json operator()(float value) const { return value; }
  Json operator()(int64_t value) const { return value; }
  Json operator()(const std::string& value) const { return value.substr(0, 4096); }
  Json operator()(const std::vector<float>& values) const { return FirstOf(values); }
  Json operator()(const std::vector<int64_t>& values) const { return FirstOf(values); }
  Json operator()(const std::vector<std::string>& values) const { return FirstOf(values); }
  Json operator()(const std::shared_ptr<StoredTensor>& tensor) const {
    return tensor ? Json().Set("tensor", TensorJson(*tensor)) : Json();
  }
  Json operator()(const std::shared_ptr<Graph>& graph) const {
    constexpr int kDeepest = 8;
    return graph && depth < kDeepest ? Json().Set("graph", GraphJson(*graph, depth + 1)) : Json();
  }
  Json operator()(const Type& type) const { return TypeJson(type); }
  template <class Other>
  Json operator()(const std::vector<Other>& others) const {
    return Cat("a list of ", others.size());
  }
  Json operator()(const std::shared_ptr<StoredSparseTensor>&) const { return "a sparse tensor"; }
};

Json NodeJson(const Node& node, int depth) {
  Json json, attributes = Json::Object{};
  json.Set("name", node.name).Set("op", node.op_type);
  if (!node.domain.empty()) json.Set("domain", node.domain);
  json.Set("inputs", Json::List(node.inputs)).Set("outputs", Json::List(node.outputs));
  for (const Attribute& attribute : node.attributes)
    attributes.Set(attribute.name, std::visit(AttributeJson{depth}, attribute.held));
  json.Set("attributes", std::move(attributes));
  for (const auto& [key, value] : node.metadata)
    if (key == "namespace" || key == "pkg.torch.onnx.name_scopes") json.Set("scope", value.substr(0, 1024));
  if (!node.doc.empty()) json.Set("doc", node.doc.substr(0, 4096));
  return json;
}

Json ValuesJson(const std::vector<ValueInfo>& values) {
  Json list = Json::Array{};
  for (const ValueInfo& value : values) list.Add(TypeJson(value.type).Set("name", value.name));
  return list;
}

Json GraphJson(const Graph& graph, int depth) {
  Json json, nodes = Json::Array{}, weights = Json::Array{};
  for (const Node& node : graph.nodes) nodes.Add(NodeJson(node, depth));
  for (const StoredTensor& tensor : graph.initializers) weights.Add(TensorJson(tensor));
  json.Set("name", graph.name).Set("inputs", ValuesJson(graph.inputs)).Set("outputs", ValuesJson(graph.outputs));
  json.Set("values", ValuesJson(graph.value_infos)).Set("weights", std::move(weights)).Set("nodes", std::move(nodes));
  return json;
}

}  // namespace

extern "C" {

// The text is the caller's, from malloc.
EMSCRIPTEN_KEEPALIVE ferry_status* ferry_web_graph(const char* path, char** out) {
  return api::Guard([&] {
    const Model model = ReadModel(path);
    const std::string text = GraphJson(model.graph, 0).Dump(-1);
    *out = static_cast<char*>(std::malloc(text.size() + 1));
    if (!*out) Fail(ErrorCode::kLimit, "no memory for the graph's text of ", text.size(), " bytes");
    std::memcpy(*out, text.c_str(), text.size() + 1);
  });
}

EMSCRIPTEN_KEEPALIVE ferry_status* ferry_web_tensor(const char* path, const char* name, ferry_value** out) {
  return api::Guard([&] {
    const Model model = ReadModel(path);
    const StoredTensor* tensor = model.graph.FindInitializer(name);
    if (!tensor) Fail(ErrorCode::kNotFound, "the model has no weight '", Printable(name), "'");
    *out = new ferry_value{Value(tensor->Get())};
  });
}

}  // extern "C"
