#include "onnx/external_data.h"

#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "base/confined_file.h"
#include "base/error.h"
#include "graph/stored_tensors.h"
#include "onnx/aligned.h"

namespace ferry::onnx {
namespace {

template <class... Parts>
[[noreturn]] void Refuse(const Parts&... parts) {
  Fail(ErrorCode::kInvalidModel, parts...);
}

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

std::shared_ptr<MappedFile> MapFile(const std::string& folder, const std::string& location) {
  try {
    return MapConfinedFile(folder, location, "the model's folder");
  } catch (const Error& error) {
    Refuse("external data '", Printable(location), "' ", error.message());
  }
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
    file = beside.empty() ? MapFile(folder_, location) : MapFile(linked_folder_, beside);
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
