#include "torch/lower/ops/loops.h"

#include <unordered_set>

namespace ferry::torch {

std::shared_ptr<PendingGraph> CloseBody(Builder& inner, const Operands& outputs) {
  std::unordered_set<const Operand::Record*> made;
  for (const PendingNode& node : inner.graph().nodes)
    for (const Operand& output : node.outputs) made.insert(output.record().get());
  for (const Operand& output : outputs) {
    Operand own = output.AsPairs();
    if (!made.erase(own.record().get())) {
      auto record = std::make_shared<Operand::Record>(*own.record());
      record->name.clear();
      record->facts.constant.reset();
      Operand copy(record);
      inner.graph().nodes.push_back({"Identity", {own}, {copy}, {}, {}, "output", {}});
      own = copy;
    }
    inner.graph().outputs.push_back(own);
  }
  return std::make_shared<PendingGraph>(std::move(inner.graph()));
}

Operand AddBodyInput(Builder& inner, const Operand& like, bool one_row) {
  Type type = like.type();
  if (one_row && type.shape) type.shape->erase(type.shape->begin());
  Operand input = inner.AddInput("", type);
  return like.is_complex() ? input.AsComplex() : input;
}

static Operands EmitLoop(Builder& b, const Operand& count, const Operands& carried, const GoesOn& goes_on,
                         const NextValues& next) {
  Operands inputs = {count, goes_on ? goes_on(b, carried) : Operand()};
  Builder inner(b.opset(), &b);
  Operand iteration = inner.AddInput("", Type::Tensor(DType::kInt64, SymbolicShape{}));
  Operand condition = inner.AddInput("", Type::Tensor(DType::kBool, SymbolicShape{}));
  Operands inside;
  std::vector<Type> types;
  for (const Operand& value : carried) {
    inputs.push_back(value.AsPairs());
    inside.push_back(AddBodyInput(inner, value));
    types.push_back(value.type());
  }
  Operands after = next(inner, iteration, inside);
  Operands outputs = {goes_on ? goes_on(inner, after) : condition};
  outputs.insert(outputs.end(), after.begin(), after.end());
  Operands results = b.EmitControl("Loop", inputs, {}, {{"body", CloseBody(inner, outputs)}}, types);
  for (size_t i = 0; i < results.size(); ++i)
    if (carried[i].is_complex()) results[i] = results[i].AsComplex();
  return results;
}

Operands Repeat(Builder& b, const Operand& count, const Operands& carried, const NextValues& next) {
  return EmitLoop(b, count, carried, nullptr, next);
}

Operands RepeatWhile(Builder& b, const Operands& carried, const GoesOn& goes_on, const NextValues& next) {
  return EmitLoop(b, Operand(), carried, goes_on, next);
}

Operands ScanAlong(Builder& b, const Operands& states, const Operands& rows, const ScanStep& step) {
  Builder inner(b.opset(), &b);
  Operands inputs, inside_states, inside_rows;
  for (const Operand& state : states) {
    inputs.push_back(state);
    inside_states.push_back(AddBodyInput(inner, state));
  }
  for (const Operand& row : rows) {
    inputs.push_back(row);
    inside_rows.push_back(AddBodyInput(inner, row, true));
  }
  Operands outputs = step(inner, inside_states, inside_rows);
  std::vector<Type> types;
  for (size_t i = 0; i < outputs.size(); ++i) {
    types.push_back(i < states.size() ? states[i].type() : outputs[i].type());
    if (i >= states.size() && types[i].shape) types[i].shape->insert(types[i].shape->begin(), rows.at(0).dim(0));
  }
  return b.EmitControl("Scan", inputs, {{"num_scan_inputs", static_cast<int64_t>(rows.size())}},
                       {{"body", CloseBody(inner, outputs)}}, types);
}

}  // namespace ferry::torch
