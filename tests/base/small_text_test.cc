#include "base/small_text.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>

namespace ferry {
namespace {

std::string Written(const std::string& text) {
  const std::string path = testing::TempDir() + "small_text";
  FILE* file = std::fopen(path.c_str(), "wb");
  std::fwrite(text.data(), 1, text.size(), file);
  std::fclose(file);
  return path;
}

TEST(SmallText, IsReadUpToItsBound) {
  const std::string path = Written("first\nsecond");
  EXPECT_EQ(ReadSmallText(path), "first\nsecond");
  EXPECT_EQ(ReadSmallText(path, 7), "first\ns");
  EXPECT_EQ(FirstLineOf(path), "first");
  EXPECT_EQ(FirstLineOf(Written("one line")), "one line");
  EXPECT_EQ(FirstLineOf(Written("")), "");
}

TEST(SmallText, IsEmptyWhereNothingCanBeRead) {
  EXPECT_EQ(ReadSmallText("/no/such/file"), "");
  EXPECT_EQ(ReadSmallText(testing::TempDir()), "");
  // A pipe that nobody writes to would hold a reader for ever.
  const std::string pipe = testing::TempDir() + "small_text_pipe";
  std::remove(pipe.c_str());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(ReadSmallText(pipe), "");
  std::remove(pipe.c_str());
}

TEST(SmallText, HasValuesByKey) {
  const std::string text = "VmPeak:\t 12 kB\nmodel name\t: A B\r\nempty:\nlast: 3";
  EXPECT_EQ(ValueOf(text, "VmPeak:"), "12 kB");
  EXPECT_EQ(ValueOf(text, "model name"), "A B");
  EXPECT_EQ(ValueOf(text, "empty:"), "");
  EXPECT_EQ(ValueOf(text, "last:"), "3");
  EXPECT_EQ(ValueOf(text, "12"), "");
  EXPECT_EQ(ValueOf("", "last:"), "");
}

}  // namespace
}  // namespace ferry
