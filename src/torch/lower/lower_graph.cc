#include <algorithm>
#include <set>

#include "base/error.h"
#include "torch/lower/lowerer.h"

namespace ferry::torch {
namespace {

using Environment = std::map<std::string, Arg, std::less<>>;

const Arg& Find(const Environment& values, const std::string& name) {
  auto it = values.find(name);
  if (it == values.end()) Fail(ErrorCode::kInvalidModel, "the value '", Printable(name), "' is used before it is made");
  return it->second;
}

Arg Resolve(const Argument& argument, const Environment& values) {
  struct Visitor {
    const Environment& values;
    Arg operator()(std::monostate) const { return {}; }
    Arg operator()(const TensorName& tensor) const { return Find(values, tensor.name); }
    Arg operator()(const SymbolName& symbol) const { return Find(values, symbol.name); }
    Arg operator()(bool value) const { return Scalar(value); }
    Arg operator()(int64_t value) const { return Scalar(value); }
    Arg operator()(double value) const { return Scalar(value); }
    Arg operator()(const std::complex<double>& value) const { return Scalar(value); }
    Arg operator()(const std::string& value) const { return value; }
    Arg operator()(DType dtype) const {
      if (dtype == DType::kUndefined) Fail(ErrorCode::kUnsupported, "it asks for an element type that ONNX lacks");
      return dtype;
    }
    // Where elements lie and in which order is not ONNX's concern.
    Arg operator()(MemoryFormat) const { return {}; }
    Arg operator()(const Device&) const { return {}; }
    Arg operator()(const Layout& layout) const {
      if (layout.number != kStridedLayout) Fail(ErrorCode::kUnsupported, "sparse tensors have no export");
      return {};
    }
    Arg operator()(const Subprogram& body) const { return body; }
    Arg operator()(const OperatorName& name) const { return name.name; }
    Arg operator()(const CustomObject& object) const {
      Fail(ErrorCode::kUnsupported, "the custom object '", Printable(object.type), "' has no export");
    }
    Arg operator()(const Argument::List& list) const {
      Arg::List resolved;
      for (const Argument& element : list) resolved.push_back(Resolve(element, values));
      return resolved;
    }
  };
  return std::visit(Visitor{values}, argument.held);
}

// The names that a node's results get, lists flattened as rules give them; "" for None.
void CollectNames(const Argument& output, std::vector<std::string>& names) {
  if (const TensorName* tensor = output.get<TensorName>())
    names.push_back(tensor->name);
  else if (const SymbolName* symbol = output.get<SymbolName>())
    names.push_back(symbol->name);
  else if (const Argument::List* list = output.get<Argument::List>())
    for (const Argument& element : *list) CollectNames(element, names);
  else
    names.emplace_back();
}

using NamedArgs = std::vector<std::pair<std::string, Arg>>;

// Calls that say how a piece of the program is differentiated or compiled; their results are those of the piece.
bool IsWrapper(const std::string& target) {
  for (const char* name : {"wrap_with_set_grad_enabled", "wrap_with_autocast", "wrap", "invoke_subgraph"})
    if (target == Cat("higher_order.", name)) return true;
  return false;
}

// wrap_with_autocast(device, dtype, enabled, cache, piece, …) changes types inside the piece when it is enabled.
void RefuseAutocast(const std::string& target, const NamedArgs& arguments) {
  if (!target.ends_with("autocast")) return;
  const Scalar* enabled = arguments.size() > 2 ? arguments[2].second.get<Scalar>() : nullptr;
  if (!enabled || !enabled->is_known() || enabled->AsBool())
    Fail(ErrorCode::kUnsupported,
         "autocast chooses types while running; capture the program outside of torch.autocast");
}

void CollectUses(const Argument& argument, std::set<std::string, std::less<>>& used) {
  if (const TensorName* tensor = argument.get<TensorName>()) used.insert(tensor->name);
  if (const SymbolName* symbol = argument.get<SymbolName>()) used.insert(symbol->name);
  if (const Argument::List* list = argument.get<Argument::List>())
    for (const Argument& element : *list) CollectUses(element, used);
}

// Whether a node does nothing but make its results: in-place and out= forms write to their arguments.
bool OnlyMakesResults(const ProgramNode& node) {
  if (node.outputs.empty() || !node.target.starts_with("aten.")) return false;
  size_t end = node.target.find('.', 5);
  std::string_view name = std::string_view(node.target).substr(5, end == std::string::npos ? end : end - 5);
  std::string_view overload = end == std::string::npos ? "" : std::string_view(node.target).substr(end + 1);
  return (!name.ends_with('_') || name.ends_with("__")) && overload.find("out") == std::string_view::npos;
}

// What nobody reads need not have an export: wav2vec2 draws random numbers for training and leaves them alone.
std::vector<bool> FindNeeded(const ProgramGraph& graph) {
  std::set<std::string, std::less<>> used;
  for (const Argument& output : graph.outputs) CollectUses(output, used);
  std::vector<bool> needed(graph.nodes.size());
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const ProgramNode& node = graph.nodes[i];
    std::vector<std::string> names;
    for (const Argument& output : node.outputs) CollectNames(output, names);
    needed[i] = !OnlyMakesResults(node) ||
                std::any_of(names.begin(), names.end(), [&](const std::string& name) { return used.count(name) > 0; });
    if (!needed[i]) continue;
    for (const NamedArgument& input : node.inputs) CollectUses(input.argument, used);
  }
  return needed;
}

}  // namespace

