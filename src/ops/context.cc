#include "ops/context.h"

#include "base/check_run.h"

namespace ferry {

void OpContext::CheckCancelled() const {
  CheckRun();
  if (services_.cancelled && services_.cancelled->load(std::memory_order_relaxed))
    Fail(ErrorCode::kCancelled, "the run was cancelled");
}

const Value& OpContext::InputValue(size_t i) const {
  if (!Has(i)) Fail(ErrorCode::kInvalidModel, "input ", i, " is missing");
  return *inputs_[i];
}

const Tensor& OpContext::Input(size_t i) const {
  const Value& value = InputValue(i);
  if (!value.is_tensor()) Fail(ErrorCode::kInvalidArgument, "input ", i, " must be a tensor, is ", value.KindName());
  return value.tensor();
}

Tensor& OpContext::Output(size_t i, DType type, const Shape& shape) {
  if (!Wants(i)) {
    scratch_.push_back(std::make_unique<Tensor>(type, shape, memory_));
    return *scratch_.back();
  }
  Value& slot = *outputs_[i];
  // A slot that is filled beforehand was placed by the memory plan for exactly this.
  if (slot.is_tensor() && slot.tensor().dtype() == type && slot.tensor().shape() == shape) return slot.tensor();
  slot = Tensor(type, shape, memory_);
  return slot.tensor();
}

void OpContext::SetOutput(size_t i, Value value) {
  if (Wants(i)) *outputs_[i] = std::move(value);
}

Subgraph& OpContext::subgraph(std::string_view attribute) const {
  size_t index = 0;
  for (const Attribute& a : node_.attributes) {
    if (a.type != AttributeType::kGraph) continue;
    if (a.name == attribute) {
      if (index >= subgraphs_.size()) Fail(ErrorCode::kInternal, "body '", attribute, "' was not prepared");
      return *subgraphs_[index];
    }
    ++index;
  }
  Fail(ErrorCode::kInvalidModel, "attribute '", attribute, "' is missing");
}

}  // namespace ferry
