#include "base/shared_library.h"

#include "base/cache_folder.h"
#include "base/directory.h"
#include "gtest/gtest.h"
#include "tests/support/temporary_folder.h"

namespace ferry {
namespace {

TEST(SharedLibrary, FindsFunctionsOfTheFirstThatOpens) {
  const std::string names[] = {"libferry-none.so.1", "libm.so.6"};
  std::string why;
  auto library = SharedLibrary::Open(names, why);
  ASSERT_TRUE(library) << why;
  EXPECT_EQ(library->name(), "libm.so.6");
  auto cosine = reinterpret_cast<double (*)(double)>(library->Find("cos"));
  ASSERT_TRUE(cosine);
  EXPECT_EQ(cosine(0), 1);
  EXPECT_EQ(library->Find("ferry_has_no_such_function"), nullptr);
}

TEST(SharedLibrary, SaysWhyNoneOpens) {
  const std::string names[] = {"libferry-none.so.1", "/nowhere/libferry-none.so.2"};
  std::string why;
  EXPECT_EQ(SharedLibrary::Open(names, why), nullptr);
  EXPECT_NE(why.find("libferry-none.so.1"), std::string::npos) << why;
  EXPECT_NE(why.find("/nowhere/libferry-none.so.2"), std::string::npos) << why;
}

class CacheFolderTest : public ::testing::Test {
 protected:
  void TearDown() override { unsetenv("FERRY_CACHE"); }
  testing::TemporaryFolder folder_;
};

TEST_F(CacheFolderTest, IsMadeWithTheFoldersAboveIt) {
  std::string root = (folder_ / "a/b").string();
  setenv("FERRY_CACHE", root.c_str(), 1);
  EXPECT_EQ(CacheFolder("cuda"), root + "/cuda");
  EXPECT_TRUE(IsDirectory(root + "/cuda"));
}

TEST_F(CacheFolderTest, IsDoneWithoutWhereItCannotBeMade) {
  setenv("FERRY_CACHE", "/dev/null/ferry", 1);
  EXPECT_EQ(CacheFolder("cuda"), "");
}

}  // namespace
}  // namespace ferry
