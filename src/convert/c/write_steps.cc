#include <algorithm>

#include "convert/c/control_flow.h"
#include "convert/c/graph_writer.h"
#include "graph/scopes.h"
#include "ops/traits.h"

namespace ferry::c {
namespace {

bool Mentions(const std::string& text, const std::string& word) {
  auto is_part = [](char ch) { return std::isalnum(static_cast<unsigned char>(ch)) || ch == '_'; };
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !is_part(text[at - 1])) && (end == text.size() || !is_part(text[end]))) return true;
  }
  return false;
}

std::string FunctionName(const Node& node, size_t number) {
  std::string name;
  for (char ch : node.op_type) {
    if (std::isupper(static_cast<unsigned char>(ch)) && !name.empty() && name.back() != '_' &&
        !std::isupper(static_cast<unsigned char>(name.back())))
      name += '_';
    name += std::isalnum(static_cast<unsigned char>(ch)) ? static_cast<char>(std::tolower(ch)) : '_';
  }
  return Cat(name, "_", number);
}

}  // namespace

const ValueFacts* GraphWriter::FindFacts(const std::string& name) const {
  if (auto it = facts_.find(name); it != facts_.end()) return &it->second;
  return outer_ ? outer_->FindFacts(name) : nullptr;
}

int GraphWriter::Find(const std::string& name) {
  for (GraphWriter* scope = this; scope; scope = scope->outer_)
    if (auto it = scope->value_of_.find(name); it != scope->value_of_.end()) return it->second;
  const ValueFacts* facts = FindFacts(name);
  if (!facts || !facts->constant)
    Fail(ErrorCode::kInvalidModel, "value '", Printable(name), "' is made by no node before it is read");
  const int id = program_.AddConstant(*facts->constant);
  value_of_[name] = id;
  return id;
}

void GraphWriter::Bind(const std::string& name, int value) { value_of_[name] = value; }

int GraphWriter::NewValue(const std::string& name, DType type, const Shape& shape) {
  return program_.AddValue({.name = name, .type = type, .shape = shape});
}

int GraphWriter::MakeOutput(const Node& node, const std::string& name) {
  const ValueFacts* facts = FindFacts(name);
  auto refuse = [&](const char* what) {
    Fail(ErrorCode::kUnsupported, Describe(node), ": its output '", Printable(name), "' ", what);
  };
  if (facts && facts->type.known() && !facts->type.is_tensor()) refuse("is no tensor: C has only arrays of numbers");
  if (!facts || !facts->type.is_tensor() || facts->type.dtype == DType::kUndefined)
    refuse("has a type that is not known");
  if (facts->type.dtype == DType::kString) refuse("holds strings: C has only arrays of numbers");
  std::optional<Shape> shape = facts->type.shape ? ToConcrete(*facts->type.shape) : std::nullopt;
  if (!shape) throw UnknownShape{&node, name};
  const int id = NewValue(name, facts->type.dtype, *shape);
  if (!outer_)
    if (auto it = result_number_.find(name); it != result_number_.end()) {
      program_.values[static_cast<size_t>(id)].place = Value::Place::kOutput;
      program_.values[static_cast<size_t>(id)].number = it->second;
    }
  Bind(name, id);
  return id;
}

void GraphWriter::Copy(int from, int to) {
  const int time = ++clock_;
  program_.Touch(from, time);
  program_.Touch(to, time);
  const size_t bytes = program_.values[static_cast<size_t>(to)].bytes;
  if (bytes == 0) return;
  program_.lines.push_back(
      Cat(indent_, "memcpy(", Program::Mark(to, true), ", ", Program::Mark(from, false), ", ", bytes, ");"));
}

bool GraphWriter::AddView(const Node& node) {
  const Operator& op = TraitsOf(node);
  if (!op.is_view || node.outputs.empty() || node.outputs[0].empty()) return false;
  const int in = Find(node.inputs[0]);
  const int out = MakeOutput(node, node.outputs[0]);
  Value& result = program_.values[static_cast<size_t>(out)];
  Value& from = program_.values[static_cast<size_t>(program_.Root(in))];
  if (from.bytes < result.bytes) Fail(ErrorCode::kInternal, Describe(node), ": a view of more than there is");
  for (size_t i = 1; i < node.outputs.size(); ++i)
    if (!node.outputs[i].empty() && !IsConstant(node.outputs[i]) && needed_.count(node.outputs[i]))
      return FailView(node);
  if (result.place == Value::Place::kOutput) {
    if (from.place == Value::Place::kArena && from.bytes == result.bytes && !pinned_.count(program_.Root(in))) {
      from.place = Value::Place::kOutput;
      from.number = result.number;
      result.place = Value::Place::kArena;
      result.root = program_.Root(in);
    } else {
      Copy(in, out);
    }
    return true;
  }
  result.root = program_.Root(in);
  return true;
}

bool GraphWriter::FailView(const Node& node) const {
  Fail(ErrorCode::kUnsupported, Describe(node), ": its further outputs are not written as C");
}

