#include "passes/common_subexpressions.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "graph/editor.h"
#include "ops/operator.h"

namespace ferry {
namespace {

// Larger constants are weights: they are told apart by their names.
constexpr size_t kMostConstantBytes = 256;

template <class T>
void AppendBytes(std::string& key, const T* values, size_t count) {
  key.append(reinterpret_cast<const char*>(values), count * sizeof(T));
}

void AppendText(std::string& key, std::string_view text) {
  size_t size = text.size();
  AppendBytes(key, &size, 1);
  key += text;
}

// False for what is not compared: tensors and graphs.
bool AppendAttribute(std::string& key, const Attribute& attribute) {
  AppendText(key, attribute.name);
  key += static_cast<char>(attribute.type);
  if (auto* number = std::get_if<float>(&attribute.held)) {
    AppendBytes(key, number, 1);
  } else if (auto* integer = std::get_if<int64_t>(&attribute.held)) {
    AppendBytes(key, integer, 1);
  } else if (auto* text = std::get_if<std::string>(&attribute.held)) {
    AppendText(key, *text);
  } else if (auto* numbers = std::get_if<std::vector<float>>(&attribute.held)) {
    AppendText(key, {reinterpret_cast<const char*>(numbers->data()), numbers->size() * sizeof(float)});
  } else if (auto* integers = std::get_if<std::vector<int64_t>>(&attribute.held)) {
    AppendText(key, {reinterpret_cast<const char*>(integers->data()), integers->size() * sizeof(int64_t)});
  } else if (auto* texts = std::get_if<std::vector<std::string>>(&attribute.held)) {
    for (const std::string& one : *texts) AppendText(key, one);
  } else {
    return false;
  }
  return true;
}

class Sharing {
 public:
  explicit Sharing(Graph& graph) : editor_(graph) {
    for (const ValueInfo& output : graph.outputs) is_output_.insert(output.name);
  }

  bool Run() {
    for (size_t i = 0, count = editor_.size(); i < count; ++i) Share(i);
    return editor_.Finish();
  }

 private:
  void Share(size_t index) {
    ReadSame(index);
    const Node& node = editor_.node(index);
    std::optional<std::string> key = KeyOf(node);
    auto first = key ? made_.emplace(std::move(*key), index).first : made_.end();
    if (first == made_.end() || first->second == index) return;
    const Node& earlier = editor_.node(first->second);
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (!node.outputs[i].empty()) same_as_[node.outputs[i]] = earlier.outputs[i];
    // Bodies capture by name: where one may read the value, the node stays and shares only what follows it.
    for (const std::string& output : node.outputs)
      if (is_output_.count(output) || editor_.Uses(output) > editor_.Readers(output).size()) return;
    editor_.Remove(index);
  }

  // Lets a node read the earlier ones of values that are the same.
  void ReadSame(size_t index) {
    auto is_same = [&](const std::string& input) { return same_as_.count(input) > 0; };
    const std::vector<std::string>& inputs = editor_.node(index).inputs;
    if (same_as_.empty() || std::none_of(inputs.begin(), inputs.end(), is_same)) return;
    Node node = editor_.node(index);
    for (std::string& input : node.inputs)
      if (auto same = same_as_.find(input); same != same_as_.end()) input = same->second;
    editor_.Replace(index, std::move(node));
  }

  // What a node computes; nothing when it must not be shared.
  std::optional<std::string> KeyOf(const Node& node) const {
    const Operator* op = FindOperator(node.domain, node.op_type);
    if (!op || op->is_random || op->has_subgraphs || node.inputs.empty()) return std::nullopt;
    // Integer kernels take the conversion in front of each reader into their own step.
    if (node.op_type == "QuantizeLinear" || node.op_type == "DequantizeLinear") return std::nullopt;
    std::string key;
    AppendText(key, node.op_type);
    AppendText(key, CanonicalDomain(node.domain));
    for (const std::string& input : node.inputs) AppendInput(key, input);
    // Outputs that are left out change what is computed.
    for (const std::string& output : node.outputs) key += output.empty() ? '-' : '+';
    for (const Attribute& attribute : node.attributes)
      if (!AppendAttribute(key, attribute)) return std::nullopt;
    return key;
  }

  void AppendInput(std::string& key, const std::string& name) const {
    const Tensor* constant = name.empty() ? nullptr : editor_.Constant(name);
    if (!constant || constant->bytes() > kMostConstantBytes || constant->dtype() == DType::kString) {
      key += 'n';
      return AppendText(key, name);
    }
    key += 'c';
    key += static_cast<char>(constant->dtype());
    size_t rank = constant->rank();
    AppendBytes(key, &rank, 1);
    AppendBytes(key, constant->shape().data(), rank);
    key.append(reinterpret_cast<const char*>(constant->raw()), constant->bytes());
  }

  GraphEditor editor_;
  std::unordered_set<std::string> is_output_;
  std::unordered_map<std::string, size_t> made_;          // by what is computed
  std::unordered_map<std::string, std::string> same_as_;  // a value to the earlier one that is the same
};

}  // namespace

bool ShareCommonSubexpressions(Graph& graph) { return Sharing(graph).Run(); }

}  // namespace ferry
