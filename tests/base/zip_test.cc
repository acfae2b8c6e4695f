#include "base/zip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/run_scope.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/zip_bytes.h"

namespace ferry {
namespace {

using namespace testing;
using ::testing::HasSubstr;

// Opens the archive and reads everything in it.
std::string ErrorOf(const std::string& file, const ZipLimits& limits = {}) {
  try {
    auto archive = ZipArchive::Open(Share(file), limits);
    for (const ZipEntry& entry : archive->entries()) archive->Read(entry);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

std::string Patched(std::string file, size_t at, std::string_view bytes) {
  return file.replace(at, bytes.size(), bytes);
}

TEST(Zip, ReadsStoredAndDeflatedEntries) {
  std::string long_text(10'000, 'x');
  auto archive = ZipArchive::Open(
      Share(MakeZip({{"a", "hello"}, {"d/b", long_text, true}, {"c", "later", false, true}, {"e", "", true, true}})));
  EXPECT_EQ(archive->Read("a").text(), "hello");
  EXPECT_EQ(archive->Read("d/b").text(), long_text);
  EXPECT_EQ(archive->Read("c").text(), "later");
  EXPECT_EQ(archive->Read("e").text(), "");
  EXPECT_EQ(archive->Find("z"), nullptr);
  EXPECT_THROW(archive->Read("z"), Error);
}

TEST(Zip, StoredEntriesAreNotCopied) {
  SharedBytes file = Share(MakeZip({{"a", "hello"}}));
  auto archive = ZipArchive::Open(file);
  EXPECT_EQ(archive->Read("a").bytes.data(), file.bytes.data() + archive->Find("a")->offset);
}

TEST(Zip, RefusesEveryCut) {
  std::string file = MakeZip({{"a", "hello"}, {"b", std::string(300, 'b'), true}, {"c", "x", false, true}});
  ASSERT_EQ(ErrorOf(file), "");
  for (size_t length = 0; length < file.size(); ++length) EXPECT_NE(ErrorOf(file.substr(0, length)), "") << length;
}

TEST(Zip, AnyChangedByteIsRefusedOrHarmless) {
  const std::string contents[] = {"hello", std::string(300, 'b')};
  std::string file = MakeZip({{"a", contents[0]}, {"b", contents[1], true}});
  int refused = 0;
  for (size_t at = 0; at < file.size(); ++at)
    for (char change : {'\x01', '\x80', '\xff'}) {
      SharedBytes changed = Share(Patched(file, at, std::string(1, static_cast<char>(file[at] ^ change))));
      try {
        auto archive = ZipArchive::Open(changed);
        ASSERT_EQ(archive->entries().size(), 2u) << "byte " << at;
        for (size_t i = 0; i < 2; ++i) EXPECT_EQ(archive->Read(archive->entries()[i]).text(), contents[i]) << at;
      } catch (const Error&) {
        ++refused;
      }
    }
  EXPECT_GT(refused, static_cast<int>(file.size())) << "contents, sizes and checksums are most of it";
}

TEST(Zip, RefusesDamagedContents) {
  std::string stored = MakeZip({{"a", "hello"}});
  EXPECT_THAT(ErrorOf(Patched(stored, stored.find("hello"), "j")), HasSubstr("damaged"));
  std::string packed = MakeZip({{"a", std::string(300, 'b'), true}});
  EXPECT_THAT(ErrorOf(Patched(packed, 31, "\xff\xff\xff")), HasSubstr("damaged"));
}

TEST(Zip, DeferredCheckIsMadeWhenAsked) {
  std::string file = MakeZip({{"a", "hello"}});
  auto archive = ZipArchive::Open(Share(Patched(file, file.find("hello"), "j")));
  EXPECT_EQ(archive->Read("a", ZipCheck::kDeferred).text(), "jello");
  EXPECT_THROW(archive->Verify(*archive->Find("a")), Error);
}

TEST(Zip, RefusesNamesThatClimbOut) {
  for (std::string name : {"../a", "a/../../b", "..", "/etc/passwd", "\\a", "C:\\a", "a\\..\\b", "d/.."})
    EXPECT_NE(ErrorOf(MakeZip({{name, "x"}})), "") << name;
  EXPECT_NE(ErrorOf(MakeZip({{std::string("a\0b", 3), "x"}})), "");
  EXPECT_NE(ErrorOf(MakeZip({{"", "x"}})), "");
  EXPECT_EQ(ErrorOf(MakeZip({{"a..b/...", "x"}})), "");
}

TEST(Zip, RefusesTwoEntriesOfOneName) {
  EXPECT_THAT(ErrorOf(MakeZip({{"a", "x"}, {"a", "y"}})), HasSubstr("two entries are named 'a'"));
}

TEST(Zip, RefusesOverlappingEntries) {
  std::string file = MakeZip({{"a", "hello"}, {"a", "world"}});
  // The second directory record points at the first entry.
  size_t second = file.rfind("PK\x01\x02");
  std::string same = Patched(file, second + 42, std::string(4, '\0'));
  same = Patched(same, second + 16, file.substr(file.find("PK\x01\x02") + 16, 4));
  EXPECT_THAT(ErrorOf(same), HasSubstr("overlaps"));
}

TEST(Zip, RefusesSizesThatLie) {
  std::string file = MakeZip({{"a", "hello"}});
  size_t record = file.find("PK\x01\x02");
  for (std::string_view size : {"\x04", "\xff"}) EXPECT_NE(ErrorOf(Patched(file, record + 20, size)), "");
  std::string both = Patched(Patched(file, record + 20, "\x7f"), record + 24, "\x7f");
  EXPECT_NE(ErrorOf(Patched(Patched(both, 18, "\x7f"), 22, "\x7f")), "");
  std::string packed = MakeZip({{"a", std::string(300, 'b'), true, true}});
  EXPECT_THAT(ErrorOf(Patched(packed, packed.find("PK\x01\x02") + 24, "\x01")), HasSubstr("damaged"));
  EXPECT_THAT(ErrorOf(Patched(packed, packed.find("PK\x01\x02") + 27, "\x7f")),
              HasSubstr("further than compression can"));
}

TEST(Zip, RefusesBombs) {
  std::string file = MakeZip({{"a", std::string(1'000'000, '\0'), true}, {"b", std::string(1'000'000, '\0'), true}});
  EXPECT_LT(file.size(), 4000u);
  EXPECT_THAT(ErrorOf(file, {.inflated_entry = 999'999}), HasSubstr("more than the limit"));
  EXPECT_THAT(ErrorOf(file, {.inflated_archive = 1'999'999}), HasSubstr("more than the limit"));
  EXPECT_EQ(ErrorOf(file), "");
  Limits limits;
  limits.inflated_bytes = 1'999'999;
  RunScope scope("reading", limits);
  EXPECT_THAT(ErrorOf(file), HasSubstr("--max-inflated"));
}

// The sizes that all entries state are added up before the first of them is unfolded.
TEST(Zip, RefusesManySmallBombsAtOnce) {
  std::vector<ZipPart> parts(5, {"", std::string(1000, '\0'), true});
  for (size_t i = 0; i < parts.size(); ++i) parts[i].name = std::to_string(i);
  auto archive = ZipArchive::Open(Share(MakeZip(parts)), {.inflated_archive = 4999});
  try {
    archive->Read("0");
    ADD_FAILURE() << "it was unfolded";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("would unfold to 5000 bytes, more than the limit of 4999"));
  }
}

TEST(Zip, RefusesEncryptedEntries) {
  std::string file = MakeZip({{"a", "hello"}});
  EXPECT_THAT(ErrorOf(Patched(file, file.find("PK\x01\x02") + 8, "\x01")), HasSubstr("encrypted"));
}

class ZipWriterTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  std::string path_ = (folder_ / "written.zip").string();
};

TEST_F(ZipWriterTest, WritesAlignedEntriesThatAreReadBack) {
  {
    ZipWriter writer(path_);
    writer.Add("a", "hello");
    writer.Add("folder/b", std::string(1000, 'b'));
    writer.Add("empty", "");
    std::string head = "two ", tail = "pieces";
    std::vector<std::span<const std::byte>> pieces = {
        std::as_bytes(std::span<const char>(head)), {}, std::as_bytes(std::span<const char>(tail))};
    writer.Add("c", pieces);
    writer.Finish();
  }
  auto archive = ZipArchive::Open(path_);
  EXPECT_EQ(archive->Read("a").text(), "hello");
  EXPECT_EQ(archive->Read("folder/b").text(), std::string(1000, 'b'));
  EXPECT_EQ(archive->Read("c").text(), "two pieces");
  for (const ZipEntry& entry : archive->entries()) EXPECT_EQ(entry.offset % 64, 0u) << entry.name;
}

TEST_F(ZipWriterTest, WritesManyEntriesAsZip64) {
  {
    ZipWriter writer(path_);
    for (int i = 0; i < 70'000; ++i) writer.Add(Cat("entry", i), "");
    writer.Finish();
  }
  auto archive = ZipArchive::Open(path_);
  EXPECT_EQ(archive->entries().size(), 70'000u);
  EXPECT_NE(archive->Find("entry69999"), nullptr);
}

TEST_F(ZipWriterTest, LeavesNothingBehindWhenNotFinished) {
  { ZipWriter(path_).Add("a", "hello"); }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  EXPECT_THROW(ZipWriter("/nowhere/at/all.zip"), Error);
}

}  // namespace
}  // namespace ferry
