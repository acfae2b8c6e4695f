#include "torch/dynamic_axes.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "graph/model.h"
#include "ops/infer_graph.h"

namespace ferry::torch {
namespace {

bool IsWordPart(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool IsWord(const std::string& text) { return std::all_of(text.begin(), text.end(), IsWordPart); }

// Replaces whole words: in "2*s1 + s10" only s1 is s1.
std::string ReplaceWords(const std::string& text, const std::map<std::string, std::string>& words) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && IsWordPart(text[end])) ++end;
    if (end == at) {
      out += text[at++];
      continue;
    }
    std::string word = text.substr(at, end - at);
    auto it = words.find(word);
    out += it == words.end() ? word : it->second;
    at = end;
  }
  return out;
}

// Operators whose plain numbers are part of the arithmetic, or sizes of something new.
bool ComputesWithNumbers(const std::string& target) {
  static constexpr std::string_view kNames[] = {"add",       "sub",  "rsub", "mul",   "div",    "floor_divide",
                                                "remainder", "fmod", "pow",  "full",  "arange", "ones",
                                                "zeros",     "rand", "eye",  "randn", "empty"};
  size_t begin = target.find('.') + 1;
  std::string name = target.substr(begin, target.find('.', begin) - begin);
  while (name.ends_with('_')) name.pop_back();
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

bool Mentions(const Argument& argument, int64_t number) {
  if (const int64_t* integer = argument.get<int64_t>()) return *integer == number;
  if (const double* real = argument.get<double>())
    return *real == static_cast<double>(number) || *real == 1.0 / static_cast<double>(number);
  const Argument::List* list = argument.get<Argument::List>();
  return list && std::any_of(list->begin(), list->end(), [&](const Argument& item) { return Mentions(item, number); });
}

void RenameIn(Type& type, const std::map<std::string, std::string>& names) {
  if (!type.shape) return;
  for (Dim& dim : *type.shape)
    if (dim.named()) dim.symbol = ReplaceWords(dim.symbol, names);
}
void RenameIn(Graph& graph, const std::map<std::string, std::string>& names) {
  for (auto* values : {&graph.inputs, &graph.outputs, &graph.value_infos})
    for (ValueInfo& value : *values) RenameIn(value.type, names);
  for (const Node& node : graph.nodes) ForEachSubgraph(node, [&](Graph& body) { RenameIn(body, names); });
}

}  // namespace

void DynamicAxes::Refuse(const std::string& dimension, const std::string& reason) const {
  Fail(ErrorCode::kUnsupported, "'", Printable(dimension), "' cannot be left open, it was captured as ",
       opened_.at(dimension), ": ", reason,
       ". Capture the program with torch.export.export(…, dynamic_shapes=…) to keep the size open");
}

Dim DynamicAxes::OpenAxis(const DynamicAxis& wanted, const Dim& captured) {
  const std::string& name = wanted.dimension;
  Require(!name.empty() && IsWord(name) && !std::isdigit(static_cast<unsigned char>(name[0])), "'", Printable(name),
          "' is not a name for a dimension: use letters, digits and underscores");
  if (captured.named()) {
    Require(IsWord(captured.symbol), "axis ", wanted.axis, " of '", Printable(wanted.input), "' is ",
            Printable(captured.symbol), " in the program: name the dimension it is made of");
    auto [known, is_new] = renamed_.emplace(captured.symbol, name);
    Require(is_new || known->second == name, "the program's dimension ", captured.symbol, " cannot be both '",
            known->second, "' and '", name, "'");
    return captured;
  }
  auto [known, is_new] = opened_.emplace(name, captured.value.value_or(0));
  Require(is_new || known->second == captured.value.value_or(0), "'", name, "' cannot be the name of two sizes that ",
          "were captured as ", known->second, " and ", captured.value.value_or(0));
  return Dim::Named(name);
}

SymbolicShape DynamicAxes::Open(const std::string& name, const std::string& own, const SymbolicShape& captured) {
  SymbolicShape shape = captured;
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const DynamicAxis& wanted = wanted_[i];
    if (wanted.input != name && wanted.input != own) continue;
    Require(wanted.axis >= 0 && wanted.axis < static_cast<int64_t>(shape.size()), "input '", Printable(name), "' has ",
            shape.size(), " axes; there is no axis ", wanted.axis);
    used_[i] = true;
    auto axis = static_cast<size_t>(wanted.axis);
    shape[axis] = OpenAxis(wanted, captured[axis]);
  }
  return shape;
}

void DynamicAxes::RequireAllUsed(const std::vector<std::string>& inputs) const {
  for (size_t i = 0; i < wanted_.size(); ++i)
    Require(used_[i], "there is no input '", Printable(wanted_[i].input), "' to open axis ", wanted_[i].axis,
            " of; the program has ", Join(inputs, ", "));
  for (const auto& [symbol, name] : renamed_)
    Require(!opened_.count(name), "'", name, "' cannot name both the program's ", symbol, " and a fixed size");
}

void DynamicAxes::RefuseCapturedNumbers(const ProgramGraph& graph) const {
  for (const auto& [dimension, size] : opened_) {
    if (size <= 1) continue;  // 0 and 1 are everywhere
    for (const ProgramNode& node : graph.nodes) {
      if (!ComputesWithNumbers(node.target)) continue;
      for (const NamedArgument& input : node.inputs)
        if (Mentions(input.argument, size))
          Refuse(dimension, Cat("node '", Printable(node.name), "' (", Printable(node.target), ") computes with ", size,
                                ", which may be that size"));
    }
  }
}

void DynamicAxes::Prove(const Graph& graph) const {
  for (const auto& [dimension, size] : opened_) {
    for (int64_t trial : {size + 1, 2 * size + 3, int64_t{1}, size}) {
      FactsByName inputs;
      for (const ValueInfo& input : graph.inputs) {
        Type type = input.type;
        if (type.shape)
          for (Dim& dim : *type.shape)
            if (dim.symbol == dimension) dim = Dim(trial);
        inputs[input.name].type = std::move(type);
      }
      try {
        InferGraph(graph, inputs);
      } catch (const Error& error) {
        Refuse(dimension, Cat("with a size of ", trial, ", ", error.message()));
      }
    }
  }
}

std::string DynamicAxes::NewName(const std::string& symbol) const { return ReplaceWords(symbol, renamed_); }

void DynamicAxes::Rename(Model& model) const {
  if (!renamed_.empty()) RenameIn(model.graph, renamed_);
}

}  // namespace ferry::torch
