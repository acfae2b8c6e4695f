#include "base/zip.h"

#include <zlib.h>

#include <algorithm>
#include <new>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/run_scope.h"
#include "base/zip_format.h"

namespace ferry {
namespace {

using namespace zip;

// Little-endian fields of a file whose every offset is checked before it is read.
class Fields {
 public:
  explicit Fields(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t size() const { return bytes_.size(); }
  bool Holds(uint64_t offset, uint64_t count) const { return offset <= size() && count <= size() - offset; }
  void Need(uint64_t offset, uint64_t count, std::string_view what) const {
    if (!Holds(offset, count))
      Fail(ErrorCode::kInvalidModel, "the ZIP archive is cut or lies: ", what, " at byte ", offset, " with ", count,
           " bytes leaves the file of ", size());
  }
  template <class T>
  T Get(uint64_t offset) const {
    Need(offset, sizeof(T), "a field");
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) value |= std::to_integer<uint64_t>(bytes_[offset + i]) << (8 * i);
    return static_cast<T>(value);
  }
  uint16_t U16(uint64_t offset) const { return Get<uint16_t>(offset); }
  uint32_t U32(uint64_t offset) const { return Get<uint32_t>(offset); }
  uint64_t U64(uint64_t offset) const { return Get<uint64_t>(offset); }
  std::string_view Text(uint64_t offset, uint64_t count) const {
    Need(offset, count, "a name");
    return {reinterpret_cast<const char*>(bytes_.data()) + offset, static_cast<size_t>(count)};
  }

