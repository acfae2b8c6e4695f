#include "torch/lower/emitter.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "onnx/schema.h"
#include "ops/infer_graph.h"
#include "ops/operator.h"

namespace ferry::torch {
namespace {

constexpr size_t kMergedBytes = 256;  // larger constants are compared by nobody
constexpr int64_t kMovedElements = int64_t{1} << 28;
constexpr int64_t kFoldedElements = 4096;  // larger results are left to constant folding of the whole model

void AppendRaw(std::string& key, const void* data, size_t bytes) { key.append(static_cast<const char*>(data), bytes); }

// Text that is equal for equal attributes; false for those that are not compared.
bool AppendAttribute(std::string& key, const Attribute& attribute) {
  key += attribute.name;
  key.push_back('=');
  if (const auto* i = std::get_if<int64_t>(&attribute.held)) {
    AppendInteger(key, *i);
  } else if (const auto* f = std::get_if<float>(&attribute.held)) {
    AppendRaw(key, f, sizeof *f);
  } else if (const auto* s = std::get_if<std::string>(&attribute.held)) {
    key += *s;
  } else if (const auto* ints = std::get_if<std::vector<int64_t>>(&attribute.held)) {
    key += Join(*ints, ",");
  } else {
    return false;
  }
  key.push_back(';');
  return true;
}

// Operators that lay weights out differently and make no more of them: worth doing once, at any size.
bool OnlyMoves(std::string_view op_type) {
  static constexpr std::string_view kMovers[] = {"Transpose", "Reshape", "Squeeze", "Unsqueeze",
                                                 "Slice",     "Concat",  "Split"};
  return std::find(std::begin(kMovers), std::end(kMovers), op_type) != std::end(kMovers);
}

// Empty when the node is not one to be shared.
std::string KeyOf(std::string_view op_type, const Operands& inputs, const Attributes& attributes, size_t outputs) {
  const Operator* op = FindOperator("", op_type);
  if (!op || op->is_random) return {};
  std::string key = Cat(op_type, "/", outputs, "/");
  for (const Operand& input : inputs) {
    const void* identity = input.record().get();
    AppendRaw(key, &identity, sizeof identity);
  }
  for (const Attribute& attribute : attributes)
    if (!AppendAttribute(key, attribute)) return {};
  return key;
}

// An axis that no machine could hold is refused at once: what is computed from sizes later cannot overflow then.
void RequirePossible(const Type& type) {
  constexpr int64_t kLongest = int64_t{1} << 48;
  if (!type.is_tensor() || !type.has_rank()) return;
  for (const Dim& size : *type.shape)
    if (size.known() && (*size.value < 0 || *size.value > kLongest))
      Fail(ErrorCode::kInvalidModel, "there is no tensor with an axis of ", *size.value, " elements");
}

Node DescribeNode(std::string_view op_type, const Operands& inputs, const Attributes& attributes, size_t outputs) {
  Node node;
  node.op_type = op_type;
  node.attributes = attributes;
  for (size_t i = 0; i < inputs.size(); ++i) node.inputs.push_back(inputs[i] ? std::to_string(i) : std::string());
  for (size_t i = 0; i < outputs; ++i) node.outputs.push_back(Cat("out", i));
  return node;
}

}  // namespace

Emitter::Emitter(int opset, Emitter* outer) : opset_(opset), outer_(outer) {
  if (!outer) return;
  origin_ = outer->origin_;
  metadata_ = outer->metadata_;
  folds_weights = outer->folds_weights;
  names_sizes = outer->names_sizes;
}

void Emitter::NameSizes(Type& type) {
  if (!names_sizes || !type.is_tensor() || !type.has_rank()) return;
  for (Dim& size : *type.shape)
    if (size.unknown()) size = Dim::Named(Cat("~", ++Root().made_up_names_));
}

bool Emitter::IsOlder(const Dim& dim, int64_t count) {
  if (dim.unknown()) return false;
  size_t at = dim.symbol.find('~');
  return dim.known() || at == std::string::npos || std::strtoll(dim.symbol.c_str() + at + 1, nullptr, 10) <= count;
}

bool Emitter::Has(std::string_view op_type) const { return FindSchema("", op_type, opset_) != nullptr; }

bool Emitter::Takes(std::string_view op_type, DType dtype, size_t input) const {
  const Schema* schema = FindSchema("", op_type, opset_);
  const SchemaParameter* parameter = schema ? schema->InputAt(input) : nullptr;
  return parameter && schema->TypesOf(*parameter).Contains(static_cast<SchemaTypeId>(dtype));
}

void Emitter::CheckTypes(std::string_view op_type, const Operands& inputs) const {
  const Schema* schema = FindSchema("", op_type, opset_);
  if (!schema) Fail(ErrorCode::kUnsupported, "ONNX has no ", op_type, " in opset ", opset_);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i] || !inputs[i].type().is_tensor() || inputs[i].type().dtype == DType::kUndefined) continue;
    const SchemaParameter* parameter = schema->InputAt(i);
    if (parameter && !schema->TypesOf(*parameter).Contains(static_cast<SchemaTypeId>(inputs[i].type().dtype)))
      Fail(ErrorCode::kUnsupported, "ONNX's ", op_type, " takes no ", inputs[i].type().dtype, " in opset ", opset_);
  }
}

Operand Emitter::AddInput(std::string name, Type type) {
  RequirePossible(type);
  auto record = std::make_shared<Operand::Record>();
  record->name = std::move(name);
  record->facts.type = std::move(type);
  NameSizes(record->facts.type);
  graph_.inputs.emplace_back(record);
  return graph_.inputs.back();
}

