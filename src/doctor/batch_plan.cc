#include "doctor/batch_plan.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "doctor/lint.h"
#include "measure/elements.h"
#include "ops/traits.h"

namespace ferry {
namespace {

constexpr int64_t kProbe = 101;  // a batch size that nothing in a network is a multiple of by chance
constexpr int64_t kLargestComputed = int64_t{1} << 20;

// -1 when it does not fit: no place for a batch is found then.
int64_t Times(int64_t a, int64_t b) {
  int64_t product;
  return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product) ? -1 : product;
}

int64_t Product(const Shape& shape, size_t begin, size_t end) {
  int64_t product = 1;
  for (size_t i = begin; i < end; ++i) product = Times(product, shape[i]);
  return product;
}

std::optional<Shape> ConcreteShape(const ValueFacts& facts) {
  if (!facts.type.is_tensor() || !facts.type.has_rank()) return std::nullopt;
  return ToConcrete(*facts.type.shape);
}

class Planner {
 public:
  Planner(const Graph& graph, int64_t batch) : graph_(graph), batch_(batch) { plan_.batch = batch; }

  BatchPlan Run(const std::vector<std::string>& inputs) {
    FactsByName at_batch = InputsAt(inputs, batch_), at_probe = InputsAt(inputs, kProbe);
    InferOptions options;
    options.largest_computed = kLargestComputed;
    base_ = InferGraph(graph_, at_batch, options).values;
    Graph no_nodes = graph_;
    no_nodes.nodes.clear();
    probe_ = InferGraph(no_nodes, at_probe, options).values;
    for (const std::string& input : inputs) plan_.positions[input] = {};
    for (const Node& node : graph_.nodes) {
      Visit(node);
      if (!plan_.refusal.empty()) return std::move(plan_);
    }
    CheckOutputs();
    GatherTypes();
    return std::move(plan_);
  }

 private:
  FactsByName InputsAt(const std::vector<std::string>& inputs, int64_t size) const {
    FactsByName facts;
    for (const std::string& name : inputs) {
      facts[name].type = graph_.FindInput(name)->type;
      (*facts[name].type.shape)[0] = size;
    }
    return facts;
  }

  void Refuse(const Node& node, std::string why) {
    plan_.refusal = std::move(why);
    plan_.refused_at = PlaceOf(node);
  }

  const ValueFacts* Probe(const std::string& name) const {
    auto it = probe_.find(name);
    return it == probe_.end() ? nullptr : &it->second;
  }
  const ValueFacts* Base(const std::string& name) const {
    auto it = base_.find(name);
    return it == base_.end() ? nullptr : &it->second;
  }
  // A constant that is the same whatever the batch size.
  const Tensor* Fixed(const std::string& name) const {
    const ValueFacts *base = Base(name), *probe = Probe(name);
    if (!base || !probe || !base->constant || !probe->constant) return nullptr;
    return Identical(*base->constant, *probe->constant) ? &*probe->constant : nullptr;
  }
  const BatchPosition* PositionOf(const std::string& name) const {
    auto it = plan_.positions.find(name);
    return it == plan_.positions.end() ? nullptr : &it->second;
  }
  const std::string* CarryingInput(const Node& node) const {
    for (const std::string& input : node.inputs)
      if (!input.empty() && PositionOf(input)) return &input;
    return nullptr;
  }

  std::vector<ValueFacts> InferAtProbe(const Node& node) const {
    InferOptions options;
    options.largest_computed = kLargestComputed;
    return InferNode(
        node, [&](const std::string& name) { return Probe(name); }, options);
  }

  void Visit(const Node& node) {
    std::string error;
    if (Try(node, &error)) return;
    if (node.op_type == "Reshape" && MendReshape(node)) return;
    if (IsOneOf(node.op_type, {"Expand", "Resize", "Slice", "Squeeze"}) && MendSizes(node)) return;
    if (!error.empty() && (MendConstants(node) || MendExpanded(node))) return;
    if (!plan_.refusal.empty()) return;
    const std::string* carrying = CarryingInput(node);
    if (!error.empty() || carrying) {
      Refuse(node, error.empty() ? "its result does not keep the samples apart" : error);
      return;
    }
  }

