#include "measure/compare/side.h"

#include <algorithm>

#include "base/run_scope.h"
#include "engine/prepare.h"
#include "engine/program.h"
#include "engine/runtime.h"
#include "engine/weight_cache.h"
#include "onnx/reader.h"
#include "onnx/schema.h"
#include "ops/support/cast_tensor.h"
#include "passes/widen_floats.h"

namespace ferry {
namespace {

constexpr int64_t kNewestIrVersion = 13;

// Without measuring: a layer alone is run once.
CompilerList CompilersFor(const SessionOptions& options) {
  return CompilerList(ProvidersFor(options), {options.exact, {}, options.precision});
}

Model WidenedModel(const Model& model, std::vector<std::string>& kept) {
  Model widened;
  widened.ir_version = kNewestIrVersion;
  widened.has_graph = true;
  widened.graph = PrepareGraph(model);
  for (OpsetImport import : model.opsets) {
    if (int64_t newest = NewestOpset(import.domain)) import.version = newest;
    widened.opsets.push_back(std::move(import));
  }
  kept = WidenFloats(widened.graph);
  return widened;
}

}  // namespace

Value WithFloatsLike(const Value& value, const Type& like) {
  if (like.kind == Type::Kind::kOptional) return like.element ? WithFloatsLike(value, *like.element) : value;
  if (like.kind == Type::Kind::kSequence && like.element && value.is_sequence()) {
    Sequence converted;
    for (const Value& element : value.sequence().elements)
      converted.elements.push_back(WithFloatsLike(element, *like.element));
    return converted;
  }
  bool convert = value.is_tensor() && like.is_tensor() && IsFloating(value.tensor().dtype()) && IsFloating(like.dtype);
  return convert ? Value(CastTensor(value.tensor(), like.dtype)) : value;
}

Side::Side(std::shared_ptr<const Model> original, How how, const std::string& path)
    : how_(std::move(how)), original_(std::move(original)) {
  try {
    if (how_.widen)
      session_ = Session::FromModel(WidenedModel(*original_, kept_narrow_), how_.options);
    else
      session_ = Session::FromModel(CopyDeep(*original_), how_.options);
  } catch (Error& error) {
    if (!path.empty() && error.message().find(path) == std::string::npos) error.At(path);
    throw;
  }
}

Side Side::Open(const std::string& path, How how) {
  return Side(std::make_shared<const Model>(ReadModel(path)), std::move(how), path);
}

Side Side::FromModel(Model model, How how) {
  return Side(std::make_shared<const Model>(std::move(model)), std::move(how), "");
}

Side Side::With(How how) const { return Side(original_, std::move(how), ""); }

std::vector<Value> Side::Run(std::span<const NamedValue> inputs, std::span<const std::string> names) const {
  std::vector<NamedValue> converted(inputs.begin(), inputs.end());
  for (NamedValue& input : converted)
    for (const auto* infos : {&session_->inputs(), &session_->overridable_inputs()})
      for (const ValueInfo& info : *infos)
        if (info.name == input.first) input.second = WithFloatsLike(input.second, info.type);
  return session_->Run(converted, names);
}

const Graph& Side::graph() const {
  if (!graph_) {
    Graph graph = PrepareGraph(session_->model());
    if (how_.options.optimize) CompilersFor(how_.options).first().Rewrite(graph);
    graph_ = std::make_shared<const Graph>(std::move(graph));
  }
  return *graph_;
}

std::vector<Value> Side::RunNode(const Node& node, std::span<const Value> inputs,
                                 std::span<const NamedValue> outer) const {
  Graph alone;
  alone.nodes.push_back(node);
  Node& made = alone.nodes[0];
  FactsByName facts;
  std::vector<std::string> names;
  std::vector<Value> values;
  auto bind = [&](const std::string& name, const Value& value) {
    if (!value.present() || std::find(names.begin(), names.end(), name) != names.end()) return;
    names.push_back(name);
    values.push_back(value);
    facts[name].type = value.is_tensor() ? TypeOf(value) : Type{};
    ValueInfo info;
    info.name = name;
    alone.inputs.push_back(std::move(info));
  };
  for (const NamedValue& value : outer) bind(value.first, value.second);
  for (size_t i = 0; i < made.inputs.size() && i < inputs.size(); ++i)
    if (!made.inputs[i].empty()) bind(made.inputs[i] = Cat("input ", i), inputs[i]);
  std::vector<std::string> results;
  for (const std::string& output : made.outputs) {
    if (output.empty()) continue;
    results.push_back(output);
    ValueInfo info;
    info.name = output;
    alone.outputs.push_back(std::move(info));
  }
  InferOptions infer;
  infer.on_error = [](const Node&, const Error&) {};
  GraphFacts known = InferGraph(alone, facts, infer);
  const RunScope scope("the run", how_.options.limits);
  WeightCache weights;
  const CompilerList compilers = CompilersFor(how_.options);
  std::unique_ptr<Program> program = BuildProgram({alone, known, names, results, compilers, weights});
  return program->Run(values, RunServices{nullptr, how_.options.limits.iterations, nullptr});
}

}  // namespace ferry
