// Branches and loops that are only decided while the model runs: If and Loop.
#include <algorithm>
#include <functional>

#include "base/error.h"
#include "torch/lower/ops/loops.h"
#include "torch/script/builtins.h"

namespace ferry::torch::script {
namespace {

constexpr DType kScalarTypes[] = {DType::kBool, DType::kInt64, DType::kDouble, DType::kComplex128};
constexpr int kMostTries = 4;  // until the types that go around a loop stay as they are

// A value taken apart into the tensors and numbers that the graph carries.
struct Leaves {
  std::vector<ScriptValue> values;
};

void Collect(const ScriptValue& value, Leaves& leaves) {
  if (value.is_tensor() || value.is<Scalar>()) {
    leaves.values.push_back(value);
  } else if (const std::vector<ScriptValue>* items = value.items()) {
    for (const ScriptValue& item : *items) Collect(item, leaves);
  } else if (const auto* dict = value.get<ScriptValue::Dict>()) {
    for (const auto& [key, held] : (*dict)->items) Collect(held, leaves);
  }
}

// Whether two values differ at most in their tensors and numbers.
bool SameForm(const ScriptValue& a, const ScriptValue& b) {
  if (a.is_tensor() && b.is_tensor()) return true;
  const Scalar *x = a.get<Scalar>(), *y = b.get<Scalar>();
  if (x && y) return x->kind() == y->kind();
  if (a.held.index() != b.held.index()) return false;
  if (const std::vector<ScriptValue>* left = a.items()) {
    const std::vector<ScriptValue>& right = *b.items();
    return left->size() == right.size() && std::equal(left->begin(), left->end(), right.begin(), SameForm);
  }
  if (const auto* left = a.get<ScriptValue::Dict>()) {
    const auto& right = (*b.get<ScriptValue::Dict>())->items;
    return (*left)->items.size() == right.size() && std::equal((*left)->items.begin(), (*left)->items.end(),
                                                               right.begin(), [](const auto& one, const auto& other) {
                                                                 return SameKey(one.first, other.first) &&
                                                                        SameForm(one.second, other.second);
                                                               });
  }
  return SameKey(a, b);
}

Operand AsOperand(Interpreter& in, const ScriptValue& leaf) {
  if (const Scalar* number = leaf.get<Scalar>())
    return in.builder().Of(*number, kScalarTypes[static_cast<size_t>(number->kind())]);
  return in.TensorOf(leaf);
}

// The same value with other leaves, taken from `next` on.
ScriptValue Rebuild(Interpreter& in, const ScriptValue& like, const Operands& leaves, size_t& next) {
  if (const Scalar* number = like.get<Scalar>()) return Scalar(number->kind(), leaves.at(next++));
  if (like.is_tensor()) return in.TensorValue(leaves.at(next++));
  if (const std::vector<ScriptValue>* items = like.items()) {
    std::vector<ScriptValue> made;
    for (const ScriptValue& item : *items) made.push_back(Rebuild(in, item, leaves, next));
    if (const auto* tuple = like.get<ScriptValue::Tuple>()) return MakeTuple(std::move(made), (*tuple)->type);
    return in.MakeList(std::move(made));
  }
  if (const auto* dict = like.get<ScriptValue::Dict>()) {
    std::vector<std::pair<ScriptValue, ScriptValue>> made;
    for (const auto& [key, held] : (*dict)->items) made.emplace_back(key, Rebuild(in, held, leaves, next));
    return in.MakeDict(std::move(made));
  }
  return like;
}

bool Same(const ScriptValue& a, const ScriptValue& b) {
  const Scalar *x = a.get<Scalar>(), *y = b.get<Scalar>();
  if (x && y && x->is_known() && y->is_known()) return x->kind() == y->kind() && x->AsComplex() == y->AsComplex();
  const auto *one = a.get<ScriptValue::Tensor>(), *other = b.get<ScriptValue::Tensor>();
  if (one && other) return *one == *other;
  if (a.held.index() != b.held.index() || x || a.is_tensor() || a.items() || a.is<ScriptValue::Dict>()) return false;
  return SameKey(a, b);
}

void AssignedNames(const Expression& target, std::set<std::string>& names) {
  if (target.kind == Expression::Kind::kName) names.insert(target.text);
  if (target.kind == Expression::Kind::kTuple || target.kind == Expression::Kind::kList)
    for (const ExpressionPtr& part : target.parts) AssignedNames(*part, names);
}
void AssignedNames(const Block& block, std::set<std::string>& names) {
  for (const auto& statement : block) {
    for (const ExpressionPtr& target : statement->targets) AssignedNames(*target, names);
    AssignedNames(statement->body, names);
    AssignedNames(statement->otherwise, names);
  }
}

Operand ScalarCondition(Builder& b, const Scalar& condition) { return b.Of(condition, DType::kBool); }

}  // namespace

// Views that must be made again are made out here, where every body sees them.
void Interpreter::RefreshVariables() {
  for (Frame* frame : frames_)
    for (auto& [name, value] : frame->variables) {
      Leaves leaves;
      Collect(value, leaves);
      for (const ScriptValue& leaf : leaves.values)
        if (const auto* cell = leaf.get<ScriptValue::Tensor>()) (*cell)->Refresh();
    }
}

struct Interpreter::Branch {
  explicit Branch(Builder& outer) : builder(outer.opset(), &outer) {}
  Builder builder;
  Variables variables;
  bool raised = false;
  Operands outputs;
};

void Interpreter::RunBranch(const Block& block, Branch& branch) {
  Variables before = frame_->variables;
  {
    Lowerer::InBody body(lowerer_, branch.builder);
    try {
      if (Execute(block) != Flow::kNext)
        Fail(ErrorCode::kUnsupported, "a branch that is only decided while the model runs leaves its function or loop");
    } catch (const Raised&) {
      branch.raised = true;
    }
  }
  branch.variables = std::move(frame_->variables);
  frame_->variables = std::move(before);
}

void Interpreter::BranchInGraph(const Scalar& condition, const Statement& statement) {
  RefreshVariables();
  Operand decides = ScalarCondition(builder(), condition);
  Branch yes(builder()), no(builder());
  RunBranch(statement.body, yes);
  if (yes.raised) return void(Execute(statement.otherwise));
  RunBranch(statement.otherwise, no);
  if (no.raised) return void(Execute(statement.body));

  std::set<std::string> set_by_yes, set_by_no;
  AssignedNames(statement.body, set_by_yes);
  AssignedNames(statement.otherwise, set_by_no);
  std::vector<std::pair<std::string, ScriptValue>> merged;  // names, and what their values look like
  for (auto& [name, value] : yes.variables) {
    bool changed = set_by_yes.count(name) || set_by_no.count(name);
    auto other = no.variables.find(name);
    if (!changed || other == no.variables.end()) continue;
    if (Same(value, other->second)) {
      frame_->variables[name] = value;
    } else if (value.is<Missing>() || other->second.is<Missing>()) {
      // What is never set in one branch is not used where that branch was taken.
      frame_->variables[name] = Missing{"is set in one branch only of an If that is decided while the model runs"};
    } else if (!SameForm(value, other->second)) {
      frame_->variables[name] = Missing{Cat("is ", value.KindName(), " or ", other->second.KindName(),
                                            ", which is only decided while the model runs; ONNX needs one of them")};
    } else {
      merged.emplace_back(name, value);
      for (Branch* branch : {&yes, &no}) {
        Lowerer::InBody body(lowerer_, branch->builder);
        Leaves leaves;
        Collect(branch->variables.at(name), leaves);
        for (const ScriptValue& leaf : leaves.values) branch->outputs.push_back(AsOperand(*this, leaf));
      }
    }
  }
  if (merged.empty()) return;
  std::vector<Type> types;
  for (size_t i = 0; i < yes.outputs.size(); ++i) {
    if (yes.outputs[i].type().dtype != no.outputs[i].type().dtype ||
        yes.outputs[i].is_complex() != no.outputs[i].is_complex())
      Fail(ErrorCode::kUnsupported, "the branches of an If make tensors of different types");
    types.push_back(Union(yes.outputs[i].type(), no.outputs[i].type()));
  }
  std::vector<std::pair<std::string, std::shared_ptr<PendingGraph>>> bodies;
  bodies.emplace_back("then_branch", CloseBody(yes.builder, yes.outputs));
  bodies.emplace_back("else_branch", CloseBody(no.builder, no.outputs));
  Operands results = builder().EmitControl("If", {decides}, {}, std::move(bodies), types);
  for (size_t i = 0; i < results.size(); ++i)
    if (yes.outputs[i].is_complex()) results[i] = results[i].AsComplex();
  size_t next = 0;
  for (const auto& [name, like] : merged) frame_->variables[name] = Rebuild(*this, like, results, next);
}

void Interpreter::LoopInGraph(const Statement& statement, const Scalar* count) {
  RefreshVariables();
  std::set<std::string> assigned;
  AssignedNames(statement.body, assigned);
  Variables before = frame_->variables;
  std::vector<std::string> names;
  Operands starts;
  for (const std::string& name : assigned) {
    auto it = before.find(name);
    if (it == before.end() || it->second.is<Missing>()) continue;
    names.push_back(name);
    Leaves leaves;
    Collect(it->second, leaves);
    for (const ScriptValue& leaf : leaves.values) starts.push_back(AsOperand(*this, leaf));
  }
  Builder& outer = builder();
  Operands inputs = {count ? outer.Of(*count, DType::kInt64) : Operand(),
                     count ? Operand() : ScalarCondition(outer, TruthOf(*this, Evaluate(*statement.value)))};
  std::vector<Type> types;
  for (const Operand& start : starts) {
    inputs.push_back(start.AsPairs());
    types.push_back(start.type());
  }

  for (int tries = 0; tries < kMostTries; ++tries) {
    Builder inner(outer.opset(), &outer);
    Operand round = inner.AddInput("", Type::Tensor(DType::kInt64, SymbolicShape{}));
    Operand condition = inner.AddInput("", Type::Tensor(DType::kBool, SymbolicShape{}));
    Operands carried;
    for (size_t i = 0; i < starts.size(); ++i) {
      Operand input = inner.AddInput("", types[i]);
      carried.push_back(starts[i].is_complex() ? input.AsComplex() : input);
    }
    Operands outputs;
    {
      Lowerer::InBody body(lowerer_, inner);
      size_t next = 0;
      for (const std::string& name : names) frame_->variables[name] = Rebuild(*this, before.at(name), carried, next);
      if (count) Assign(*statement.targets[0], Scalar(Scalar::Kind::kInt, round));
      if (Execute(statement.body) != Flow::kNext)
        Fail(ErrorCode::kUnsupported, "a loop that is only decided while the model runs is left early");
      outputs.push_back(count ? inner.Emit("Identity", {condition})
                              : ScalarCondition(inner, TruthOf(*this, Evaluate(*statement.value))));
      for (const std::string& name : names) {
        const ScriptValue& after = frame_->variables.at(name);
        if (!SameForm(before.at(name), after))
          Fail(ErrorCode::kUnsupported, "'", Printable(name), "' is ", before.at(name).KindName(),
               " of another form after a loop that is only decided while the model runs");
        Leaves leaves;
        Collect(after, leaves);
        for (const ScriptValue& leaf : leaves.values) outputs.push_back(AsOperand(*this, leaf));
      }
    }
    bool stable = true;
    for (size_t i = 0; i < types.size(); ++i) {
      if (types[i].dtype != outputs[i + 1].type().dtype)
        Fail(ErrorCode::kUnsupported, "a tensor changes its element type in a loop");
      Type both = Union(types[i], outputs[i + 1].type());
      stable = stable && ToText(both) == ToText(types[i]);
      types[i] = both;
    }
    frame_->variables = before;
    if (!stable) continue;
    std::vector<std::pair<std::string, std::shared_ptr<PendingGraph>>> bodies = {{"body", CloseBody(inner, outputs)}};
    Operands results = outer.EmitControl("Loop", inputs, {}, std::move(bodies), types);
    for (size_t i = 0; i < results.size(); ++i)
      if (starts[i].is_complex()) results[i] = results[i].AsComplex();
    size_t next = 0;
    for (const std::string& name : names) frame_->variables[name] = Rebuild(*this, before.at(name), results, next);
    return;
  }
  Fail(ErrorCode::kUnsupported, "the shapes of tensors change with every round of a loop");
}

}  // namespace ferry::torch::script