 private:
  std::span<const std::byte> bytes_;
};

template <class... Parts>
[[noreturn]] void Bad(const Parts&... parts) {
  Fail(ErrorCode::kInvalidModel, "ZIP archive: ", parts...);
}

struct Directory {
  uint64_t offset = 0, bytes = 0, count = 0;
};

uint64_t FindEndRecord(const Fields& file) {
  if (file.size() < kEndBytes) Bad("no end record: ", file.size(), " bytes are too few");
  uint64_t last = file.size() - kEndBytes;
  uint64_t first = last > kFull16 ? last - kFull16 : 0;
  for (uint64_t at = last + 1; at-- > first;)
    if (file.U32(at) == kEndSignature && at + kEndBytes + file.U16(at + 20) == file.size()) return at;
  Bad("no end record: the file is cut or is not a ZIP archive");
}

Directory ReadDirectory(const Fields& file) {
  uint64_t end = FindEndRecord(file);
  uint64_t limit = end;  // where the directory must have ended
  Directory directory{.offset = file.U32(end + 16), .bytes = file.U32(end + 12), .count = file.U16(end + 10)};
  bool one_disk = file.U16(end + 4) == 0 && file.U16(end + 6) == 0 && file.U16(end + 8) == file.U16(end + 10);
  bool large = end >= kLocatorBytes && file.U32(end - kLocatorBytes) == kLocatorSignature;
  if (large) {
    uint64_t at = file.U64(end - kLocatorBytes + 8);
    file.Need(at, kEnd64Bytes, "the zip64 end record");
    if (file.U32(at) != kEnd64Signature) Bad("the zip64 end record is not where the archive says");
    limit = at;
    directory = {.offset = file.U64(at + 48), .bytes = file.U64(at + 40), .count = file.U64(at + 32)};
    one_disk = file.U32(at + 16) == 0 && file.U32(at + 20) == 0 && file.U64(at + 24) == directory.count;
  }
  if (!one_disk) Bad("it is one part of several, which is not supported");
  file.Need(directory.offset, directory.bytes, "the directory");
  if (directory.offset + directory.bytes != limit)
    Bad("the directory does not end where the end record begins (byte ", limit, ")");
  if (directory.count > directory.bytes / kCentralBytes) Bad("the directory is too small for its entries");
  return directory;
}

void CheckName(std::string_view name) {
  auto refuse = [&](std::string_view why) { Bad("entry '", Printable(name), "' ", why); };
  if (name.empty()) refuse("has no name");
  if (name.find('\0') != std::string_view::npos) refuse("has a zero byte in its name");
  if (name[0] == '/' || name[0] == '\\' || (name.size() > 1 && name[1] == ':')) refuse("has an absolute name");
  for (size_t begin = 0; begin <= name.size();) {
    size_t end = std::min(name.find_first_of("/\\", begin), name.size());
    if (name.substr(begin, end - begin) == "..") refuse("climbs out of its folder");
    begin = end + 1;
  }
}

// Takes the 64-bit values for those of size, packed size and offset that the short record gives as 0xFFFFFFFF.
void ReadZip64(const Fields& file, uint64_t at, uint64_t bytes, std::initializer_list<uint64_t*> values) {
  bool wanted = false;
  for (uint64_t* value : values) wanted = wanted || *value == kFull32;
  if (!wanted) return;
  for (uint64_t end = at + bytes; at + 4 <= end;) {
    uint16_t id = file.U16(at), length = file.U16(at + 2);
    at += 4;
    if (length > end - at) Bad("an extra field is longer than its room");
    if (id != kZip64Extra) {
      at += length;
      continue;
    }
    uint64_t field_end = at + length;
    for (uint64_t* value : values) {
      if (*value != kFull32) continue;
      if (field_end - at < 8) Bad("a zip64 field is too short");
      *value = file.U64(at);
      at += 8;
    }
    return;
  }
  // A size of exactly 4 GiB - 1 needs no zip64 field.
}

struct Extent {
  uint64_t begin = 0, end = 0;
  size_t entry = 0;
};

struct CentralRecord {
  ZipEntry entry;
  uint64_t header = 0;  // where the local header is
  uint16_t method = 0, flags = 0;
  uint64_t bytes = 0;  // of this record
};

CentralRecord ReadCentralRecord(const Fields& file, uint64_t at, uint64_t end, uint64_t index) {
  if (end - at < kCentralBytes || file.U32(at) != kCentralSignature)
    Bad("entry ", index, " of the directory is damaged");
  CentralRecord record{.header = file.U32(at + 42), .method = file.U16(at + 10), .flags = file.U16(at + 8)};
  uint64_t name_bytes = file.U16(at + 28), extra_bytes = file.U16(at + 30), comment_bytes = file.U16(at + 32);
  record.bytes = kCentralBytes + name_bytes + extra_bytes + comment_bytes;
  if (record.bytes > end - at) Bad("entry ", index, " of the directory is longer than the directory");
  ZipEntry& entry = record.entry;
  entry.name = file.Text(at + kCentralBytes, name_bytes);
  CheckName(entry.name);
  if (record.flags & (kFlagEncrypted | kFlagPatched))
    Fail(ErrorCode::kUnsupported, "ZIP archive: entry '", Printable(entry.name), "' is encrypted");
  if (record.method != kMethodStored && record.method != kMethodDeflated)
    Fail(ErrorCode::kUnsupported, "ZIP archive: entry '", Printable(entry.name), "' is packed with method ",
         record.method, "; stored and deflated entries are supported");
  entry.method = record.method == kMethodStored ? ZipEntry::Method::kStored : ZipEntry::Method::kDeflated;
  entry.crc = file.U32(at + 16);
  entry.packed_size = file.U32(at + 20);
  entry.size = file.U32(at + 24);
  uint64_t extra = at + kCentralBytes + name_bytes;
  ReadZip64(file, extra, extra_bytes, {&entry.size, &entry.packed_size, &record.header});
  if (record.method == kMethodStored && entry.size != entry.packed_size)
    Bad("entry '", Printable(entry.name), "' is stored but has two sizes");
  return record;
}

// Reads the entry's local header, holds it against the directory, and finds where the contents are.
Extent LocateContents(const Fields& file, CentralRecord& record) {
  ZipEntry& entry = record.entry;
  uint64_t header = record.header;
  file.Need(header, kLocalBytes, "a local header");
  auto contradicts = [&](std::string_view what) {
    Bad("entry '", Printable(entry.name), "' has another ", what, " in its local header than in the directory");
  };
  if (file.U32(header) != kLocalSignature) Bad("entry '", Printable(entry.name), "' has no local header");
  if (file.U16(header + 8) != record.method) contradicts("method");
  if (file.U16(header + 6) & (kFlagEncrypted | kFlagPatched)) contradicts("flag");
  uint16_t name_bytes = file.U16(header + 26), extra_bytes = file.U16(header + 28);
  if (file.Text(header + kLocalBytes, name_bytes) != entry.name) contradicts("name");
  uint64_t extra = header + kLocalBytes + name_bytes;
  file.Need(extra, extra_bytes, "an extra field");
  uint64_t packed = file.U32(header + 18), size = file.U32(header + 22);
  ReadZip64(file, extra, extra_bytes, {&size, &packed});
  bool facts_follow = record.flags & kFlagDescriptor;
  bool sizes_follow = facts_follow && size == 0 && packed == 0;
  if (!sizes_follow && (size != entry.size || packed != entry.packed_size)) contradicts("size");
  if (!facts_follow && file.U32(header + 14) != entry.crc) contradicts("checksum");
  entry.offset = extra + extra_bytes;
  file.Need(entry.offset, entry.packed_size, Cat("entry '", Printable(entry.name), "'"));
  return {header, entry.offset + entry.packed_size};
}

void CheckOverlaps(std::vector<Extent> extents, uint64_t directory, const std::vector<ZipEntry>& entries) {
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (size_t i = 0; i < extents.size(); ++i) {
    uint64_t limit = i + 1 < extents.size() ? extents[i + 1].begin : directory;
    if (extents[i].end > limit)
      Bad("entry '", Printable(entries[extents[i].entry].name), "' overlaps what comes after it");
  }
}

std::shared_ptr<std::byte> AllocateBytes(uint64_t bytes) {
  constexpr auto kAlignment = std::align_val_t(64);
  void* memory = ::operator new(std::max<uint64_t>(bytes, 1), kAlignment, std::nothrow);
  if (!memory) Fail(ErrorCode::kLimit, "no memory for ", bytes, " bytes");
  return {static_cast<std::byte*>(memory), [](std::byte* p) { ::operator delete(p, kAlignment); }};
}

void CheckCrc(const ZipEntry& entry, std::span<const std::byte> contents) {
  uLong crc = 0;
  ReadOnce(contents, [&](std::span<const std::byte> piece) {
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(piece.data()), piece.size());
  });
  if (crc != entry.crc) Bad("entry '", Printable(entry.name), "' is damaged: its checksum does not match its contents");
}

}  // namespace

