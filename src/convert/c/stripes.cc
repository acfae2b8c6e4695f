#include "convert/c/stripes.h"

#include <algorithm>
#include <set>

#include "ops/support/nhwc.h"
#include "ops/traits.h"

namespace ferry::c {
namespace {

constexpr size_t kWhole = SIZE_MAX;

bool IsOwn(const Node& node, std::string_view op) { return node.domain == kInternalDomain && node.op_type == op; }
bool IsConv(const Node& node) { return IsOwn(node, "NhwcConv") || IsOwn(node, "QuantizedNhwcConv"); }
bool IsPool(const Node& node) { return IsOwn(node, "NhwcMaxPool") || IsOwn(node, "NhwcAveragePool"); }

bool IsPointwise(const Node& node) {
  for (const char* op : {"QuantizedAdd", "QuantizedLookup", "NhwcAffine"})
    if (IsOwn(node, op)) return true;
  const std::string_view domain = CanonicalDomain(node.domain);
  if (domain.empty() && (node.op_type == "QuantizeLinear" || node.op_type == "DequantizeLinear")) return true;
  return domain.empty() && TraitsOf(node).elementwise != Elementwise::kNo;
}

}  // namespace

StripeFinder::StripeFinder(const RewrittenGraph& whole, const std::unordered_map<std::string, int64_t>& costs)
    : whole_(whole), costs_(costs) {
  const std::vector<Node>& nodes = whole.graph.nodes;
  for (const auto& [name, facts] : whole.facts.values)
    if (facts.type.is_tensor() && facts.type.shape)
      if (std::optional<Shape> shape = ToConcrete(*facts.type.shape)) shapes_.emplace(name, *shape);
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string& output : nodes[i].outputs)
      if (!output.empty()) maker_[output] = i;
    for (const std::string& input : nodes[i].inputs) last_reader_[input] = i;
  }
  for (const ValueInfo& output : whole.graph.outputs) last_reader_[output.name] = nodes.size();
  auto learn = [&](const std::string& name, size_t axis) {
    auto [it, is_new] = axis_of_.emplace(name, axis);
    if (!is_new && it->second != axis) it->second = kWhole;
    return is_new;
  };
  for (const Node& node : nodes)
    if (IsConv(node) || IsPool(node)) {
      learn(node.inputs[0], IsConv(node) && node.Int("channels_first", 0) != 0 ? 2 : 1);
      learn(node.outputs[0], 1);
    }
  for (bool more = true; more;) {
    more = false;
    for (const Node& node : nodes) {
      if (!IsPointwise(node) || node.outputs.empty() || node.inputs.empty()) continue;
      if (auto known = axis_of_.find(node.inputs[0]); known != axis_of_.end())
        more |= learn(node.outputs[0], known->second);
      else if (auto later = axis_of_.find(node.outputs[0]); later != axis_of_.end())
        more |= learn(node.inputs[0], later->second);
    }
  }
  for (const Node& node : nodes) info_.push_back(Examine(node));
}

const Shape* StripeFinder::ShapeOf(const std::string& name) const {
  auto it = shapes_.find(name);
  return it == shapes_.end() ? nullptr : &it->second;
}

DType StripeFinder::TypeOf(const std::string& name) const {
  const ValueFacts* facts = whole_.facts.Find(name);
  return facts ? facts->type.dtype : DType::kUndefined;
}

size_t StripeFinder::BytesOf(const std::string& name) const {
  const Shape* shape = ShapeOf(name);
  return shape ? StorageBytes(TypeOf(name), shape->ElementCount()) : 0;
}

StripeFinder::NodeInfo StripeFinder::Examine(const Node& node) const {
  NodeInfo info;
  if (node.outputs.empty() || node.outputs[0].empty() || !ShapeOf(node.outputs[0])) return info;
  for (size_t i = 1; i < node.outputs.size(); ++i)
    if (!node.outputs[i].empty() && last_reader_.count(node.outputs[i])) return info;
  auto axis = axis_of_.find(node.outputs[0]);
  if (axis == axis_of_.end() || axis->second == kWhole || IsPacked(TypeOf(node.outputs[0]))) return info;
  const Shape& y = *ShapeOf(node.outputs[0]);
  if (y.rank() <= axis->second + 1 || y[0] != 1) return info;
  info.axis = axis->second;
  info.row_axes.assign(node.inputs.size(), kWhole);
  info.splits = IsConv(node) || IsPool(node) ? ExamineWindow(node, info) : ExaminePointwise(node, info);
  return info;
}

