#include "convert/c/control_flow.h"

#include "graph/standard.h"

namespace ferry::c {
namespace {

std::vector<std::string> OutputNames(const Graph& body) {
  std::vector<std::string> names;
  for (const ValueInfo& output : body.outputs) names.push_back(output.name);
  return names;
}

[[noreturn]] void Refuse(const Node& node, const char* reason) {
  Fail(ErrorCode::kUnsupported, Describe(node), ": ", reason);
}

// What was made before `begin` and is read inside a loop must stay until its end.
void KeepThrough(Program& program, int begin, int end) {
  for (Value& value : program.values)
    if (value.first >= 0 && value.first < begin && value.last >= begin) value.last = std::max(value.last, end);
}

void AddIf(GraphWriter& writer, const Node& node) {
  Program& program = writer.program();
  const int condition = writer.Find(node.inputs[0]);
  std::vector<int> outputs;
  for (const std::string& name : node.outputs)
    outputs.push_back(writer.IsNeeded(name) ? writer.MakeOutput(node, name) : -1);
  const int begin = writer.Tick();
  program.Touch(condition, begin);
  for (int output : outputs)
    if (output >= 0) program.Touch(output, begin);
  bool is_first = true;
  for (const char* branch : {"then_branch", "else_branch"}) {
    const Graph& body = *node.Subgraph(branch);
    writer.AddLine(is_first ? Cat("if (", Program::Mark(condition, false), "[0]) {") : std::string("} else {"));
    is_first = false;
    GraphWriter inside = writer.Inside(body);
    inside.WriteNodes(body, OutputNames(body));
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i] < 0) continue;
      const int made = inside.Find(body.outputs[i].name);
      const Value& wanted = program.values[static_cast<size_t>(outputs[i])];
      const Value& there = program.values[static_cast<size_t>(made)];
      if (!(wanted.shape == there.shape) || wanted.type != there.type)
        Refuse(node, "its branches give different shapes");
      inside.Copy(made, outputs[i]);
    }
  }
  writer.AddLine("}");
  const int end = writer.Tick();
  for (int output : outputs)
    if (output >= 0) program.Touch(output, end);
}

// Values that go from one turn of a loop to the next: each has memory of its own for as long as the loop runs.
struct Carried {
  std::vector<int> values;

  void Add(GraphWriter& writer, const Node& node, const std::string& initial, const std::string& result) {
    Program& program = writer.program();
    const int from = writer.Find(initial);
    int value;
    if (writer.IsNeeded(result)) {
      value = writer.MakeOutput(node, result);
    } else {
      const Value start = program.values[static_cast<size_t>(from)];
      value = writer.NewValue("carried", start.type, start.shape);
    }
    const Value& start = program.values[static_cast<size_t>(from)];
    if (!(start.shape == program.values[static_cast<size_t>(value)].shape))
      Refuse(node, "a value changes its shape from turn to turn");
    writer.Copy(from, value);
    writer.Pin(value);
    values.push_back(value);
  }

