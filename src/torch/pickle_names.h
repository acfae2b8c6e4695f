// The names that PyTorch's files ask for, and what each of them makes here.
#pragma once

#include <string_view>
#include <vector>

#include "torch/pickle.h"

namespace ferry::torch {

bool IsKnownGlobal(std::string_view name);
// The element type of "torch.FloatStorage", "torch.storage.UntypedStorage" …; throws when ONNX has none.
DType StorageDType(std::string_view name);
// "torch.float32" and the like; kUndefined when it is no element type.
DType DTypeFromTorchName(std::string_view name);

// Makes what calling `name` would make. A call that only wraps a value gives kGlobal with that value as its item.
void CallKnownGlobal(std::string_view name, const std::vector<PickleValue*>& arguments, PickleValue& made);

}  // namespace ferry::torch
