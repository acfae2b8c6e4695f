#include "onnx/external_data.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "graph/stored_tensors.h"
#include "onnx/aligned.h"

namespace ferry::onnx {
namespace {

template <class... Parts>
[[noreturn]] void Refuse(const Parts&... parts) {
  Fail(ErrorCode::kInvalidModel, parts...);
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  int number() const { return number_; }

 private:
  int number_;
};

// Walks a relative path one component at a time from an open folder and never leaves it, whatever links lie on the way
// and whoever changes them meanwhile: each step opens exactly one name in a folder already held open.
class FolderWalk {
 public:
  FolderWalk(const std::string& folder, const std::string& location) : location_(location) {
    folders_.emplace_back(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folders_.back().number() < 0) Refuse("the model's folder cannot be opened: ", std::strerror(errno));
  }

  Descriptor OpenFile() {
    PushComponents(location_);
    while (true) {
      std::string name = std::move(pending_.back());
      pending_.pop_back();
      if (name == ".." && folders_.size() == 1) Leaves();
      if (name == "..") {
        folders_.pop_back();
      } else if (std::string target; IsLink(name, target)) {
        Follow(target);
      } else if (pending_.empty()) {
        return OpenLast(name);
      } else {
        OpenSubfolder(name);
      }
      if (pending_.empty()) Refuse("external data '", Printable(location_), "' is a folder, not a file");
    }
  }

 private:
  static constexpr int kMostLinks = 16;

  void PushComponents(std::string_view path) {
    std::vector<std::string> parts = SplitText(path, '/');
    for (size_t i = parts.size(); i-- > 0;)
      if (!parts[i].empty() && parts[i] != ".") pending_.push_back(std::move(parts[i]));
  }

  [[noreturn]] void Leaves() const {
    Refuse("external data '", Printable(location_), "' leads out of the model's folder");
  }

  [[noreturn]] void Missing(int reason) const {
    Refuse("external data file '", Printable(location_), "' cannot be opened: ", std::strerror(reason));
  }

  bool IsLink(const std::string& name, std::string& target) {
    char buffer[4096];
    ssize_t length = readlinkat(folders_.back().number(), name.c_str(), buffer, sizeof(buffer));
    if (length < 0) {
      if (errno == EINVAL) return false;
      Missing(errno);
    }
    target.assign(buffer, static_cast<size_t>(length));
    return true;
  }

  void Follow(const std::string& target) {
    if (++links_ > kMostLinks) Refuse("external data '", Printable(location_), "' is a chain of too many links");
    if (target.empty() || target[0] == '/') Leaves();
    PushComponents(target);
  }

