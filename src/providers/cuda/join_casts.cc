#include "providers/cuda/join_casts.h"

#include <algorithm>

#include "graph/editor.h"
#include "ops/support/fused.h"
#include "providers/cuda/join_rows.h"

namespace ferry::cuda {
namespace {

class CastJoiner {
 public:
  CastJoiner(Graph& graph, const GraphFacts& facts) : editor_(graph), facts_(facts) {}

  bool Run() {
    const size_t count = editor_.size();
    for (size_t i = 0; i < count; ++i)
      if (!editor_.removed(i) && Is(editor_.node(i), "Concat")) Fuse(i);
    return editor_.Finish();
  }

 private:
  static bool Is(const Node& node, std::string_view op) {
    return node.op_type == op && CanonicalDomain(node.domain).empty();
  }
  DType TypeOf(const std::string& name) const {
    const ValueFacts* facts = facts_.Find(name);
    return facts && facts->type.is_tensor() ? facts->type.dtype : DType::kUndefined;
  }

  // What a Cast from float32 to the type of the Concat reads, else the value itself.
  std::string SourceOf(const std::string& value) const {
    const int producer = editor_.Producer(value);
    if (producer < 0) return value;
    const Node& cast = editor_.node(static_cast<size_t>(producer));
    return Is(cast, "Cast") && TypeOf(cast.inputs[0]) == DType::kFloat ? cast.inputs[0] : value;
  }

  bool CanJoin(const Node& concat, const std::vector<std::string>& sources, DType made) const {
    std::vector<DType> types;
    std::vector<int64_t> columns;
    for (const std::string& source : sources) {
      const ValueFacts* facts = facts_.Find(source);
      const std::optional<Shape> shape =
          facts && facts->type.is_tensor() && facts->type.shape ? ToConcrete(*facts->type.shape) : std::nullopt;
      if (!shape || shape->rank() == 0) return false;
      int64_t axis = concat.Int("axis", 0);
      if (axis < 0) axis += static_cast<int64_t>(shape->rank());
      if (axis < 0 || axis >= static_cast<int64_t>(shape->rank())) return false;
      types.push_back(facts->type.dtype);
      columns.push_back(shape->CountBetween(static_cast<size_t>(axis), shape->rank()));
    }
    return CanJoinMixed(types, made, columns);
  }

  Node Joined(const Node& concat, const std::vector<std::string>& sources, const std::string& output) const {
    const Type& type = facts_.Find(output)->type;
    auto body = std::make_shared<Graph>();
    Node fused, join = concat;
    fused.op_type = "ElementwiseChain";
    fused.domain = kInternalDomain;
    fused.name = concat.name;
    fused.outputs = join.outputs = {output};
    join.inputs.clear();
    for (size_t i = 0; i < sources.size(); ++i) {
      if (std::find(fused.inputs.begin(), fused.inputs.end(), sources[i]) == fused.inputs.end()) {
        fused.inputs.push_back(sources[i]);
        ValueInfo info;
        info.name = sources[i];
        info.type = facts_.Find(sources[i])->type;
        body->inputs.push_back(std::move(info));
      }
      if (TypeOf(sources[i]) == type.dtype) {
        join.inputs.push_back(sources[i]);
        continue;
      }
      Node cast;
      cast.op_type = "Cast";
      cast.inputs = {sources[i]};
      cast.outputs = {Cat(output, " part ", i)};
      cast.Set("to", static_cast<int64_t>(type.dtype));
      join.inputs.push_back(cast.outputs[0]);
      body->nodes.push_back(std::move(cast));
    }
    body->nodes.push_back(std::move(join));
    ValueInfo info;
    info.name = output;
    info.type = type;
    body->outputs.push_back(std::move(info));
    fused.Set("body", std::vector<std::shared_ptr<Graph>>{body});
    return fused;
  }

  void Fuse(size_t index) {
    const Node concat = editor_.node(index);
    const DType type = TypeOf(concat.outputs[0]);
    if (type != DType::kFloat16 && type != DType::kBFloat16) return;
    std::vector<std::string> sources;
    for (const std::string& input : concat.inputs) sources.push_back(SourceOf(input));
    for (size_t reader : std::vector<size_t>(editor_.Readers(concat.outputs[0]))) {
      const Node& cast = editor_.node(reader);
      if (Is(cast, "Cast") && TypeOf(cast.outputs[0]) == DType::kFloat && CanJoin(concat, sources, DType::kFloat) &&
          std::any_of(sources.begin(), sources.end(), [&](const auto& s) { return TypeOf(s) != DType::kFloat; }))
        editor_.Replace(reader, Joined(concat, sources, cast.outputs[0]));
    }
    if (sources != concat.inputs && CanJoin(concat, sources, type))
      editor_.Replace(index, Joined(concat, sources, concat.outputs[0]));
  }

  GraphEditor editor_;
  const GraphFacts& facts_;
};

}  // namespace

bool FuseJoinCasts(Graph& graph, const GraphFacts& facts) { return CastJoiner(graph, facts).Run(); }

}  // namespace ferry::cuda
