// Makes floats of a graph wider, bodies included: what widen_floats.h and widen_halves.h share.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/names.h"
#include "onnx/schema.h"
#include "ops/infer_graph.h"

namespace ferry {

struct Widening {
  bool (*takes)(DType) = nullptr;
  DType to = DType::kUndefined;
  bool keeps_rounding = false;  // a Cast that a model asks for still rounds
};

Type Widen(const Type& type, const Widening& widening);
// Containers too.
bool MentionsWidened(const Type& type, const Widening& widening);

// A weight as it was and as it is. Addresses of wide ones tell them apart while both are kept.
struct WidenedWeight {
  Tensor narrow, wide;
};
using WidenedWeights = std::vector<WidenedWeight>;

bool IsLargeMatrix(const Tensor& tensor);

class Widener {
 public:
  // `facts` are those of the graph as it is; values of the graph itself that `narrow` names stay as they are, and who
  // reads one takes it so.
  Widener(Graph& graph, GraphFacts facts, NameMaker& names, Widening widening,
          std::unordered_set<std::string> narrow = {});
  // Says which nodes compute in their own precision, because their operator is not defined for the wider type.
  std::vector<std::string> Run();
  // Only the large matrices.
  WidenedWeights TakeWeights() { return std::move(weights_); }

 private:
  void Visit(Graph& graph, const FactsByName& facts);
  void VisitNode(Node node, std::vector<Node>& out);
  const Type* OriginalType(const std::string& name) const;
  bool IsNarrow(const std::string& name) const;
  bool IsWidened(const std::string& name) const;
  bool StaysNarrow(const Node& node, const Schema* schema, const SchemaParameter* parameter,
                   const std::string& name) const;
  bool MakesText(const Node& node) const;
  bool RoundsOnPurpose(const Node& node) const;
  std::string CastBefore(const std::string& name, std::vector<Node>& out);
  Node CastAfter(std::string& output);
  bool IsWidenedNumber(int64_t number) const;
  void KeepPrecision(Node& node) const;
  void WidenAttributes(Node& node, const Schema* schema);
  void WidenConstant(Attribute& attribute) const;
  void SpellOutFloats(Node& node) const;
  void CastWhatInferenceLeavesNarrow(Node& node, std::vector<Node>& after);

  Graph& graph_;
  NameMaker& names_;
  const Widening widening_;
  const std::unordered_set<std::string> narrow_;
  GraphFacts facts_;
  const FactsByName nothing_known_;
  FactsByName widened_facts_;
  std::vector<const FactsByName*> scopes_;
  std::vector<std::string> kept_;
  WidenedWeights weights_;
};

}  // namespace ferry
