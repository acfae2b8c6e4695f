#include "engine/weight_file.h"

#include <cstring>
#include <type_traits>

#include "base/atomic_file.h"
#include "base/check_run.h"
#include "base/error.h"
#include "base/pages.h"
#include "base/process.h"
#include "base/small_text.h"

namespace ferry {
namespace {

constexpr std::string_view kMagic = "FERRYWTS";
constexpr size_t kPrefix = 24;  // magic, size of the table, its checksum
constexpr size_t kAlignment = 4096;

size_t RoundUp(size_t value) { return (value + kAlignment - 1) / kAlignment * kAlignment; }

// Numbers are written as they lie in memory: packed weights are of use on the same kind of machine only.
class TableWriter {
 public:
  template <class T>
  void Number(T value) {
    static_assert(std::is_integral_v<T>);
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void Text(const std::string& text) {
    Number<uint64_t>(text.size());
    text_ += text;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

class TableReader {
 public:
  explicit TableReader(std::string_view text) : text_(text) {}

  template <class T>
  bool Number(T& value) {
    if (text_.size() < sizeof value) return false;
    std::memcpy(&value, text_.data(), sizeof value);
    text_.remove_prefix(sizeof value);
    return true;
  }
  bool Text(std::string& value) {
    uint64_t size = 0;
    if (!Number(size) || size > text_.size()) return false;
    value = text_.substr(0, size);
    text_.remove_prefix(size);
    return true;
  }
  bool AtEnd() const { return text_.empty(); }

 private:
  std::string_view text_;
};

bool IsStored(DType dtype) {
  return dtype == DType::kFloat || dtype == DType::kInt8 || dtype == DType::kUInt8 || dtype == DType::kInt16 ||
         dtype == DType::kInt32;
}

// Pieces as large as the system's large pages, at multiples of them: it then keeps the file in such pages and maps them
// as they are, a fraction of the work of small ones and faster to read.
class PieceWriter {
 public:
  explicit PieceWriter(AtomicFile& file) : file_(file) { piece_.reserve(kPiece); }

  void Write(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::string_view part = bytes.substr(0, kPiece - piece_.size());
      piece_ += part;
      bytes.remove_prefix(part.size());
      if (piece_.size() == kPiece) Flush();
    }
  }
  void Flush() {
    CheckRun();
    file_.Write(piece_);
    piece_.clear();
  }

 private:
  static constexpr size_t kPiece = size_t{4} << 20;
  AtomicFile& file_;
  std::string piece_;
};

std::string NoteBeside(const std::string& path) { return path + ".checked"; }

// What a note says about a mapped file. Empty where nobody could tell that the file has changed since: what a crash
// left on the disk need not be what was written.
std::string NoteAbout(const MappedFile& file) {
  const std::string boot = BootName(), place = PlaceInFile(file.data());
  return boot.empty() || place.empty() ? std::string() : Cat(boot, " ", place);
}

void LeaveNote(const std::string& path, const MappedFile& file) {
  const std::string note = NoteAbout(file);
  if (note.empty()) return;
  AtomicFile beside(NoteBeside(path));
  beside.Write(note);
  beside.CommitUnsynced();
}

}  // namespace

uint64_t Checksum(const void* data, size_t bytes) {
  constexpr size_t kLanes = 8;
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;
  uint64_t lanes[kLanes];
  for (size_t i = 0; i < kLanes; ++i) lanes[i] = (bytes + i + 1) * kFactor;
  const char* from = static_cast<const char*>(data);
  for (; bytes >= sizeof lanes; bytes -= sizeof lanes, from += sizeof lanes) {
    uint64_t words[kLanes];
    std::memcpy(words, from, sizeof words);
    for (size_t i = 0; i < kLanes; ++i) lanes[i] = (lanes[i] ^ words[i]) * kFactor;
  }
  uint64_t rest[kLanes] = {};
  if (bytes > 0) std::memcpy(rest, from, bytes);
  uint64_t sum = 0;
  for (size_t i = 0; i < kLanes; ++i) {
    lanes[i] = (lanes[i] ^ rest[i]) * kFactor;
    sum = (sum ^ lanes[i] ^ lanes[i] >> 29) * kFactor;
  }
  return sum ^ sum >> 32;
}

std::shared_ptr<WeightFile> WeightFile::Open(const std::string& path, const std::string& about) {
  auto opened = std::make_shared<WeightFile>();
  try {
    opened->file_ = MappedFile::Open(path);
  } catch (const Error&) {
    return nullptr;
  }
  InLargePages(opened->file_->data(), opened->file_->size());
  if (!opened->Read(about)) return nullptr;
  opened->path_ = path;
  const std::string note = NoteAbout(*opened->file_);
  opened->vouched_for_ = !note.empty() && FirstLineOf(NoteBeside(path)) == note;
  return opened;
}

bool WeightFile::Read(const std::string& about) {
  const std::string_view text = file_->text();
  if (text.size() < kPrefix || text.substr(0, kMagic.size()) != kMagic) return false;
  TableReader prefix(text.substr(kMagic.size(), kPrefix - kMagic.size()));
  uint64_t table_bytes = 0, checksum = 0, count = 0;
  prefix.Number(table_bytes);
  prefix.Number(checksum);
  if (table_bytes > text.size() - kPrefix || Checksum(text.data() + kPrefix, table_bytes) != checksum) return false;
  TableReader table(text.substr(kPrefix, table_bytes));
  std::string there;
  if (!table.Text(there) || there != about || !table.Number(count)) return false;
  for (uint64_t i = 0; i < count; ++i) {
    std::string key;
    int32_t dtype = 0;
    uint64_t size = 0, offset = 0;
    Entry entry{};
    if (!table.Text(key) || !table.Number(dtype) || !table.Number(size) || !table.Number(offset) ||
        !table.Number(entry.checksum))
      return false;
    entry.dtype = static_cast<DType>(dtype);
    if (!IsStored(entry.dtype) || offset % kAlignment != 0 || offset > text.size() || size > text.size()) return false;
    entry.count = static_cast<int64_t>(size);
    entry.offset = offset;
    if (StorageBytes(entry.dtype, entry.count) > text.size() - offset) return false;
    entries_.emplace(std::move(key), entry);
  }
  return table.AtEnd();
}

void WeightFile::Write(const std::string& path, const std::string& about, const std::vector<Part>& parts) {
  // Offsets have a fixed width: the table is as long with the right ones.
  auto table_with = [&](size_t first_offset) {
    TableWriter table;
    table.Text(about);
    table.Number<uint64_t>(parts.size());
    size_t offset = first_offset;
    for (const Part& part : parts) {
      table.Text(part.key);
      table.Number(static_cast<int32_t>(part.tensor.dtype()));
      table.Number(static_cast<uint64_t>(part.tensor.size()));
      table.Number<uint64_t>(offset);
      table.Number(Checksum(part.tensor.raw(), part.tensor.bytes()));
      offset += RoundUp(part.tensor.bytes());
    }
    return table.text();
  };
  const size_t first_offset = RoundUp(kPrefix + table_with(0).size());
  const std::string table = table_with(first_offset);
  TableWriter prefix;
  prefix.Number<uint64_t>(table.size());
  prefix.Number(Checksum(table.data(), table.size()));
  AtomicFile file(path);
  PieceWriter pieces(file);
  const std::string padding(kAlignment, '\0');
  auto write = [&](std::string_view bytes, size_t padded) {
    pieces.Write(bytes);
    pieces.Write(std::string_view(padding).substr(0, padded - bytes.size()));
  };
  write(Cat(kMagic, prefix.text(), table), first_offset);
  for (const Part& part : parts)
    write({reinterpret_cast<const char*>(part.tensor.raw()), part.tensor.bytes()}, RoundUp(part.tensor.bytes()));
  pieces.Flush();
  file.CommitUnsynced();
  LeaveNote(path, *MappedFile::Open(path));
}

bool WeightFile::IsRight(const std::string& key, const Entry& entry) const {
  if (vouched_for_) return true;
  if (Checksum(file_->data() + entry.offset, StorageBytes(entry.dtype, entry.count)) != entry.checksum) return false;
  std::lock_guard lock(mutex_);
  right_.insert(key);
  return true;
}

void WeightFile::Vouch() const {
  std::lock_guard lock(mutex_);
  if (right_.empty() || right_.size() < entries_.size()) return;
  LeaveNote(path_, *file_);
  right_.clear();
}

Tensor WeightFile::Take(const std::string& key) const {
  auto found = entries_.find(key);
  if (found == entries_.end()) return {};
  const Entry& entry = found->second;
  const std::byte* data = file_->data() + entry.offset;
  const size_t bytes = StorageBytes(entry.dtype, entry.count);
  WillRead(data, bytes);
  if (!IsRight(key, entry)) return {};
  return Tensor::Borrow(entry.dtype, {entry.count}, data, file_);
}

Tensor WeightFile::Find(const std::string& key, DType dtype, int64_t count) const {
  auto found = entries_.find(key);
  if (found == entries_.end() || found->second.dtype != dtype || found->second.count != count) return {};
  return Take(key);
}

std::vector<std::string> WeightFile::Keys() const {
  std::vector<std::string> keys;
  for (const auto& entry : entries_) keys.push_back(entry.first);
  return keys;
}

}  // namespace ferry
