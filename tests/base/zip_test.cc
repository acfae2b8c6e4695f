#include "base/zip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace ferry {
namespace {

using testing::HasSubstr;

struct Part {
  std::string name;
  std::string contents;
  bool deflated = false;
  bool descriptor = false;
};

void Put(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(i < 8 ? value >> (8 * i) : 0));
}

std::string Deflate(const std::string& text) {
  std::string out(compressBound(text.size()) + 64, '\0');
  z_stream stream = {};
  deflateInit2(&stream, 9, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// Archives as other programs write them, which ZipWriter does not: deflated, with descriptors.
std::string MakeZip(const std::vector<Part>& parts) {
  std::string out, directory;
  for (const Part& part : parts) {
    std::string packed = part.deflated ? Deflate(part.contents) : part.contents;
    uint64_t crc =
        crc32(0, reinterpret_cast<const Bytef*>(part.contents.data()), static_cast<uInt>(part.contents.size()));
    auto common = [&](std::string& to, bool facts) {
      Put(to, 20, 2);
      Put(to, part.descriptor ? 8 : 0, 2);
      Put(to, part.deflated ? 8 : 0, 2);
      Put(to, 0, 4);
      Put(to, facts ? crc : 0, 4);
      Put(to, facts ? packed.size() : 0, 4);
      Put(to, facts ? part.contents.size() : 0, 4);
      Put(to, part.name.size(), 2);
      Put(to, 0, 2);
    };
    size_t header = out.size();
    Put(out, 0x04034b50, 4);
    common(out, !part.descriptor);
    out += part.name + packed;
    if (part.descriptor) {
      Put(out, 0x08074b50, 4);
      Put(out, crc, 4);
      Put(out, packed.size(), 4);
      Put(out, part.contents.size(), 4);
    }
    Put(directory, 0x02014b50, 4);
    Put(directory, 20, 2);
    common(directory, true);
    Put(directory, 0, 10);
    Put(directory, header, 4);
    directory += part.name;
  }
  size_t begin = out.size();
  out += directory;
  Put(out, 0x06054b50, 4);
  Put(out, 0, 4);
  Put(out, parts.size(), 2);
  Put(out, parts.size(), 2);
  Put(out, directory.size(), 4);
  Put(out, begin, 4);
  Put(out, 0, 2);
  return out;
}

SharedBytes Share(std::string text) {
  auto keep = std::make_shared<std::string>(std::move(text));
  return {std::as_bytes(std::span<const char>(*keep)), keep};
}

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
  std::string file = MakeZip({{"a", "hello"}, {"b", std::string(300, 'b'), true}});
  for (size_t at = 0; at < file.size(); ++at)
    for (char change : {'\x01', '\x80', '\xff'})
      ErrorOf(Patched(file, at, std::string(1, static_cast<char>(file[at] ^ change))));
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
}

TEST(Zip, RefusesEncryptedEntries) {
  std::string file = MakeZip({{"a", "hello"}});
  EXPECT_THAT(ErrorOf(Patched(file, file.find("PK\x01\x02") + 8, "\x01")), HasSubstr("encrypted"));
}

class ZipWriterTest : public testing::Test {
 protected:
  std::string path_ = testing::TempDir() + "ferry_zip_writer_test.zip";
  void TearDown() override { std::filesystem::remove(path_); }
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
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_FALSE(std::filesystem::exists(path_ + ".partial"));
  EXPECT_THROW(ZipWriter("/nowhere/at/all.zip"), Error);
}

}  // namespace
}  // namespace ferry
