#include "nn/tape.h"

#include "base/error.h"
#include "ops/operator.h"

namespace ferry {
namespace {

constexpr size_t kSmallConstant = 64;  // bytes; equal ones are one initializer

std::string KeyOf(const Tensor& tensor) {
  return Cat(tensor.dtype(), tensor.shape(), ":",
             std::string_view(reinterpret_cast<const char*>(tensor.raw()), tensor.bytes()));
}

}  // namespace

Tape::Id Tape::Add(Slot slot) {
  slots_.push_back(std::move(slot));
  return static_cast<Id>(slots_.size()) - 1;
}

const Tape::Slot& Tape::At(Id id) const {
  Require(id >= 0 && id < static_cast<Id>(slots_.size()), "the tape has no value ", id);
  return slots_[static_cast<size_t>(id)];
}

void Tape::Claim(const std::string& name) {
  Require(!name.empty(), "a name may not be empty");
  Require(taken_.insert(name).second, "the name '", Printable(name),
          "' is used twice: inputs, outputs and parameters need names of their own");
}

std::string Tape::FreshName(std::string_view wish) {
  std::string name(wish);
  while (!taken_.insert(name).second) name = Cat(wish, "_", ++next_number_[std::string(wish)]);
  return name;
}

Tape::Id Tape::AddInput(std::string name, const Tensor& sample) {
  Claim(name);
  Type type = Type::Tensor(sample.dtype(), ToSymbolic(sample.shape()));
  return Add({.kind = Slot::Kind::kInput, .name = std::move(name), .type = std::move(type), .varies = true});
}

Tape::Id Tape::AddParameter(std::string name, const Tensor& elements) {
  Claim(name);
  Type type = Type::Tensor(elements.dtype(), ToSymbolic(elements.shape()));
  return Add({.kind = Slot::Kind::kParameter, .name = std::move(name), .type = std::move(type), .constant = elements});
}

Tape::Id Tape::AddConstant(const Tensor& elements) {
  bool shared = elements.dtype() != DType::kString && elements.bytes() <= kSmallConstant;
  if (shared) {
    auto it = small_constants_.find(KeyOf(elements));
    if (it != small_constants_.end()) return it->second;
  }
  Type type = Type::Tensor(elements.dtype(), ToSymbolic(elements.shape()));
  Id id = Add({.kind = Slot::Kind::kConstant,
               .name = FreshName("/Constant"),
               .type = std::move(type),
               .constant = elements.Clone()});  // the caller's elements may change after this
  if (shared) small_constants_[KeyOf(elements)] = id;
  return id;
}

std::vector<Tape::Id> Tape::Record(const Node& call, std::span<const Id> inputs, std::span<const Value> results) {
  const Operator* op = FindOperator(call.domain, call.op_type);
  Step step{.node = call, .inputs = {inputs.begin(), inputs.end()}, .varies = op && op->is_random};
  step.node.inputs.clear();
  step.node.outputs.clear();
  for (Id id : inputs) {
    step.node.inputs.push_back(id == kOmitted ? "" : At(id).name);
    step.varies = step.varies || (id != kOmitted && At(id).varies);
  }
  while (!step.node.inputs.empty() && step.node.inputs.back().empty()) {
    step.node.inputs.pop_back();
    step.inputs.pop_back();
  }
  step.node.name = FreshName(call.name.empty() ? call.op_type : call.name);
  for (size_t i = 0; i < results.size(); ++i) {
    Slot slot{.kind = Slot::Kind::kResult,
              .name = FreshName(Cat(step.node.name, "_output_", i)),
              .type = TypeOf(results[i]),
              .varies = step.varies};
    if (!step.varies && results[i].is_tensor()) slot.constant = results[i].tensor().Persistent();
    step.node.outputs.push_back(slot.name);
    step.outputs.push_back(Add(std::move(slot)));
  }
  nodes_.push_back(std::move(step));
  return nodes_.back().outputs;
}

void Tape::AddOutput(std::string name, Id id) {
  At(id);
  Claim(name);
  outputs_.push_back({std::move(name), id});
}

void Tape::SetDynamic(std::string_view name, int64_t axis, std::string dimension) {
  Require(!dimension.empty(), "a dynamic axis of '", Printable(name), "' needs a name");
  const Type* type = nullptr;
  for (const Slot& slot : slots_)
    if (slot.kind == Slot::Kind::kInput && slot.name == name) type = &slot.type;
  for (const Output& output : outputs_)
    if (output.name == name) type = &At(output.id).type;
  if (!type) {
    std::vector<std::string> names;
    for (const Slot& slot : slots_)
      if (slot.kind == Slot::Kind::kInput) names.push_back(slot.name);
    for (const Output& output : outputs_) names.push_back(output.name);
    Fail(ErrorCode::kInvalidArgument, "dynamic axes are given for '", Printable(name),
         "', which is no input or output: there are ", Join(names, ", "));
  }
  Require(type->has_rank(), "'", Printable(name), "' has no axes");
  axis = static_cast<int64_t>(NormalizeAxis(axis, type->shape->size()));
  dynamic_[std::string(name)][axis] = std::move(dimension);
}

std::string Tape::DynamicSizes() const {
  std::vector<std::string> sizes;
  std::unordered_set<std::string> seen;
  for (const Slot& slot : slots_) {
    auto axes = slot.kind == Slot::Kind::kInput ? dynamic_.find(slot.name) : dynamic_.end();
    if (axes == dynamic_.end()) continue;
    for (const auto& [axis, dimension] : axes->second)
      if (seen.insert(dimension).second)
        sizes.push_back(Cat(Printable(dimension), " = ", (*slot.type.shape)[static_cast<size_t>(axis)]));
  }
  return Join(sizes, ", ");
}

}  // namespace ferry
