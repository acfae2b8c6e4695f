#include "engine/build_program.h"

#include <algorithm>
#include <climits>
#include <unordered_map>
#include <unordered_set>

#include "engine/plan_memory.h"
#include "graph/scopes.h"
#include "providers/cpu/image_chains.h"
#include "providers/cpu/place_concats.h"
#include "tensor/alignment.h"

namespace ferry {

// Finds what is known of a value: in the graph being built, then in the graphs around it.
using FindFacts = std::function<const ValueFacts*(const std::string&)>;

namespace {

// Whether a transpose moves axes of size 1 only.
bool KeepsOrder(const Shape& shape, const std::vector<int64_t>& order) {
  int64_t last = -1;
  for (int64_t axis : order) {
    if (axis < 0 || axis >= static_cast<int64_t>(shape.rank())) return false;
    if (shape[static_cast<size_t>(axis)] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return order.size() == shape.rank();
}

// Such a transpose: the same elements under another shape.
class ViewKernel final : public Kernel {
 public:
  ViewKernel(const Operator& op, std::vector<int64_t> order) : compute_(op.compute), order_(std::move(order)) {}

  void Run(OpContext& context) const override {
    const Tensor& x = context.Input(0);
    if (!KeepsOrder(x.shape(), order_)) return compute_(context);
    Shape shape;
    for (int64_t axis : order_) shape.push_back(x.dim(static_cast<size_t>(axis)));
    context.SetOutput(0, x.Reshaped(shape));
  }

 private:
  void (*compute_)(OpContext&);
  std::vector<int64_t> order_;
};

}  // namespace

class ProgramBuilder {
 public:
  ProgramBuilder(const Graph& graph, const GraphFacts& all_facts, FindFacts find_facts, const Provider& provider,
                 WeightCache& weights, const KernelPolicy& policy)
      : graph_(graph),
        all_facts_(all_facts),
        find_facts_(std::move(find_facts)),
        provider_(provider),
        weights_(weights),
        policy_(policy) {}

  std::unique_ptr<Program> Build(const std::vector<std::string>& inputs, const std::vector<std::string>& results) {
    program_ = std::make_unique<Program>();
    for (const std::string& name : inputs) program_->input_slots_.push_back(AddInput(name));
    for (const std::string& name : results) is_result_.insert(name);
    SelectNodes(results);
    std::vector<ImageChain> chains = FindImageChains(selected_, find_facts_, results);
    auto chain = chains.begin();
    for (size_t i = 0; i < selected_.size();) {
      const bool begins = chain != chains.end() && chain->first == i;
      if (begins)
        AddChain(*chain);
      else
        AddStep(*selected_[i]);
      i = begins ? chain++->last : i + 1;
    }
    for (const std::string& name : results) {
      program_->result_slots_.push_back(SlotToRead(name, "an output of the model"));
      MakeReadable(program_->result_slots_.back());
    }
    FindLastUses();
    ShareMemory();
    PlaceValues();
    return std::move(program_);
  }

 private:
  std::vector<Slot>& slots() { return program_->slots_; }
  std::vector<Step>& steps() { return program_->steps_; }

  int AddSlot(Slot slot) {
    slots().push_back(std::move(slot));
    return static_cast<int>(slots().size()) - 1;
  }

  int AddInput(const std::string& name) {
    int slot = AddSlot({.name = name, .place = Slot::Place::kInput});
    slot_of_[name] = slot;
    return slot;
  }

  bool IsConstant(const std::string& name) const {
    const ValueFacts* facts = find_facts_(name);
    return facts && facts->constant;
  }

  // Nodes that results need, in order; those whose values are known already drop out.
  void SelectNodes(const std::vector<std::string>& results) {
    std::unordered_set<std::string> needed(results.begin(), results.end());
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
      bool wanted = false;
      for (const std::string& output : node->outputs)
        wanted |= !output.empty() && needed.count(output) && !slot_of_.count(output) && !IsConstant(output);
      if (!wanted) continue;
      selected_.push_back(&*node);
      for (const std::string& input : node->inputs)
        if (!input.empty()) needed.insert(input);
      for (const std::string& name : CapturedNames(*node)) needed.insert(name);
    }
    std::reverse(selected_.begin(), selected_.end());
    needed_ = std::move(needed);
  }

  int SlotToRead(const std::string& name, const std::string& reader) {
    auto known = slot_of_.find(name);
    if (known != slot_of_.end()) return known->second;
    const ValueFacts* facts = find_facts_(name);
    if (!facts || !facts->constant) FailNotMade(name, reader);
    int slot = AddSlot({.name = name,
                        .place = Slot::Place::kConstant,
                        .dtype = facts->constant->dtype(),
                        .constant = *facts->constant});
    slot_of_[name] = slot;
    return slot;
  }

  // Weights of a file may lie at any byte of it. All programs share the copy.
  void MakeReadable(int slot) {
    Tensor& constant = slots()[static_cast<size_t>(slot)].constant;
    if (!IsReadable(constant)) constant = *weights_.Get<Tensor>(constant, "readable", [&] { return constant.Clone(); });
  }

  [[noreturn]] void FailNotMade(const std::string& name, const std::string& reader) const {
    for (const Node& node : graph_.nodes)
      if (std::find(node.outputs.begin(), node.outputs.end(), name) != node.outputs.end())
        Fail(ErrorCode::kInvalidModel, "value '", Printable(name), "', read by ", reader, ", is made only later by ",
             Describe(node), ": the graph has a cycle or its nodes are out of order");
    Fail(ErrorCode::kInvalidModel, "value '", Printable(name), "', read by ", reader, ", is made by no node");
  }

  // A value about to be made: in the arena when its size is known, else wherever the kernel puts it.
  int SlotToWrite(const std::string& name) {
    Slot slot{.name = name};
    const ValueFacts* facts = find_facts_(name);
    if (facts && facts->type.is_tensor() && facts->type.shape && facts->type.dtype != DType::kString &&
        facts->type.dtype != DType::kUndefined) {
      slot.shape = ToConcrete(*facts->type.shape);
      slot.dtype = facts->type.dtype;
    }
    bool leaves = is_result_.count(name) > 0;
    slot.place = leaves ? Slot::Place::kResult : slot.shape ? Slot::Place::kArena : Slot::Place::kDynamic;
    int index = AddSlot(std::move(slot));
    slot_of_[name] = index;
    return index;
  }

  void AddStep(const Node& node) {
    const Operator* op = FindOperator(node.domain, node.op_type);
    if (!op || !op->compute)
      Fail(ErrorCode::kUnsupported, Describe(node), ": Ferry has no operator '", Printable(node.op_type),
           "' in domain '", Printable(node.domain.empty() ? "ai.onnx" : node.domain), "'");
    Step step;
    step.node = &node;
    step.is_view = op->is_view || IsFreeTranspose(node);
    for (const std::string& input : node.inputs)
      step.inputs.push_back(input.empty() ? -1 : SlotToRead(input, Describe(node)));
    if (step.is_view && BindConstantView(node, step.inputs)) return;
    for (const Attribute& attribute : node.attributes)
      if (auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.held))
        step.bodies.push_back(MakeBody(node, **body));
    for (const std::string& output : node.outputs)
      step.outputs.push_back(output.empty() || !needed_.count(output) ? -1 : SlotToWrite(output));
    if (step.is_view && !op->is_view)
      step.kernel = std::make_unique<ViewKernel>(*op, node.Ints("perm"));
    else
      step.kernel = ChooseKernel(node, *op);
    for (size_t i = 0; i < step.inputs.size(); ++i)
      if (step.inputs[i] >= 0 && !step.kernel->ReadsAnywhere(i)) MakeReadable(step.inputs[i]);
    steps().push_back(std::move(step));
    operators_.push_back(op);
  }

