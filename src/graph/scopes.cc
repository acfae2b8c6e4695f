#include "graph/scopes.h"

#include "graph/name_table.h"

namespace ferry {
namespace {

class Capture {
 public:
  explicit Capture(size_t nodes) : names_(3 * nodes) { scopes_.reserve(3 * nodes); }

  // Bodies inside are walked through once, with the graphs around them in mind.
  void Collect(const Graph& graph) {
    std::vector<uint32_t> made;
    auto make = [&](const std::string& name) {
      made.push_back(NumberOf(name));
      ++scopes_[made.back()];
    };
    for (const ValueInfo& input : graph.inputs) make(input.name);
    for (const StoredTensor& initializer : graph.initializers) make(initializer.name);
    for (const StoredSparseTensor& initializer : graph.sparse_initializers) make(initializer.values.name);
    for (const Node& node : graph.nodes) {
      for (const std::string& input : node.inputs) Read(input);
      ForEachSubgraph(node, [&](const Graph& body) { Collect(body); });
      for (const std::string& output : node.outputs) make(output);
    }
    for (const ValueInfo& output : graph.outputs) Read(output.name);
    for (uint32_t number : made) --scopes_[number];
  }

  std::vector<std::string> captured;

 private:
  static constexpr uint32_t kCaptured = UINT32_MAX / 2;

  uint32_t NumberOf(const std::string& name) {
    const uint32_t number = names_.Add(name);
    if (number == scopes_.size()) scopes_.push_back(0);
    return number;
  }

  void Read(const std::string& name) {
    if (name.empty()) return;
    const uint32_t number = NumberOf(name);
    if (scopes_[number] != 0) return;
    scopes_[number] = kCaptured;  // which no scope takes back: it is listed once
    captured.push_back(name);
  }

  NameTable names_;
  std::vector<uint32_t> scopes_;  // how many of the graphs we are in make a name
};

size_t CountNodes(const Graph& graph) {
  size_t count = 0;
  ForEachGraph(graph, [&](const Graph& inner) { count += inner.nodes.size(); });
  return count;
}

}  // namespace

std::vector<std::string> CapturedNames(const Graph& graph) {
  Capture capture(CountNodes(graph));
  capture.Collect(graph);
  return std::move(capture.captured);
}

std::vector<std::string> CapturedNames(const Node& node) {
  bool any = false;
  size_t nodes = 0;
  ForEachSubgraph(node, [&](const Graph& body) {
    any = true;
    nodes += CountNodes(body);
  });
  if (!any) return {};
  Capture capture(nodes);
  ForEachSubgraph(node, [&](const Graph& body) { capture.Collect(body); });
  return std::move(capture.captured);
}

}  // namespace ferry
