// Operators that are a few others in one: written once, as calls of those, they can be run, inferred, and put into a
// graph in their place, where every pass and kernel for the others serves them too (passes/expand_composed).
//
//   static void ComposeBiasGelu(Composer& c) { c.Out(0, c.Call("Gelu", {c.Call("Add", {c.In(0), c.In(1)})})); }
//   FERRY_OPERATOR_IN(microsoft, BiasGelu, (Composed<ComposeBiasGelu>()));
//   FERRY_COMPOSITION(microsoft, BiasGelu, ComposeBiasGelu);
//
// The last line is for those that are worth it; CMake collects them into one table.
#pragma once

#include <deque>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "ops/operator.h"

namespace ferry {

struct NotKnownYet {};

// A value of a composition; one without facts stands for an omitted input. Its composer holds what it is: terms are
// small, for compositions are many.
class Term {
 public:
  struct Facts {
    std::string name;
    ValueFacts facts;  // while running, `constant` is the value
  };

  Term() = default;
  explicit Term(const Facts& facts) : facts_(&facts) {}
  explicit operator bool() const { return facts_ != nullptr; }
  const std::string& name() const;
  const ValueFacts& facts() const;
  // Each throws NotKnownYet where it cannot be told before running.
  DType type() const;
  size_t rank() const;
  const SymbolicShape& shape() const;
  int64_t size(int64_t axis) const;  // from the end when negative
  const Tensor& value() const;

 private:
  const Facts* facts_ = nullptr;
};

// An attribute of a call. Lists and texts are the caller's, for as long as the call takes.
struct Setting {
  Setting(const char* setting, int64_t value) : name(setting), number(value), type(AttributeType::kInt) {}
  Setting(const char* setting, float value) : name(setting), real(value), type(AttributeType::kFloat) {}
  Setting(const char* setting, const char* value) : name(setting), text(value), type(AttributeType::kString) {}
  Setting(const char* setting, const std::vector<int64_t>& value)
      : name(setting), numbers(&value), type(AttributeType::kInts) {}
  Setting(const char* setting, const std::vector<std::string>& value)
      : name(setting), texts(&value), type(AttributeType::kStrings) {}
  // The one that the composed node itself has, if it has it.
  explicit Setting(const char* setting) : name(setting) {}

  const char* name;
  int64_t number = 0;
  float real = 0;
  const char* text = nullptr;
  const std::vector<int64_t>* numbers = nullptr;
  const std::vector<std::string>* texts = nullptr;
  AttributeType type = AttributeType::kUndefined;
};
using Settings = std::vector<Setting>;

// A list in braces or a vector.
template <class T>
struct ListOf {
  ListOf() = default;
  ListOf(std::initializer_list<T> list) : data(std::data(list)), size(list.size()) {}
  ListOf(const std::vector<T>& list) : data(list.data()), size(list.size()) {}
  const T* begin() const { return data; }
  const T* end() const { return data + size; }

  const T* data = nullptr;
  size_t size = 0;
};

class Composer {
 public:
  explicit Composer(const Node& node) : node_(node), outputs_(node.outputs.size()) {}
  virtual ~Composer() = default;

  const Node& node() const { return node_; }
  size_t input_count() const { return inputs_.size(); }
  Term In(size_t i) const { return i < inputs_.size() ? inputs_[i] : Term(); }
  bool Wants(size_t i) const { return node_.HasOutput(i); }
  void Out(size_t i, Term term);

  Term Call(std::string_view op, ListOf<Term> inputs, ListOf<Setting> settings = {});
  std::vector<Term> CallMany(std::string_view op, ListOf<Term> inputs, size_t outputs, ListOf<Setting> settings = {});
  Term Constant(Tensor tensor) { return Hold(std::move(tensor)); }
  Term Ints(const std::vector<int64_t>& values);
  Term Int(int64_t value);                // rank 0
  Term Number(double value, DType type);  // rank 0

  Term Cast(Term term, DType type);
  Term Reshape(Term term, const std::vector<int64_t>& shape);
  Term Transpose(Term term, const std::vector<int64_t>& order);
  // Elements [begin, end) of the term's shape.
  Term ShapeOf(Term term, int64_t begin, int64_t end);
  // float16 and bfloat16 as float; others as they are.
  Term Widen(Term term);
  // [begin, end) of one axis.
  Term Slice(Term term, int64_t axis, int64_t begin, int64_t end);

  // The operator that makes a term, where that is known: a composition may be arranged so that the two go together.
  virtual std::string_view MadeBy(Term) const { return {}; }

  // The attributes of the node that these names call, for a call that has the same ones.
  static Settings Keep(std::initializer_list<const char*> names);

  void AddInput(const std::string& name, ValueFacts facts);  // an empty name: omitted
  const std::vector<Term>& outputs() const { return outputs_; }

 protected:
  virtual std::vector<ValueFacts> Perform(const Node& call, ListOf<Term> inputs) = 0;
  virtual Term Hold(Tensor tensor) = 0;
  virtual std::string FreshName() { return Cat("term ", ++made_); }
  Term Make(std::string name, ValueFacts facts);

  const Node& node_;
  std::vector<Term> inputs_, outputs_;
  size_t made_ = 0;

 private:
  std::deque<Term::Facts> held_;
};

// The facts of a call's outputs, as the rules of its operator give them.
std::vector<ValueFacts> InferCall(const Node& call, ListOf<Term> inputs);

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