bool StripeFinder::ExamineWindow(const Node& node, NodeInfo& info) const {
  const Shape* x = ShapeOf(node.inputs[0]);
  if (!x) return false;
  WindowAxis axis;
  info.row_axes[0] = 1;
  if (IsConv(node)) {
    const Shape* w = ShapeOf(node.inputs[1]);
    if (!w) return false;
    const NhwcConvPlan plan = PlanNhwcConv(node, *x, *w);
    if (plan.channels_first) info.row_axes[0] = 2;
    axis = plan.conv.axes[0];
  } else {
    // The last window of such a mean may count what lies beyond the padding.
    if (node.op_type == "NhwcAveragePool" && node.Int("count_include_pad", 0) != 0) return false;
    axis = PoolPlan(node, ToChannelsFirst(*x)).axes[0];
  }
  auto learned = axis_of_.find(node.inputs[0]);
  if (learned == axis_of_.end() || learned->second != info.row_axes[0]) return false;
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    const ValueFacts* facts = whole_.facts.Find(node.inputs[i]);
    if (node.inputs[i].empty() || (facts && facts->constant)) continue;
    if (!IsOwn(node, "NhwcConv") || i != 3) return false;
    info.row_axes[i] = 1;  // what is added to the sums
  }
  info.is_window = true;
  info.input_rows = axis.input, info.kernel = axis.kernel, info.stride = axis.stride, info.dilation = axis.dilation;
  info.pad = axis.pad_begin;
  return true;
}

bool StripeFinder::ExaminePointwise(const Node& node, NodeInfo& info) const {
  if (!IsPointwise(node)) return false;
  const Shape& y = *ShapeOf(node.outputs[0]);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i].empty()) continue;
    const Shape* x = ShapeOf(node.inputs[i]);
    const ValueFacts* facts = whole_.facts.Find(node.inputs[i]);
    if (!x || !facts) return false;
    const size_t shift = y.rank() - std::min(y.rank(), x->rank());
    const bool has_rows = x->rank() <= y.rank() && info.axis >= shift && (*x)[info.axis - shift] != 1;
    if (facts->constant && (x->ElementCount() == 1 || !has_rows)) continue;
    if (facts->constant || *x != y) return false;
    if (auto axis = axis_of_.find(node.inputs[i]); axis == axis_of_.end() || axis->second != info.axis) return false;
    info.row_axes[i] = info.axis;
  }
  const bool scaled = node.op_type == "QuantizeLinear" || node.op_type == "DequantizeLinear";
  if (scaled && node.inputs.size() > 1 && ShapeOf(node.inputs[1])->ElementCount() != 1) return false;
  return info.row_axes[0] != kWhole;
}

std::optional<std::string> StripeFinder::ResultOf(size_t begin, size_t end) const {
  std::optional<std::string> result;
  for (size_t i = begin; i < end; ++i)
    for (const std::string& output : whole_.graph.nodes[i].outputs) {
      auto read = last_reader_.find(output);
      if (output.empty() || read == last_reader_.end() || read->second < end) continue;
      if (result) return std::nullopt;
      result = output;
    }
  return result;
}

StripeFinder::Demand StripeFinder::DemandOf(size_t node, Rows rows) const {
  const NodeInfo& info = info_[node];
  Demand demand;
  demand.inputs.resize(info.row_axes.size());
  for (size_t i = 0; i < info.row_axes.size(); ++i)
    if (info.row_axes[i] != kWhole) demand.inputs[i] = rows;
  if (!info.is_window) return demand;
  const int64_t begin = rows.begin * info.stride - info.pad,
                end = (rows.end - 1) * info.stride - info.pad + (info.kernel - 1) * info.dilation + 1;
  demand.pad_begin = std::max<int64_t>(0, -begin);
  demand.pad_end = std::max<int64_t>(0, end - info.input_rows);
  demand.inputs[0] = Rows{std::max<int64_t>(0, begin), std::min(end, info.input_rows)};
  return demand;
}

// False where a window would lie in the padding alone.
bool StripeFinder::Propagate(const StripedRun& run, const std::string& result, Rows rows, Needed& needed) const {
  needed[result] = rows;
  for (size_t i = run.end; i-- > run.begin;) {
    const Node& node = whole_.graph.nodes[i];
    auto made = needed.find(node.outputs[0]);
    if (made == needed.end()) continue;
    const Demand demand = DemandOf(i, made->second);
    for (size_t k = 0; k < demand.inputs.size(); ++k) {
      if (!demand.inputs[k]) continue;
      if (demand.inputs[k]->count() <= 0) return false;
      auto [it, is_new] = needed.emplace(node.inputs[k], *demand.inputs[k]);
      if (is_new) continue;
      it->second.begin = std::min(it->second.begin, demand.inputs[k]->begin);
      it->second.end = std::max(it->second.end, demand.inputs[k]->end);
    }
  }
  return true;
}

