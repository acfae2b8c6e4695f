#include "convert/convert.h"

#include <algorithm>

#include "base/error.h"
#include "engine/check_inference.h"
#include "graph/sort_nodes.h"
#include "graph/standard.h"
#include "onnx/downgrade/downgrade.h"
#include "onnx/ir_version.h"
#include "onnx/schema.h"
#include "onnx/upgrade/upgrade.h"
#include "ops/infer_graph.h"
#include "passes/inline_functions.h"

namespace ferry {
namespace {

// The IR version that came with the opset, or the one that the model's own parts need.
int64_t IrVersionFor(const Model& model, int64_t target) {
  constexpr int64_t kInitializersByThemselves = 4, kFunctions = 8, kOverloads = 10;
  int64_t needed = std::max(kInitializersByThemselves, IrVersionOfOpset("", target));
  for (const OpsetImport& import : model.opsets)
    needed = std::max(needed, IrVersionOfOpset(import.domain, import.version));
  for (const Function& function : model.functions)
    needed = std::max(needed, function.overload.empty() ? kFunctions : kOverloads);
  return needed;
}

void DowngradeWithInference(Model& model, int64_t target) {
  InlineFunctions(model);
  InferOptions options;
  options.on_error = [](const Node&, const Error&) {};  // the check at the end says it better
  GraphFacts facts = InferGraph(model.graph, {}, options);
  facts.bodies.emplace(nullptr, std::move(facts.values));
  Downgrade(model, target, [&](const Graph* body, const std::string& name) -> const Type* {
    const FactsByName& values = facts.bodies[body];
    auto it = values.find(name);
    return it == values.end() ? nullptr : &it->second.type;
  });
}

// The one word of an old opset that has no newer one (see docs/opsets.md); the standard's schemas do not list words.
void RefuseLostModes(const Graph& graph, int64_t target) {
  ForEachGraph(graph, [&](const Graph& one) {
    for (const Node& node : one.nodes)
      if (target >= 13 && IsStandard(node, "Resize") &&
          node.String("coordinate_transformation_mode", "") == "tf_half_pixel_for_nn")
        Fail(ErrorCode::kUnsupported, "cannot be converted to opset ", target, ": ", Describe(node),
             ": tf_half_pixel_for_nn ended with opset 12");
  });
}

void RequireValid(const Model& model, int64_t target) {
  for (const Problem& problem : CheckModel(model))
    if (problem.severity == Severity::kError)
      Fail(ErrorCode::kUnsupported, "cannot be converted to opset ", target, ": ", ToText(problem.place), ": ",
           problem.message);
}

}  // namespace

Model ConvertOpset(const Model& model, int64_t target) {
  if (target < kOldestTarget || target > NewestOpset(""))
    Fail(ErrorCode::kInvalidArgument, "models can be converted to opsets ", kOldestTarget, " to ", NewestOpset(""),
         ", not ", target);
  Model converted = CopyDeep(model);
  SortNodes(converted);
  if (model.OpsetOf("") != target) {
    try {
      UpgradeToNewest(converted, "");
      if (target < NewestOpset("")) DowngradeWithInference(converted, target);
    } catch (Error& error) {
      throw error.At(Cat("cannot be converted to opset ", target));
    }
  }
  RefuseLostModes(converted.graph, target);
  converted.ir_version = IrVersionFor(converted, target);
  RequireValid(converted, target);
  return converted;
}

}  // namespace ferry