uint64_t InflatedLimit() { return RunScope::CurrentLimits().inflated_bytes; }

bool ZipArchive::LooksLikeZip(std::span<const std::byte> file) {
  return file.size() >= kEndBytes && (Fields(file).U32(0) == kLocalSignature || Fields(file).U32(0) == kEndSignature);
}

std::shared_ptr<ZipArchive> ZipArchive::Open(const std::string& path, const ZipLimits& limits) {
  std::shared_ptr<MappedFile> file = MappedFile::Open(path);
  try {
    return Open(SharedBytes{{file->data(), file->size()}, file}, limits);
  } catch (Error& error) {
    throw error.At(Printable(path));
  }
}

std::shared_ptr<ZipArchive> ZipArchive::Open(SharedBytes bytes, const ZipLimits& limits) {
  Fields file(bytes.bytes);
  Directory directory = ReadDirectory(file);
  if (directory.count > limits.entries)
    Fail(ErrorCode::kLimit, "ZIP archive: ", directory.count, " entries are more than the limit of ", limits.entries);
  std::shared_ptr<ZipArchive> archive(new ZipArchive(std::move(bytes), limits));
  archive->entries_.reserve(directory.count);
  std::vector<Extent> extents;
  uint64_t at = directory.offset, end = directory.offset + directory.bytes;
  for (uint64_t i = 0; i < directory.count; ++i) {
    CentralRecord record = ReadCentralRecord(file, at, end, i);
    extents.push_back(LocateContents(file, record));
    extents.back().entry = i;
    if (record.entry.method == ZipEntry::Method::kDeflated)
      archive->claimed_ += std::min(record.entry.size, UINT64_MAX - archive->claimed_);
    archive->entries_.push_back(std::move(record.entry));
    at += record.bytes;
  }
  if (at != end) Bad("the directory holds more than its entries");
  CheckOverlaps(std::move(extents), directory.offset, archive->entries_);
  for (size_t i = 0; i < archive->entries_.size(); ++i)
    if (!archive->by_name_.emplace(archive->entries_[i].name, i).second)
      Bad("two entries are named '", Printable(archive->entries_[i].name), "'");
  return archive;
}