  void OpenSubfolder(const std::string& name) {
    Descriptor next(openat(folders_.back().number(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (next.number() < 0) Missing(errno);
    folders_.push_back(std::move(next));
  }

  Descriptor OpenLast(const std::string& name) {
    Descriptor file(openat(folders_.back().number(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (file.number() < 0) Missing(errno);
    return file;
  }

  const std::string& location_;
  std::vector<Descriptor> folders_;
  std::vector<std::string> pending_;  // components still to walk, the next one last
  int links_ = 0;
};

void CheckLocation(const std::string& location) {
  std::string shown = Printable(location);
  if (location.empty()) Refuse("has external data without a location");
  if (location.find('\0') != std::string::npos)
    Refuse("external data '", shown, "': the location contains a zero byte");
  if (location[0] == '/' || location[0] == '\\' || (location.size() > 1 && location[1] == ':'))
    Refuse("external data '", shown, "': an absolute path is not allowed, only files in the model's folder");
  std::string slashes = location;
  for (char& c : slashes)
    if (c == '\\') c = '/';
  std::string last;
  for (const std::string& part : SplitText(slashes, '/')) {
    if (part == "..") Refuse("external data '", shown, "': '..' is not allowed, only files in the model's folder");
    last = part;
  }
  if (last.empty() || last == ".") Refuse("external data '", shown, "' names a folder, not a file");
}

// The file's own name when the location is a link to a file right in `linked_folder`; empty otherwise.
std::string NameBeside(const std::string& linked_folder, const std::string& folder, const std::string& location) {
  if (linked_folder.empty()) return {};
  std::error_code fault;
  std::filesystem::path target = std::filesystem::canonical(std::filesystem::path(folder) / location, fault);
  return !fault && target.parent_path() == linked_folder ? target.filename().string() : std::string();
}

// A hard link cannot be told from the file it was made to expose: only how many names the file has is known.
void CheckKind(int descriptor, const std::string& location) {
  struct stat facts;
  if (fstat(descriptor, &facts) != 0) Refuse("external data '", Printable(location), "': ", std::strerror(errno));
  if (!S_ISREG(facts.st_mode)) Refuse("external data '", Printable(location), "' is not a regular file");
  if (facts.st_nlink > 1)
    Refuse("external data '", Printable(location), "' has ", static_cast<uint64_t>(facts.st_nlink),
           " hard links, so it may be a file from elsewhere; copy it to use it");
}

struct Extent {
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
};

uint64_t ParseNumber(const std::string& key, const std::string& text) {
  uint64_t number = 0;
  auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc() || end != text.data() + text.size())
    Refuse("external data: ", key, " '", Printable(text), "' is not a number of bytes");
  return number;
}

Extent ParseEntries(const Metadata& entries) {
  Extent extent;
  bool seen[3] = {};
  auto once = [&](int which, const std::string& key) {
    if (std::exchange(seen[which], true)) Refuse("external data: ", key, " is given twice");
  };
  for (const auto& [key, value] : entries) {
    if (key == "location") {
      once(0, key);
      extent.location = value;
    } else if (key == "offset") {
      once(1, key);
      extent.offset = ParseNumber(key, value);
    } else if (key == "length") {
      once(2, key);
      extent.length = ParseNumber(key, value);
    }
  }
  return extent;
}

Tensor MapElements(const StoredTensor& stored, ExternalFolder& folder) {
  if (stored.dtype == DType::kUndefined)
    Refuse("has element type number ", stored.dtype_number, ", which ONNX does not have");
  if (stored.dtype == DType::kString) Refuse("is of string, which cannot be external");
  Shape shape(stored.dims);
  size_t bytes = StorageBytes(stored.dtype, shape.ElementCount());
  Extent extent = ParseEntries(stored.external.entries);
  std::shared_ptr<MappedFile> file = folder.Open(extent.location);
  std::string shown = Printable(extent.location);
  if (extent.length && *extent.length != bytes)
    Refuse("shape ", shape, " of ", stored.dtype, " needs ", bytes, " bytes, but its external data in '", shown,
           "' has length ", *extent.length);
  if (extent.offset > file->size() || bytes > file->size() - extent.offset)
    Refuse("external data at offset ", extent.offset, " with ", bytes, " bytes goes past the end of '", shown, "' (",
           file->size(), " bytes)");
  const std::byte* begin = file->data() ? file->data() + extent.offset : nullptr;
  return MakeReadable(Tensor::Borrow(stored.dtype, std::move(shape), begin, std::move(file)));
}

}  // namespace

std::shared_ptr<MappedFile> ExternalFolder::Open(const std::string& location) {
  std::shared_ptr<MappedFile>& file = open_[location];
  if (!file) {
    CheckLocation(location);
    std::string beside = NameBeside(linked_folder_, folder_, location);
    Descriptor descriptor =
        beside.empty() ? FolderWalk(folder_, location).OpenFile() : FolderWalk(linked_folder_, beside).OpenFile();
    CheckKind(descriptor.number(), location);
    file = MappedFile::FromDescriptor(descriptor.number(), location);
  }
  return file;
}

void LoadExternalTensor(StoredTensor& stored, ExternalFolder& folder) {
  if (stored.storage != StoredTensor::Storage::kExternal || !stored.problem.empty()) return;
  try {
    stored.tensor = MapElements(stored, folder);
  } catch (const Error& error) {
    stored.problem = error.message();
  }
}

void LoadExternalData(Model& model, ExternalFolder folder) {
  ForEachStoredTensor(model, [&](StoredTensor& stored) { LoadExternalTensor(stored, folder); });
}

}  // namespace ferry::onnx
