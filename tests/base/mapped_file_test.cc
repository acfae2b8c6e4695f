#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "tests/support/temporary_folder.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

class MappedFileTest : public ::testing::Test {
 protected:
  static ErrorCode CodeOf(const fs::path& path) {
    try {
      MappedFile::Open(path.string());
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kInternal;
  }

  testing::TemporaryFolder folder_;
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

TEST_F(MappedFileTest, ASmallFileMayBeCutOffMeanwhile) {
  std::ofstream(folder_ / "f") << std::string(60'000, 'x');
  auto file = MappedFile::Open((folder_ / "f").string());
  fs::resize_file(folder_ / "f", 0);
  EXPECT_EQ(file->text(), std::string(60'000, 'x'));
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
  EXPECT_EQ(CodeOf(folder_.path()), ErrorCode::kIo);
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

// Megabytes of this process that are pages of files.
int64_t MappedMegabytes() {
  std::ifstream status("/proc/self/status");
  int64_t kilobytes = 0;
  for (std::string word; status >> word;)
    if (int64_t found = 0; (word == "RssFile:" || word == "RssShmem:") && status >> found) kilobytes += found;
  return kilobytes / 1024;
}

TEST_F(MappedFileTest, WhatIsReadOnceDoesNotStayInMemory) {
  constexpr size_t kSize = (size_t{48} << 20) + 123;
  std::ofstream(folder_ / "f").put('x');
  fs::resize_file(folder_ / "f", kSize);
  auto file = MappedFile::Open((folder_ / "f").string());
  int64_t before = MappedMegabytes(), most = 0;
  size_t bytes = 0, letters = 0;
  ReadOnce(file->bytes(), [&](std::span<const std::byte> piece) {
    bytes += piece.size();
    for (std::byte byte : piece) letters += byte == std::byte{'x'};
    most = std::max(most, MappedMegabytes() - before);
  });
  EXPECT_EQ(bytes, kSize);
  EXPECT_EQ(letters, 1u);
  EXPECT_LT(most, 12);
}

}  // namespace
}  // namespace ferry
