// Resize by whole factors.
#include "ops/support/nchwc.h"

namespace ferry {

static void ComposeNchwcUpsample(Composer& c) {
  const std::vector<int64_t> factors = c.node().Ints("scales");
  Require(factors.size() == 4 && c.In(0).rank() == 4, "attribute 'scales' must have 4 numbers, has ", factors.size());
  std::vector<float> scales;
  for (int64_t factor : factors) {
    Require(factor > 0 && factor < (1 << 24), "attribute 'scales' has ", factor);
    scales.push_back(static_cast<float>(factor));
  }
  const std::string mode = c.node().String("mode", "nearest"),
                    transformation = c.node().String("coordinate_transformation_mode", "asymmetric");
  Settings settings{{"mode", mode.c_str()}};
  if (mode == "nearest") {
    settings.emplace_back("coordinate_transformation_mode", "asymmetric");
    settings.emplace_back("nearest_mode", "floor");
  } else {
    settings.emplace_back("coordinate_transformation_mode", transformation.c_str());
  }
  c.Out(0, c.Call("Resize", {c.In(0), Term(), c.Constant(Tensor::FromVector(scales))}, settings));
}

FERRY_OPERATOR_IN(nchwc, Upsample, (Composed<ComposeNchwcUpsample>()));
FERRY_COMPOSITION(nchwc, Upsample, ComposeNchwcUpsample);

}  // namespace ferry
