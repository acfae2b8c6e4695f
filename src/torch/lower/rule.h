// Lowering rules: one row per ATen signature, in tables by family.
//
//   static Result Relu(Call& c) { return c.b.Emit("Relu", {c.Tensor(0)}); }
//   static constexpr Rule kRules[] = {{"relu(Tensor self)", Relu}};
//   std::span<const Rule> ActivationRules() { return kRules; }
//
// The signature is ATen's own, without its result; several overloads with the same parameters share a row
// ("add.Tensor,Scalar(Tensor self, Any other, *, Scalar alpha=1)", Any being a tensor or a number). In-place forms
// (relu_) and out= forms need no rows: they are made from the functional one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "torch/lower/call.h"

namespace ferry::torch {

enum class RuleKind : uint8_t {
  kPlain,
  kView,        // the result shares its elements with the first argument: writing to it writes there
  kMaybeView,   // it does when the first argument lies contiguous in memory, else it is a copy (reshape)
  kReadOnly,    // it does, but writing to it has no export
  kViewOfEach,  // each result may share its elements with one tensor of the list that is the first argument
  kSelf,        // it is the first argument itself when it could be, else a copy (to)
};

struct Rule {
  std::string_view signature;
  Result (*lower)(Call&);
  RuleKind kind = RuleKind::kPlain;
  bool takes_complex = false;   // else a complex argument is refused
  size_t described = SIZE_MAX;  // of how many results the program's own description is right
};
inline constexpr bool kComplexToo = true;

struct Parameter {
  std::string name;
  std::string type;  // "Tensor", "int[]", "Any" …; '?' is dropped
  bool keyword_only = false;
  bool optional = false;  // the type had a '?'
  bool has_default = false;
  Arg default_value;
};

struct Signature {
  std::string name;                    // "add", "_operator.mul" for others than aten
  std::vector<std::string> overloads;  // {""} for the default one
  std::vector<Parameter> parameters;
  const Rule* rule = nullptr;
};

// All signatures of one operator, by its name without overload; empty when there is no rule.
std::span<const Signature> FindSignatures(std::string_view name);
// "aten.add.Tensor" → its signature; null when there is none.
const Signature* FindSignature(std::string_view target);
// Every name that has a rule: for "did you mean", and for counting.
std::vector<std::string> RuleNames();

}  // namespace ferry::torch
