// Every tensor a model holds, wherever it is: initializers, attributes, parts of sparse tensors, in all graphs.
#pragma once

#include "base/function_ref.h"
#include "graph/model.h"

namespace ferry {

void ForEachStoredTensor(Model& model, FunctionRef<void(StoredTensor&)> visit);
void ForEachStoredTensor(const Model& model, FunctionRef<void(const StoredTensor&)> visit);

}  // namespace ferry
