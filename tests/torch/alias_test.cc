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

// `y` is x's double `a` itself after one of the branches.
const char kMerged[] =
    "    a = torch.mul(x, 2)\n"
    "    if bool(torch.gt(torch.sum(x), 0)):\n"
    "      y = a\n"
    "    else:\n"
    "      y = torch.neg(a)\n";

TEST(Aliases, ThroughBranches) {
  std::string written = std::string(kMerged) + "    _0 = torch.add_(y, 1)\n";
  EXPECT_THAT(RefusalOf(written + "    return a\n"), HasSubstr("may share its elements"));
  EXPECT_THAT(RunBody(written + "    return y\n", {1, 2}), ElementsAre(3, 5));
  EXPECT_THAT(RunBody(written + "    return y\n", {-1, -2}), ElementsAre(3, 5));
  std::string other = std::string(kMerged) + "    _0 = torch.add_(a, 1)\n";
  EXPECT_THAT(RefusalOf(other + "    return y\n"), HasSubstr("may share its elements"));
  EXPECT_THAT(RunBody(other + "    return a\n", {1, 2}), ElementsAre(3, 5));
  EXPECT_THAT(RunBody(std::string(kMerged) + "    return torch.add(y, a)\n", {1, 2}), ElementsAre(4, 8));
}

TEST(Aliases, OfViewsThroughBranches) {
  std::string body =
      "    a = torch.mul(x, 2)\n"
      "    if bool(torch.gt(torch.sum(x), 0)):\n"
      "      y = torch.slice(a, 0, 1, 9, 1)\n"
      "    else:\n"
      "      y = torch.neg(x)\n"
      "    _0 = torch.zero_(y)\n"
      "    return ";
  EXPECT_THAT(RefusalOf(body + "a\n"), HasSubstr("may share its elements"));
  EXPECT_THAT(RunBody(body + "y\n", {1, 2}), ElementsAre(0));
}

TEST(Aliases, OfEachOtherThroughBranches) {
  std::string body =
      "    if bool(torch.gt(torch.sum(x), 0)):\n"
      "      y = torch.mul(x, 2)\n"
      "      z = y\n"
      "    else:\n"
      "      y = torch.neg(x)\n"
      "      z = torch.mul(x, 3)\n"
      "    _0 = torch.zero_(y)\n"
      "    return ";
  EXPECT_THAT(RefusalOf(body + "z\n"), HasSubstr("may share its elements"));
  EXPECT_THAT(RunBody(body + "y\n", {1, 2}), ElementsAre(0, 0));
}

TEST(Aliases, WrittenInABranch) {
  std::string body =
      "    a = torch.mul(x, 2)\n"
      "    if bool(torch.gt(torch.sum(x), 0)):\n"
      "      y = torch.add_(a, 1)\n"
      "    else:\n"
      "      y = torch.neg(a)\n"
      "    return torch.add(y, a)\n";
  EXPECT_THAT(RunBody(body, {1, 2}), ElementsAre(6, 10));
  EXPECT_THAT(RunBody(body, {-1, -2}), ElementsAre(0, 0));
}

std::string Loop(const std::string& body) {
  return "    a = torch.mul(x, 2)\n    y = a\n    for i in range(torch.size(x, 0)):\n" + body;
}

TEST(Aliases, ThroughLoops) {
  // What the first round writes to is a.
  std::string inside = Loop("      _0 = torch.add_(y, 1)\n      y = torch.mul(y, 2)\n");
  EXPECT_THAT(RefusalOf(inside + "    return a\n"), HasSubstr("may share its elements"));
  EXPECT_THAT(RunBody(inside + "    return y\n", {1, 2}), ElementsAre(14, 22));
  std::string after = Loop("      y = torch.mul(y, 2)\n") + "    _0 = torch.add_(y, 1)\n";
  EXPECT_THAT(RefusalOf(after + "    return a\n"), HasSubstr("may share its elements"));
  EXPECT_THAT(RunBody(after + "    return y\n", {1, 2}), ElementsAre(9, 17));
  std::string taken = Loop("      y = x\n") + "    _0 = torch.add_(y, 1)\n    return x\n";
  EXPECT_THAT(RefusalOf(taken), HasSubstr("may share its elements"));
  EXPECT_THAT(RunBody(Loop("      y = torch.add(y, a)\n") + "    return torch.add(y, a)\n", {1, 2}),
              ElementsAre(8, 16));
}

TEST(Aliases, OfEachOtherThroughLoops) {
  std::string body = Loop("      z = torch.mul(y, 2)\n      y = z\n      w = z\n");
  std::string written = "    w = x\n" + body + "    _0 = torch.zero_(w)\n    return ";
  EXPECT_THAT(RefusalOf(written + "y\n"), HasSubstr("may share its elements"));
  EXPECT_THAT(RunBody(written + "w\n", {1, 2}), ElementsAre(0, 0));
}

TEST(Aliases, OfListsThatGrow) {
  std::string begin = "    l = annotate(List[Tensor], [])\n";
  auto grows = [&](const std::string& round, const std::string& after) {
    return begin + Loop(round) + after + "    return torch.sum(torch.stack(l), [0])\n";
  };
  auto refused = [&](const std::string& round, const std::string& after) {
    EXPECT_THAT(RefusalOf(grows(round, after)), HasSubstr("may share its elements")) << round << after;
  };
  std::string append = "      _1 = torch.append(l, a)\n";
  EXPECT_THAT(RunBody(grows(append, ""), {1, 2}), ElementsAre(4, 8));
  refused(append, "    _2 = torch.add_(a, 1)\n");
  refused(append + "      _2 = torch.add_(a, 1)\n", "");
  refused("      _2 = torch.add_(a, 1)\n" + append, "");
  refused(append, "    _2 = torch.add_(l[0], 1)\n");
  std::string own = "      t = torch.mul(a, i)\n      _1 = torch.append(l, t)\n";
  EXPECT_THAT(RunBody(grows(own, ""), {1, 2}), ElementsAre(2, 4));
  EXPECT_THAT(RunBody(grows(own + "      _2 = torch.add_(t, 1)\n", ""), {1, 2}), ElementsAre(4, 6));
  std::string last = "      y = torch.mul(a, i)\n      _1 = torch.append(l, y)\n";
  refused(last, "    _2 = torch.add_(y, 1)\n");
  EXPECT_THAT(RunBody(grows(last, "    _2 = torch.add_(a, 1)\n"), {1, 2}), ElementsAre(2, 4));
}

TEST(Aliases, OfListsOfOpenLength) {
  std::string begin = "    a = torch.mul(torch.reshape(x, [-1, 1]), 2)\n    l = torch.unbind(a)\n";
  EXPECT_THAT(RefusalOf(begin + "    _0 = torch.add_(l[0], 1)\n    return a\n"), HasSubstr("may share its elements"));
  EXPECT_THAT(RefusalOf(begin + "    _0 = torch.add_(a, 1)\n    return l[0]\n"), HasSubstr("may share its elements"));
  EXPECT_THAT(RunBody(begin + "    return torch.add(l[0], a)\n", {1, 2}), ElementsAre(4, 6));
}

}  // namespace
}  // namespace ferry::torch
