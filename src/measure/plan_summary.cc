#include "measure/plan_summary.h"

#include <set>

#include "engine/make_plan.h"
#include "engine/prepare.h"
#include "engine/runtime.h"
#include "measure/sized_inputs.h"

namespace ferry {
namespace {

const char* Name(Slot::Place place) {
  switch (place) {
    case Slot::Place::kConstant: return "constant";
    case Slot::Place::kInput: return "input";
    case Slot::Place::kArena: return "arena";
    case Slot::Place::kResult: return "result";
    case Slot::Place::kDynamic: return "dynamic";
  }
  return "";
}

PlannedValue DescribeValue(const Slot& slot) {
  PlannedValue value{slot.name, "?", Name(slot.place), std::string(slot.space->name()), {}, {}};
  if (slot.shape) {
    value.type = ToText(Type::Tensor(slot.dtype, ToSymbolic(*slot.shape)));
    value.bytes = StorageBytes(slot.dtype, slot.shape->ElementCount());
  }
  if (slot.place == Slot::Place::kArena) value.offset = slot.offset;
  return value;
}

class PlanReader {
 public:
  explicit PlanReader(PlanSummary& summary) : summary_(summary) {}

  void Read(const Plan& plan, size_t depth) {
    for (const ArenaPlan& arena : plan.arenas) summary_.arena_bytes[std::string(arena.space->name())] += arena.bytes;
    for (const Slot& slot : plan.slots) {
      summary_.dynamic_values += slot.place == Slot::Place::kDynamic;
      if (slot.place == Slot::Place::kConstant && weights_.insert(slot.constant.address()).second)
        summary_.weight_bytes[std::string(slot.space->name())] += slot.constant.bytes();
    }
    for (const StepPlan& step : plan.steps) {
      summary_.steps.push_back(Describe(plan, step, depth));
      ++summary_.steps_by_provider[std::string(step.provider->name())];
      for (const BodyPlan& body : step.bodies) Read(*body.plan, depth + 1);
      if (step.chain) Read(*step.chain, depth + 1);
    }
  }

 private:
  static PlannedStep Describe(const Plan& plan, const StepPlan& step, size_t depth) {
    PlannedStep described{depth,
                          step.node->name,
                          step.node->op_type,
                          std::string(step.provider->name()),
                          step.chain ? Cat(step.chain_images, " images at a time") : step.kernel.name,
                          {},
                          {}};
    for (int slot : step.inputs)
      described.inputs.push_back(slot < 0 ? std::string() : plan.slots[static_cast<size_t>(slot)].name);
    for (int slot : step.outputs)
      if (slot >= 0) described.outputs.push_back(DescribeValue(plan.slots[static_cast<size_t>(slot)]));
    return described;
  }

  PlanSummary& summary_;
  std::set<const std::byte*> weights_;
};

Json ToJson(const std::map<std::string, size_t>& bytes) {
  Json json = Json::Object{};
  for (const auto& [name, count] : bytes) json.Set(name, static_cast<int64_t>(count));
  return json;
}

Json OrNull(const std::optional<size_t>& number) { return number ? Json(static_cast<int64_t>(*number)) : Json(); }

}  // namespace

PlanSummary SummarizePlan(const Model& model, const std::map<std::string, int64_t>& dimensions,
                          const SessionOptions& options) {
  PlanSummary summary;
  const SizedInputs inputs = SizeInputs(model, dimensions);
  summary.dimensions = inputs.dimensions;
  const CompilerList compilers(NamedProviders(options), {options.exact, {}, options.precision, 0, true});
  Graph graph = PrepareGraph(model, options.threads, options.optimize ? Weights::kAsTheyLie : Weights::kReadable);
  if (options.optimize) compilers.first().Rewrite(graph);
  GraphFacts facts;
  std::shared_ptr<const Graph> special;
  if (options.optimize) special = compilers.first().RewriteForShapes(graph, inputs.facts, facts);
  InferOptions infer;
  infer.on_error = [](const Node&, const Error&) {};
  infer.weights_anywhere = true;
  if (!special) facts = InferGraph(graph, inputs.facts, infer);
  std::vector<std::string> names, results;
  for (const ValueInfo& input : inputs.infos) names.push_back(input.name);
  for (const ValueInfo& output : model.graph.outputs) results.push_back(output.name);
  WeightCache weights;
  WeightCache::PackingBatch not_finished(weights);  // what kernels ask for is noted and not made
  const PlannedProgram planned =
      MakePlan({special ? *special : graph, facts, std::move(names), std::move(results), compilers, weights});
  PlanReader(summary).Read(*planned.plan, 0);
  return summary;
}

Json ToJson(const PlanSummary& plan) {
  Json dimensions = Json::Object{}, steps = Json::Array{};
  for (const auto& [name, size] : plan.dimensions) dimensions.Set(name, size);
  for (const PlannedStep& step : plan.steps) {
    Json outputs = Json::Array{};
    for (const PlannedValue& value : step.outputs)
      outputs.Add(Json()
                      .Set("name", value.name)
                      .Set("type", value.type)
                      .Set("place", value.place)
                      .Set("space", value.space)
                      .Set("offset", OrNull(value.offset))
                      .Set("bytes", OrNull(value.bytes)));
    steps.Add(Json()
                  .Set("depth", static_cast<int64_t>(step.depth))
                  .Set("node", step.node)
                  .Set("op", step.op)
                  .Set("provider", step.provider)
                  .Set("algorithm", step.algorithm)
                  .Set("inputs", Json::List(step.inputs))
                  .Set("outputs", std::move(outputs)));
  }
  return Json()
      .Set("dimensions", std::move(dimensions))
      .Set("arena_bytes", ToJson(plan.arena_bytes))
      .Set("weight_bytes", ToJson(plan.weight_bytes))
      .Set("steps_by_provider", ToJson(plan.steps_by_provider))
      .Set("dynamic_values", static_cast<int64_t>(plan.dynamic_values))
      .Set("steps", std::move(steps));
}

}  // namespace ferry