std::optional<StripeEstimate> StripeFinder::Estimate(const StripedRun& run, const std::string& result) const {
  const std::vector<Node>& nodes = whole_.graph.nodes;
  auto height = [&](const std::string& name) { return (*ShapeOf(name))[axis_of_.at(name)]; };
  auto is_in_arena = [&](const std::string& name) {
    auto made = maker_.find(name);
    return made != maker_.end() && !whole_.facts.Find(name)->constant;
  };
  const bool is_output = last_reader_.at(result) == nodes.size();
  size_t outside = is_output ? 0 : BytesOf(result);
  for (const auto& [name, made] : maker_)
    if (auto read = last_reader_.find(name);
        made < run.begin && read != last_reader_.end() && read->second >= run.begin && is_in_arena(name))
      outside += BytesOf(name);
  StripeEstimate estimate{.run = run};
  double all = 0, once = 0;
  const int64_t whole_rows = height(result);
  for (int64_t from = 0; from < whole_rows; from += run.rows, ++estimate.stripes) {
    Needed needed;
    if (!Propagate(run, result, {from, std::min(from + run.rows, whole_rows)}, needed)) return std::nullopt;
    auto bytes = [&](const std::string& name) -> size_t {
      auto rows = needed.find(name);
      if (rows == needed.end() || name == result) return 0;
      const bool is_inside = maker_.count(name) && maker_.at(name) >= run.begin;
      const bool is_view = !is_inside && (axis_of_.at(name) == 1 || rows->second.count() == height(name));
      if (is_view) return 0;
      return BytesOf(name) / static_cast<size_t>(height(name)) * static_cast<size_t>(rows->second.count());
    };
    for (size_t i = run.begin; i < run.end; ++i) {
      auto made = needed.find(nodes[i].outputs[0]);
      if (made == needed.end()) continue;
      auto cost = costs_.find(nodes[i].outputs[0]);
      const double work = 1.0 + static_cast<double>(cost == costs_.end() ? 0 : cost->second);
      all += work * static_cast<double>(made->second.count()) / static_cast<double>(height(nodes[i].outputs[0]));
      if (from == 0) once += work;
      // What is alive before and after this node: inputs that are still to be read, and its result.
      size_t kept = 0, ending = 0;
      std::set<std::string> seen;
      for (size_t j = run.begin; j < i; ++j)
        if (auto read = last_reader_.find(nodes[j].outputs[0]); read != last_reader_.end() && read->second >= i)
          (read->second > i ? kept : ending) += bytes(nodes[j].outputs[0]);
      for (const std::string& input : nodes[i].inputs)
        if (seen.insert(input).second && (!maker_.count(input) || maker_.at(input) < run.begin)) ending += bytes(input);
      const size_t fresh = bytes(nodes[i].outputs[0]);
      estimate.bytes = std::max(estimate.bytes, outside + kept + ending + fresh);
      estimate.least = std::max(estimate.least, outside + kept + std::max(ending, fresh));
    }
  }
  estimate.whole = once, estimate.extra = all - once;
  return estimate;
}

std::vector<StripeEstimate> StripeFinder::RunsAround(size_t node) const {
  std::vector<StripeEstimate> found;
  if (node >= info_.size() || !info_[node].splits) return found;
  for (size_t begin = node + 1; begin-- > 0 && info_[begin].splits;)
    for (size_t end = node + 1; end <= info_.size() && info_[end - 1].splits; ++end) {
      if (end - begin < 2) continue;
      const std::optional<std::string> result = ResultOf(begin, end);
      if (!result || *result != whole_.graph.nodes[end - 1].outputs[0]) continue;
      const int64_t rows = (*ShapeOf(*result))[axis_of_.at(*result)];
      int64_t before = 0;
      for (int64_t stripes : {2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64, 96, 128, 256}) {
        const int64_t height = (rows + stripes - 1) / stripes;
        if (stripes > rows || height == before) continue;
        before = height;
        if (std::optional<StripeEstimate> estimate = Estimate({begin, end, height}, *result))
          found.push_back(*estimate);
      }
    }
  return found;
}

