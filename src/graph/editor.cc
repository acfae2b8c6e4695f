#include "graph/editor.h"

#include <algorithm>
#include <deque>
#include <string_view>
#include <unordered_set>

#include "base/text.h"
#include "graph/scopes.h"

namespace ferry {

GraphEditor::GraphEditor(Graph& graph) : graph_(graph), removed_(graph.nodes.size()) {
  values_.reserve(graph.inputs.size() + graph.initializers.size() + 2 * graph.nodes.size());
  for (size_t i = 0; i < graph.initializers.size(); ++i)
    values_[graph.initializers[i].name].constant = static_cast<int>(i);
  for (const ValueInfo& input : graph.inputs) values_[input.name].constant = -1;
  for (const ValueInfo& output : graph.outputs) ++values_[output.name].other_uses;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Link(i);
    for (const std::string& name : CapturedNames(graph.nodes[i])) ++values_[name].other_uses;
    ForEachSubgraph(graph.nodes[i], [&](const Graph& body) {
      ForEachGraph(body, [&](const Graph& inner) {
        for (const Node& node : inner.nodes)
          for (const std::string& output : node.outputs) values_[output];
      });
    });
  }
}

const GraphEditor::Value& GraphEditor::Find(const std::string& name) const {
  static const Value kUnknown;
  auto it = values_.find(name);
  return it == values_.end() ? kUnknown : it->second;
}

void GraphEditor::Link(size_t index) {
  const Node& node = graph_.nodes[index];
  for (const std::string& input : node.inputs)
    if (!input.empty()) values_[input].readers.push_back(index);
  for (const std::string& output : node.outputs)
    if (!output.empty()) values_[output].producer = static_cast<int>(index);
}

void GraphEditor::Unlink(size_t index) {
  const Node& node = graph_.nodes[index];
  for (const std::string& input : node.inputs) {
    if (input.empty()) continue;
    auto& readers = values_[input].readers;
    auto it = std::find(readers.begin(), readers.end(), index);
    if (it != readers.end()) readers.erase(it);
  }
  for (const std::string& output : node.outputs) {
    auto it = values_.find(output);
    if (it != values_.end() && it->second.producer == static_cast<int>(index)) it->second.producer = -1;
  }
}

int GraphEditor::Producer(const std::string& value) const { return Find(value).producer; }

const std::vector<size_t>& GraphEditor::Readers(const std::string& value) const { return Find(value).readers; }

size_t GraphEditor::Uses(const std::string& value) const {
  const Value& found = Find(value);
  return found.readers.size() + found.other_uses;
}

int GraphEditor::OnlyReader(const std::string& value) const {
  const Value& found = Find(value);
  return found.readers.size() == 1 && found.other_uses == 0 ? static_cast<int>(found.readers[0]) : -1;
}

const Tensor* GraphEditor::Constant(const std::string& value) const {
  const int index = Find(value).constant;
  return index < 0 ? nullptr : &graph_.initializers[static_cast<size_t>(index)].tensor;
}

std::string GraphEditor::FreshName(const std::string& hint) {
  std::string name = hint;
  for (int i = 1; !values_.try_emplace(name).second; ++i) name = Cat(hint, "_", i);
  return name;
}

std::string GraphEditor::AddConstant(const std::string& hint, Tensor tensor) {
  std::string name = FreshName(hint);
  DefineConstant(name, std::move(tensor));
  return name;
}

void GraphEditor::DefineConstant(const std::string& name, Tensor tensor) {
  values_[name].constant = static_cast<int>(graph_.initializers.size());
  graph_.initializers.push_back(MakeStored(name, std::move(tensor)));
}

void GraphEditor::Remove(size_t index) {
  Unlink(index);
  for (const std::string& name : CapturedNames(graph_.nodes[index])) --values_[name].other_uses;
  removed_[index] = true;
  changed_ = true;
}

void GraphEditor::Replace(size_t index, Node node) {
  Unlink(index);
  graph_.nodes[index] = std::move(node);
  Link(index);
  changed_ = true;
}

void GraphEditor::InsertBefore(size_t position, Node node) {
  // Appended for now, so that its links have an index; Finish puts it where it belongs.
  graph_.nodes.push_back(std::move(node));
  removed_.push_back(false);
  Link(graph_.nodes.size() - 1);
  inserted_.push_back(position);
  changed_ = true;
}

bool GraphEditor::Finish() {
  if (!changed_) return false;
  size_t original = graph_.nodes.size() - inserted_.size();
  std::vector<std::vector<size_t>> before(original + 1);
  for (size_t i = 0; i < inserted_.size(); ++i) before[std::min(inserted_[i], original)].push_back(original + i);
  std::vector<Node> nodes;
  auto keep = [&](size_t index) {
    if (!removed_[index]) nodes.push_back(std::move(graph_.nodes[index]));
  };
  for (size_t i = 0; i <= original; ++i) {
    for (size_t index : before[i]) keep(index);
    if (i < original) keep(i);
  }
  graph_.nodes = std::move(nodes);
  DropUnused(graph_);
  return true;
}

void DropUnused(Graph& graph) {
  std::unordered_set<std::string_view> needed;
  needed.reserve(graph.initializers.size() + 2 * graph.nodes.size());
  std::deque<std::string> captured;  // what views of them are of
  for (const ValueInfo& output : graph.outputs) needed.insert(output.name);
  std::vector<bool> wanted(graph.nodes.size());
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    wanted[i] = std::any_of(node.outputs.begin(), node.outputs.end(),
                            [&](const std::string& output) { return needed.count(output) > 0; });
    if (!wanted[i]) continue;
    needed.insert(node.inputs.begin(), node.inputs.end());
    for (std::string& name : CapturedNames(node)) needed.insert(captured.emplace_back(std::move(name)));
  }
  for (const ValueInfo& input : graph.inputs) needed.insert(input.name);
  std::erase_if(graph.initializers, [&](const StoredTensor& t) { return !needed.count(t.name); });
  size_t kept = 0;
  for (size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i] && kept++ != i) graph.nodes[kept - 1] = std::move(graph.nodes[i]);
  graph.nodes.resize(kept);
}

}  // namespace ferry
