// What a type-and-shape rule sees: the types of its inputs, whatever values are known already, and its outputs to fill.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/model.h"
#include "graph/type.h"

namespace ferry {

// All that is known about a value before it is computed.
struct ValueFacts {
  Type type;
  // The whole value, when it is a constant.
  std::optional<Tensor> constant;
  // The elements of an integer tensor of rank 0 or 1, each perhaps symbolic: Shape → Gather → Concat → Reshape.
  std::optional<SymbolicShape> elements;
};

class InferContext {
 public:
  // Infers a body's outputs from its inputs; outer values are seen by name.
  using SubgraphRule = std::function<std::vector<ValueFacts>(const Graph&, std::span<const ValueFacts>)>;

  InferContext(const Node& node, std::span<const ValueFacts* const> inputs, size_t output_count,
               SubgraphRule subgraph_rule = {});
  ~InferContext();

  const Node& node() const { return node_; }
  size_t input_count() const { return inputs_.size(); }
  size_t output_count() const { return outputs_.size(); }
  bool Has(size_t i) const { return i < inputs_.size() && inputs_[i]; }

  // The type of input i; an unknown type when omitted or not known.
  const Type& InputType(size_t i) const;
  DType InputDType(size_t i) const { return InputType(i).dtype; }
  // The shape of a tensor input; null while its rank is unknown.
  const SymbolicShape* InputShape(size_t i) const;
  const Tensor* InputConstant(size_t i) const;                    // null when not a known constant
  const SymbolicShape* InputElements(size_t i) const;             // null when not known element by element
  std::optional<std::vector<int64_t>> InputInts(size_t i) const;  // when every element is a known integer
  const ValueFacts& InputFacts(size_t i) const;

  void SetOutput(size_t i, Type type);
  void SetOutput(size_t i, DType dtype, SymbolicShape shape);
  void SetOutput(size_t i, DType dtype);  // rank unknown
  void SetOutputElements(size_t i, SymbolicShape elements);
  void SetOutputFacts(size_t i, ValueFacts facts);

  std::vector<ValueFacts> InferSubgraph(std::string_view attribute, std::span<const ValueFacts> inputs) const;

  std::vector<ValueFacts>& outputs() { return outputs_; }

 private:
  const Node& node_;
  std::span<const ValueFacts* const> inputs_;
  std::vector<ValueFacts> outputs_;
  SubgraphRule subgraph_rule_;
};

}  // namespace ferry