  // Copies what a turn has made; values that are handed on from other ones go through memory between.
  void Update(GraphWriter& inside, const std::vector<int>& made) {
    Program& program = inside.program();
    std::vector<int> from = made;
    for (size_t i = 0; i < made.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (program.Root(made[i]) == program.Root(values[j])) {
          const Value value = program.values[static_cast<size_t>(made[i])];
          from[i] = inside.NewValue("handed on", value.type, value.shape);
          inside.Copy(made[i], from[i]);
          break;
        }
    for (size_t i = 0; i < from.size(); ++i)
      if (program.Root(from[i]) != program.Root(values[i])) inside.Copy(from[i], values[i]);
  }

  void Touch(Program& program, int time) const {
    for (int value : values) program.Touch(value, time);
  }
};

void CopyTurn(GraphWriter& inside, int whole, int part, const std::string& turn, bool into) {
  Program& program = inside.program();
  const int time = inside.Tick();
  program.Touch(whole, time);
  program.Touch(part, time);
  const size_t elements = static_cast<size_t>(program.values[static_cast<size_t>(part)].shape.ElementCount());
  const size_t bytes = program.values[static_cast<size_t>(part)].bytes;
  if (bytes == 0) return;
  const std::string at = Cat(" + (size_t)(", turn, ") * ", elements);
  if (into)
    inside.AddLine(Cat("memcpy(", Program::Mark(whole, true), at, ", ", Program::Mark(part, false), ", ", bytes, ");"));
  else
    inside.AddLine(Cat("memcpy(", Program::Mark(part, true), ", ", Program::Mark(whole, false), at, ", ", bytes, ");"));
}

void AddLoop(GraphWriter& writer, const Node& node) {
  Program& program = writer.program();
  const Graph& body = *node.Subgraph("body");
  const size_t carried_count = node.inputs.size() - 2;
  Carried carried;
  for (size_t i = 0; i < carried_count; ++i)
    carried.Add(writer, node, node.inputs[i + 2], i < node.outputs.size() ? node.outputs[i] : std::string());
  std::vector<int> scanned;
  for (size_t i = carried_count; i < node.outputs.size(); ++i)
    scanned.push_back(writer.IsNeeded(node.outputs[i]) ? writer.MakeOutput(node, node.outputs[i]) : -1);
  const int begin = writer.Tick();
  const int turn = writer.NewValue("turn", DType::kInt64, Shape{1});
  const int goes_on = writer.NewValue("goes on", DType::kBool, Shape{1});
  for (int value : {turn, goes_on}) program.Touch(value, begin);
  carried.Touch(program, begin);
  for (int value : scanned)
    if (value >= 0) program.Touch(value, begin);
  std::string limit = "INT64_MAX";
  if (node.HasInput(0)) {
    const int trips = writer.Find(node.inputs[0]);
    program.Touch(trips, begin);
    limit = Cat(Program::Mark(trips, false), "[0]");
  }
  const std::string t = Cat(Program::Mark(turn, true), "[0]"), on = Cat(Program::Mark(goes_on, true), "[0]");
  if (node.HasInput(1)) {
    const int condition = writer.Find(node.inputs[1]);
    program.Touch(condition, begin);
    writer.AddLine(Cat(on, " = ", Program::Mark(condition, false), "[0];"));
  } else {
    writer.AddLine(Cat(on, " = 1;"));
  }
  writer.AddLine(Cat("for (", t, " = 0; ", t, " < ", limit, " && ", on, "; ", t, "++) {"));
  GraphWriter inside = writer.Inside(body);
  inside.Bind(body.inputs[0].name, turn);
  inside.Bind(body.inputs[1].name, goes_on);
  for (size_t i = 0; i < carried_count; ++i) inside.Bind(body.inputs[i + 2].name, carried.values[i]);
  for (int value : {turn, goes_on}) inside.Pin(value);
  inside.WriteNodes(body, OutputNames(body));
  for (size_t i = 0; i < scanned.size(); ++i)
    if (scanned[i] >= 0)
      CopyTurn(inside, scanned[i], inside.Find(body.outputs[1 + carried_count + i].name),
               Cat(Program::Mark(turn, false), "[0]"), true);
  // Without a condition going in, what the body says about it is ignored.
  if (node.HasInput(1)) {
    const int next = inside.Find(body.outputs[0].name);
    if (program.Root(next) != program.Root(goes_on)) inside.Copy(next, goes_on);
  }
  std::vector<int> made;
  for (size_t i = 0; i < carried_count; ++i) made.push_back(inside.Find(body.outputs[1 + i].name));
  carried.Update(inside, made);
  writer.AddLine("}");
  const int end = writer.Tick();
  for (int value : {turn, goes_on}) program.Touch(value, end);
  carried.Touch(program, end);
  for (int value : scanned)
    if (value >= 0) program.Touch(value, end);
  KeepThrough(program, begin, end);
}

bool AllZero(const std::vector<int64_t>& numbers) {
  for (int64_t number : numbers)
    if (number != 0) return false;
  return true;
}

void AddScan(GraphWriter& writer, const Node& node) {
  Program& program = writer.program();
  const Graph& body = *node.Subgraph("body");
  const auto scans = static_cast<size_t>(node.Int("num_scan_inputs", 0));
  if (scans == 0 || scans > node.inputs.size()) Refuse(node, "num_scan_inputs does not fit its inputs");
  const size_t states = node.inputs.size() - scans;
  std::vector<int64_t> in_directions = node.Ints("scan_input_directions"),
                       out_directions = node.Ints("scan_output_directions");
  in_directions.resize(scans);
  out_directions.resize(node.outputs.size() - states);
  if (!AllZero(node.Ints("scan_input_axes")) || !AllZero(node.Ints("scan_output_axes")))
    Refuse(node, "it scans along another axis than the first");
  Carried carried;
  for (size_t i = 0; i < states; ++i) carried.Add(writer, node, node.inputs[i], node.outputs[i]);
  std::vector<int> outputs, inputs, parts;
  for (size_t i = states; i < node.outputs.size(); ++i)
    outputs.push_back(writer.IsNeeded(node.outputs[i]) ? writer.MakeOutput(node, node.outputs[i]) : -1);
  const int begin = writer.Tick();
  carried.Touch(program, begin);
  int64_t turns = 0;
  for (size_t i = 0; i < scans; ++i) {
    inputs.push_back(writer.Find(node.inputs[states + i]));
    const Value whole = program.values[static_cast<size_t>(inputs[i])];
    turns = whole.shape[0];
    Shape shape = whole.shape;
    shape.erase(0);
    parts.push_back(writer.NewValue("part", whole.type, shape));
  }
  for (int value : outputs)
    if (value >= 0) program.Touch(value, begin);
  const std::string t = Cat("turn", begin);
  writer.AddLine(Cat("for (int ", t, " = 0; ", t, " < ", turns, "; ", t, "++) {"));
  auto place = [&](int64_t direction) { return direction == 0 ? t : Cat(turns - 1, " - ", t); };
  GraphWriter inside = writer.Inside(body);
  for (size_t i = 0; i < states; ++i) inside.Bind(body.inputs[i].name, carried.values[i]);
  for (size_t i = 0; i < scans; ++i) {
    CopyTurn(inside, inputs[i], parts[i], place(in_directions[i]), false);
    inside.Bind(body.inputs[states + i].name, parts[i]);
  }
  inside.WriteNodes(body, OutputNames(body));
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i] >= 0)
      CopyTurn(inside, outputs[i], inside.Find(body.outputs[states + i].name), place(out_directions[i]), true);
  std::vector<int> made;
  for (size_t i = 0; i < states; ++i) made.push_back(inside.Find(body.outputs[i].name));
  carried.Update(inside, made);
  writer.AddLine("}");
  const int end = writer.Tick();
  carried.Touch(program, end);
  for (int value : outputs)
    if (value >= 0) program.Touch(value, end);
  KeepThrough(program, begin, end);
}

}  // namespace

GraphWriter GraphWriter::Inside(const Graph& body) {
  auto known = all_facts_.bodies.find(&body);
  static const FactsByName kNone;
  return GraphWriter(program_, all_facts_, known == all_facts_.bodies.end() ? kNone : known->second, options_,
                     function_of_, clock_, this);
}

bool AddControlFlow(GraphWriter& writer, const Node& node) {
  if (IsStandard(node, "If")) return AddIf(writer, node), true;
  if (IsStandard(node, "Loop")) return AddLoop(writer, node), true;
  if (IsStandard(node, "Scan")) return AddScan(writer, node), true;
  return false;
}

}  // namespace ferry::c
