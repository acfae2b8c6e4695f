#include "base/confined_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/unnamed_file.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ConfinedFileTest : public ::testing::Test {
 protected:
  ConfinedFileTest()
      : folder_(fs::temp_directory_path() /
                ("ferry_confined_" + std::to_string(::testing::UnitTest::GetInstance()->random_seed()) + "_" +
                 ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "room" / "below");
    Put("room/file", "inside");
    Put("room/below/file", "below");
    Put("secret", "outside");
  }
  ~ConfinedFileTest() override { fs::remove_all(folder_); }

  void Put(const std::string& name, std::string_view text) {
    AtomicFile file((folder_ / name).string());
    file.Write(text);
    file.Commit();
  }
  std::string Read(const std::string& location) {
    return std::string(MapConfinedFile((folder_ / "room").string(), location, "the room")->text());
  }
  std::string ReasonAgainst(const std::string& location) {
    try {
      return "none: " + Read(location);
    } catch (const Error& error) {
      return error.message();
    }
  }
  const fs::path folder_;
};

TEST_F(ConfinedFileTest, FindsWhatIsThere) {
  EXPECT_EQ(Read("file"), "inside");
  EXPECT_EQ(Read("./below//file"), "below");
  EXPECT_EQ(Read("below/../file"), "inside");
}

TEST_F(ConfinedFileTest, NeverLeavesTheFolder) {
  fs::create_symlink(folder_ / "secret", folder_ / "room" / "absolute");
  fs::create_symlink("../secret", folder_ / "room" / "relative");
  fs::create_symlink("below/../file", folder_ / "room" / "good");
  for (const char* location : {"../secret", "below/../../secret", "absolute", "relative"})
    EXPECT_THAT(ReasonAgainst(location), HasSubstr("leads out of the room")) << location;
  EXPECT_THAT(ReasonAgainst((folder_ / "secret").string()), HasSubstr("not a path below the room"));
  EXPECT_EQ(Read("good"), "inside");
}

TEST_F(ConfinedFileTest, RefusesWhatIsNoFileOfItsOwn) {
  fs::create_hard_link(folder_ / "secret", folder_ / "room" / "hard");
  EXPECT_THAT(ReasonAgainst("hard"), HasSubstr("2 hard links"));
  EXPECT_THAT(ReasonAgainst("below"), HasSubstr("not a regular file"));
  EXPECT_THAT(ReasonAgainst("below/.."), HasSubstr("is a folder"));
  EXPECT_THAT(ReasonAgainst("."), HasSubstr("is a folder"));
  EXPECT_THAT(ReasonAgainst(""), HasSubstr("not a path"));
  EXPECT_THAT(ReasonAgainst("missing"), HasSubstr("cannot be opened"));
}

TEST(UnnamedFile, KeepsWhatWasWrittenWhileItIsMapped) {
  std::unique_ptr<UnnamedFile> file = UnnamedFile::Make();
  ASSERT_TRUE(file);
  std::vector<std::byte> bytes(100000, std::byte{7});
  file->Write(bytes);
  bytes.assign(50000, std::byte{9});
  file->Write(bytes);
  std::shared_ptr<MappedFile> mapped = file->Map();
  file.reset();
  ASSERT_EQ(mapped->size(), 150000u);
  EXPECT_EQ(mapped->data()[99999], std::byte{7});
  EXPECT_EQ(mapped->data()[100000], std::byte{9});
}

}  // namespace
}  // namespace ferry