const ZipEntry* ZipArchive::Find(std::string_view name) const {
  auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &entries_[it->second];
}

SharedBytes ZipArchive::Read(std::string_view name, ZipCheck check) {
  const ZipEntry* entry = Find(name);
  if (!entry) Fail(ErrorCode::kNotFound, "the archive has no entry '", Printable(name), "'");
  return Read(*entry, check);
}

SharedBytes ZipArchive::Read(const ZipEntry& entry, ZipCheck check) {
  if (entry.method == ZipEntry::Method::kDeflated) return Inflate(entry);
  if (check == ZipCheck::kCrc) Verify(entry);
  return {file_.bytes.subspan(entry.offset, entry.size), file_.keep_alive};
}

void ZipArchive::Verify(const ZipEntry& entry) const {
  if (entry.method == ZipEntry::Method::kStored) CheckCrc(entry, file_.bytes.subspan(entry.offset, entry.size));
}

SharedBytes ZipArchive::Inflate(const ZipEntry& entry) {
  auto wrong = [&](std::string_view what) { Bad("entry '", Printable(entry.name), "' ", what); };
  // No deflate stream unfolds further than this: a larger claim is a lie, and memory is not reserved for it.
  constexpr uint64_t kMostPerByte = 1032;
  if (entry.size / kMostPerByte > entry.packed_size) wrong("claims to unfold further than compression can");
  if (entry.size > limits_.inflated_entry)
    Fail(ErrorCode::kLimit, "ZIP archive: entry '", Printable(entry.name), "' would unfold to ", entry.size,
         " bytes, more than the limit of ", limits_.inflated_entry,
         "; store it uncompressed, or raise the limit "
         "(max_inflated_bytes, --max-inflated; a quarter of it for one entry)");
  if (claimed_ > limits_.inflated_archive || entry.size > limits_.inflated_archive - inflated_)
    Fail(ErrorCode::kLimit, "ZIP archive: its compressed entries would unfold to ", claimed_,
         " bytes, more than the limit of ", limits_.inflated_archive,
         "; store them uncompressed, or raise the limit (max_inflated_bytes, --max-inflated)");
  if (entry.packed_size > UINT32_MAX || entry.size > UINT32_MAX) wrong("is too large for a compressed entry");
  inflated_ += entry.size;
  std::shared_ptr<std::byte> memory = AllocateBytes(entry.size);
  z_stream stream = {};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(file_.bytes.data() + entry.offset));
  stream.avail_in = static_cast<uInt>(entry.packed_size);
  stream.next_out = reinterpret_cast<Bytef*>(memory.get());
  constexpr int kRawDeflate = -MAX_WBITS;
  constexpr uint64_t kInflatedAtOnce = uint64_t{8} << 20;
  if (inflateInit2(&stream, kRawDeflate) != Z_OK) Fail(ErrorCode::kLimit, "no memory to unfold a compressed entry");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> ends(&stream, inflateEnd);
  int result = Z_OK;
  for (uint64_t done = 0; done < entry.size && result == Z_OK; done = stream.total_out) {
    CheckRun();
    stream.avail_out = static_cast<uInt>(std::min(kInflatedAtOnce, entry.size - done));
    const uLong before = stream.total_out;
    result = inflate(&stream, Z_NO_FLUSH);
    if (stream.total_out == before) break;  // the stream ends too soon
  }
  if (result == Z_OK) result = inflate(&stream, Z_FINISH);
  bool complete = result == Z_STREAM_END && stream.avail_in == 0 && stream.total_out == entry.size;
  if (!complete) wrong("is damaged: its compressed data does not unfold to the size it claims");
  SharedBytes contents{{memory.get(), static_cast<size_t>(entry.size)}, memory};
  CheckCrc(entry, contents.bytes);
  return contents;
}

}  // namespace ferry
