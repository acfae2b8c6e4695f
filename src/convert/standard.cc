#include "convert/standard.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "convert/convert.h"
#include "graph/editor.h"
#include "graph/names.h"
#include "onnx/schema.h"
#include "onnx/upgrade/upgrade.h"
#include "ops/operator.h"
#include "passes/expand_composed.h"
#include "passes/inline_functions.h"

namespace ferry {
namespace {

// Domains that the standard has.
bool IsOfTheStandard(const std::string& domain) {
  const std::string_view canonical = CanonicalDomain(domain);
  return canonical.empty() || canonical == kMlDomain || canonical == kPreviewDomain || canonical == kTrainingDomain;
}

std::map<std::string, int64_t> OthersIn(const Graph& graph) {
  std::map<std::string, int64_t> others;
  ForEachGraph(graph, [&](const Graph& inner) {
    for (const Node& node : inner.nodes)
      if (!IsOfTheStandard(node.domain))
        ++others[Cat(node.domain, ".", node.op_type)];
      else if (CanonicalDomain(node.domain).empty() && !FindSchema("", node.op_type, NewestOpset("")))
        ++others[node.op_type];
  });
  return others;
}

int64_t Sum(const std::map<std::string, int64_t>& counts) {
  int64_t sum = 0;
  for (const auto& [name, count] : counts) sum += count;
  return sum;
}

// MatMulNBits as a product with what a blocked DequantizeLinear makes of the same weights.
class BitProducts {
 public:
  BitProducts(Graph& graph, NameMaker& names) : graph_(graph), names_(names) {}

  void Run() {
    std::vector<Node> nodes;
    for (Node& node : graph_.nodes)
      if (node.domain != kMicrosoftDomain || node.op_type != "MatMulNBits" || !Rewrite(node, nodes))
        nodes.push_back(std::move(node));
    graph_.nodes = std::move(nodes);
  }

 private:
  const Tensor* Constant(const Node& node, size_t input) {
    if (!node.HasInput(input)) return nullptr;
    for (const ValueInfo& given : graph_.inputs)
      if (given.name == node.inputs[input]) return nullptr;
    for (StoredTensor& initializer : graph_.initializers)
      if (initializer.name == node.inputs[input]) return &initializer.Get();
    return nullptr;
  }

  std::string Add(const std::string& hint, Tensor tensor) {
    graph_.initializers.push_back(MakeStored(names_.Make(hint), std::move(tensor)));
    return graph_.initializers.back().name;
  }

  // Zero points side by side, without the bits that fill up rows.
  static Tensor ZeroPoints(const Tensor* packed, DType type, int64_t bits, int64_t columns, int64_t blocks) {
    Tensor zeros = Tensor::Zeros(type, {columns, blocks});
    auto* to = reinterpret_cast<uint8_t*>(zeros.mutable_raw());
    const int64_t per_byte = 8 / bits, row_bytes = (blocks * bits + 7) / 8;
    for (int64_t i = 0; i < columns * blocks; ++i) {
      int zero = 1 << (bits - 1);
      if (packed)
        zero =
            packed->Data<uint8_t>()[i / blocks * row_bytes + i % blocks / per_byte] >> (i % blocks % per_byte * bits) &
            ((1 << bits) - 1);
      to[i / per_byte] = static_cast<uint8_t>(to[i / per_byte] | zero << (i % per_byte * bits));
    }
    return zeros;
  }

