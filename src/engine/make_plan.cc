#include "engine/make_plan.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "base/check_run.h"
#include "engine/copy_kernel.h"
#include "engine/place_values.h"
#include "engine/view_kernel.h"
#include "graph/scopes.h"
#include "tensor/alignment.h"

namespace ferry {
namespace {

// Whether values of this kind can lie in another memory space than the host's.
bool IsPlainTensor(const ValueFacts* facts) {
  return facts && facts->type.is_tensor() && facts->type.dtype != DType::kString &&
         facts->type.dtype != DType::kUndefined;
}

class PlanBuilder {
 public:
  PlanBuilder(const Graph& graph, const GraphFacts& all_facts, OuterFacts find_facts, const CompilerList& compilers,
              WeightCache& weights)
      : graph_(graph),
        all_facts_(all_facts),
        find_facts_(std::move(find_facts)),
        compilers_(compilers),
        weights_(weights),
        plan_(std::make_shared<Plan>()) {}

  // Spaces that are not named are the host's.
  PlannedProgram Build(const std::vector<std::string>& inputs, const std::vector<std::string>& results,
                       const std::vector<MemorySpace*>& input_spaces = {},
                       const std::vector<MemorySpace*>& result_spaces = {}) {
    auto space_in = [](const std::vector<MemorySpace*>& spaces, size_t i) -> MemorySpace& {
      return i < spaces.size() ? *spaces[i] : HostMemory();
    };
    for (size_t i = 0; i < inputs.size(); ++i) plan_->inputs.push_back(AddInput(inputs[i], space_in(input_spaces, i)));
    for (size_t i = 0; i < results.size(); ++i)
      if (&space_in(result_spaces, i) == &HostMemory()) is_result_.insert(results[i]);
    SelectNodes(results);
    const std::vector<ImageChain> chains = compilers_.first().FindChains(selected_, find_facts_, results);
    auto chain = chains.begin();
    for (size_t i = 0; i < selected_.size();) {
      const bool begins = chain != chains.end() && chain->first == i;
      if (begins)
        AddChain(*chain);
      else
        AddStep(*selected_[i]);
      i = begins ? chain++->last : i + 1;
    }
    for (size_t i = 0; i < results.size(); ++i) {
      plan_->results.push_back(SlotIn(space_in(result_spaces, i), SlotToRead(results[i], "an output of the model")));
      MakeReadable(plan_->results.back());
    }
    PlannedProgram program{std::move(plan_), std::move(kernels_)};
    PlaceValues(program, std::move(operators_), compilers_.first(), find_facts_);
    return program;
  }

 private:
  Slot& SlotAt(int slot) { return plan_->slots[static_cast<size_t>(slot)]; }

  int AddSlot(Slot slot) {
    plan_->slots.push_back(std::move(slot));
    return static_cast<int>(plan_->slots.size()) - 1;
  }

  int AddInput(const std::string& name, MemorySpace& space) {
    int slot = AddSlot({.name = name, .place = Slot::Place::kInput, .space = &space});
    slot_of_[name] = slot;
    return slot;
  }

