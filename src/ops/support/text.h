// Strings that operators make: counted before they are made, and long ones written in parts, so that a run can be ended
// meanwhile.
#pragma once

#include <string>
#include <string_view>

#include "tensor/tensor.h"

namespace ferry {

// to = first + second.
void AssignText(std::string& to, std::string_view first, std::string_view second = {});

// Charges the run for `bytes` of text that a tensor of strings is about to get; throws kLimit.
void ChargeText(Tensor& strings, size_t bytes);

}  // namespace ferry
