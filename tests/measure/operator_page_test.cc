#include "measure/operator_page.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

namespace ferry {
namespace {

TEST(OperatorPage, IsUpToDate) {
  std::ifstream file("docs/operators.md");
  std::string written{std::istreambuf_iterator<char>(file), {}};
  // Not EXPECT_EQ: two pages side by side help nobody.
  EXPECT_TRUE(written == OperatorPage())
      << "docs/operators.md is old; write it again: ferry operators > docs/operators.md";
}

TEST(OperatorPage, HasAProviderForEveryOperatorOfTheStandard) {
  std::string page = OperatorPage();
  size_t contributed = page.find("## com.microsoft");
  ASSERT_NE(contributed, std::string::npos);
  EXPECT_EQ(page.substr(0, contributed).find("| — |"), std::string::npos);
  EXPECT_NE(page.find("| MatMulNBits | 1 |", contributed), std::string::npos);
}

}  // namespace
}  // namespace ferry