  bool Rewrite(const Node& node, std::vector<Node>& out) {
    const int64_t bits = node.Int("bits", 4), block = node.Int("block_size", 0), depth = node.Int("K", 0),
                  columns = node.Int("N", 0);
    const Tensor *b = Constant(node, 1), *scales = Constant(node, 2), *zeros = Constant(node, 3);
    if ((bits != 4 && bits != 8) || block <= 0 || depth <= 0 || columns <= 0 || depth % block != 0 || !b || !scales ||
        node.HasInput(4) || (node.HasInput(3) && (!zeros || zeros->dtype() != DType::kUInt8)))
      return false;
    const int64_t blocks = depth / block;
    if (b->dtype() != DType::kUInt8 || b->size() != columns * (depth * bits / 8) ||
        scales->size() != columns * blocks || (zeros && zeros->size() != columns * ((blocks * bits + 7) / 8)))
      return false;
    const DType type = bits == 4 ? DType::kUInt4 : DType::kUInt8;
    Tensor weights(type, {columns, depth});
    std::copy_n(b->raw(), b->bytes(), weights.mutable_raw());
    const Tensor scale = scales->Reshaped({columns, blocks});
    const Tensor zero = ZeroPoints(zeros, type, bits, columns, blocks);
    const std::string base = node.inputs[1];
    auto add = [&](const char* op, std::vector<std::string> inputs, std::string output) -> Node& {
      Node made;
      made.name = names_.Make(Cat(node.name.empty() ? node.op_type : node.name, "/", op));
      made.op_type = op;
      made.inputs = std::move(inputs);
      made.outputs = {std::move(output)};
      out.push_back(std::move(made));
      return out.back();
    };
    const std::string floats = names_.Make(Cat(base, "/floats")), turned = names_.Make(Cat(base, "/turned"));
    Node& dequantize =
        add("DequantizeLinear", {Add(base, weights), Add(Cat(base, "/scales"), scale), Add(Cat(base, "/zeros"), zero)},
            floats);
    dequantize.Set("axis", int64_t{1});
    dequantize.Set("block_size", block);
    add("Transpose", {floats}, turned).Set("perm", std::vector<int64_t>{1, 0});
    const bool has_bias = node.HasInput(5);
    const std::string product = has_bias ? names_.Make(Cat(base, "/product")) : node.outputs[0];
    add("MatMul", {node.inputs[0], turned}, product);
    if (has_bias) add("Add", {product, node.inputs[5]}, node.outputs[0]);
    return true;
  }

  Graph& graph_;
  NameMaker& names_;
};

// Its own opset first, then those with more words.
Model AtFirstOpset(const Model& model, int64_t own) {
  constexpr int64_t kFirstWithBlocks = 21, kFirstWithAttention = 23;
  std::vector<int64_t> targets;
  for (int64_t target : {own, int64_t{17}, kFirstWithBlocks, kFirstWithAttention, NewestOpset("")})
    if (target >= own && target >= 7 && (targets.empty() || target > targets.back())) targets.push_back(target);
  for (size_t i = 0; i + 1 < targets.size(); ++i) {
    try {
      return ConvertOpset(model, targets[i]);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported) throw;
    }
  }
  return ConvertOpset(model, targets.back());
}

}  // namespace

StandardModel ToStandard(const Model& model, std::optional<int64_t> target) {
  StandardModel standard;
  const std::map<std::string, int64_t> before = OthersIn(model.graph);
  const int64_t own = model.OpsetOf("");
  Model made = CopyDeep(model);
  UpgradeToNewest(made);
  InlineFunctions(made);
  ExpandComposed(made);
  NameMaker names(made);
  BitProducts(made.graph, names).Run();
  DropUnused(made.graph);
  const std::map<std::string, int64_t> left = OthersIn(made.graph);
  for (const auto& [name, count] : left) standard.left.push_back(Cat(name, " ×", count));
  standard.replaced = Sum(before) - Sum(left);
  std::erase_if(made.opsets, [&](const OpsetImport& import) {
    return !IsOfTheStandard(import.domain) && std::none_of(left.begin(), left.end(), [&](const auto& other) {
      return other.first.rfind(Cat(import.domain, "."), 0) == 0;
    });
  });
  made.graph.value_infos.clear();
  standard.model = target ? ConvertOpset(made, *target) : AtFirstOpset(made, own);
  return standard;
}

}  // namespace ferry