  void AddChain(const ImageChain& chain) {
    Step step;
    step.node = selected_[chain.first];
    for (const std::string& input : chain.inputs) step.inputs.push_back(SlotToRead(input, Describe(*step.node)));
    for (const std::string& output : chain.outputs) step.outputs.push_back(SlotToWrite(output));
    FindFacts find = [&](const std::string& name) {
      auto inside = chain.facts.find(name);
      return inside != chain.facts.end() ? &inside->second : find_facts_(name);
    };
    step.chain =
        ProgramBuilder(graph_, all_facts_, find, provider_, weights_, policy_).Build(chain.inputs, chain.outputs);
    step.chain_images = chain.images;
    steps().push_back(std::move(step));
    operators_.push_back(nullptr);
  }

  bool IsFreeTranspose(const Node& node) const {
    if (node.op_type != "Transpose" || !CanonicalDomain(node.domain).empty() || node.outputs.size() != 1) return false;
    const ValueFacts* facts = find_facts_(node.inputs[0]);
    const ValueFacts* result = find_facts_(node.outputs[0]);
    if (!facts || !facts->type.is_tensor() || !facts->type.shape || BitWidth(facts->type.dtype) < 8) return false;
    std::optional<Shape> shape = ToConcrete(*facts->type.shape);
    bool known = shape && result && result->type.shape && ToConcrete(*result->type.shape);
    return known && KeepsOrder(*shape, node.Ints("perm"));
  }

