#include "convert/c/build_c.h"

#include <algorithm>
#include <set>

#include "convert/c/fit.h"
#include "convert/c/graph_writer.h"
#include "convert/c/print_source.h"
#include "convert/c/rewrite.h"
#include "graph/standard.h"

namespace ferry {
namespace {

// The model with some inputs given: they are weights then.
Model WithFixed(const Model& model, const std::map<std::string, Tensor>& fixed) {
  Model copy = CopyDeep(model);
  for (const auto& [name, tensor] : fixed) {
    std::erase_if(copy.graph.inputs, [&name = name](const ValueInfo& input) { return input.name == name; });
    std::erase_if(copy.graph.initializers, [&name = name](const StoredTensor& stored) { return stored.name == name; });
    copy.graph.initializers.push_back(MakeStored(name, tensor));
  }
  return copy;
}

FactsByName InputFacts(const Model& model, const CBuildRequest& request) {
  std::set<std::string> named;
  FactsByName facts;
  for (const ValueInfo& input : model.graph.inputs) {
    if (model.graph.FindInitializer(input.name)) continue;
    Type type = input.type;
    auto shape = request.shapes.find(input.name);
    if (!type.is_tensor() || type.dtype == DType::kString)
      Fail(ErrorCode::kUnsupported, "input '", Printable(input.name), "' is ", ToText(type),
           ": C has only arrays of numbers");
    if (type.shape)
      for (Dim& dim : *type.shape)
        if (dim.named()) {
          named.insert(dim.symbol);
          auto given = request.dimensions.find(dim.symbol);
          const size_t axis = static_cast<size_t>(&dim - type.shape->data());
          if (given == request.dimensions.end() && shape != request.shapes.end() && axis < shape->second.rank())
            dim = Dim(shape->second[axis]);
          else
            dim = Dim(given == request.dimensions.end() ? 1 : given->second);
        }
    if (shape != request.shapes.end() && (!type.shape || !ToConcrete(*type.shape)))
      type.shape = ToSymbolic(shape->second);
    if (!type.shape || !ToConcrete(*type.shape))
      Fail(ErrorCode::kUnsupported, "input '", Printable(input.name), "' has no fixed shape (", ToText(type),
           "): a dimension without a name cannot be given a size");
    facts[input.name].type = std::move(type);
  }
  for (const auto& [name, size] : request.dimensions)
    if (!named.count(name)) Fail(ErrorCode::kInvalidArgument, "no input has a dimension named '", Printable(name), "'");
  return facts;
}

// Inputs of the model that a value is computed from.
void CollectSources(const Graph& graph, const std::string& name, std::set<std::string>& seen,
                    std::set<std::string>& sources) {
  if (name.empty() || !seen.insert(name).second) return;
  if (graph.FindInput(name)) sources.insert(name);
  for (const Node& node : graph.nodes)
    if (std::find(node.outputs.begin(), node.outputs.end(), name) != node.outputs.end())
      for (const std::string& input : node.inputs) CollectSources(graph, input, seen, sources);
}

class Builder {
 public:
  explicit Builder(const CBuildRequest& request) : request_(request), fixed_(request.fixed) {}

  CBuild Build() {
    // Each turn fixes inputs that shapes depend on; there are only so many.
    for (size_t turn = 0; turn <= request_.recorded.size(); ++turn)
      if (Try()) return Print();
    Fail(ErrorCode::kUnsupported, "shapes depend on inputs: give them by --fix");
  }