std::string DescribeModule(const ProgramNode& node) {
  // "key,path,class;key,path,class": the last one is the innermost.
  std::string_view last = node.module_stack;
  if (size_t at = last.rfind(';'); at != std::string_view::npos) last.remove_prefix(at + 1);
  std::vector<std::string> parts = SplitText(last, ',');
  if (parts.size() < 3 || parts[1].empty()) return {};
  return Cat("'", Printable(parts[1]), "' (", Printable(parts[2]), ")");
}

std::vector<Arg> Lowerer::LowerGraph(const ProgramGraph& graph, const std::vector<Arg>& inputs) {
  Environment values;
  if (graph.inputs.size() != inputs.size())
    Fail(ErrorCode::kInvalidModel, "a graph of ", graph.inputs.size(), " inputs is given ", inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::vector<std::string> names;
    CollectNames(graph.inputs[i], names);
    for (const std::string& name : names) values[name] = inputs[i];
  }
  std::vector<bool> needed = FindNeeded(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const ProgramNode& node = graph.nodes[i];
    if (!needed[i]) continue;
    try {
      LowerNode(graph, node, values);
    } catch (Error& error) {
      std::string module = DescribeModule(node);
      throw error.At(Cat("node '", Printable(node.name), "' (", Printable(node.target), ")",
                         module.empty() ? std::string() : Cat(" of module ", module)));
    }
  }
  std::vector<Arg> outputs;
  for (const Argument& output : graph.outputs) outputs.push_back(Resolve(output, values));
  return outputs;
}

std::vector<Arg> Lowerer::LowerBody(Builder& inner, const ProgramGraph& graph, const std::vector<Arg>& inputs) {
  InBody body(*this, inner);
  return LowerGraph(graph, inputs);
}

// The piece is followed by its inputs.
std::vector<Arg> Lowerer::RunWrapped(const std::string& target,
                                     const std::vector<std::pair<std::string, Arg>>& arguments) {
  RefuseAutocast(target, arguments);
  const Subprogram* piece = nullptr;
  std::vector<Arg> inputs;
  for (const auto& [name, value] : arguments) {
    bool is_label = value.get<std::string>() != nullptr;
    if (piece && !is_label)
      inputs.push_back(value);
    else if (!piece)
      piece = value.get<Subprogram>();
  }
  if (!piece) Fail(ErrorCode::kInvalidModel, "it wraps no graph");
  return LowerGraph(*piece->graph, inputs);
}

void Lowerer::LowerNode(const ProgramGraph& graph, const ProgramNode& node, Environment& values) {
  std::vector<std::string> names;
  for (const Argument& output : node.outputs) CollectNames(output, names);
  std::vector<const TensorMeta*> metas;
  for (const std::string& name : names) {
    auto it = graph.tensors.find(name);
    metas.push_back(it == graph.tensors.end() ? nullptr : &it->second);
    if (metas.back() && metas.back()->dtype == DType::kUndefined)
      Fail(ErrorCode::kUnsupported, "its result has an element type that ONNX lacks (number ",
           metas.back()->dtype_number, ")");
  }
  SetMetas(metas);
  Metadata metadata;
  if (keep_trace && !node.stack_trace.empty()) metadata.emplace_back("pkg.torch.onnx.stack_trace", node.stack_trace);
  builder_->SetOrigin(node.name.empty() && !names.empty() ? names[0] : node.name, std::move(metadata));

  NamedArgs arguments;
  for (const NamedArgument& input : node.inputs) arguments.emplace_back(input.name, Resolve(input.argument, values));
  std::vector<Arg> results = IsWrapper(node.target) ? RunWrapped(node.target, arguments) : Run(node.target, arguments);
  if (results.size() < names.size())
    Fail(ErrorCode::kInternal, "it has ", names.size(), " results, the export made ", results.size());
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) continue;
    Arg& result = results[i];
    if (result.get<std::shared_ptr<Cell>>()) {
      builder_->Name(Read(result), names[i]);
    } else if (const Scalar* scalar = result.get<Scalar>(); scalar && !scalar->is_known()) {
      // The program's name for the size says more than the rule can know.
      auto symbol = graph.symbols.find(names[i]);
      if (symbol != graph.symbols.end()) result = Scalar(scalar->kind(), scalar->computed(), symbol->second);
    }
    values[names[i]] = result;
  }
}

}  // namespace ferry::torch