  void Add(StepPlan step, StepKernels kernels, const Operator* op) {
    plan_->steps.push_back(std::move(step));
    kernels_.push_back(std::move(kernels));
    operators_.push_back(op);
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

  // The same value in another memory space: a weight is copied there once for all programs, anything else by a step.
  int SlotIn(MemorySpace& space, int slot) {
    if (slot < 0 || SlotAt(slot).space == &space) return slot;
    auto [known, is_new] = copy_of_.try_emplace({slot, &space}, -1);
    if (!is_new) return known->second;
    const int copy = SlotAt(slot).place == Slot::Place::kConstant ? CopyConstant(slot, space) : AddCopy(slot, space);
    return copy_of_[{slot, &space}] = copy;
  }

  int CopyConstant(int slot, MemorySpace& space) {
    const Slot& from = SlotAt(slot);
    auto copied =
        weights_.Get<Tensor>(from.constant, Cat("in ", space.name()), [&] { return from.constant.In(space); });
    return AddSlot({.name = from.name,
                    .place = Slot::Place::kConstant,
                    .dtype = from.dtype,
                    .constant = *copied,
                    .space = &space});
  }

  int AddCopy(int slot, MemorySpace& space) {
    Node& node = plan_->copies.emplace_back();
    node.op_type = "Copy";
    node.domain = kInternalDomain;
    node.inputs = node.outputs = {SlotAt(slot).name};
    StepPlan step{.node = &node, .provider = compilers_.entries.back().provider, .kernel = {.name = "copy"}};
    step.inputs = {slot};
    step.outputs = {AddSlot(SlotFor(SlotAt(slot).name, space))};
    step.space = &space;
    step.is_copy = true;
    const int copy = step.outputs[0];
    Add(std::move(step), {MakeCopyKernel()}, nullptr);
    return copy;
  }

  // Weights of a file may lie at any byte of it. All programs share the copy.
  void MakeReadable(int slot) {
    Tensor& constant = SlotAt(slot).constant;
    if (constant.on_host() && !IsReadable(constant))
      constant = *weights_.Get<Tensor>(constant, "readable", [&] { return constant.Clone(); });
  }

  [[noreturn]] void FailNotMade(const std::string& name, const std::string& reader) const {
    for (const Node& node : graph_.nodes)
      if (std::find(node.outputs.begin(), node.outputs.end(), name) != node.outputs.end())
        Fail(ErrorCode::kInvalidModel, "value '", Printable(name), "', read by ", reader, ", is made only later by ",
             Describe(node), ": the graph has a cycle or its nodes are out of order");
    Fail(ErrorCode::kInvalidModel, "value '", Printable(name), "', read by ", reader, ", is made by no node");
  }

  // A value about to be made: in the arena when its size is known, else wherever the kernel puts it.
  Slot SlotFor(const std::string& name, MemorySpace& space) {
    Slot slot{.name = name, .space = &space};
    const ValueFacts* facts = find_facts_(name);
    if (IsPlainTensor(facts) && facts->type.shape) {
      slot.shape = ToConcrete(*facts->type.shape);
      slot.dtype = facts->type.dtype;
    }
    const bool leaves = is_result_.count(name) > 0 && &space == &HostMemory();
    slot.place = leaves ? Slot::Place::kResult : slot.shape ? Slot::Place::kArena : Slot::Place::kDynamic;
    return slot;
  }

  int SlotToWrite(const std::string& name, MemorySpace& space) {
    return slot_of_[name] = AddSlot(SlotFor(name, space));
  }

  void AddStep(const Node& node) {
    CheckRun();
    const Operator* op = FindOperator(node.domain, node.op_type);
    if (!op || !op->compute)
      Fail(ErrorCode::kUnsupported, Describe(node), ": Ferry has no operator '", Printable(node.op_type),
           "' in domain '", Printable(node.domain.empty() ? "ai.onnx" : node.domain), "'");
    StepPlan step{.node = &node, .provider = compilers_.entries.back().provider};
    StepKernels kernels;
    const bool is_transposed_view = IsFreeTranspose(node);
    step.is_view = op->is_view || is_transposed_view;
    for (const std::string& input : node.inputs)
      step.inputs.push_back(input.empty() ? -1 : SlotToRead(input, Describe(node)));
    if (step.is_view && BindConstantView(node, step.inputs)) return;
    MemorySpace& bodies_in = SpaceOfBodies(node);
    for (const Attribute& attribute : node.attributes)
      if (auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.held))
        AddBody(node, **body, bodies_in, step, kernels);
    if (is_transposed_view) {
      step.kernel.name = "view";
      kernels.kernel = MakeViewKernel(*op, node.Ints("perm"));
    } else {
      step.space = &bodies_in;
      ChooseKernel(node, *op, step, kernels);
    }
    if (&bodies_in != &HostMemory()) LeaveToBodies(bodies_in, step);
    BringInputs(step);
    for (const std::string& output : node.outputs)
      step.outputs.push_back(output.empty() || !needed_.count(output) ? -1 : SlotToWrite(output, *step.space));
    for (size_t i = 0; i < step.inputs.size(); ++i)
      if (step.inputs[i] >= 0 && !Includes(step.kernel.reads_anywhere, i)) MakeReadable(step.inputs[i]);
    Add(std::move(step), std::move(kernels), op);
  }

