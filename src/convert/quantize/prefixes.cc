#include "convert/quantize/prefixes.h"

#include <algorithm>
#include <set>

#include "graph/scopes.h"
#include "ops/infer_graph.h"

namespace ferry::quantize {
namespace {

constexpr size_t kMostBytes = size_t{256} << 20;

template <class Visit>
void ForEachRead(const Node& node, const Visit& visit) {
  for (const std::string& input : node.inputs)
    if (!input.empty()) visit(input);
  for (const std::string& captured : CapturedNames(node)) visit(captured);
}

const Value* FindValue(const std::vector<NamedValue>& values, const std::string& name) {
  for (const auto& [key, value] : values)
    if (key == name) return &value;
  return nullptr;
}

}  // namespace

Prefixes::Prefixes(const Model& base, const Samples& samples, const std::vector<size_t>& chosen, int threads)
    : base_(base), threads_(threads) {
  for (size_t sample : chosen) values_.push_back(samples.Inputs(sample));
  for (const std::vector<ValueInfo>* infos : {&base.graph.inputs, &base.graph.value_infos, &base.graph.outputs})
    for (const ValueInfo& info : *infos) infos_[info.name] = &info;
}

// In the order in which they are made.
std::vector<std::string> Prefixes::NeededFrom(size_t node) const {
  const std::vector<Node>& nodes = base_.graph.nodes;
  std::set<std::string> read;
  for (size_t i = node; i < nodes.size(); ++i)
    ForEachRead(nodes[i], [&](const std::string& name) { read.insert(name); });
  for (const ValueInfo& output : base_.graph.outputs) read.insert(output.name);
  std::vector<std::string> needed;
  for (const ValueInfo& input : base_.graph.inputs)
    if (read.count(input.name) && !base_.graph.FindInitializer(input.name)) needed.push_back(input.name);
  for (size_t i = 0; i < node; ++i)
    for (const std::string& output : nodes[i].outputs)
      if (!output.empty() && read.count(output)) needed.push_back(output);
  return needed;
}

ValueInfo Prefixes::InfoOf(const std::string& name, const Value& value) const {
  auto known = infos_.find(name);
  if (known != infos_.end() && known->second->type.known()) return *known->second;
  ValueInfo info;
  info.name = name;
  info.type = TypeOf(value);
  // Other samples may have other sizes.
  if (info.type.shape) info.type.shape->assign(info.type.shape->size(), Dim());
  return info;
}

Model Prefixes::Part(size_t begin, size_t end) const {
  Model part = base_;
  const std::vector<Node>& nodes = base_.graph.nodes;
  part.graph.nodes.assign(nodes.begin() + static_cast<ptrdiff_t>(begin), nodes.begin() + static_cast<ptrdiff_t>(end));
  part.graph.inputs.clear();
  for (const auto& [name, value] : values_[0]) part.graph.inputs.push_back(InfoOf(name, value));
  return part;
}

Model Prefixes::Rest() const { return Part(at_, base_.graph.nodes.size()); }

bool Prefixes::AdvanceTo(size_t node) {
  const std::vector<std::string> needed = NeededFrom(node);
  Model part = Part(at_, node);
  part.graph.outputs.clear();
  for (const std::string& name : needed) {
    if (FindValue(values_[0], name)) continue;
    ValueInfo info;
    info.name = name;
    auto known = infos_.find(name);
    part.graph.outputs.push_back(known == infos_.end() ? info : *known->second);
  }
  std::shared_ptr<Session> session;
  if (!part.graph.outputs.empty()) {
    SessionOptions options;
    options.threads = threads_;
    session = Session::FromModel(part, options);
  }
  size_t bytes = 0;
  for (std::vector<NamedValue>& values : values_) {
    std::vector<NamedValue> next;
    std::vector<Value> made;
    if (session) made = session->Run(values);
    size_t at = 0;
    for (const std::string& name : needed) {
      const Value* held = FindValue(values, name);
      next.emplace_back(name, held ? *held : made[at++]);
      Value& value = next.back().second;
      if (!value.is_tensor()) continue;
      value = value.tensor().Persistent();
      bytes += value.tensor().bytes();
    }
    values = std::move(next);
  }
  at_ = node;
  return bytes <= kMostBytes;
}

}  // namespace ferry::quantize
