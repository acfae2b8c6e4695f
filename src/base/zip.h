// ZIP archives over mapped files. Stored entries are spans of the map; nothing is copied that need not be.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ferry {

// Bytes together with what keeps them in memory.
struct SharedBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> keep_alive;

  std::string_view text() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
};

struct ZipEntry {
  enum class Method : uint8_t { kStored, kDeflated };
  std::string name;
  Method method = Method::kStored;
  uint32_t crc = 0;
  uint64_t size = 0;         // of the contents
  uint64_t packed_size = 0;  // of the bytes in the archive
  uint64_t offset = 0;       // of these bytes in the file
};

// What the limits in force allow compressed entries to unfold to (base/limits.h).
uint64_t InflatedLimit();

struct ZipLimits {
  uint64_t entries = 1'000'000;
  uint64_t inflated_entry = InflatedLimit() / 4;  // a compressed entry may not unfold to more than this,
  uint64_t inflated_archive = InflatedLimit();    // nor all of them together
};

enum class ZipCheck : uint8_t {
  kCrc,      // the contents are held against the archive's checksum
  kDeferred  // a stored entry is handed out unread; the caller calls Verify before trusting it
};

// Opening checks the whole directory: entries that overlap, leave the file, disagree with their local header, share a
// name, or have a name that climbs out of a folder are refused before any of them is read.
class ZipArchive {
 public:
  static std::shared_ptr<ZipArchive> Open(const std::string& path, const ZipLimits& limits = {});
  static std::shared_ptr<ZipArchive> Open(SharedBytes file, const ZipLimits& limits = {});
  // Whether the bytes begin like an archive: enough to choose a reader, no promise that it can be opened.
  static bool LooksLikeZip(std::span<const std::byte> file);

  const std::vector<ZipEntry>& entries() const { return entries_; }
  const ZipEntry* Find(std::string_view name) const;  // null when there is none

  // The contents: a span of the map when stored, inflated otherwise.
  SharedBytes Read(const ZipEntry& entry, ZipCheck check = ZipCheck::kCrc);
  SharedBytes Read(std::string_view name, ZipCheck check = ZipCheck::kCrc);  // throws kNotFound
  void Verify(const ZipEntry& entry) const;                                  // a stored entry's checksum

 private:
  ZipArchive(SharedBytes file, const ZipLimits& limits) : file_(std::move(file)), limits_(limits) {}
  SharedBytes Inflate(const ZipEntry& entry);

  SharedBytes file_;
  ZipLimits limits_;
  uint64_t claimed_ = 0;  // bytes that compressed entries say they unfold to
  uint64_t inflated_ = 0;
  std::vector<ZipEntry> entries_;
  std::map<std::string_view, size_t> by_name_;
};

// Writes an archive of stored entries whose contents begin at multiples of 64 bytes, so that a reader can map them.
// The file appears under its name when Finish succeeds; until then it is written beside it.
class ZipWriter {
 public:
  explicit ZipWriter(const std::string& path);
  ~ZipWriter();
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;

  // The contents are the pieces, one after the other.
  void Add(std::string_view name, std::span<const std::span<const std::byte>> pieces);
  void Add(std::string_view name, std::string_view contents);
  void Finish();

 private:
  struct File;
  std::unique_ptr<File> file_;
  std::vector<ZipEntry> entries_;
  std::vector<uint64_t> header_offsets_;
};

}  // namespace ferry