Operand Emitter::Weight(std::string name, const Tensor& tensor) {
  auto record = std::make_shared<Operand::Record>();
  record->name = std::move(name);
  record->facts = FactsOf(tensor);
  record->is_weight = true;
  Root().weights_.emplace_back(record);
  return Operand(record);
}

Operand Emitter::Constant(const Tensor& tensor) {
  Emitter& root = Root();
  std::string key;
  if (tensor.dtype() != DType::kString && tensor.bytes() <= kMergedBytes) {
    key = Cat(tensor.dtype(), tensor.shape(), ":");
    AppendRaw(key, tensor.raw(), tensor.bytes());
    auto it = root.by_contents_.find(key);
    if (it != root.by_contents_.end()) return it->second;
  }
  auto record = std::make_shared<Operand::Record>();
  record->facts = FactsOf(tensor);
  Operand constant(record);
  root.constants_.push_back(constant);
  if (!key.empty()) root.by_contents_.emplace(std::move(key), constant);
  return constant;
}

const Operands* Emitter::FindEqual(const std::string& key) const {
  if (key.empty()) return nullptr;
  auto it = made_.find(key);
  if (it != made_.end()) return &it->second;
  return outer_ ? outer_->FindEqual(key) : nullptr;
}

Operands Emitter::EmitMany(std::string_view op_type, Operands inputs, Attributes attributes, size_t outputs) {
  while (!inputs.empty() && !inputs.back()) inputs.pop_back();
  std::string key = KeyOf(op_type, inputs, attributes, outputs);
  if (const Operands* equal = FindEqual(key)) return *equal;
  CheckTypes(op_type, inputs);

  Node node = DescribeNode(op_type, inputs, attributes, outputs);
  bool from_weights =
      std::any_of(inputs.begin(), inputs.end(), [](const Operand& o) { return o && o.record()->is_weight; });
  InferOptions options;
  options.largest_computed = !from_weights                         ? kFoldedElements
                             : folds_weights && OnlyMoves(op_type) ? kMovedElements
                             : folds_weights                       ? kFoldedElements
                                                                   : -1;
  std::vector<ValueFacts> facts = InferNode(
      node, [&](const std::string& name) { return &inputs[std::stoul(name)].facts(); }, options);

  for (const ValueFacts& fact : facts) RequirePossible(fact.type);

  Operands results;
  bool all_constant = true;
  for (size_t i = 0; i < outputs; ++i) {
    auto record = std::make_shared<Operand::Record>();
    if (i < facts.size()) record->facts = std::move(facts[i]);
    if (!record->facts.constant) NameSizes(record->facts.type);
    record->is_weight = from_weights;
    all_constant = all_constant && record->facts.constant;
    results.emplace_back(record);
  }
  if (all_constant) {
    for (Operand& result : results) {
      bool is_weight = result.record()->is_weight;
      result = Constant(*result.constant());
      result.record()->is_weight = result.record()->is_weight || is_weight;
    }
  } else {
    graph_.nodes.push_back(
        {std::string(op_type), std::move(inputs), results, std::move(attributes), {}, origin_, metadata_});
  }
  if (!key.empty()) made_.emplace(std::move(key), results);
  return results;
}

Operand Emitter::Emit(std::string_view op_type, Operands inputs, Attributes attributes) {
  return EmitMany(op_type, std::move(inputs), std::move(attributes), 1)[0];
}

Operands Emitter::EmitControl(std::string_view op_type, Operands inputs, Attributes attributes,
                              std::vector<std::pair<std::string, std::shared_ptr<PendingGraph>>> bodies,
                              const std::vector<Type>& output_types) {
  CheckTypes(op_type, {});
  Operands results;
  for (const Type& type : output_types) {
    RequirePossible(type);
    auto record = std::make_shared<Operand::Record>();
    record->facts.type = type;
    NameSizes(record->facts.type);
    results.emplace_back(record);
  }
  graph_.nodes.push_back(
      {std::string(op_type), std::move(inputs), results, std::move(attributes), std::move(bodies), origin_, metadata_});
  return results;
}

void Emitter::Refine(const Operand& value, DType dtype, const SymbolicShape& shape) {
  if (value.type().dtype == DType::kUndefined && !value.is_complex()) value.record()->facts.type.dtype = dtype;
  if (value.dtype() != dtype)
    Fail(ErrorCode::kInternal, "the export made ", value.dtype(), " where the program says ", dtype);
  SymbolicShape full = shape;
  if (value.is_complex()) full.push_back(Dim(2));
  RequirePossible(Type::Tensor(dtype, full));
  Type& type = value.record()->facts.type;
  try {
    type = Merge(Type::Tensor(type.dtype, std::move(full)), type);
  } catch (const Error&) {
    Fail(ErrorCode::kInternal, "the export made shape ", value.shape(), " where the program says ", shape);
  }
}

const Operand* Emitter::FindSizeSource(const std::string& symbol) {
  if (symbol.empty()) return nullptr;
  auto it = size_sources_.find(symbol);
  if (it != size_sources_.end()) return &it->second;
  return outer_ ? outer_->FindSizeSource(symbol) : nullptr;
}

void Emitter::SetSizeSource(const std::string& symbol, const Operand& size) {
  if (!symbol.empty() && !FindSizeSource(symbol)) size_sources_.emplace(symbol, size);
}

void Emitter::SetOrigin(std::string origin, Metadata metadata) {
  origin_ = std::move(origin);
  metadata_ = std::move(metadata);
}

void Emitter::Name(const Operand& value, const std::string& name) {
  if (value && value.record()->name.empty() && !value.constant()) value.record()->name = name;
}

}  // namespace ferry::torch
