#include "passes/gradient_builder.h"

namespace ferry {
namespace {

using Context = GradientContext;

void SameElements(Context& c) { c.Give(0, c.ReshapeLike(c.G(), c.In(0))); }

void Transpose(Context& c) {
  std::vector<int64_t> order = c.node().Ints("perm");
  if (order.empty()) return c.Give(0, c.Op("Transpose", {c.G()}));
  std::vector<int64_t> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] < 0 || order[i] >= static_cast<int64_t>(order.size()))
      c.Unsupported("its 'perm' is not a permutation");
    inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  }
  c.Give(0, c.Transpose(c.G(), inverse));
}

void Expand(Context& c) { c.GiveReduced(0, c.G()); }

void Concat(Context& c) {
  int64_t axis = c.node().Int("axis", 0);
  std::vector<std::string> sizes;
  for (const std::string& input : c.node().inputs) sizes.push_back(c.DimOf(input, axis));
  std::string split = sizes.size() == 1 ? sizes[0] : c.Op("Concat", sizes, {{"axis", int64_t{0}}});
  std::vector<std::string> parts = c.OpMany("Split", {c.G(), split}, sizes.size(), {{"axis", axis}});
  for (size_t i = 0; i < parts.size(); ++i) c.Give(i, parts[i]);
}

void Split(Context& c) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < c.node().outputs.size(); ++i) {
    if (c.Out(i).empty()) c.Unsupported("one of its outputs has no name");
    parts.push_back(c.G(i).empty() ? c.FilledLike(c.Out(i), 0) : c.G(i));
  }
  c.Give(0, c.Op("Concat", parts, {{"axis", c.node().Int("axis", 0)}}));
}

// For any operator that picks elements of its first input: run it on the elements' places, counted from 1, and add the
// gradient up there. Place 0 collects what belongs to no element, such as padding.
void Selection(Context& c) {
  std::string size = c.Op("Size", {c.In(0)}), one = c.Constant(Tensor::Scalar<int64_t>(1));
  std::string slots = c.Add(size, one);
  std::string places = c.ReshapeLike(c.Op("Range", {one, slots, one}), c.In(0));
  Node again = c.node();
  again.name = c.FreshName(again.name + "_places");
  again.inputs[0] = places;
  if (again.op_type == "Pad" && again.HasInput(2)) again.inputs[2] = c.Constant(Tensor::Scalar<int64_t>(0));
  again.outputs = {c.FreshName(again.name + "_out")};
  std::string picked = again.outputs[0], flat = c.Ints({-1});
  c.Append(std::move(again));
  std::string empty = c.Op("Expand", {c.Scalar(0, c.G()), c.Op("Reshape", {slots, flat})});
  std::string sums = c.Op("ScatterElements", {empty, c.Op("Reshape", {picked, flat}), c.Op("Reshape", {c.G(), flat})},
                          {{"axis", int64_t{0}}, {"reduction", std::string("add")}});
  std::string kept = c.Op("Slice", {sums, c.Ints({1}), c.Op("Reshape", {slots, flat}), c.Ints({0})});
  c.Give(0, c.ReshapeLike(kept, c.In(0)));
}

void Pad(Context& c) {
  if (c.Needs(2)) c.Unsupported("the value it pads with depends on the variables");
  Selection(c);
}

void GatherElements(Context& c) {
  c.Give(0, c.Op("ScatterElements", {c.FilledLike(c.In(0), 0), c.In(1), c.G()},
                 {{"axis", c.node().Int("axis", 0)}, {"reduction", std::string("add")}}));
}

void ScatterElements(Context& c) {
  std::string reduction = c.node().String("reduction", "none");
  int64_t axis = c.node().Int("axis", 0);
  if (reduction != "none" && reduction != "add") c.Unsupported("only the reductions 'none' and 'add' have one");
  if (c.Needs(2)) c.Give(2, c.Op("GatherElements", {c.G(), c.In(1)}, {{"axis", axis}}));
  if (!c.Needs(0)) return;
  if (reduction == "add") return c.Give(0, c.G());
  c.Give(0, c.Op("ScatterElements", {c.G(), c.In(1), c.FilledLike(c.In(2), 0)}, {{"axis", axis}}));
}

void CumSum(Context& c) {
  c.Give(0, c.Op("CumSum", {c.G(), c.In(1)},
                 {{"exclusive", c.node().Int("exclusive", 0)}, {"reverse", int64_t{c.node().Int("reverse", 0) == 0}}}));
}

}  // namespace

std::span<const GradientRule> ShapeGradients() {
  static constexpr GradientRule kRules[] = {
      {"Reshape", SameElements},
      {"Flatten", SameElements},
      {"Squeeze", SameElements},
      {"Unsqueeze", SameElements},
      {"Transpose", Transpose},
      {"Expand", Expand},
      {"Concat", Concat},
      {"Split", Split},
      {"Slice", Selection},
      {"Gather", Selection},
      {"GatherND", Selection},
      {"GatherElements", GatherElements},
      {"ScatterElements", ScatterElements},
      {"Tile", Selection},
      {"Pad", Pad},
      {"Trilu", Selection},
      {"DepthToSpace", Selection},
      {"SpaceToDepth", Selection},
      {"Compress", Selection},
      {"ReverseSequence", Selection},
      {"CumSum", CumSum},
      {"Shape", nullptr},
      {"Size", nullptr},
      {"ConstantOfShape", nullptr},
      {"NonZero", nullptr},
      {"ArgMax", nullptr},
      {"ArgMin", nullptr},
      {"EyeLike", nullptr},
      {"OneHot", nullptr},
      {"Range", nullptr},
      {"Constant", nullptr},
      {"RandomNormalLike", nullptr},
      {"RandomUniformLike", nullptr},
      {"Bernoulli", nullptr},
      {"Multinomial", nullptr},
  };
  return kRules;
}

}  // namespace ferry