  // Asks the providers in turn. What may lie elsewhere are tensors of numbers.
  void ChooseKernel(const Node& node, const Operator& op, StepPlan& step, StepKernels& kernels) const {
    std::vector<const ValueFacts*> inputs, outputs;
    bool is_plain = true;
    auto find = [&](const std::string& name) {
      const ValueFacts* facts = name.empty() ? nullptr : find_facts_(name);
      is_plain = is_plain && (name.empty() || IsPlainTensor(facts));
      return facts;
    };
    for (const std::string& name : node.inputs) inputs.push_back(find(name));
    for (const std::string& name : node.outputs) outputs.push_back(find(name));
    for (const CompilerList::Entry& entry : compilers_.entries) {
      MemorySpace& memory = entry.provider->memory();
      if (&memory != &HostMemory() && (!is_plain || step.is_view || !step.bodies.empty())) continue;
      const KernelRequest request{node, op, inputs, outputs, weights_};
      if (&memory == &HostMemory() && !compilers_.lists_cpu && &entry == &compilers_.entries.back() && !step.is_view &&
          step.space == &HostMemory() && !compilers_.first().LeavesToHost(request))
        FailUnlisted(node, op);
      std::optional<ChosenKernel> chosen = entry.compiler->Choose(request);
      if (!chosen) continue;
      step.provider = entry.provider;
      step.space = &memory;
      step.kernel = std::move(chosen->plan);
      kernels.kernel = std::move(chosen->kernel);
      return;
    }
    Fail(ErrorCode::kUnsupported, Describe(node), ": no provider takes it");
  }

  [[noreturn]] void FailUnlisted(const Node& node, const Operator& op) const {
    std::vector<std::string> asked;
    for (const CompilerList::Entry& entry : compilers_.entries)
      if (&entry != &compilers_.entries.back()) asked.emplace_back(entry.provider->name());
    const std::string names = Join(asked, ",");
    Fail(ErrorCode::kUnsupported, Describe(node), ": provider ", names, " has no kernel for ", Printable(op.name),
         " with these types and shapes; list the CPU behind it to run such nodes there: provider '", names, ",cpu'");
  }

  static size_t HostInputs(const Node& node) { return node.op_type == "Loop" ? 2 : 1; }

  const FactsByName* FactsInside(const Graph& graph) const {
    auto known = all_facts_.bodies.find(&graph);
    return known == all_facts_.bodies.end() ? nullptr : &known->second;
  }

  // Where the bodies of If and Loop take and leave their values: in the first provider's memory where they are all
  // tensors of numbers, else on the host. Conditions and counts are read on the host in any case, and so are values
  // that a Loop stacks.
  MemorySpace& SpaceOfBodies(const Node& node) const {
    MemorySpace& memory = compilers_.entries.front().provider->memory();
    const bool is_loop = node.op_type == "Loop";
    if (&memory == &HostMemory() || !CanonicalDomain(node.domain).empty() || (!is_loop && node.op_type != "If"))
      return HostMemory();
    for (size_t i = HostInputs(node); i < node.inputs.size(); ++i)
      if (!node.HasInput(i) || !IsPlainTensor(find_facts_(node.inputs[i]))) return HostMemory();
    if (is_loop && node.outputs.size() + 2 != std::max<size_t>(node.inputs.size(), 2)) return HostMemory();
    for (const Attribute& attribute : node.attributes) {
      auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.held);
      if (!body) continue;
      const FactsByName* inside = FactsInside(**body);
      for (const ValueInfo& output : (*body)->outputs) {
        auto facts = inside ? inside->find(output.name) : FactsByName::const_iterator();
        const bool is_inside = inside && facts != inside->end();
        if (!IsPlainTensor(is_inside ? &facts->second : find_facts_(output.name))) return HostMemory();
      }
      for (const std::string& name : CapturedNames(**body))
        if (!IsPlainTensor(find_facts_(name))) return HostMemory();
    }
    return memory;
  }

  // The host decides which body runs, and how often.
  void LeaveToBodies(MemorySpace& space, StepPlan& step) const {
    step.provider = compilers_.entries.front().provider;
    step.space = &space;
    step.kernel.name = "bodies on the device";
    step.kernel.is_recordable = false;
    step.kernel.reads_on_host = (uint32_t{1} << HostInputs(*step.node)) - 1;
  }

  // Inputs are read where the step works; a view is made wherever the value lies.
  void BringInputs(StepPlan& step) {
    if (step.is_view && !step.inputs.empty() && step.inputs[0] >= 0) step.space = SlotAt(step.inputs[0]).space;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (step.is_view && i == 0) continue;
      const bool on_host = step.is_view || Includes(step.kernel.reads_on_host, i);
      step.inputs[i] = SlotIn(on_host ? HostMemory() : *step.space, step.inputs[i]);
    }
  }

