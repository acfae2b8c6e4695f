// Into blocks of channels and out of them: the last block is filled up with zeros, and what was filled up is cut off.
#include "ops/support/nchwc.h"

namespace ferry {

static void ComposeReorderInput(Composer& c) {
  Term x = c.In(0);
  Require(x.rank() == 4, "X must have 4 axes, has ", x.rank());
  if (c.node().Int("channels_last", 0) != 0) x = c.Transpose(x, {0, 3, 1, 2});
  const int64_t block = NchwcBlock(), missing = (block - x.size(1) % block) % block;
  c.Out(0, missing == 0 ? x : c.Call("Pad", {x, c.Ints({0, 0, 0, 0, 0, missing, 0, 0})}));
}

static void ComposeReorderOutput(Composer& c) {
  Term x = c.In(0);
  const int64_t channels = c.node().Int("channels", 0);
  Require(x.rank() == 4 && channels > 0, "attribute 'channels' must be positive, is ", channels);
  Require(channels <= x.size(1), "there are ", x.size(1), " channels, ", channels, " are wanted");
  if (channels != x.size(1)) x = c.Slice(x, 1, 0, channels);
  c.Out(0, c.node().Int("channels_last", 0) != 0 ? c.Transpose(x, {0, 2, 3, 1}) : x);
}

FERRY_OPERATOR_IN(nchwc, ReorderInput, (Composed<ComposeReorderInput>()));
FERRY_COMPOSITION(nchwc, ReorderInput, ComposeReorderInput);
FERRY_OPERATOR_IN(nchwc, ReorderOutput, (Composed<ComposeReorderOutput>()));
FERRY_COMPOSITION(nchwc, ReorderOutput, ComposeReorderOutput);

}  // namespace ferry
