// Operators that are a few others in one: written once, as calls of those, they can be run, inferred, and put into a
// graph in their place, where every pass and kernel for the others serves them too (passes/expand_composed).
//
//   static void ComposeBiasGelu(Composer& c) { c.Out(0, c.Call("Gelu", {c.Call("Add", {c.In(0), c.In(1)})})); }
//   FERRY_OPERATOR_IN(microsoft, BiasGelu, (Composed<ComposeBiasGelu>()));
//   FERRY_COMPOSITION(microsoft, BiasGelu, ComposeBiasGelu);
//
// The last line is for those that are worth it; CMake collects them into one table.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ops/operator.h"

namespace ferry {

// A value of a composition. An omitted input has no name.
struct Term {
  std::string name = {};
  ValueFacts facts = {};  // while running, `constant` is the value

  explicit operator bool() const { return !name.empty(); }
  // Each throws NotKnownYet where it cannot be told before running.
  DType type() const;
  size_t rank() const;
  const SymbolicShape& shape() const;
  int64_t size(int64_t axis) const;  // from the end when negative
  const Tensor& value() const;
};

struct NotKnownYet {};

class Composer {
 public:
  using Terms = std::vector<Term>;
  using Attributes = std::vector<Attribute>;

  Composer(const Node& node, Terms inputs) : node_(node), inputs_(std::move(inputs)), outputs_(node.outputs.size()) {}
  virtual ~Composer() = default;

  const Node& node() const { return node_; }
  size_t input_count() const { return inputs_.size(); }
  const Term& In(size_t i) const;  // an empty one when omitted
  bool Wants(size_t i) const { return node_.HasOutput(i); }
  void Out(size_t i, Term term);

  Term Call(std::string_view op, Terms inputs, Attributes attributes = {});
  Terms CallMany(std::string_view op, Terms inputs, size_t outputs, Attributes attributes = {},
                 std::string_view domain = "");
  Term Constant(Tensor tensor);
  Term Ints(std::vector<int64_t> values) { return Constant(Tensor::FromVector(values)); }
  Term Number(double value, DType type);  // rank 0

  Term Cast(Term term, DType type);
  Term Reshape(Term term, std::vector<int64_t> shape);
  Term Transpose(Term term, std::vector<int64_t> order);
  // float16 and bfloat16 as float; others as they are.
  Term Widen(Term term);
  // [begin, end) of one axis.
  Term Slice(Term term, int64_t axis, int64_t begin, int64_t end);

  // The attributes of the node that these names call, for a call that has the same ones.
  Attributes Keep(std::initializer_list<std::string_view> names) const;

  const Terms& outputs() const { return outputs_; }

 protected:
  virtual Terms Perform(const Node& call, const Terms& inputs) = 0;  // call's names are made already
  virtual Term Hold(Tensor tensor) = 0;
  virtual std::string FreshName() { return Cat("term ", ++made_); }

  const Node& node_;
  Terms inputs_, outputs_;
  size_t made_ = 0;
};

using Compose = void (*)(Composer&);

void RunComposed(Compose compose, OpContext& context);
void InferComposed(Compose compose, InferContext& context);

template <Compose compose>
constexpr Operator Composed() {
  return {.compute = [](OpContext& context) { RunComposed(compose, context); },
          .infer = [](InferContext& context) { InferComposed(compose, context); }};
}

struct Composition {
  std::string_view domain, name;
  Compose compose;
};

#define FERRY_COMPOSITION(DOMAIN, NAME, COMPOSE)          \
  extern const Composition composition_##DOMAIN##_##NAME; \
  const Composition composition_##DOMAIN##_##NAME = {operator_domains::DOMAIN, #NAME, COMPOSE}

// Null when the operator is none, or better run in one.
Compose FindComposition(std::string_view domain, std::string_view name);

extern const Composition* const kCompositionTable[];
extern const size_t kCompositionTableSize;

}  // namespace ferry