  // Takes the node as it is when that is right at the other size too. `error` says what went wrong if it was an error.
  bool Try(const Node& node, std::string* error) {
    if (IsOneOf(node.op_type, {"LSTM", "GRU", "RNN"}) && HoldsBatchInState(node)) {
      *error = "its initial state holds the batch size";
      return false;
    }
    std::vector<ValueFacts> outputs;
    try {
      outputs = InferAtProbe(node);
    } catch (const Error& failure) {
      *error = failure.message();
      return false;
    }
    return Accept(node, std::move(outputs));
  }

  // Whether the outputs grow with the batch as they should; keeps them if so.
  bool Accept(const Node& node, std::vector<ValueFacts> outputs) {
    const std::string* carrying = CarryingInput(node);
    std::vector<std::optional<BatchPosition>> found(outputs.size());
    for (size_t i = 0; i < outputs.size() && i < node.outputs.size(); ++i) {
      const ValueFacts* base = Base(node.outputs[i]);
      if (!base || !carrying) continue;
      if (!Locate(node, *base, outputs[i], found[i])) return false;
    }
    for (size_t i = 0; i < outputs.size() && i < node.outputs.size(); ++i) {
      if (node.outputs[i].empty()) continue;
      if (found[i]) plan_.positions[node.outputs[i]] = *found[i];
      if (carrying && !found[i] && !IsOneOf(node.op_type, {"Shape", "Size"})) lost_[node.outputs[i]] = &node;
      for (const std::string& input : node.inputs)
        if (auto it = lost_.find(input); it != lost_.end() && !found[i]) lost_.emplace(node.outputs[i], it->second);
      probe_[node.outputs[i]] = std::move(outputs[i]);
    }
    return true;
  }

  // Finds the dimension that grows with the batch. False when the shape is not what the batch asks for.
  bool Locate(const Node& node, const ValueFacts& base, const ValueFacts& probe, std::optional<BatchPosition>& found) {
    if (!base.type.is_tensor() || !base.type.has_rank() || !probe.type.has_rank()) return true;
    const SymbolicShape &before = *base.type.shape, &after = *probe.type.shape;
    if (before.size() != after.size()) return false;
    std::vector<size_t> grown;
    for (size_t k = 0; k < before.size(); ++k) {
      if (!before[k].known() || !after[k].known() || *before[k].value == *after[k].value) continue;
      if (Times(*after[k].value, batch_) != Times(*before[k].value, kProbe)) return false;
      grown.push_back(k);
    }
    if (node.op_type == "Reshape" && node.HasInput(0) && PositionOf(node.inputs[0])) {
      std::optional<Candidate> candidate = BestCandidate(node);
      if (!candidate) return grown.size() <= 1;  // sizes that are not known: the run at the end decides
      if (grown.size() != 1) return false;
      // A constant shape has no opinion of its own: with one sample, -1 may stand where the batch should not be.
      if (node.HasInput(1) && Fixed(node.inputs[1])) {
        if (grown[0] != candidate->axis) return false;
      } else if (!IsCandidate(node, grown[0], candidate->outer)) {
        return false;
      }
      found = BatchPosition{grown[0], candidate->outer};
      return true;
    }
    if (grown.size() > 1) return false;
    if (grown.empty()) return !TakesSomeSamples(node);
    found = BatchPosition{grown[0], OuterFrom(node, *before[grown[0]].value)};
    return true;
  }

  // Operators that may cut along the batch by a constant that means "all".
  bool TakesSomeSamples(const Node& node) const { return IsOneOf(node.op_type, {"Slice", "Resize"}); }

