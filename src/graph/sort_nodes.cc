#include "graph/sort_nodes.h"

#include <algorithm>

#include "base/error.h"
#include "graph/name_table.h"
#include "graph/scopes.h"

namespace ferry {
namespace {

class Sorter {
 public:
  // Values of these names are there before any node runs.
  Sorter(std::vector<Node>& nodes, const std::vector<std::string_view>& given)
      : nodes_(nodes), names_(2 * nodes.size()) {
    for (std::string_view name : given) Define(name, kGiven);
    for (size_t i = 0; i < nodes.size(); ++i)
      for (const std::string& output : nodes[i].outputs)
        if (!output.empty()) Define(output, static_cast<int64_t>(i));
  }

  bool Run() {
    if (IsSorted()) return false;
    state_.assign(nodes_.size(), kNew);
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (state_[i] == kNew) VisitFrom(i);
    std::vector<Node> sorted;
    sorted.reserve(order_.size());
    for (size_t i : order_) sorted.push_back(std::move(nodes_[i]));
    nodes_ = std::move(sorted);
    return true;
  }

 private:
  static constexpr int64_t kGiven = -1;
  enum State : uint8_t { kNew, kOpen, kDone };
  struct Frame {
    size_t node;
    std::vector<size_t> needs;  // the next one last
  };

  // The first to give a name is the one that readers mean.
  void Define(std::string_view name, int64_t producer) {
    if (names_.Add(name) == producers_.size()) producers_.push_back(producer);
  }

  template <class Visit>
  void ForEachNeed(const Node& node, const Visit& visit) const {
    auto read = [&](const std::string& name) {
      uint32_t number = name.empty() ? NameTable::kNone : names_.Find(name);
      if (number != NameTable::kNone && producers_[number] != kGiven) visit(static_cast<size_t>(producers_[number]));
    };
    for (const std::string& input : node.inputs) read(input);
    for (const std::string& name : CapturedNames(node)) read(name);
  }

  bool IsSorted() const {
    bool sorted = true;
    for (size_t i = 0; i < nodes_.size() && sorted; ++i)
      ForEachNeed(nodes_[i], [&](size_t need) { sorted = sorted && need < i; });
    return sorted;
  }

  Frame Enter(size_t node) {
    Frame frame{node, {}};
    ForEachNeed(nodes_[node], [&](size_t need) { frame.needs.push_back(need); });
    std::reverse(frame.needs.begin(), frame.needs.end());
    state_[node] = kOpen;
    return frame;
  }

  void VisitFrom(size_t start) {
    std::vector<Frame> stack;
    stack.push_back(Enter(start));
    while (!stack.empty()) {
      Frame& frame = stack.back();
      if (frame.needs.empty()) {
        state_[frame.node] = kDone;
        order_.push_back(frame.node);
        stack.pop_back();
        continue;
      }
      size_t next = frame.needs.back();
      frame.needs.pop_back();
      if (state_[next] == kOpen) FailCycle(stack, next);
      if (state_[next] == kNew) stack.push_back(Enter(next));
    }
  }

  [[noreturn]] void FailCycle(const std::vector<Frame>& stack, size_t first) const {
    constexpr size_t kShown = 5;
    std::vector<std::string> names;
    size_t begin = 0;
    while (stack[begin].node != first) ++begin;
    size_t count = stack.size() - begin;
    for (size_t i = begin; i < stack.size() && names.size() < kShown; ++i)
      names.push_back(Describe(nodes_[stack[i].node]));
    if (count == 1) Fail(ErrorCode::kInvalidModel, "the graph has a cycle: ", names[0], " reads its own output");
    Fail(ErrorCode::kInvalidModel, "the graph has a cycle: ", count,
         " nodes each read the next one's output, the last the first's: ", Join(names, ", "),
         count > kShown ? " …" : "");
  }

  std::vector<Node>& nodes_;
  NameTable names_;
  std::vector<int64_t> producers_;  // by the name's number
  std::vector<uint8_t> state_;
  std::vector<size_t> order_;
};

bool SortList(std::vector<Node>& nodes, const std::vector<std::string_view>& given) {
  bool moved = false;
  for (Node& node : nodes)  // bodies first: what they read from outside is only clear when they are in order
    for (Attribute& attribute : node.attributes) {
      if (auto* one = std::get_if<std::shared_ptr<Graph>>(&attribute.held); one && *one) moved |= SortNodes(**one);
      if (auto* many = std::get_if<std::vector<std::shared_ptr<Graph>>>(&attribute.held))
        for (const auto& body : *many)
          if (body) moved |= SortNodes(*body);
    }
  return Sorter(nodes, given).Run() || moved;
}

}  // namespace

bool SortNodes(Graph& graph) {
  std::vector<std::string_view> given;
  for (const ValueInfo& input : graph.inputs) given.push_back(input.name);
  for (const StoredTensor& initializer : graph.initializers) given.push_back(initializer.name);
  for (const StoredSparseTensor& initializer : graph.sparse_initializers) given.push_back(initializer.values.name);
  return SortList(graph.nodes, given);
}

bool SortNodes(Model& model) {
  bool moved = SortNodes(model.graph);
  for (Function& function : model.functions)
    moved |= SortList(function.nodes, {function.inputs.begin(), function.inputs.end()});
  for (TrainingInfo& info : model.training)
    for (std::optional<Graph>* graph : {&info.initialization, &info.algorithm})
      if (*graph) moved |= SortNodes(**graph);
  return moved;
}

}  // namespace ferry
