#include <zlib.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/zip.h"
#include "base/zip_format.h"

namespace ferry {
namespace {

using namespace zip;

constexpr uint64_t kAlignment = 64;
constexpr uint16_t kVersion = 45;                     // the first that knows zip64
constexpr uint32_t kFirstOfJanuary1980 = 0x00210000;  // the same bytes for the same contents, whenever written

class Record {
 public:
  Record& U16(uint64_t value) { return Put(value, 2); }
  Record& U32(uint64_t value) { return Put(value, 4); }
  Record& U64(uint64_t value) { return Put(value, 8); }
  Record& Clamped32(uint64_t value) { return U32(value < kFull32 ? value : kFull32); }
  Record& Text(std::string_view text) {
    bytes_.append(text);
    return *this;
  }
  Record& Zeros(size_t count) {
    bytes_.append(count, '\0');
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  Record& Put(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
    return *this;
  }
  std::string bytes_;
};

// The fields that the local header and the directory have in common, from "version needed" to "extra length".
void PutCommon(Record& record, const ZipEntry& entry, size_t extra_bytes) {
  record.U16(kVersion).U16(kFlagUtf8).U16(kMethodStored).U32(kFirstOfJanuary1980).U32(entry.crc);
  record.Clamped32(entry.size).Clamped32(entry.size).U16(entry.name.size()).U16(extra_bytes);
}

std::string LocalHeader(const ZipEntry& entry, uint64_t offset) {
  Record extra;
  if (entry.size >= kFull32) extra.U16(kZip64Extra).U16(16).U64(entry.size).U64(entry.size);
  constexpr size_t kPaddingHeader = 6;
  uint64_t begin = offset + kLocalBytes + entry.name.size() + extra.bytes().size() + kPaddingHeader;
  uint64_t padding = (kAlignment - begin % kAlignment) % kAlignment;
  extra.U16(kAlignmentExtra).U16(2 + padding).U16(kAlignment).Zeros(padding);
  Record header;
  header.U32(kLocalSignature);
  PutCommon(header, entry, extra.bytes().size());
  return header.Text(entry.name).Text(extra.bytes()).bytes();
}

std::string CentralHeader(const ZipEntry& entry, uint64_t header_offset) {
  Record values;
  if (entry.size >= kFull32) values.U64(entry.size).U64(entry.size);
  if (header_offset >= kFull32) values.U64(header_offset);
  Record extra;
  if (!values.bytes().empty()) extra.U16(kZip64Extra).U16(values.bytes().size()).Text(values.bytes());
  Record header;
  header.U32(kCentralSignature).U16(kVersion);
  PutCommon(header, entry, extra.bytes().size());
  header.U16(0).U16(0).U16(0).U32(0).Clamped32(header_offset);  // comment, disk, attributes, offset
  return header.Text(entry.name).Text(extra.bytes()).bytes();
}

}  // namespace

struct ZipWriter::File {
  explicit File(const std::string& place) : path(place), file(place) {}

  void Write(std::string_view bytes) {
    file.Write(bytes);
    written += bytes.size();
  }

  std::string path;
  AtomicFile file;
  uint64_t written = 0;
  bool finished = false;
};

ZipWriter::ZipWriter(const std::string& path) : file_(std::make_unique<File>(path)) {}

ZipWriter::~ZipWriter() = default;

void ZipWriter::Add(std::string_view name, std::span<const std::span<const std::byte>> pieces) {
  Require(!name.empty() && name.size() < kFull16, "an archive entry cannot be named '", Printable(name), "'");
  ZipEntry entry;
  entry.name = name;
  uLong crc = 0;
  for (std::span<const std::byte> piece : pieces) {
    if (piece.empty()) continue;  // to zlib a null pointer means "begin anew"
    entry.size += piece.size();
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(piece.data()), piece.size());
  }
  entry.crc = static_cast<uint32_t>(crc);
  header_offsets_.push_back(file_->written);
  file_->Write(LocalHeader(entry, file_->written));
  for (std::span<const std::byte> piece : pieces)
    file_->Write({reinterpret_cast<const char*>(piece.data()), piece.size()});
  entries_.push_back(std::move(entry));
}

void ZipWriter::Add(std::string_view name, std::string_view contents) {
  std::span<const std::byte> piece(reinterpret_cast<const std::byte*>(contents.data()), contents.size());
  Add(name, {&piece, 1});
}

void ZipWriter::Finish() {
  Require(!file_->finished, "the archive ", Printable(file_->path), " is finished already");
  uint64_t begin = file_->written, count = entries_.size();
  for (size_t i = 0; i < count; ++i) file_->Write(CentralHeader(entries_[i], header_offsets_[i]));
  uint64_t end = file_->written;
  Record tail;
  if (count >= kFull16 || end >= kFull32) {
    tail.U32(kEnd64Signature).U64(kEnd64Bytes - 12).U16(kVersion).U16(kVersion).U32(0).U32(0);
    tail.U64(count).U64(count).U64(end - begin).U64(begin);
    tail.U32(kLocatorSignature).U32(0).U64(end).U32(1);
  }
  uint64_t short_count = count < kFull16 ? count : kFull16;
  tail.U32(kEndSignature).U16(0).U16(0).U16(short_count).U16(short_count);
  tail.Clamped32(end - begin).Clamped32(begin).U16(0);
  file_->Write(tail.bytes());
  file_->file.CommitUnsynced();
  file_->finished = true;
}

}  // namespace ferry
