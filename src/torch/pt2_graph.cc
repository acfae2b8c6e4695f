#include "torch/pt2_graph.h"

#include "base/error.h"
#include "torch/symbolic.h"

namespace ferry::torch {
namespace {

constexpr int64_t kNewestSchema = 8;

// The numbers of schema.py's ScalarType.
DType DTypeFromSchema(int64_t number) {
  static constexpr DType kTypes[] = {DType::kUndefined, DType::kUInt8,     DType::kInt8,      DType::kInt16,
                                     DType::kInt32,     DType::kInt64,     DType::kFloat16,   DType::kFloat,
                                     DType::kDouble,    DType::kUndefined, DType::kComplex64, DType::kComplex128,
                                     DType::kBool,      DType::kBFloat16};
  if (number >= 0 && number < static_cast<int64_t>(std::size(kTypes))) return kTypes[number];
  switch (number) {
    case 28: return DType::kUInt16;
    case 29: return DType::kFloat8E4M3FN;
    case 30: return DType::kFloat8E5M2;
    case 31: return DType::kFloat8E4M3FNUZ;
    case 32: return DType::kFloat8E5M2FNUZ;
    default: return DType::kUndefined;
  }
}

const Json* FindSet(const Json& object, std::string_view key) {
  const Json* value = object.Find(key);
  return value && !value->is_null() ? value : nullptr;
}

// A union is an object with one key that is set: {"as_int": 5}; older files have the others too, as null.
const Json::Member& Chosen(const Json& json) {
  const Json::Member* chosen = nullptr;
  for (const Json::Member& member : json.AsObject()) {
    if (member.second.is_null()) continue;
    if (chosen)
      Fail(ErrorCode::kInvalidModel, "both '", Printable(chosen->first), "' and '", Printable(member.first),
           "' are set");
    chosen = &member;
  }
  if (!chosen) Fail(ErrorCode::kInvalidModel, "an argument has no value");
  return *chosen;
}

Dim ParseSymInt(const Json& json) {
  const auto& [kind, value] = Chosen(json);
  if (kind == "as_int") return Dim(value.AsInt());
  if (kind == "as_expr") return ParseDimExpression(value.At("expr_str").AsString());
  Fail(ErrorCode::kInvalidModel, "a size is of unknown kind '", Printable(kind), "'");
}

SymbolicShape ParseSymInts(const Json& json) {
  SymbolicShape dims;
  for (const Json& dim : json.AsArray()) dims.push_back(ParseSymInt(dim));
  return dims;
}

ProgramGraph ParseGraph(const Json& json);

Argument ParseArgument(const Json& json);

template <class Parse>
Argument ParseList(const Json& json, const Parse& parse) {
  Argument::List list;
  for (const Json& element : json.AsArray()) list.push_back(parse(element));
  return {std::move(list)};
}

Argument MakeTensorName(const Json& json) { return {TensorName{json.At("name").AsString()}}; }
Argument MakeInt(const Json& json) { return {json.AsInt()}; }
Argument MakeFloat(const Json& json) { return {json.AsDouble()}; }
Argument MakeBool(const Json& json) { return {json.AsBool()}; }
Argument MakeString(const Json& json) { return {json.AsString()}; }
Argument MakeNone(const Json&) { return {}; }
// {"as_name": …}, {"as_int": …}, {"as_float": …} or {"as_bool": …}
Argument MakeSymbol(const Json& json) { return ParseArgument(json); }

template <Argument (*Element)(const Json&)>
Argument MakeListOf(const Json& json) {
  return ParseList(json, Element);
}

Argument MakeSubprogram(const Json& json) {
  auto graph = std::make_shared<const ProgramGraph>(ParseGraph(json.At("graph")));
  return {Subprogram{json.At("name").AsString(), std::move(graph)}};
}
Argument MakeStringToArgument(const Json& json) {
  Argument::List pairs;  // key, value, key, value …
  for (const auto& [key, value] : json.AsObject()) {
    pairs.push_back({key});
    pairs.push_back(ParseArgument(value));
  }
  return {std::move(pairs)};
}

constexpr struct {
  std::string_view kind;
  Argument (*make)(const Json&);
} kArgumentKinds[] = {
    {"as_none", MakeNone},
    {"as_tensor", MakeTensorName},
    {"as_tensors", MakeListOf<MakeTensorName>},
    {"as_int", MakeInt},
    {"as_ints", MakeListOf<MakeInt>},
    {"as_float", MakeFloat},
    {"as_floats", MakeListOf<MakeFloat>},
    {"as_string", MakeString},
    {"as_strings", MakeListOf<MakeString>},
    {"as_bool", MakeBool},
    {"as_bools", MakeListOf<MakeBool>},
    {"as_name", [](const Json& json) { return Argument{SymbolName{json.AsString()}}; }},
    {"as_sym_int", MakeSymbol},
    {"as_sym_ints", MakeListOf<MakeSymbol>},
    {"as_sym_bool", MakeSymbol},
    {"as_sym_bools", MakeListOf<MakeSymbol>},
    {"as_sym_float", MakeSymbol},
    {"as_sym_floats", MakeListOf<MakeSymbol>},
    {"as_optional_tensor", ParseArgument},
    {"as_optional_tensors", MakeListOf<ParseArgument>},
    {"as_nested_tensors", MakeListOf<MakeListOf<MakeTensorName>>},
    {"as_int_lists", MakeListOf<MakeListOf<MakeInt>>},
    {"as_string_to_argument", MakeStringToArgument},
    {"as_scalar_type", [](const Json& json) { return Argument{DTypeFromSchema(json.AsInt())}; }},
    {"as_memory_format",
     [](const Json& json) {
       int64_t number = json.AsInt();
       return Argument{number >= 0 && number <= 4 ? static_cast<MemoryFormat>(number) : MemoryFormat::kUnknown};
     }},
    {"as_layout", [](const Json& json) { return Argument{Layout{static_cast<int>(json.AsInt())}}; }},
    {"as_device", [](const Json& json) { return Argument{Device{json.At("type").AsString()}}; }},
    {"as_graph", MakeSubprogram},
    {"as_operator", [](const Json& json) { return Argument{OperatorName{json.AsString()}}; }},
    {"as_complex",
     [](const Json& json) {
       return Argument{std::complex<double>(json.At("real").AsDouble(), json.At("imag").AsDouble())};
     }},
    {"as_custom_obj",
     [](const Json& json) {
       return Argument{CustomObject{json.At("name").AsString(), json.At("class_fqn").AsString()}};
     }},
};

Argument ParseArgument(const Json& json) {
  const auto& [kind, value] = Chosen(json);
  for (const auto& known : kArgumentKinds)
    if (kind == known.kind) return known.make(value);
  Fail(ErrorCode::kUnsupported, "an argument is of unknown kind '", Printable(kind), "'");
}

std::string ShortTarget(const std::string& target) {
  constexpr std::string_view kPrefix = "torch.ops.";
  return target.starts_with(kPrefix) ? target.substr(kPrefix.size()) : target;
}

ProgramNode ParseNode(const Json& json) {
  ProgramNode node;
  node.target = ShortTarget(json.At("target").AsString());
  if (const Json* name = FindSet(json, "name")) node.name = name->AsString();
  try {
    for (const Json& input : json.At("inputs").AsArray())
      node.inputs.push_back({input.At("name").AsString(), ParseArgument(input.At("arg"))});
    for (const Json& output : json.At("outputs").AsArray()) node.outputs.push_back(ParseArgument(output));
    if (const Json* metadata = FindSet(json, "metadata")) {
      if (const Json* trace = FindSet(*metadata, "stack_trace")) node.stack_trace = trace->AsString();
      if (const Json* stack = FindSet(*metadata, "nn_module_stack")) node.module_stack = stack->AsString();
    }
  } catch (Error& error) {
    throw error.At(Cat("node '", Printable(node.name), "' (", Printable(node.target), ")"));
  }
  return node;
}

ProgramGraph ParseGraph(const Json& json) {
  ProgramGraph graph;
  for (const Json& input : json.At("inputs").AsArray()) graph.inputs.push_back(ParseArgument(input));
  for (const Json& output : json.At("outputs").AsArray()) graph.outputs.push_back(ParseArgument(output));
  for (const Json& node : json.At("nodes").AsArray()) graph.nodes.push_back(ParseNode(node));
  for (const auto& [name, meta] : json.At("tensor_values").AsObject()) {
    // The first schema wrapped the description once more.
    const Json* wrapped = FindSet(meta, "meta");
    graph.tensors[name] = ParseTensorMeta(wrapped ? *wrapped : meta);
  }
  if (const Json* symbols = FindSet(json, "sym_int_values"))
    for (const auto& [name, value] : symbols->AsObject()) graph.symbols[name] = ParseSymInt(value);
  return graph;
}

InputSpec ParseInputSpec(const Json& json) {
  using Kind = InputSpec::Kind;
  const auto& [kind, value] = Chosen(json);
  auto tensor = [&value = value] { return MakeTensorName(value.At("arg")); };
  if (kind == "user_input") return {Kind::kUser, ParseArgument(value.At("arg"))};
  if (kind == "parameter") return {Kind::kParameter, tensor(), value.At("parameter_name").AsString()};
  if (kind == "buffer") {
    const Json* persistent = FindSet(value, "persistent");
    return {Kind::kBuffer, tensor(), value.At("buffer_name").AsString(), !persistent || persistent->AsBool()};
  }
  if (kind == "tensor_constant") return {Kind::kTensorConstant, tensor(), value.At("tensor_constant_name").AsString()};
  if (kind == "constant_input") return {Kind::kConstant, ParseArgument(value.At("value")), value.At("name").AsString()};
  if (kind == "custom_obj") return {Kind::kCustomObject, {}, value.At("custom_obj_name").AsString()};
  if (kind == "token") return {Kind::kToken, tensor()};
  Fail(ErrorCode::kUnsupported, "the program has an input of unknown kind '", Printable(kind), "'");
}

OutputSpec ParseOutputSpec(const Json& json) {
  using Kind = OutputSpec::Kind;
  const auto& [kind, value] = Chosen(json);
  auto tensor = [&value = value] { return MakeTensorName(value.At("arg")); };
  if (kind == "user_output") return {Kind::kUser, ParseArgument(value.At("arg"))};
  if (kind == "loss_output") return {Kind::kLoss, tensor()};
  if (kind == "buffer_mutation") return {Kind::kBufferMutation, tensor(), value.At("buffer_name").AsString()};
  if (kind == "parameter_mutation") return {Kind::kParameterMutation, tensor(), value.At("parameter_name").AsString()};
  if (kind == "user_input_mutation") return {Kind::kInputMutation, tensor(), value.At("user_input_name").AsString()};
  if (kind == "gradient_to_parameter" || kind == "gradient_to_user_input") return {Kind::kGradient, tensor()};
  if (kind == "token") return {Kind::kToken, tensor()};
  Fail(ErrorCode::kUnsupported, "the program has an output of unknown kind '", Printable(kind), "'");
}

// The signature of schema 1: names only, the kinds in separate tables.
void ParseOldSignature(const Json& json, ExportedProgram& program) {
  auto target = [&](std::string_view table, const std::string& name) -> const Json* {
    const Json* map = FindSet(json, table);
    return map ? FindSet(*map, name) : nullptr;
  };
  for (const Argument& input : program.graph.inputs) {
    const TensorName* tensor = input.get<TensorName>();
    InputSpec spec{InputSpec::Kind::kUser, input, {}};
    if (const Json* name = tensor ? target("inputs_to_parameters", tensor->name) : nullptr)
      spec = {InputSpec::Kind::kParameter, input, name->AsString()};
    else if (const Json* buffer = tensor ? target("inputs_to_buffers", tensor->name) : nullptr)
      spec = {InputSpec::Kind::kBuffer, input, buffer->AsString()};
    else if (const Json* lifted = tensor ? target("inputs_to_lifted_tensor_constants", tensor->name) : nullptr)
      spec = {InputSpec::Kind::kTensorConstant, input, lifted->AsString()};
    program.inputs.push_back(std::move(spec));
  }
  for (const Argument& output : program.graph.outputs) {
    const TensorName* tensor = output.get<TensorName>();
    OutputSpec spec{OutputSpec::Kind::kUser, output, {}};
    if (const Json* name = tensor ? target("buffers_to_mutate", tensor->name) : nullptr)
      spec = {OutputSpec::Kind::kBufferMutation, output, name->AsString()};
    program.outputs.push_back(std::move(spec));
  }
}

void ParseSignature(const Json& json, ExportedProgram& program) {
  if (!json.Find("input_specs")) return ParseOldSignature(json, program);
  for (const Json& spec : json.At("input_specs").AsArray()) program.inputs.push_back(ParseInputSpec(spec));
  for (const Json& spec : json.At("output_specs").AsArray()) program.outputs.push_back(ParseOutputSpec(spec));
  // Where both say what an input or output is, they are in the same order.
  if (program.inputs.size() != program.graph.inputs.size() || program.outputs.size() != program.graph.outputs.size())
    Fail(ErrorCode::kInvalidModel, "the signature names ", program.inputs.size(), " inputs and ",
         program.outputs.size(), " outputs, the graph has ", program.graph.inputs.size(), " and ",
         program.graph.outputs.size());
}

void ParseForwardNames(const Json& module, ExportedProgram& program) {
  const Json* calls = FindSet(module, "module_call_graph");
  if (!calls || calls->AsArray().empty()) return;
  const Json* signature = FindSet(calls->AsArray()[0], "signature");
  const Json* names = signature ? FindSet(*signature, "forward_arg_names") : nullptr;
  if (!names) return;
  for (const Json& name : names->AsArray()) program.forward_names.push_back(name.AsString());
}

void ParseRanges(const Json& json, ExportedProgram& program) {
  for (const auto& [symbol, range] : json.AsObject()) {
    ValueRange& known = program.ranges[symbol];
    if (const Json* lowest = FindSet(range, "min_val"); lowest && lowest->is_integer()) known.lowest = lowest->AsInt();
    if (const Json* highest = FindSet(range, "max_val"); highest && highest->is_integer())
      known.highest = highest->AsInt();
  }
}

}  // namespace

TensorMeta ParseTensorMeta(const Json& json) {
  TensorMeta meta;
  meta.dtype_number = json.At("dtype").AsInt();
  meta.dtype = DTypeFromSchema(meta.dtype_number);
  meta.sizes = ParseSymInts(json.At("sizes"));
  meta.strides = ParseSymInts(json.At("strides"));
  if (meta.sizes.size() != meta.strides.size())
    Fail(ErrorCode::kInvalidModel, "a tensor has ", meta.sizes.size(), " sizes and ", meta.strides.size(), " strides");
  if (const Json* offset = FindSet(json, "storage_offset"))
    meta.storage_offset = offset->is_integer() ? Dim(offset->AsInt()) : ParseSymInt(*offset);
  if (const Json* grad = FindSet(json, "requires_grad")) meta.requires_grad = grad->AsBool();
  if (const Json* layout = FindSet(json, "layout")) meta.layout = static_cast<int>(layout->AsInt());
  return meta;
}

ExportedProgram ParseProgram(const Json& json) {
  const Json& schema = json.At("schema_version");
  int64_t major = schema.is_object() ? schema.At("major").AsInt() : schema.AsInt();
  if (major < 1 || major > kNewestSchema)
    Fail(ErrorCode::kUnsupported, "the program is written in schema ", major, "; schemas 1 to ", kNewestSchema,
         " (PyTorch 2.1 to 2.11) can be read");
  ExportedProgram program;
  const Json& module = json.At("graph_module");
  program.graph = ParseGraph(module.At("graph"));
  ParseSignature(module.At("signature"), program);
  ParseForwardNames(module, program);
  if (const Json* ranges = FindSet(json, "range_constraints")) ParseRanges(*ranges, program);
  if (const Json* version = FindSet(json, "torch_version")) program.torch_version = version->AsString();
  return program;
}

}  // namespace ferry::torch