 private:
  bool Try() {
    const Model model = WithFixed(request_.model, fixed_);
    const FactsByName inputs = InputFacts(model, request_);
    rewritten_ = c::RewriteForC(model, inputs);
    program_ = {};
    input_names_.clear();
    for (const ValueInfo& input : model.graph.inputs)
      if (!model.graph.FindInitializer(input.name)) input_names_.push_back(input.name);
    std::vector<std::string> outputs;
    for (const ValueInfo& output : model.graph.outputs) outputs.push_back(output.name);
    try {
      const c::WriterOptions options{request_.fast, request_.target};
      const c::ProgramRequest wanted{input_names_, outputs, options};
      program_ = c::WriteProgram(rewritten_, wanted);
      if (request_.most_arena_bytes > 0 && program_.arena_bytes > request_.most_arena_bytes) {
        c::FittedProgram fitted = c::FitProgram(rewritten_, program_, wanted, request_.most_arena_bytes);
        program_ = std::move(fitted.program);
        stripes_ = std::move(fitted.stripes);
      }
    } catch (const c::NeedsValue& needs) {
      if (Fix({needs.name})) return false;
      Fail(ErrorCode::kUnsupported, "value '", Printable(needs.name),
           "' decides shapes or is needed to write the C, and is not known: fix the inputs it comes from with --fix "
           "NAME=VALUES");
    } catch (const c::UnknownShape& unknown) {
      // What counts the turns of a loop, before what goes through them.
      if (IsStandard(*unknown.node, "Loop") && Fix({unknown.node->inputs[0], unknown.node->inputs[1]})) return false;
      std::vector<std::string> names(unknown.node->inputs.begin() + (unknown.node->inputs.size() > 1),
                                     unknown.node->inputs.end());
      if (Fix(names)) return false;
      if (Fix({unknown.node->inputs.empty() ? std::string() : unknown.node->inputs[0]})) return false;
      Fail(ErrorCode::kUnsupported, Describe(*unknown.node), ": the shape of its output '", Printable(unknown.value),
           "' depends on data; C needs fixed shapes");
    }
    return true;
  }

  // Whether something new became a constant.
  bool Fix(const std::vector<std::string>& values) {
    constexpr int64_t kMostElements = 1024;
    std::set<std::string> seen, sources;
    for (const std::string& value : values) CollectSources(rewritten_.graph, value, seen, sources);
    bool any = false;
    for (const std::string& name : sources) {
      auto recorded = request_.recorded.find(name);
      if (recorded == request_.recorded.end() || recorded->second.size() > kMostElements) continue;
      any |= fixed_.emplace(name, recorded->second).second;
    }
    return any;
  }

  CBuild Print() {
    CBuild made;
    made.stripes = stripes_;
    made.name = request_.name;
    size_t next = 0;
    for (const ValueInfo& input : request_.model.graph.inputs) {
      if (request_.model.graph.FindInitializer(input.name)) continue;
      auto fixed = fixed_.find(input.name);
      if (fixed != fixed_.end()) {
        made.inputs.push_back({input.name, {}, fixed->second.dtype(), fixed->second.shape(), true});
        continue;
      }
      const c::Value& value = program_.values[next++];
      made.inputs.push_back({input.name, {}, value.type, value.shape, false});
    }
    for (const ValueInfo& output : request_.model.graph.outputs) {
      const ValueFacts* facts = rewritten_.facts.Find(output.name);
      std::optional<Shape> shape = facts && facts->type.shape ? ToConcrete(*facts->type.shape) : std::nullopt;
      if (!shape) Fail(ErrorCode::kUnsupported, "output '", Printable(output.name), "' has no fixed shape");
      made.outputs.push_back({output.name, {}, facts->type.dtype, *shape, false});
    }
    for (std::vector<CArgument>* arguments : {&made.inputs, &made.outputs})
      for (CArgument& argument : *arguments)
        if (auto known = rewritten_.scales.find(argument.name); known != rewritten_.scales.end())
          argument.scale = known->second.scale, argument.zero_point = known->second.zero_point;
    for (const c::Step& step : program_.steps) made.steps.push_back(step.report);
    made.arena_bytes = program_.arena_bytes;
    c::PrintSource(program_, request_.weights_file, made);
    return made;
  }

  const CBuildRequest& request_;
  std::map<std::string, Tensor> fixed_;
  c::RewrittenGraph rewritten_;
  c::Program program_;
  std::vector<CStripes> stripes_;
  std::vector<std::string> input_names_;
};

}  // namespace

CBuild BuildC(const CBuildRequest& request) { return Builder(request).Build(); }

std::string CName(std::string_view text) {
  std::string name;
  for (char ch : text) name += std::isalnum(static_cast<unsigned char>(ch)) ? ch : '_';
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) name.insert(0, "n");
  return name;
}

}  // namespace ferry