  int64_t OuterFrom(const Node& node, int64_t size) const {
    for (const std::string& input : node.inputs) {
      const BatchPosition* position = input.empty() ? nullptr : PositionOf(input);
      const ValueFacts* base = Base(input);
      if (!position || !base || !base->type.has_rank() || position->axis >= base->type.shape->size()) continue;
      const Dim& dim = (*base->type.shape)[position->axis];
      if (dim.known() && *dim.value == size) return position->outer;
    }
    return 1;
  }

  // A place the batch may have after a Reshape: rows stay in order, so as much must stand in front of it as before.
  struct Candidate {
    size_t axis;
    int64_t outer;  // how much of what stands in front shares the dimension
    int score;
  };

  std::vector<Candidate> Candidates(const Node& node) const {
    const BatchPosition* position = PositionOf(node.inputs[0]);
    const ValueFacts *data = Base(node.inputs[0]), *result = Base(node.outputs[0]);
    std::optional<Shape> from = data ? ConcreteShape(*data) : std::nullopt;
    std::optional<Shape> to = result ? ConcreteShape(*result) : std::nullopt;
    std::vector<Candidate> candidates;
    if (!position || !from || !to || from->rank() <= position->axis) return candidates;
    int64_t in_front = Times(Product(*from, 0, position->axis), position->outer);
    int64_t running = 1;
    for (size_t j = 0; j < to->rank(); running = Times(running, (*to)[j++])) {
      if (running <= 0 || running > in_front || in_front % running != 0) continue;
      int64_t outer = in_front / running, size = (*to)[j];
      if (outer <= 0 || size % outer != 0 || (size / outer) % batch_ != 0) continue;
      bool alone = outer == 1 && size == batch_;
      bool same_tail = std::equal(to->begin() + static_cast<std::ptrdiff_t>(j) + 1, to->end(),
                                  from->begin() + static_cast<std::ptrdiff_t>(position->axis) + 1, from->end());
      // All features of a sample in one dimension with the batch: hardly ever meant when something stands in front.
      bool swallows_features = outer == 1 && Product(*to, j + 1, to->rank()) == 1;
      int score = alone               ? (j == position->axis ? 100 : 90)
                  : same_tail         ? 60
                  : swallows_features ? 5
                  : outer == 1        ? 50
                                      : 10;
      candidates.push_back({j, outer, score});
    }
    return candidates;
  }
  std::optional<Candidate> BestCandidate(const Node& node) const {
    std::optional<Candidate> best;
    for (const Candidate& candidate : Candidates(node))
      if (!best || candidate.score > best->score) best = candidate;
    return best;
  }
  bool IsCandidate(const Node& node, size_t axis, int64_t& outer) const {
    for (const Candidate& candidate : Candidates(node))
      if (candidate.axis == axis) {
        outer = candidate.outer;
        return true;
      }
    return false;
  }

  bool MendReshape(const Node& node) {
    std::optional<Candidate> candidate = PositionOf(node.inputs[0]) ? BestCandidate(node) : std::nullopt;
    std::optional<Shape> to = Base(node.outputs[0]) ? ConcreteShape(*Base(node.outputs[0])) : std::nullopt;
    if (!candidate || !to) return false;
    std::vector<int64_t> sizes(to->begin(), to->end());
    BatchEdit edit = EditOf(node, 1, Cat("holds the batch size ", batch_, " in its shape [", Join(sizes, ", "), "]"));
    bool has_zero = std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
    if (has_zero) return false;
    sizes[candidate->axis] = -1;
    edit.constant = Tensor::FromVector(sizes);
    return Apply(node, std::move(edit), BatchPosition{candidate->axis, candidate->outer});
  }

  BatchEdit EditOf(const Node& node, size_t input, std::string what) const {
    BatchEdit edit;
    edit.output = node.outputs[0];
    edit.input = input;
    edit.place = PlaceOf(node);
    edit.what = std::move(what);
    return edit;
  }

