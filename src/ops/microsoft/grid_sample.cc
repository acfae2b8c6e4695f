// GridSample with the names that its modes had before opset 20.
#include "ops/support/compose.h"

namespace ferry {

static void ComposeGridSample(Composer& c) {
  std::string mode = c.node().String("mode", "bilinear");
  Composer::Attributes attributes = c.Keep({"align_corners", "padding_mode"});
  attributes.emplace_back("mode", mode == "bilinear" ? "linear" : mode == "bicubic" ? "cubic" : mode);
  c.Out(0, c.Call("GridSample", {c.In(0), c.In(1)}, std::move(attributes)));
}

FERRY_OPERATOR_IN(microsoft, GridSample, (Composed<ComposeGridSample>()));
FERRY_COMPOSITION(microsoft, GridSample, ComposeGridSample);

}  // namespace ferry