  // A weight under another shape is still the weight: no step, no copy.
  bool BindConstantView(const Node& node, const std::vector<int>& inputs) {
    if (inputs.empty() || inputs[0] < 0 || node.outputs.size() != 1) return false;
    const Slot& from = slots()[static_cast<size_t>(inputs[0])];
    const ValueFacts* facts = find_facts_(node.outputs[0]);
    if (from.place != Slot::Place::kConstant || !facts || !facts->type.shape) return false;
    std::optional<Shape> shape = ToConcrete(*facts->type.shape);
    if (!shape || shape->ElementCount() != from.constant.size() || facts->type.dtype != from.dtype) return false;
    Tensor view = from.constant.Reshaped(*shape);
    slot_of_[node.outputs[0]] =
        AddSlot({.name = node.outputs[0], .place = Slot::Place::kConstant, .dtype = view.dtype(), .constant = view});
    return true;
  }

  Body MakeBody(const Node& node, const Graph& graph) {
    auto known = all_facts_.bodies.find(&graph);
    // Where no inference rule looked into the body, its constants are all that is known.
    FactsByName constants;
    if (known == all_facts_.bodies.end())
      for (const StoredTensor& initializer : graph.initializers)
        constants[initializer.name] = FactsOf(initializer.Get());
    const FactsByName& inside = known == all_facts_.bodies.end() ? constants : known->second;
    FindFacts find = [&](const std::string& name) -> const ValueFacts* {
      auto it = inside.find(name);
      return it != inside.end() ? &it->second : find_facts_(name);
    };
    Body body;
    std::vector<std::string> inputs, results;
    for (const ValueInfo& input : graph.inputs) inputs.push_back(input.name);
    for (const std::string& name : CapturedNames(graph)) {
      if (IsConstant(name)) continue;
      inputs.push_back(name);
      body.captured_slots.push_back(SlotToRead(name, Describe(node)));
    }
    for (const ValueInfo& output : graph.outputs) results.push_back(output.name);
    body.program = ProgramBuilder(graph, all_facts_, find, provider_, weights_, policy_).Build(inputs, results);
    return body;
  }

  std::unique_ptr<Kernel> ChooseKernel(const Node& node, const Operator& op) const {
    std::vector<const ValueFacts*> inputs, outputs;
    for (const std::string& name : node.inputs) inputs.push_back(name.empty() ? nullptr : find_facts_(name));
    for (const std::string& name : node.outputs) outputs.push_back(name.empty() ? nullptr : find_facts_(name));
    KernelRequest request{node, op, inputs, outputs, weights_, policy_};
    std::unique_ptr<Kernel> kernel = provider_.MakeKernel(request);
    return kernel ? std::move(kernel) : CpuProvider().MakeKernel(request);
  }

