#include "graph/editor.h"

#include <algorithm>
#include <unordered_set>

#include "base/text.h"
#include "graph/scopes.h"

namespace ferry {

GraphEditor::GraphEditor(Graph& graph) : graph_(graph), removed_(graph.nodes.size()) {
  std::unordered_set<std::string> inputs;
  for (const ValueInfo& input : graph.inputs) {
    inputs.insert(input.name);
    taken_[input.name] = true;
  }
  for (size_t i = 0; i < graph.initializers.size(); ++i) {
    taken_[graph.initializers[i].name] = true;
    if (!inputs.count(graph.initializers[i].name)) constant_[graph.initializers[i].name] = i;
  }
  for (const ValueInfo& output : graph.outputs) ++other_uses_[output.name];
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Link(i);
    for (const std::string& name : CapturedNames(graph.nodes[i])) {
      ++other_uses_[name];
      taken_[name] = true;
    }
    ForEachSubgraph(graph.nodes[i], [&](const Graph& body) {
      ForEachGraph(body, [&](const Graph& inner) {
        for (const Node& node : inner.nodes)
          for (const std::string& output : node.outputs) taken_[output] = true;
      });
    });
  }
}

void GraphEditor::Link(size_t index) {
  const Node& node = graph_.nodes[index];
  for (const std::string& input : node.inputs) {
    if (input.empty()) continue;
    readers_[input].push_back(index);
    taken_[input] = true;  // in a body it may be a value from outside
  }
  for (const std::string& output : node.outputs) {
    if (output.empty()) continue;
    producer_[output] = index;
    taken_[output] = true;
  }
}

void GraphEditor::Unlink(size_t index) {
  const Node& node = graph_.nodes[index];
  for (const std::string& input : node.inputs) {
    if (input.empty()) continue;
    auto& readers = readers_[input];
    auto it = std::find(readers.begin(), readers.end(), index);
    if (it != readers.end()) readers.erase(it);
  }
  for (const std::string& output : node.outputs) {
    auto it = producer_.find(output);
    if (it != producer_.end() && it->second == index) producer_.erase(it);
  }
}

int GraphEditor::Producer(const std::string& value) const {
  auto it = producer_.find(value);
  return it == producer_.end() ? -1 : static_cast<int>(it->second);
}

const std::vector<size_t>& GraphEditor::Readers(const std::string& value) const {
  static const std::vector<size_t> kNone;
  auto it = readers_.find(value);
  return it == readers_.end() ? kNone : it->second;
}

size_t GraphEditor::Uses(const std::string& value) const {
  auto other = other_uses_.find(value);
  return Readers(value).size() + (other == other_uses_.end() ? 0 : other->second);
}

int GraphEditor::OnlyReader(const std::string& value) const {
  const std::vector<size_t>& readers = Readers(value);
  return readers.size() == 1 && Uses(value) == 1 ? static_cast<int>(readers[0]) : -1;
}

const Tensor* GraphEditor::Constant(const std::string& value) const {
  auto it = constant_.find(value);
  return it == constant_.end() ? nullptr : &graph_.initializers[it->second].tensor;
}

std::string GraphEditor::FreshName(const std::string& hint) {
  std::string name = hint;
  for (int i = 1; taken_.count(name); ++i) name = Cat(hint, "_", i);
  taken_[name] = true;
  return name;
}

std::string GraphEditor::AddConstant(const std::string& hint, Tensor tensor) {
  std::string name = FreshName(hint);
  DefineConstant(name, std::move(tensor));
  return name;
}

void GraphEditor::DefineConstant(const std::string& name, Tensor tensor) {
  constant_[name] = graph_.initializers.size();
  graph_.initializers.push_back(MakeStored(name, std::move(tensor)));
}

void GraphEditor::Remove(size_t index) {
  Unlink(index);
  for (const std::string& name : CapturedNames(graph_.nodes[index])) --other_uses_[name];
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
  std::unordered_set<std::string> needed;
  for (const ValueInfo& output : graph.outputs) needed.insert(output.name);
  std::vector<Node> kept;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    bool wanted = std::any_of(node->outputs.begin(), node->outputs.end(),
                              [&](const std::string& output) { return needed.count(output) > 0; });
    if (!wanted) continue;
    for (const std::string& input : node->inputs) needed.insert(input);
    for (const std::string& name : CapturedNames(*node)) needed.insert(name);
    kept.push_back(std::move(*node));
  }
  std::reverse(kept.begin(), kept.end());
  graph.nodes = std::move(kept);
  std::unordered_set<std::string> inputs;
  for (const ValueInfo& input : graph.inputs) inputs.insert(input.name);
  std::erase_if(graph.initializers,
                [&](const StoredTensor& t) { return !needed.count(t.name) && !inputs.count(t.name); });
}

}  // namespace ferry
