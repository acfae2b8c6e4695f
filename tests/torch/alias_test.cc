// Tensors that share their elements with others: what is written to one is seen through all, or refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/torch/script_run.h"

namespace ferry::torch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Aliases, WhatAnOperatorGivesBackAsItIs) {
  for (const char* same : {"torch.dropout(a, 0.5, False)", "torch.feature_dropout(a, 0.5, False)",
                           "torch.alpha_dropout(a, 0.5, False)", "torch.type_as(a, x)", "torch.as_tensor(a)"}) {
    std::string body =
        std::string("    a = torch.mul(x, 2)\n    b = ") + same + "\n    _0 = torch.add_(b, 1)\n    return a\n";
    EXPECT_THAT(RunBody(body, {1, 2}), ElementsAre(3, 5)) << same;
  }
  EXPECT_THAT(
      RunBody("    a = torch.mul(x, 2)\n    b = torch.tensor(a)\n    _0 = torch.add_(b, 1)\n    return a\n", {1, 2}),
      ElementsAre(2, 4));
}

TEST(Aliases, WhatMayBeAView) {
  for (const char* view : {"torch.meshgrid([a, x])", "torch.broadcast_tensors([a, x])", "torch.atleast_1d([a, x])"}) {
    std::string body =
        std::string("    a = torch.mul(x, 2)\n    b, c, = ") + view + "\n    _0 = torch.add_(b, 1)\n    return ";
    EXPECT_THAT(RefusalOf(body + "a\n"), HasSubstr("may share its elements")) << view;
    EXPECT_EQ(RefusalOf(body + "b\n"), "") << view;
  }
}

}  // namespace
}  // namespace ferry::torch