  // Infers the node with the edit in place, and keeps both when that gives the right shape.
  bool Apply(const Node& node, BatchEdit edit, std::optional<BatchPosition> expected = std::nullopt) {
    Node changed = node;
    std::string name = Cat("*edit ", plan_.edits.size(), "*");
    changed.inputs.resize(std::max(changed.inputs.size(), edit.input + 1));
    changed.inputs[edit.input] = name;
    probe_[name] = FactsOf(ValueAtProbe(edit));
    std::vector<ValueFacts> outputs;
    try {
      outputs = InferAtProbe(changed);
    } catch (const Error&) {
      return false;
    }
    changed.inputs = node.inputs;  // positions and shapes at the baked size are those of the original
    if (!Accept(changed, std::move(outputs))) return false;
    if (expected) plan_.positions[node.outputs[0]] = *expected;
    plan_.edits.push_back(std::move(edit));
    return true;
  }

  static Tensor ValueAtProbe(const BatchEdit& edit) {
    if (edit.kind == BatchEdit::Kind::kConstant) return edit.constant;
    std::vector<int64_t> sizes = edit.sizes;
    sizes[edit.axis] = edit.factor * kProbe;
    if (edit.kind == BatchEdit::Kind::kSizes) return Tensor::FromVector(sizes);
    return Tensor::Zeros(edit.constant.dtype(), Shape(sizes));
  }

  bool MendSizes(const Node& node) {
    const BatchPosition* position = node.HasInput(0) ? PositionOf(node.inputs[0]) : nullptr;
    if (!position) return false;
    if (node.op_type == "Slice") return MendSlice(node, *position);
    if (node.op_type == "Squeeze") return MendSqueeze(node, *position);
    size_t input = node.op_type == "Expand" ? 1 : 3;
    const Tensor* fixed = node.HasInput(input) ? Fixed(node.inputs[input]) : nullptr;
    std::optional<Shape> from = ConcreteShape(*Base(node.inputs[0]));
    if (!fixed || !from) return false;
    std::vector<int64_t> sizes = ToInt64Vector(*fixed);
    int64_t entry =
        static_cast<int64_t>(position->axis) +
        (node.op_type == "Expand" ? static_cast<int64_t>(sizes.size()) - static_cast<int64_t>(from->rank()) : 0);
    if (entry < 0 || entry >= static_cast<int64_t>(sizes.size())) return false;
    BatchEdit edit =
        EditOf(node, input, Cat("holds the batch size ", batch_, " in its sizes [", Join(sizes, ", "), "]"));
    edit.axis = static_cast<size_t>(entry);
    if (node.op_type == "Expand") {
      sizes[edit.axis] = 1;
      edit.constant = Tensor::FromVector(sizes);
    } else {
      edit.kind = BatchEdit::Kind::kSizes;
      edit.factor = sizes[edit.axis] / batch_;
      edit.sizes = sizes;
    }
    return Apply(node, std::move(edit));
  }

  bool MendSlice(const Node& node, const BatchPosition& position) {
    const Tensor* starts = node.HasInput(1) ? Fixed(node.inputs[1]) : nullptr;
    const Tensor* ends = node.HasInput(2) ? Fixed(node.inputs[2]) : nullptr;
    const Tensor* axes = node.HasInput(3) ? Fixed(node.inputs[3]) : nullptr;
    std::optional<Shape> from = ConcreteShape(*Base(node.inputs[0]));
    if (!starts || !ends || !from || (node.HasInput(3) && !axes)) return false;
    std::vector<int64_t> first = ToInt64Vector(*starts), last = ToInt64Vector(*ends);
    auto rank = static_cast<int64_t>(from->rank());
    for (size_t k = 0; k < last.size() && k < first.size(); ++k) {
      int64_t axis = axes ? ToInt64Vector(*axes).at(k) : static_cast<int64_t>(k);
      if (axis < 0) axis += rank;
      if (axis != static_cast<int64_t>(position.axis)) continue;
      if (first[k] != 0 || last[k] < (*from)[position.axis]) {
        Refuse(node, Cat("takes some of the samples only: ", first[k], " to ", last[k], " of ", batch_));
        return false;
      }
      BatchEdit edit = EditOf(node, 2, Cat("holds the batch size ", batch_, " in its ends [", Join(last, ", "), "]"));
      last[k] = std::numeric_limits<int64_t>::max();
      edit.constant = Tensor::FromVector(last);
      return Apply(node, std::move(edit));
    }
    return false;
  }