  void AddChain(const ImageChain& chain) {
    StepPlan step{.node = selected_[chain.first], .provider = compilers_.entries.front().provider};
    step.kernel.name = "chain";
    step.space = &step.provider->memory();
    for (const std::string& input : chain.inputs)
      step.inputs.push_back(SlotIn(*step.space, SlotToRead(input, Describe(*step.node))));
    for (const std::string& output : chain.outputs) step.outputs.push_back(SlotToWrite(output, *step.space));
    OuterFacts find = [&](const std::string& name) {
      auto inside = chain.facts.find(name);
      return inside != chain.facts.end() ? &inside->second : find_facts_(name);
    };
    PlannedProgram inside =
        PlanBuilder(graph_, all_facts_, find, compilers_, weights_).Build(chain.inputs, chain.outputs);
    step.chain = std::move(inside.plan);
    step.chain_images = chain.images;
    StepKernels kernels;
    kernels.chain = std::move(inside.kernels);
    Add(std::move(step), std::move(kernels), nullptr);
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
    const Slot& from = SlotAt(inputs[0]);
    const ValueFacts* facts = find_facts_(node.outputs[0]);
    if (from.place != Slot::Place::kConstant || !facts || !facts->type.shape) return false;
    std::optional<Shape> shape = ToConcrete(*facts->type.shape);
    if (!shape || shape->ElementCount() != from.constant.size() || facts->type.dtype != from.dtype) return false;
    Tensor view = from.constant.Reshaped(*shape);
    slot_of_[node.outputs[0]] =
        AddSlot({.name = node.outputs[0], .place = Slot::Place::kConstant, .dtype = view.dtype(), .constant = view});
    return true;
  }

  void AddBody(const Node& node, const Graph& graph, MemorySpace& space, StepPlan& step, StepKernels& kernels) {
    const FactsByName* known = FactsInside(graph);
    // Where no inference rule looked into the body, its constants are all that is known.
    FactsByName constants;
    if (!known)
      for (const StoredTensor& initializer : graph.initializers)
        constants[initializer.name] = FactsOf(initializer.Get());
    const FactsByName& inside = known ? *known : constants;
    OuterFacts find = [&](const std::string& name) -> const ValueFacts* {
      auto it = inside.find(name);
      return it != inside.end() ? &it->second : find_facts_(name);
    };
    const bool on_host = &space == &HostMemory(), is_loop = node.op_type == "Loop";
    BodyPlan body;
    std::vector<std::string> inputs, results;
    std::vector<MemorySpace*> input_spaces, result_spaces;
    for (const ValueInfo& input : graph.inputs) {
      input_spaces.push_back(inputs.size() < HostInputs(node) ? &HostMemory() : &space);
      inputs.push_back(input.name);
    }
    for (const std::string& name : CapturedNames(graph)) {
      if (IsConstant(name)) continue;
      inputs.push_back(name);
      const int slot = SlotToRead(name, Describe(node));
      body.captured_slots.push_back(on_host ? SlotIn(HostMemory(), slot) : slot);
      input_spaces.push_back(SlotAt(body.captured_slots.back()).space);
    }
    for (const ValueInfo& output : graph.outputs) {
      result_spaces.push_back(is_loop && results.empty() ? &HostMemory() : &space);  // a Loop's condition comes first
      results.push_back(output.name);
    }
    PlannedProgram made =
        PlanBuilder(graph, all_facts_, find, compilers_, weights_).Build(inputs, results, input_spaces, result_spaces);
    body.plan = std::move(made.plan);
    step.bodies.push_back(std::move(body));
    kernels.bodies.push_back(std::move(made.kernels));
  }

  const Graph& graph_;
  const GraphFacts& all_facts_;
  OuterFacts find_facts_;
  const CompilerList& compilers_;
  WeightCache& weights_;

  std::shared_ptr<Plan> plan_;
  std::vector<StepKernels> kernels_;
  std::vector<const Operator*> operators_;  // of each step; null for chains and copies
  std::unordered_map<std::string, int> slot_of_;
  std::map<std::pair<int, MemorySpace*>, int> copy_of_;
  std::unordered_set<std::string> is_result_, needed_;
  std::vector<const Node*> selected_;
};

}  // namespace

size_t Plan::ArenaBytes() const {
  size_t bytes = 0;
  for (const ArenaPlan& arena : arenas) bytes += arena.bytes;
  return bytes;
}

PlannedProgram MakePlan(const PlanRequest& request) {
  OuterFacts find = [&](const std::string& name) { return request.facts.Find(name); };
  return PlanBuilder(request.graph, request.facts, find, request.compilers, request.weights)
      .Build(request.inputs, request.results, request.input_spaces);
}

}  // namespace ferry
