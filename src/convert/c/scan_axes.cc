#include "convert/c/scan_axes.h"

#include <algorithm>
#include <numeric>

#include "base/text.h"
#include "graph/standard.h"

namespace ferry::c {
namespace {

Node MakeTranspose(const std::string& from, const std::string& to, std::vector<int64_t> order) {
  Node node;
  node.op_type = "Transpose";
  node.inputs = {from};
  node.outputs = {to};
  node.Set("perm", std::move(order));
  return node;
}

class AxisMover {
 public:
  AxisMover(Node& node, const GraphFacts& facts, std::vector<Node>& nodes)
      : node_(node), facts_(facts), nodes_(nodes), scans_(static_cast<size_t>(node.Int("num_scan_inputs", 0))) {}

  bool Run() {
    if (scans_ == 0 || scans_ > node_.inputs.size()) return false;
    const size_t states = node_.inputs.size() - scans_;
    if (states > node_.outputs.size()) return false;
    if (!FindRanks(states)) return false;
    for (size_t i = 0; i < scans_; ++i) MoveInput(states + i, in_[i]);
    for (size_t i = 0; i < out_.size(); ++i) MoveOutput(states + i, out_[i]);
    node_.Set("scan_input_axes", std::vector<int64_t>(scans_, 0));
    node_.Set("scan_output_axes", std::vector<int64_t>(out_.size(), 0));
    nodes_.push_back(std::move(node_));
    for (Node& node : after_) nodes_.push_back(std::move(node));
    return true;
  }

 private:
  struct Place {
    int64_t axis = 0, rank = 0;
  };

  // Whether there is something to move, and all of it is known.
  bool FindRanks(size_t states) {
    std::vector<int64_t> in = node_.Ints("scan_input_axes"), out = node_.Ints("scan_output_axes");
    in.resize(scans_), out.resize(node_.outputs.size() - states);
    bool any = false;
    auto place = [&](const std::string& name, int64_t axis, std::vector<Place>& places) {
      const ValueFacts* known = name.empty() ? nullptr : facts_.Find(name);
      const int64_t rank = known && known->type.shape ? static_cast<int64_t>(known->type.shape->size()) : 0;
      if (axis != 0 && (axis < -rank || axis >= rank)) return false;
      places.push_back({axis < 0 ? axis + rank : axis, rank});
      any |= places.back().axis != 0;
      return true;
    };
    for (size_t i = 0; i < scans_; ++i)
      if (!place(node_.inputs[states + i], in[i], in_)) return false;
    for (size_t i = 0; i < out.size(); ++i)
      if (!place(node_.outputs[states + i], node_.outputs[states + i].empty() ? 0 : out[i], out_)) return false;
    return any;
  }

  void MoveInput(size_t at, Place place) {
    if (place.axis == 0) return;
    std::vector<int64_t> order(static_cast<size_t>(place.rank));
    std::iota(order.begin(), order.end(), 0);
    std::rotate(order.begin(), order.begin() + place.axis, order.begin() + place.axis + 1);
    const std::string name = Cat(node_.outputs[0], node_.inputs[at], "/scan", at);
    nodes_.push_back(MakeTranspose(node_.inputs[at], name, order));
    node_.inputs[at] = name;
  }

  void MoveOutput(size_t at, Place place) {
    if (place.axis == 0) return;
    std::vector<int64_t> order(static_cast<size_t>(place.rank));
    std::iota(order.begin(), order.end(), 0);
    std::rotate(order.begin(), order.begin() + 1, order.begin() + place.axis + 1);
    const std::string name = Cat(node_.outputs[at], "/scanned");
    after_.push_back(MakeTranspose(name, node_.outputs[at], order));
    node_.outputs[at] = name;
  }

  Node& node_;
  const GraphFacts& facts_;
  std::vector<Node>& nodes_;
  const size_t scans_;
  std::vector<Place> in_, out_;
  std::vector<Node> after_;
};

}  // namespace

bool ScanAlongFirstAxes(Graph& graph, const GraphFacts& facts) {
  bool changed = false;
  std::vector<Node> nodes;
  for (Node& node : graph.nodes)
    if (IsStandard(node, "Scan") && AxisMover(node, facts, nodes).Run())
      changed = true;
    else
      nodes.push_back(std::move(node));
  graph.nodes = std::move(nodes);
  return changed;
}

}  // namespace ferry::c