  void FindLastUses() {
    last_use_.assign(slots().size(), -1);
    auto read = [&](int slot, int step) {
      if (slot >= 0) last_use_[static_cast<size_t>(slot)] = std::max(last_use_[static_cast<size_t>(slot)], step);
    };
    for (size_t i = 0; i < steps().size(); ++i) {
      for (int slot : steps()[i].inputs) read(slot, static_cast<int>(i));
      for (int slot : steps()[i].outputs) read(slot, static_cast<int>(i));
      for (const Body& body : steps()[i].bodies)
        for (int slot : body.captured_slots) read(slot, static_cast<int>(i));
    }
    for (int slot : program_->result_slots_) read(slot, INT_MAX);
  }

  int Root(int slot) const {
    while (root_[static_cast<size_t>(slot)] != slot) slot = root_[static_cast<size_t>(slot)];
    return slot;
  }

  // Bytes from where the root's memory begins.
  size_t ShiftOf(int slot) const {
    size_t shift = 0;
    for (; root_[static_cast<size_t>(slot)] != slot; slot = root_[static_cast<size_t>(slot)])
      shift += shift_[static_cast<size_t>(slot)];
    return shift;
  }

  bool InArena(int slot) const {
    return slot >= 0 && program_->slots_[static_cast<size_t>(slot)].place == Slot::Place::kArena;
  }

  // Joins values that can be the same memory: views, parts of a Concat with its result, and the output of an in-place
  // kernel with one of its inputs.
  void ShareMemory() {
    root_.resize(slots().size());
    shift_.resize(slots().size());
    group_last_ = last_use_;
    for (size_t i = 0; i < root_.size(); ++i) root_[i] = static_cast<int>(i);
    auto makes = [](const Step& step) { return !step.outputs.empty() && step.outputs[0] >= 0; };
    std::vector<bool> dropped(steps().size());
    for (size_t i = 0; i < steps().size(); ++i)
      if (steps()[i].is_view && makes(steps()[i])) dropped[i] = ShareView(steps()[i]);
    ShareConcats();
    for (size_t i = 0; i < steps().size(); ++i) {
      const Step& step = steps()[i];
      if (!step.is_view && makes(step) && operators_[i] && InArena(step.outputs[0]))
        ShareInPlace(step, *operators_[i], static_cast<int>(i));
    }
    size_t kept = 0;
    for (size_t i = 0; i < steps().size(); ++i) {
      if (dropped[i]) continue;
      step_number_.push_back(static_cast<int>(i));
      if (kept != i) steps()[kept] = std::move(steps()[i]);
      ++kept;
    }
    steps().resize(kept);
  }

  void Join(int slot, int into) {
    root_[static_cast<size_t>(slot)] = into;
    auto& last = group_last_[static_cast<size_t>(Root(into))];
    last = std::max(last, group_last_[static_cast<size_t>(slot)]);
  }