  // Without axes every dimension of size 1 goes, a batch of one sample too.
  bool MendSqueeze(const Node& node, const BatchPosition& position) {
    std::optional<Shape> from = ConcreteShape(*Base(node.inputs[0]));
    if (node.HasInput(1) || !from) return false;
    Refuse(node, Cat("drops the dimension of the batch, which is of size ", (*from)[position.axis]));
    return false;
  }

  bool HoldsBatchInState(const Node& node) const {
    for (size_t i : {size_t{4}, size_t{5}, size_t{6}})
      if (const Tensor* state = node.HasInput(i) ? Fixed(node.inputs[i]) : nullptr)
        if (state->rank() > StateAxis(node, i) && state->dim(StateAxis(node, i)) == batch_) return true;
    return false;
  }
  static size_t StateAxis(const Node& node, size_t input) { return input == 4 || node.Int("layout", 0) != 0 ? 0 : 1; }

  // Operators that repeat a dimension of 1 by themselves.
  static bool Broadcasts(const Node& node) {
    return TraitsOf(node).elementwise == Elementwise::kOfSeveral || IsStandard(node, {"MatMul", "Expand"});
  }

  // A constant that was made for every sample of the batch: one row is enough when all are the same.
  bool MendConstants(const Node& node) {
    const std::string* carrying = CarryingInput(node);
    if (!carrying) return false;
    std::optional<Shape> like = ConcreteShape(*Base(*carrying));
    if (!like) return false;
    size_t batch_axis = PositionOf(*carrying)->axis;
    bool any = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Tensor* fixed = node.HasInput(i) ? Fixed(node.inputs[i]) : nullptr;
      if (!fixed) continue;
      bool is_state = IsOneOf(node.op_type, {"LSTM", "GRU", "RNN"});
      if (is_state && (i < 4 || i > 6)) continue;
      int64_t axis = is_state ? static_cast<int64_t>(StateAxis(node, i)) : static_cast<int64_t>(batch_axis);
      if (!is_state && Broadcasts(node))
        axis += static_cast<int64_t>(fixed->rank()) - static_cast<int64_t>(like->rank());
      if (axis < 0 || axis >= static_cast<int64_t>(fixed->rank())) continue;
      if (fixed->dim(static_cast<size_t>(axis)) != batch_) continue;
      if (!AddRow(node, i, *fixed, static_cast<size_t>(axis))) return false;
      any = true;
    }
    if (!any) return false;
    return ApplyPending(node);
  }

  // A state that was made for every sample, and is expanded to as many as there are: one row is enough.
  bool MendExpanded(const Node& node) {
    if (node.op_type != "Expand" || !node.HasInput(0) || !node.HasInput(1)) return false;
    const Tensor* fixed = Fixed(node.inputs[0]);
    const ValueFacts *base = Base(node.inputs[1]), *probe = Probe(node.inputs[1]);
    if (!fixed || !base || !probe || !base->constant || !probe->constant) return false;
    std::vector<int64_t> before = ToInt64Vector(*base->constant), after = ToInt64Vector(*probe->constant);
    if (before.size() != after.size() || fixed->rank() > before.size()) return false;
    size_t added = before.size() - fixed->rank();
    for (size_t axis = 0; axis < fixed->rank(); ++axis) {
      size_t place = axis + added;
      if (before[place] != batch_ || after[place] != kProbe || fixed->dim(axis) != batch_) continue;
      if (!AddRow(node, 0, *fixed, axis) || !ApplyPending(node)) return false;
      plan_.positions[node.outputs[0]] = {place, 1};
      return true;
    }
    return false;
  }

