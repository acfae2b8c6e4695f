#include "onnx/arity.h"

#include "base/error.h"
#include "onnx/schema.h"

namespace ferry {

void RequireArity(const Node& node) {
  const Schema* schema = FindSchema(node.domain, node.op_type, NewestOpset(node.domain));
  if (!schema) return;
  auto require = [&](size_t count, size_t least, size_t most, const char* what) {
    if (count >= least && count <= most) return;
    Fail(ErrorCode::kInvalidModel, Describe(node), ": it has ", count, " ", what, ", the operator has ",
         count < least ? "at least " : "at most ", count < least ? least : most);
  };
  require(node.inputs.size(), schema->min_inputs, schema->max_inputs, "inputs");
  require(node.outputs.size(), schema->min_outputs, schema->max_outputs, "outputs");
}

}  // namespace ferry
