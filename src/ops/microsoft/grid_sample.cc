// GridSample with the names that its modes had before opset 20. Between pixels of a cubic the border is repeated, as
// ONNX Runtime and PyTorch have it, while the standard moves points outside onto the border first.
#include "ops/support/compose.h"

namespace ferry {

// An image with its border repeated and a grid that stays inside it: farther out than two pixels nothing changes.
static void RepeatBorder(Composer& c, Term& x, Term& grid) {
  Require(x.rank() == 4 && grid.rank() == 4, "X and Grid must have 4 axes, have ", x.rank(), " and ", grid.rank());
  constexpr int64_t kEdge = 4;
  bool aligns = c.node().Int("align_corners", 0) != 0;
  DType type = grid.type();
  std::vector<float> scale, shift, last, back, from;
  for (int64_t axis : {3, 2}) {
    auto size = static_cast<float>(x.size(axis)), wide = size + 2 * kEdge;
    // A coordinate g lies at pixel g · scale + shift, and p of the larger image is its coordinate p · back + from.
    scale.push_back(aligns ? (size - 1) / 2 : size / 2);
    shift.push_back((size - 1) / 2);
    last.push_back(size + 1);
    back.push_back(aligns ? 2 / (wide - 1) : 2 / wide);
    from.push_back(aligns ? 2 * kEdge / (wide - 1) - 1 : (2 * kEdge + 1) / wide - 1);
  }
  auto pair = [&](const std::vector<float>& values) { return c.Cast(c.Constant(Tensor::FromVector(values)), type); };
  Term pixel = c.Call("Add", {c.Call("Mul", {grid, pair(scale)}), pair(shift)});
  pixel = c.Call("Max", {c.Call("Min", {pixel, pair(last)}), c.Number(-2, type)});
  grid = c.Call("Add", {c.Call("Mul", {pixel, pair(back)}), pair(from)});
  x = c.Call("Pad", {x, c.Ints({0, 0, kEdge, kEdge, 0, 0, kEdge, kEdge})}, {{"mode", "edge"}});
}

static void ComposeGridSample(Composer& c) {
  std::string mode = c.node().String("mode", "bilinear");
  Term x = c.In(0), grid = c.In(1);
  if (mode == "bicubic" && c.node().String("padding_mode", "zeros") == "border") RepeatBorder(c, x, grid);
  Settings attributes = c.Keep({"align_corners", "padding_mode"});
  attributes.emplace_back("mode", mode == "bilinear" ? "linear" : mode == "bicubic" ? "cubic" : mode.c_str());
  c.Out(0, c.Call("GridSample", {x, grid}, attributes));
}

FERRY_OPERATOR_IN(microsoft, GridSample, (Composed<ComposeGridSample>()));
FERRY_COMPOSITION(microsoft, GridSample, ComposeGridSample);

}  // namespace ferry
