#include "base/memory_files.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "base/confined_file.h"
#include "base/error.h"
#include "base/file_identity.h"
#include "base/mapped_file.h"

namespace ferry {
namespace {

void Put(std::string_view path, std::string_view text) {
  auto* data = static_cast<std::byte*>(std::malloc(text.size() + 1));
  std::memcpy(data, text.data(), text.size());
  PutMemoryFile(path, data, text.size());
}

TEST(MemoryFiles, AreMappedWithoutACopy) {
  auto* data = static_cast<std::byte*>(std::malloc(5));
  std::memcpy(data, "abcde", 5);
  PutMemoryFile("/in-memory/a.bin", data, 5);
  auto file = MappedFile::Open("/in-memory//./a.bin");
  EXPECT_EQ(file->data(), data);
  EXPECT_EQ(file->text(), "abcde");
  RemoveMemoryFile("/in-memory/a.bin");
  EXPECT_EQ(file->text(), "abcde") << "whoever maps it keeps it";
  EXPECT_THROW(MappedFile::Open("/in-memory/a.bin"), Error);
}

TEST(MemoryFiles, AnotherFileOfTheSamePathIsAnotherFile) {
  EXPECT_EQ(FileIdentity("/in-memory/b"), "");
  Put("/in-memory/b", "one");
  const std::string first = FileIdentity("/in-memory/b");
  auto old = MappedFile::Open("/in-memory/b");
  Put("/in-memory/b", "two");
  EXPECT_NE(FileIdentity("/in-memory/b"), first);
  EXPECT_EQ(MappedFile::Open("/in-memory/b")->text(), "two");
  EXPECT_EQ(old->text(), "one");
  RemoveMemoryFile("/in-memory/b");
  RemoveMemoryFile("/in-memory/b");
}

TEST(MemoryFiles, DataFilesAreFoundBelowTheirFolderAlone) {
  Put("/in-memory/model/data/w.bin", "weights");
  Put("/in-memory/secret", "x");
  EXPECT_EQ(MapConfinedFile("/in-memory/model", "data/w.bin", "the folder")->text(), "weights");
  EXPECT_THROW(MapConfinedFile("/in-memory/model", "../secret", "the folder"), Error);
  RemoveMemoryFile("/in-memory/model/data/w.bin");
  RemoveMemoryFile("/in-memory/secret");
}

TEST(MemoryFiles, MayBeEmpty) {
  PutMemoryFile("/in-memory/nothing", nullptr, 0);
  EXPECT_EQ(MappedFile::Open("/in-memory/nothing")->size(), 0u);
  RemoveMemoryFile("/in-memory/nothing");
}

}  // namespace
}  // namespace ferry
