// torch.cond, while_loop, scan and map: If, Loop and Scan.
#include "torch/lower/cell.h"
#include "torch/lower/families.h"
#include "torch/lower/lowerer.h"
#include "torch/lower/ops/loops.h"

namespace ferry::torch {
namespace {

using Bodies = std::vector<std::pair<std::string, std::shared_ptr<PendingGraph>>>;

Arg::List ListArg(const Call& c, size_t i) {
  if (const Arg::List* list = c.arg(i).get<Arg::List>()) return *list;
  if (c.IsNone(i)) return {};
  return {c.arg(i)};
}

// A tensor, or a number as a tensor without dimensions.
Operand AsOperand(Call& c, Builder& b, const Arg& arg) {
  if (const Scalar* number = arg.get<Scalar>()) {
    static constexpr DType kTypes[] = {DType::kBool, DType::kInt64, DType::kFloat, DType::kComplex64};
    return b.Of(*number, kTypes[static_cast<size_t>(number->kind())]);
  }
  return c.lowerer().Read(arg);
}
// What stands for a value inside a body: a number stays a number.
Arg AsArg(Call& c, const Operand& value, const Arg& like) {
  if (const Scalar* number = like.get<Scalar>()) return Scalar(number->kind(), value);
  return c.lowerer().MakeCell(value);
}

std::vector<Operand> Run(Call& c, Builder& inner, const Subprogram& body, const std::vector<Arg>& args) {
  Operands outputs;
  for (const Arg& output : c.lowerer().LowerBody(inner, *body.graph, args))
    outputs.push_back(AsOperand(c, inner, output));
  return outputs;
}

Operands Like(const Operands& values, const Operands& pattern) {
  Operands out = values;
  for (size_t i = 0; i < out.size() && i < pattern.size(); ++i)
    if (pattern[i].is_complex()) out[i] = out[i].AsComplex();
  return out;
}

Result Cond(Call& c) {
  Operand condition;
  if (const Scalar* known = c.arg(0).get<Scalar>()) {
    condition = c.b.Of(*known, DType::kBool);
  } else {
    condition = c.b.Cast(c.Tensor(0), DType::kBool);
    if (condition.rank() > 0) condition = c.b.Reshape(condition, std::vector<int64_t>{});
  }
  std::vector<Arg> operands = ListArg(c, 3);
  Bodies bodies;
  Operands results[2];
  for (size_t branch = 0; branch < 2; ++branch) {
    Builder inner(c.b.opset(), &c.b);
    results[branch] = Run(c, inner, c.Body(1 + branch), operands);
    bodies.emplace_back(branch == 0 ? "then_branch" : "else_branch", CloseBody(inner, results[branch]));
  }
  if (results[0].size() != results[1].size()) c.Unsupported("its branches have different numbers of results");
  std::vector<Type> types;
  for (size_t i = 0; i < results[0].size(); ++i) {
    if (results[0][i].type().dtype != results[1][i].type().dtype)
      c.Unsupported("its branches have results of different types");
    types.push_back(Union(results[0][i].type(), results[1][i].type()));
  }
  return Like(c.b.EmitControl("If", {condition}, {}, std::move(bodies), types), results[0]);
}

Operand Truth(Call& c, Builder& b, const std::vector<Arg>& outputs) {
  Operand truth = b.Cast(AsOperand(c, b, outputs.at(0)), DType::kBool);
  return truth.rank() == 0 ? truth : b.Reshape(truth, std::vector<int64_t>{});
}

Result WhileLoop(Call& c) {
  std::vector<Arg> carried = ListArg(c, 2), extra = ListArg(c, 3);
  auto with_extra = [&](std::vector<Arg> args) {
    args.insert(args.end(), extra.begin(), extra.end());
    return args;
  };
  Operand start = Truth(c, c.b, c.lowerer().LowerGraph(*c.Body(0).graph, with_extra(carried)));
  Operands inputs = {Operand(), start};
  Builder inner(c.b.opset(), &c.b);
  inner.AddInput("", Type::Tensor(DType::kInt64, SymbolicShape{}));
  inner.AddInput("", Type::Tensor(DType::kBool, SymbolicShape{}));
  std::vector<Arg> inside;
  Operands outside;
  for (const Arg& value : carried) {
    outside.push_back(AsOperand(c, c.b, value));
    inputs.push_back(outside.back().AsPairs());
    inside.push_back(AsArg(c, AddBodyInput(inner, outside.back()), value));
  }
  std::vector<Arg> next = c.lowerer().LowerBody(inner, *c.Body(1).graph, with_extra(inside));
  Operands outputs = {Truth(c, inner, c.lowerer().LowerBody(inner, *c.Body(0).graph, with_extra(next)))};
  std::vector<Type> types;
  for (size_t i = 0; i < next.size(); ++i) {
    outputs.push_back(AsOperand(c, inner, next[i]));
    types.push_back(Union(outside.at(i).type(), outputs.back().type()));
  }
  Bodies bodies = {{"body", CloseBody(inner, outputs)}};
  Operands finals = Like(c.b.EmitControl("Loop", inputs, {}, std::move(bodies), types), outside);
  Result result;
  for (size_t i = 0; i < finals.size(); ++i) {
    if (const Scalar* number = carried[i].get<Scalar>())
      result.items.emplace_back(Scalar(number->kind(), finals[i]));
    else
      result.items.emplace_back(finals[i]);
  }
  return result;
}

Type WithRows(const Type& row, const Dim& count) {
  Type type = row;
  if (type.shape) type.shape->insert(type.shape->begin(), count);
  return type;
}

// states … and rows … go in, new states … and result rows … come out.
Result ScanRows(Call& c, const Subprogram& body, const std::vector<Arg>& states, const std::vector<Arg>& rows,
                const std::vector<Arg>& extra) {
  if (rows.empty()) c.Unsupported("there is nothing to scan");
  Builder inner(c.b.opset(), &c.b);
  std::vector<Arg> inside;
  Operands inputs, pattern;
  auto take = [&](const Arg& value, bool row) {
    Operand outside = AsOperand(c, c.b, value);
    inputs.push_back(outside.AsPairs());
    pattern.push_back(outside);
    inside.push_back(AsArg(c, AddBodyInput(inner, outside, row), value));
  };
  for (const Arg& state : states) take(state, false);
  for (const Arg& row : rows) take(row, true);
  inside.insert(inside.end(), extra.begin(), extra.end());
  Operands outputs = Run(c, inner, body, inside);
  std::vector<Type> types;
  Dim count = pattern[states.size()].dim(0);
  for (size_t i = 0; i < outputs.size(); ++i)
    types.push_back(i < states.size() ? Union(pattern[i].type(), outputs[i].type())
                                      : WithRows(outputs[i].type(), count));
  Operands like = outputs;
  Bodies bodies = {{"body", CloseBody(inner, outputs)}};
  Attributes attributes = {{"num_scan_inputs", static_cast<int64_t>(rows.size())}};
  return Like(c.b.EmitControl("Scan", inputs, attributes, std::move(bodies), types), like);
}
Result Scan(Call& c) { return ScanRows(c, c.Body(0), ListArg(c, 1), ListArg(c, 2), ListArg(c, 3)); }
Result Map(Call& c) { return ScanRows(c, c.Body(0), {}, ListArg(c, 1), ListArg(c, 2)); }

constexpr RuleKind kPlain = RuleKind::kPlain;

constexpr Rule kRules[] = {
    {"higher_order.cond(Any pred, Graph true_fn, Graph false_fn, Any[] operands=[])", Cond, kPlain, kComplexToo},
    {"higher_order.while_loop(Graph cond_fn, Graph body_fn, Any[] carried, Any[] additional=[])", WhileLoop, kPlain,
     kComplexToo},
    {"higher_order.scan(Graph combine_fn, Any[] init, Any[] xs, Any[] additional=[])", Scan, kPlain, kComplexToo},
    {"higher_order.map_impl(Graph f, Any[] xs, Any[] additional=[])", Map, kPlain, kComplexToo},
};

}  // namespace

std::span<const Rule> ControlFlowRules() { return kRules; }

}  // namespace ferry::torch