  void ShareConcats() {
    std::vector<int> viewed(root_.size());
    for (size_t i = 0; i < root_.size(); ++i) viewed[i] = Root(static_cast<int>(i));
    const std::vector<PartPlace> places = PlaceConcats(steps(), slots(), viewed, find_facts_);
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i].whole < 0) continue;
      Join(static_cast<int>(i), places[i].whole);
      shift_[i] = places[i].shift;
      slots()[i].row_stride = places[i].stride;
    }
  }

  // True when the step has nothing left to do because its output is bound to the input's place beforehand.
  bool ShareView(const Step& step) {
    int in = step.inputs.empty() ? -1 : step.inputs[0], out = step.outputs[0];
    if (!InArena(in)) {
      // The output will hold on to whatever the input held; it cannot have a place of its own.
      Slot& slot = slots()[static_cast<size_t>(out)];
      if (slot.place == Slot::Place::kArena) slot.place = Slot::Place::kDynamic;
      if (slot.place == Slot::Place::kResult) slot.shape.reset();
      if (in >= 0) Join(out, in);
      return false;
    }
    Join(out, in);
    if (InArena(out) && step.outputs.size() == 1) return true;
    slots()[static_cast<size_t>(out)].shape.reset();
    return false;
  }

  void ShareInPlace(const Step& step, const Operator& op, int number) {
    const Slot& out = slots()[static_cast<size_t>(step.outputs[0])];
    if (Root(step.outputs[0]) != step.outputs[0]) return;  // part of a Concat
    for (size_t i = 0; i < step.inputs.size() && i < 32; ++i) {
      int in = step.inputs[i];
      if (!(op.in_place >> i & 1) || !InArena(in)) continue;
      const Slot& from = slots()[static_cast<size_t>(in)];
      if (from.row_stride != 0) continue;
      if (!(*from.shape == *out.shape) || BitWidth(from.dtype) != BitWidth(out.dtype)) continue;
      int root = Root(in);
      if (group_last_[static_cast<size_t>(root)] != number) continue;
      // The same memory may be read through another value, or through another input that cannot be overwritten.
      bool read_otherwise = false;
      for (size_t j = 0; j < step.inputs.size(); ++j) {
        int other = step.inputs[j];
        bool harmless = other == in && j < 32 && (op.in_place >> j & 1);
        read_otherwise |= other >= 0 && !harmless && Root(other) == root;
      }
      if (read_otherwise) continue;
      Join(step.outputs[0], in);
      return;
    }
  }

  void PlaceValues() {
    std::vector<int> first(slots().size(), INT_MAX);  // step that writes there
    for (size_t i = 0; i < steps().size(); ++i)
      for (int slot : steps()[i].outputs)
        if (int* known = slot < 0 ? nullptr : &first[static_cast<size_t>(Root(slot))])
          *known = std::min(*known, step_number_[i]);
    std::vector<Lifetime> lifetimes;
    std::vector<int> planned(slots().size(), -1);
    for (size_t i = 0; i < slots().size(); ++i) {
      if (slots()[i].place != Slot::Place::kArena || root_[i] != static_cast<int>(i)) continue;
      planned[i] = static_cast<int>(lifetimes.size());
      lifetimes.push_back({StorageBytes(slots()[i].dtype, slots()[i].shape->ElementCount()), first[i], group_last_[i]});
    }
    MemoryPlan plan = PlanMemory(lifetimes);
    program_->arena_bytes_ = plan.arena_bytes;
    for (size_t i = 0; i < slots().size(); ++i) {
      Slot& slot = slots()[i];
      int index = static_cast<int>(i);
      if (slot.place == Slot::Place::kArena)
        slot.offset = plan.offsets[static_cast<size_t>(planned[static_cast<size_t>(Root(index))])] + ShiftOf(index);
      else if (slot.place != Slot::Place::kConstant)
        program_->per_run_slots_.push_back(static_cast<int>(i));
    }
    ReleaseEarly();
  }

  void ReleaseEarly() {
    for (size_t i = 0; i < slots().size(); ++i) {
      if (slots()[i].place != Slot::Place::kDynamic || last_use_[i] == INT_MAX) continue;
      auto step = std::upper_bound(step_number_.begin(), step_number_.end(), last_use_[i]);
      if (step != step_number_.begin())
        steps()[static_cast<size_t>(step - step_number_.begin()) - 1].release.push_back(static_cast<int>(i));
    }
  }

  const Graph& graph_;
  const GraphFacts& all_facts_;
  FindFacts find_facts_;
  const Provider& provider_;
  WeightCache& weights_;
  const KernelPolicy& policy_;

  std::unique_ptr<Program> program_;
  std::unordered_map<std::string, int> slot_of_;
  std::unordered_set<std::string> is_result_, needed_;
  std::vector<const Node*> selected_;
  std::vector<const Operator*> operators_;  // of each step as first added
  std::vector<int> step_number_;            // of each kept step, its number before views were dropped
  std::vector<int> last_use_, root_, group_last_;
  std::vector<size_t> shift_;  // bytes into the memory that a slot is joined with
};

std::unique_ptr<Program> BuildProgram(const ProgramRequest& request) {
  FindFacts find = [&](const std::string& name) { return request.facts.Find(name); };
  return ProgramBuilder(request.graph, request.facts, find, request.provider, request.weights, request.policy)
      .Build(request.inputs, request.results);
}

}  // namespace ferry