void GraphWriter::AddStep(const Node& node) {
  if (AddControlFlow(*this, node) || AddFlexAttention(node)) return;
  if (AddView(node) || AddSliceView(node) || JoinInPlace(node)) return;
  StepWriter w(node, options_);
  std::vector<int> inputs, outputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    inputs.push_back(node.inputs[i].empty() ? -1 : Find(node.inputs[i]));
    if (inputs.back() < 0) {
      w.in.emplace_back();
      continue;
    }
    const Value& value = program_.values[static_cast<size_t>(inputs.back())];
    const bool is_constant = value.place == Value::Place::kConstant;
    w.in.push_back({Cat("a", i), value.type, value.shape,
                    is_constant ? &FindFacts(node.inputs[i])->constant.value() : nullptr, node.inputs[i]});
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const bool wanted = !node.outputs[i].empty() && needed_.count(node.outputs[i]) && !IsConstant(node.outputs[i]);
    outputs.push_back(wanted ? MakeOutput(node, node.outputs[i]) : -1);
    if (!wanted) {
      w.out.emplace_back();
      continue;
    }
    const Value& value = program_.values[static_cast<size_t>(outputs.back())];
    w.out.push_back({Cat("y", i), value.type, value.shape, nullptr, node.outputs[i]});
  }
  KernelWriter write = FindKernel(node);
  if (!write)
    Fail(ErrorCode::kUnsupported, Describe(node), ": there is no C for operator '",
         Printable(node.domain.empty() ? node.op_type : Cat(node.domain, ".", node.op_type)), "'");
  try {
    write(w);
  } catch (const Error& error) {
    if (error.message().find(Describe(node)) != std::string::npos) throw;
    Fail(error.code(), Describe(node), ": ", error.message());
  }
  Emit(w, inputs, outputs);
}

void GraphWriter::Emit(StepWriter& w, const std::vector<int>& inputs, const std::vector<int>& outputs) {
  const int time = ++clock_;
  std::string parameters, arguments;
  auto pass = [&](const Operand& operand, int value, bool is_written) {
    if (!operand || !Mentions(w.text, operand.c)) return;
    if (!parameters.empty()) parameters += ", ", arguments += ", ";
    parameters += Cat(is_written ? "" : "const ", StoredType(operand.type), " *", operand.c);
    arguments += Program::Mark(value, is_written);
    program_.Touch(value, time);
  };
  for (size_t i = 0; i < w.in.size(); ++i) pass(w.in[i], inputs[i], false);
  for (size_t i = 0; i < w.tables.size(); ++i) pass(w.tables[i], program_.AddConstant(w.table_tensors[i]), false);
  for (const Operand& scratch : w.scratch) pass(scratch, NewValue("scratch", scratch.type, scratch.shape), true);
  for (size_t i = 0; i < w.out.size(); ++i) pass(w.out[i], outputs[i], true);
  if (w.text.empty()) return;
  for (const std::string& helper : w.helpers)
    if (Mentions(w.text, helper)) UseHelper(helper);
  std::string& function = function_of_[Cat(parameters, "|", w.text)];
  if (function.empty()) {
    function = FunctionName(w.node, program_.functions.size());
    program_.functions.push_back({function, Describe(w.node), parameters.empty() ? "void" : parameters, w.text});
  }
  program_.lines.push_back(Cat(indent_, function, "(", arguments, ");"));
  Step step{.time = time, .overwrites = w.overwrites, .inputs = inputs, .output = outputs.empty() ? -1 : outputs[0]};
  const std::string& known_by = w.node.name.empty() && !w.node.outputs.empty() ? w.node.outputs[0] : w.node.name;
  step.report = {known_by, w.node.op_type, function, w.multiply_adds, 0};
  program_.steps.push_back(std::move(step));
}

void GraphWriter::UseHelper(std::string_view name) {
  if (std::find(program_.helpers.begin(), program_.helpers.end(), name) != program_.helpers.end()) return;
  for (std::string_view called : FindHelper(name).calls) UseHelper(called);
  program_.helpers.emplace_back(name);
}

// Which nodes are needed, from the results backwards.
void GraphWriter::WriteNodes(const Graph& graph, const std::vector<std::string>& results) {
  needed_.insert(results.begin(), results.end());
  std::vector<const Node*> selected;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    bool wanted = false;
    for (const std::string& output : node->outputs)
      wanted |= !output.empty() && needed_.count(output) && !value_of_.count(output) && !IsConstant(output);
    if (!wanted) continue;
    selected.push_back(&*node);
    for (const std::string& input : node->inputs)
      if (!input.empty()) needed_.insert(input);
    for (const std::string& name : CapturedNames(*node)) needed_.insert(name);
  }
  for (auto node = selected.rbegin(); node != selected.rend(); ++node) AddStep(**node);
}

void WriteSteps(const Graph& graph, const GraphFacts& facts, const std::vector<std::string>& inputs,
                const std::vector<std::string>& outputs, const WriterOptions& options, Program& program) {
  std::unordered_map<std::string, std::string> functions;
  int clock = 0;
  GraphWriter writer(program, facts, facts.values, options, functions, clock, nullptr);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueFacts* known = facts.Find(inputs[i]);
    Require(known && known->type.is_tensor() && known->type.shape && ToConcrete(*known->type.shape), "input '",
            Printable(inputs[i]), "' has no fixed shape: give its sizes");
    const int id = program.AddValue({.name = inputs[i],
                                     .type = known->type.dtype,
                                     .shape = *ToConcrete(*known->type.shape),
                                     .place = Value::Place::kInput,
                                     .number = static_cast<int>(i)});
    writer.Bind(inputs[i], id);
  }
  for (size_t i = 0; i < outputs.size(); ++i) writer.SetResult(outputs[i], static_cast<int>(i));
  writer.WriteNodes(graph, outputs);
  writer.FinishResults(outputs);
}

void GraphWriter::FinishResults(const std::vector<std::string>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const int id = Find(outputs[i]);
    const Value& root = program_.values[static_cast<size_t>(program_.Root(id))];
    if (root.place == Value::Place::kOutput && root.number == static_cast<int>(i)) {
      program_.Touch(id, clock_ + 1);
      continue;
    }
    const Value value = program_.values[static_cast<size_t>(id)];
    Value made{.name = outputs[i], .type = value.type, .shape = value.shape, .place = Value::Place::kOutput};
    made.number = static_cast<int>(i);
    Copy(id, program_.AddValue(std::move(made)));
  }
}

}  // namespace ferry::c
