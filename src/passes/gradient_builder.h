// What the rules of differentiation are written with: operators as functions from names to names.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/model.h"
#include "graph/names.h"
#include "ops/infer_graph.h"

namespace ferry {

class GradientBuilder {
 public:
  GradientBuilder(NameMaker& names, const GraphFacts& facts, std::vector<Node>& nodes)
      : names_(names), facts_(facts), nodes_(nodes) {}

  // Adds a node and returns the name of its result.
  std::string Op(std::string_view op, std::vector<std::string> inputs, std::vector<Attribute> attributes = {});
  std::vector<std::string> OpMany(std::string_view op, std::vector<std::string> inputs, size_t outputs,
                                  std::vector<Attribute> attributes = {});
  void Append(Node node) { nodes_.push_back(std::move(node)); }
  std::string FreshName(std::string_view wish) { return names_.Make(wish); }

  std::string Add(const std::string& a, const std::string& b) { return Op("Add", {a, b}); }
  std::string Sub(const std::string& a, const std::string& b) { return Op("Sub", {a, b}); }
  std::string Mul(const std::string& a, const std::string& b) { return Op("Mul", {a, b}); }
  std::string Div(const std::string& a, const std::string& b) { return Op("Div", {a, b}); }
  std::string Neg(const std::string& a) { return Op("Neg", {a}); }
  std::string Where(const std::string& condition, const std::string& a, const std::string& b) {
    return Op("Where", {condition, a, b});
  }

  std::string Constant(Tensor value);
  std::string Ints(const std::vector<int64_t>& values);       // rank 1
  std::string Scalar(double value, const std::string& like);  // of the element type of `like`
  std::string CastLike(const std::string& a, const std::string& like) { return Op("CastLike", {a, like}); }
  std::string ShapeOf(const std::string& a) { return Op("Shape", {a}); }
  std::string DimOf(const std::string& a, int64_t axis);       // rank 1, one element
  std::string FilledLike(const std::string& a, double value);  // the type and shape of `a`
  std::string ReshapeLike(const std::string& a, const std::string& like) { return Reshape(a, ShapeOf(like)); }
  std::string Reshape(const std::string& a, const std::string& shape);
  std::string Transpose(const std::string& a, const std::vector<int64_t>& order);
  std::string Sum(const std::string& a, const std::vector<int64_t>& axes, bool keep);

  // Cuts or pads with zeros at the end of each axis until `a` has the shape of `like`.
  std::string FitTo(const std::string& a, const std::string& like);

  // Sums a gradient that has the shape of `value` over the axes along which `target` was stretched to that shape.
  std::string ReduceLike(const std::string& gradient, const std::string& value, const std::string& target);

  // What inference knows of a value of the original graph.
  std::optional<size_t> Rank(const std::string& name) const;
  std::optional<DType> TypeOf(const std::string& name) const;
  const Tensor* ConstantOf(const std::string& name) const;

 private:
  bool SurelySameShape(const std::string& a, const std::string& b) const;

  NameMaker& names_;
  const GraphFacts& facts_;
  std::vector<Node>& nodes_;
};

// One node on the way back from the result: the gradients of its outputs are known, those of its inputs are wanted.
class GradientContext : public GradientBuilder {
 public:
  GradientContext(const GradientBuilder& builder, Node& node, std::vector<std::string> output_gradients,
                  std::vector<bool> needed)
      : GradientBuilder(builder),
        node_(node),
        output_gradients_(std::move(output_gradients)),
        needed_(std::move(needed)),
        input_gradients_(node.inputs.size()) {}

  const Node& node() const { return node_; }
  Node& mutable_node() { return node_; }  // to ask for an optional output
  const std::string& In(size_t i) const { return node_.inputs[i]; }
  const std::string& Out(size_t i = 0) const { return node_.outputs[i]; }
  // The gradient of an output; empty when the result does not depend on it.
  const std::string& G(size_t i = 0) const { return output_gradients_[i]; }
  bool Needs(size_t i) const { return i < needed_.size() && needed_[i]; }
  void Give(size_t input, std::string gradient) {
    if (Needs(input)) input_gradients_[input] = std::move(gradient);
  }
  // For elementwise operators: also undoes broadcasting.
  void GiveReduced(size_t input, const std::string& gradient) {
    if (Needs(input)) input_gradients_[input] = ReduceLike(gradient, Out(), In(input));
  }
  const std::vector<std::string>& input_gradients() const { return input_gradients_; }

  [[noreturn]] void Unsupported(std::string_view why) const;
  size_t RankOf(size_t input) const;  // refuses when inference does not know it

 private:
  Node& node_;
  std::vector<std::string> output_gradients_;
  std::vector<bool> needed_;
  std::vector<std::string> input_gradients_;
};

struct GradientRule {
  std::string_view op;
  void (*apply)(GradientContext&);  // null: the result does not change with the inputs, or only in steps
};

std::span<const GradientRule> ElementwiseGradients();
std::span<const GradientRule> ShapeGradients();
std::span<const GradientRule> ReductionGradients();
std::span<const GradientRule> LinearGradients();
std::span<const GradientRule> NetworkGradients();

}  // namespace ferry
