#include "graph/editor.h"

#include <algorithm>

#include "base/text.h"
#include "graph/scopes.h"

namespace ferry {

GraphEditor::~GraphEditor() = default;

GraphEditor::GraphEditor(Graph& graph)
    : graph_(graph),
      removed_(graph.nodes.size()),
      names_(graph.inputs.size() + graph.initializers.size() + 2 * graph.nodes.size()) {
  values_.reserve(graph.inputs.size() + graph.initializers.size() + 2 * graph.nodes.size());
  for (size_t i = 0; i < graph.initializers.size(); ++i) At(graph.initializers[i].name).constant = static_cast<int>(i);
  for (const ValueInfo& input : graph.inputs) At(input.name).constant = -1;
  for (const ValueInfo& output : graph.outputs) ++At(output.name).other_uses;
  for (size_t i = 0; i < graph.nodes.size(); ++i) Link(i);
}

const GraphEditor::Value& GraphEditor::Find(const std::string& name) const {
  static const Value kUnknown;
  const uint32_t number = names_.Find(name);
  return number == NameTable::kNone ? kUnknown : values_[number];
}

GraphEditor::Value& GraphEditor::At(const std::string& name) {
  const uint32_t number = names_.Add(name);
  if (number == values_.size()) values_.emplace_back();
  return values_[number];
}

void GraphEditor::Link(size_t index) {
  const Node& node = this->node(index);
  for (const std::string& input : node.inputs)
    if (!input.empty()) At(input).readers.push_back(index);
  for (const std::string& output : node.outputs)
    if (!output.empty()) At(output).producer = static_cast<int>(index);
  for (const std::string& name : CapturedNames(node)) ++At(name).other_uses;
}

void GraphEditor::Unlink(size_t index) {
  const Node& node = this->node(index);
  for (const std::string& input : node.inputs) {
    if (input.empty()) continue;
    auto& readers = At(input).readers;
    auto it = std::find(readers.begin(), readers.end(), index);
    if (it != readers.end()) readers.erase(it);
  }
  for (const std::string& output : node.outputs) {
    Value& value = At(output);
    if (value.producer == static_cast<int>(index)) value.producer = -1;
  }
  for (const std::string& name : CapturedNames(node)) --At(name).other_uses;
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

// A new name must not hide one that a body makes.
void GraphEditor::TakeNamesOfBodies() {
  has_names_of_bodies_ = true;
  for (const Node& node : graph_.nodes)
    ForEachSubgraph(node, [&](const Graph& body) {
      ForEachGraph(body, [&](const Graph& inner) {
        for (const Node& made_by : inner.nodes)
          for (const std::string& output : made_by.outputs) At(output);
      });
    });
}

std::string GraphEditor::FreshName(const std::string& hint) {
  if (!has_names_of_bodies_) TakeNamesOfBodies();
  std::string name = hint;
  for (int i = 1; names_.Has(name); ++i) name = Cat(hint, "_", i);
  At(name);
  return name;
}

std::string GraphEditor::AddConstant(const std::string& hint, Tensor tensor) {
  std::string name = FreshName(hint);
  DefineConstant(name, std::move(tensor));
  return name;
}

void GraphEditor::DefineConstant(const std::string& name, Tensor tensor) {
  At(name).constant = static_cast<int>(graph_.initializers.size());
  graph_.initializers.push_back(MakeStored(name, std::move(tensor)));
}

void GraphEditor::Remove(size_t index) {
  Unlink(index);
  removed_[index] = true;
  changed_ = true;
}

Node GraphEditor::Take(size_t index) {
  Remove(index);
  const size_t count = graph_.nodes.size();
  return std::move(index < count ? graph_.nodes[index] : inserted_[index - count].node);
}

void GraphEditor::Replace(size_t index, Node node) {
  if (!removed_[index]) Unlink(index);
  const size_t count = graph_.nodes.size();
  (index < count ? graph_.nodes[index] : inserted_[index - count].node) = std::move(node);
  removed_[index] = false;
  Link(index);
  changed_ = true;
}

void GraphEditor::InsertBefore(size_t position, Node node) {
  inserted_.push_back({position, std::move(node)});
  removed_.push_back(false);
  Link(removed_.size() - 1);
  changed_ = true;
}

bool GraphEditor::Finish() {
  if (!changed_) return false;
  const size_t count = graph_.nodes.size();
  // In the order of their places, those of one place in the order they were inserted.
  std::vector<size_t> order(inserted_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return inserted_[a].position < inserted_[b].position; });
  std::vector<Node> nodes;
  nodes.reserve(removed_.size());
  auto next = order.begin();
  for (size_t i = 0; i <= count; ++i) {
    for (; next != order.end() && (i == count || inserted_[*next].position <= i); ++next)
      if (!removed_[count + *next]) nodes.push_back(std::move(inserted_[*next].node));
    if (i < count && !removed_[i]) nodes.push_back(std::move(graph_.nodes[i]));
  }
  graph_.nodes = std::move(nodes);
  DropUnused(graph_);
  return true;
}

void DropUnused(Graph& graph) {
  NameTable needed(graph.initializers.size() + graph.nodes.size());
  for (const ValueInfo& output : graph.outputs) needed.Add(output.name);
  std::vector<bool> wanted(graph.nodes.size());
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    wanted[i] = std::any_of(node.outputs.begin(), node.outputs.end(),
                            [&](const std::string& output) { return needed.Has(output); });
    if (!wanted[i]) continue;
    for (const std::string& input : node.inputs) needed.Add(input);
    for (const std::string& name : CapturedNames(node)) needed.Add(name);
  }
  for (const ValueInfo& input : graph.inputs) needed.Add(input.name);
  std::erase_if(graph.initializers, [&](const StoredTensor& t) { return !needed.Has(t.name); });
  size_t kept = 0;
  for (size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i] && kept++ != i) graph.nodes[kept - 1] = std::move(graph.nodes[i]);
  graph.nodes.resize(kept);
}

}  // namespace ferry