RewrittenGraph StripeFinder::Split(const StripedRun& run) const {
  const std::vector<Node>& nodes = whole_.graph.nodes;
  const std::string result = *ResultOf(run.begin, run.end);
  const size_t result_axis = axis_of_.at(result);
  const int64_t whole_rows = (*ShapeOf(result))[result_axis];
  RewrittenGraph made{whole_.graph, whole_.facts};
  made.graph.nodes.assign(nodes.begin(), nodes.begin() + static_cast<long>(run.begin));
  auto declare = [&](const std::string& name, const std::string& like, int64_t rows) {
    Shape shape = *ShapeOf(like);
    shape[axis_of_.at(like)] = rows;
    made.facts.values[name] = {.type = Type::Tensor(TypeOf(like), ToSymbolic(shape)), .constant = {}, .elements = {}};
    return name;
  };
  auto constant = [&](int64_t number) {
    std::string name = Cat("rows ", number);
    made.facts.values[name].type = Type::Tensor(DType::kInt64, ToSymbolic(Shape{1}));
    made.facts.values[name].constant = Tensor::FromVector<int64_t>({number});
    return name;
  };
  // Rows `wanted` of a value of which `there` are at hand under the name `from`.
  auto slice = [&](const std::string& value, const std::string& from, Rows there, Rows wanted, size_t stripe) {
    if (wanted.begin == there.begin && wanted.end == there.end) return from;
    Node node;
    node.op_type = "Slice";
    node.name = Cat("rows of ", value);
    node.inputs = {from, constant(wanted.begin - there.begin), constant(wanted.end - there.begin),
                   constant(static_cast<int64_t>(axis_of_.at(value)))};
    const std::string name = Cat(value, " rows ", wanted.begin, " to ", wanted.end, " of stripe ", stripe);
    const bool is_new = !made.facts.values.count(name);
    node.outputs = {declare(name, value, wanted.count())};
    if (is_new) made.graph.nodes.push_back(std::move(node));
    return name;
  };
  Node join;
  join.op_type = "Concat";
  join.name = Cat("stripes of ", result);
  join.outputs = {result};
  join.Set("axis", static_cast<int64_t>(result_axis));
  size_t stripe = 0;
  for (int64_t from = 0; from < whole_rows; from += run.rows, ++stripe) {
    Needed needed;
    const Rows wanted{from, std::min(from + run.rows, whole_rows)};
    Propagate(run, result, wanted, needed);
    auto part_of = [&](const std::string& value) { return Cat(value, " of stripe ", stripe); };
    for (size_t i = run.begin; i < run.end; ++i) {
      auto rows = needed.find(nodes[i].outputs[0]);
      if (rows == needed.end()) continue;
      Node node = nodes[i];
      const Demand demand = DemandOf(i, rows->second);
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        if (!demand.inputs[k]) continue;
        const std::string value = node.inputs[k];
        const bool is_inside = maker_.count(value) && maker_.at(value) >= run.begin;
        const Rows there = is_inside ? needed.at(value) : Rows{0, (*ShapeOf(value))[axis_of_.at(value)]};
        node.inputs[k] = slice(value, is_inside ? part_of(value) : value, there, *demand.inputs[k], stripe);
      }
      if (info_[i].is_window) {
        std::vector<WindowAxis> axes =
            IsConv(node) ? PlanNhwcConv(nodes[i], *ShapeOf(nodes[i].inputs[0]), *ShapeOf(nodes[i].inputs[1])).conv.axes
                         : PoolPlan(nodes[i], ToChannelsFirst(*ShapeOf(nodes[i].inputs[0]))).axes;
        axes[0].pad_begin = demand.pad_begin, axes[0].pad_end = demand.pad_end;
        std::vector<int64_t> pads;
        for (const WindowAxis& axis : axes) pads.push_back(axis.pad_begin);
        for (const WindowAxis& axis : axes)
          pads.push_back(std::max(axis.pad_end, (axis.output - 1) * axis.stride + (axis.kernel - 1) * axis.dilation +
                                                    1 - axis.pad_begin - axis.input));
        pads[axes.size()] = demand.pad_end;
        node.Set("pads", std::move(pads));
        node.Remove("auto_pad"), node.Remove("ceil_mode");
      }
      node.outputs = {declare(part_of(node.outputs[0]), node.outputs[0], rows->second.count())};
      made.graph.nodes.push_back(std::move(node));
    }
    join.inputs.push_back(slice(result, part_of(result), needed.at(result), wanted, stripe));
  }
  made.graph.nodes.push_back(std::move(join));
  made.graph.nodes.insert(made.graph.nodes.end(), nodes.begin() + static_cast<long>(run.end), nodes.end());
  return made;
}

}  // namespace ferry::c
