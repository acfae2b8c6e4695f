// The tables of downgrade rules, one per family of operators, and what they are made of.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "onnx/node_rewrite.h"

namespace ferry {

// Applies when the target is older than `since`: undoes what that version of the operator brought. Rules of one
// operator stand from new to old. What they add is written in the newest form and goes through the rules itself.
struct DowngradeRule {
  std::string_view op;
  int64_t since;
  void (*apply)(NodeRewrite&);
};

std::span<const DowngradeRule> ActivationDowngrades();
std::span<const DowngradeRule> ArithmeticDowngrades();
std::span<const DowngradeRule> NormalizationDowngrades();
std::span<const DowngradeRule> ReductionDowngrades();
std::span<const DowngradeRule> ResizeDowngrades();
std::span<const DowngradeRule> ShapeDowngrades();
std::span<const DowngradeRule> VariousDowngrades();

template <class... Parts>
[[noreturn]] void Refuse(const Parts&... parts) {
  Fail(ErrorCode::kUnsupported, parts...);
}

// The elements of an input that must be a constant; empty when the input is left out.
std::optional<std::vector<int64_t>> ConstantInts(const NodeRewrite& r, size_t i, std::string_view name);
// Moves a constant input of integers into an attribute, and it and all behind it out of the inputs.
void InputToInts(NodeRewrite& r, size_t i, std::string_view attribute);
// The rank of a value, which the older form needs to know.
size_t RankOf(const NodeRewrite& r, const std::string& value);
// Removes an attribute whose value says what the older form always does; refuses any other value.
void DropInt(NodeRewrite& r, std::string_view attribute, int64_t meaning_nothing);
void DropString(NodeRewrite& r, std::string_view attribute, std::string_view meaning_nothing);
// Puts the node that gives the output of the one being replaced in its place.
void ReplaceBy(NodeRewrite& r, std::string_view op, std::vector<std::string> inputs,
               std::vector<Attribute> attributes = {});
void TrimInputs(Node& node);  // trailing inputs that are left out
Attribute CastTo(DType type);

}  // namespace ferry
