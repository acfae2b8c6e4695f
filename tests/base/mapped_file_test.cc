#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/atomic_file.h"
#include "base/error.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

class MappedFileTest : public ::testing::Test {
 protected:
  MappedFileTest() {
    std::string pattern = (fs::temp_directory_path() / "ferry-test-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~MappedFileTest() override { fs::remove_all(folder_); }

  static ErrorCode CodeOf(const fs::path& path) {
    try {
      MappedFile::Open(path.string());
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kInternal;
  }

  fs::path folder_;
};

TEST_F(MappedFileTest, ShowsTheBytesOfTheFile) {
  std::ofstream(folder_ / "f") << "hello";
  auto file = MappedFile::Open((folder_ / "f").string());
  EXPECT_EQ(file->text(), "hello");
  EXPECT_TRUE(file->Contains(file->data() + 4));
  EXPECT_FALSE(file->Contains(file->data() + 5));
  fs::remove(folder_ / "f");
  EXPECT_EQ(file->text(), "hello") << "a file that is deleted meanwhile stays readable";
}

TEST_F(MappedFileTest, AnEmptyFileIsFine) {
  std::ofstream(folder_ / "f");
  auto file = MappedFile::Open((folder_ / "f").string());
  EXPECT_EQ(file->size(), 0u);
  EXPECT_FALSE(file->Contains(nullptr));
}

TEST_F(MappedFileTest, RefusesWhatIsNoRegularFile) {
  EXPECT_EQ(CodeOf(folder_ / "missing"), ErrorCode::kNotFound);
  EXPECT_EQ(CodeOf(folder_ / "missing/f"), ErrorCode::kNotFound);
  EXPECT_EQ(CodeOf(folder_), ErrorCode::kIo);
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(CodeOf(folder_ / "pipe"), ErrorCode::kIo) << "and it does not wait for a writer";
  EXPECT_EQ(CodeOf("/dev/zero"), ErrorCode::kIo);
}

TEST_F(MappedFileTest, DroppedPagesComeBackFromTheFile) {
  std::string text(100'000, 'x');
  text[50'000] = 'y';
  std::ofstream(folder_ / "f") << text;
  auto file = MappedFile::Open((folder_ / "f").string());
  EXPECT_EQ(file->text(), text);
  DropPages(file->data(), file->size());
  EXPECT_EQ(file->text(), text);
}

TEST_F(MappedFileTest, AtomicFilesAppearWhenTheyAreComplete) {
  fs::path path = folder_ / "f";
  std::ofstream(path) << "old";
  {
    AtomicFile abandoned(path.string());
    abandoned.Write("half");
  }
  EXPECT_EQ(MappedFile::Open(path.string())->text(), "old");
  AtomicFile file(path.string());
  file.Write("new");
  file.Finish();
  EXPECT_EQ(MappedFile::Open(path.string())->text(), "old");
  file.Commit();
  EXPECT_EQ(MappedFile::Open(path.string())->text(), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace ferry