  bool AddRow(const Node& node, size_t input, const Tensor& fixed, size_t axis) {
    std::optional<Tensor> row = OneRow(fixed, axis);
    if (!row) {
      Refuse(node, Cat("reads '", Printable(node.inputs[input]),
                       "', a constant with different numbers for each of the ", batch_, " samples"));
      return false;
    }
    BatchEdit edit = EditOf(
        node, input, Cat("reads '", Printable(node.inputs[input]), "', a constant made for ", batch_, " samples"));
    edit.constant = *row;
    edit.axis = axis;
    if (!Broadcasts(node)) {
      edit.kind = BatchEdit::Kind::kExpanded;
      for (int64_t size : fixed.shape()) edit.sizes.push_back(size);
    }
    pending_.push_back(std::move(edit));
    return true;
  }

  bool ApplyPending(const Node& node) {
    std::vector<BatchEdit> edits = std::move(pending_);
    pending_.clear();
    Node changed = node;
    for (size_t i = 0; i < edits.size(); ++i) {
      std::string name = Cat("*edit ", plan_.edits.size() + i, "*");
      changed.inputs[edits[i].input] = name;
      probe_[name] = FactsOf(ValueAtProbe(edits[i]));
    }
    std::vector<ValueFacts> outputs;
    try {
      outputs = InferAtProbe(changed);
    } catch (const Error&) {
      return false;
    }
    if (!Accept(node, std::move(outputs))) return false;
    for (BatchEdit& edit : edits) plan_.edits.push_back(std::move(edit));
    return true;
  }

  // The first row along an axis when all rows are equal.
  static std::optional<Tensor> OneRow(const Tensor& tensor, size_t axis) {
    if (tensor.dtype() == DType::kString || IsPacked(tensor.dtype())) return std::nullopt;
    size_t element = static_cast<size_t>(BitWidth(tensor.dtype()) / 8);
    auto outer = static_cast<size_t>(Product(tensor.shape(), 0, axis));
    auto rows = static_cast<size_t>(tensor.dim(axis));
    size_t bytes = static_cast<size_t>(Product(tensor.shape(), axis + 1, tensor.rank())) * element;
    std::vector<int64_t> sizes(tensor.shape().begin(), tensor.shape().end());
    sizes[axis] = 1;
    Tensor row(tensor.dtype(), Shape(sizes));
    for (size_t o = 0; o < outer; ++o) {
      const std::byte* first = tensor.raw() + o * rows * bytes;
      for (size_t r = 1; r < rows; ++r)
        if (!std::equal(first, first + bytes, first + r * bytes)) return std::nullopt;
      std::copy(first, first + bytes, row.mutable_raw() + o * bytes);
    }
    return row;
  }

  void CheckOutputs() {
    for (const ValueInfo& output : graph_.outputs) {
      if (PositionOf(output.name)) continue;
      auto lost = lost_.find(output.name);
      if (lost == lost_.end()) continue;
      Refuse(*lost->second,
             Cat("takes the samples together: output '", Printable(output.name), "' has none of its own"));
      return;
    }
  }

  void GatherTypes() {
    for (const auto& [name, facts] : probe_) {
      Type type = facts.type;
      const BatchPosition* position = PositionOf(name);
      const ValueFacts* base = Base(name);
      if (position && type.has_rank() && base && base->type.has_rank() && position->axis < type.shape->size()) {
        const Dim& before = (*base->type.shape)[position->axis];
        (*type.shape)[position->axis] =
            before.known() && *before.value == batch_ ? Dim::Named(BatchPlan::kBatchName) : Dim();
      }
      plan_.types.emplace(name, std::move(type));
    }
  }

  const Graph& graph_;
  int64_t batch_;
  BatchPlan plan_;
  FactsByName base_, probe_;
  std::unordered_map<std::string, const Node*>
      lost_;  // values that no longer tell samples apart, and where it happened
  std::vector<BatchEdit> pending_;
};

}  // namespace

BatchPlan PlanFreeBatch(const Graph& graph, const std::vector<std::string>& inputs, int64_t batch) {
  return Planner(graph, batch).Run(inputs);
}

}  // namespace ferry
