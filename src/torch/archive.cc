#include "torch/archive.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/mapped_file.h"

namespace ferry::torch {
namespace {

// A tensor that repeats few elements (stride 0) may unfold to this much and no more.
constexpr auto kMostUnfoldedBytes = static_cast<size_t>(std::min<uint64_t>(uint64_t{1} << 32, PTRDIFF_MAX));

bool IsContiguous(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  int64_t expected = 1;
  for (size_t axis = sizes.size(); axis-- > 0;) {
    if (sizes[axis] == 1) continue;
    if (strides[axis] != expected) return false;
    expected = CheckedProduct(expected, sizes[axis]);
  }
  return true;
}

// The largest element offset that the tensor touches, the first one being `offset`.
int64_t LastElement(int64_t offset, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  int64_t last = offset;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    int64_t reach;
    if (strides[axis] < 0 || __builtin_mul_overflow(sizes[axis] - 1, strides[axis], &reach) ||
        __builtin_add_overflow(last, reach, &last))
      Fail(ErrorCode::kInvalidModel, "a stored tensor has impossible strides");
  }
  return last;
}

void CopyStrided(const std::byte* from, size_t width, const Shape& shape, const std::vector<int64_t>& strides,
                 std::byte* to) {
  size_t rank = shape.rank();
  std::vector<int64_t> index(rank);
  int64_t offset = 0;
  for (int64_t i = 0, count = shape.ElementCount(); i < count; ++i, to += width) {
    std::memcpy(to, from + static_cast<size_t>(offset) * width, width);
    for (size_t axis = rank; axis-- > 0;) {
      offset += strides[axis];
      if (++index[axis] < shape[axis]) break;
      offset -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace

Tensor TensorFromStorage(const SharedBytes& storage, DType dtype, int64_t offset, const std::vector<int64_t>& sizes,
                         const std::vector<int64_t>& strides) {
  Shape shape(sizes);
  int64_t count = shape.ElementCount();
  if (count == 0) return Tensor(dtype, shape);
  auto width = static_cast<size_t>(BitWidth(dtype)) / 8;
  int64_t last = LastElement(offset, sizes, strides);
  if (offset < 0 || static_cast<uint64_t>(last) >= storage.bytes.size() / width)
    Fail(ErrorCode::kInvalidModel, "a tensor of shape ", shape, " reaches to element ", last, " of a storage of ",
         storage.bytes.size() / width);
  const std::byte* first = storage.bytes.data() + static_cast<size_t>(offset) * width;
  bool aligned = reinterpret_cast<uintptr_t>(first) % std::min<size_t>(width, 8) == 0;
  if (aligned && IsContiguous(sizes, strides) && dtype != DType::kBool)
    return Tensor::Borrow(dtype, shape, first, storage.keep_alive);
  if (StorageBytes(dtype, count) > std::max(kMostUnfoldedBytes, storage.bytes.size()))
    Fail(ErrorCode::kLimit, "a tensor of shape ", shape, " unfolds to more than ", kMostUnfoldedBytes, " bytes");
  Tensor tensor(dtype, shape);
  CopyStrided(first, width, shape, strides, tensor.mutable_raw());
  if (dtype == DType::kBool) {
    auto* bytes = reinterpret_cast<uint8_t*>(tensor.mutable_raw());
    for (int64_t i = 0; i < count; ++i) bytes[i] = bytes[i] != 0;
  }
  return tensor;
}

Archive::Archive(std::shared_ptr<ZipArchive> zip) : zip_(std::move(zip)) {
  const std::vector<ZipEntry>& entries = zip_->entries();
  if (entries.empty()) Fail(ErrorCode::kInvalidModel, "the archive is empty");
  folder_ = entries[0].name.substr(0, entries[0].name.find('/') + 1);
  for (const ZipEntry& entry : entries)
    if (!std::string_view(entry.name).starts_with(folder_)) folder_.clear();
  if (Has("byteorder") && Read("byteorder").text() != "little")
    Fail(ErrorCode::kUnsupported,
         "the archive was written on a big-endian machine; write it again on a little-endian one");
}

std::shared_ptr<Archive> Archive::Open(SharedBytes bytes) {
  // PyTorch stores, and elements of weights hardly compress: what unfolds much further than this is no archive of its.
  constexpr uint64_t kAlways = uint64_t{1} << 26, kTimes = 32;
  ZipLimits limits;
  limits.inflated_archive = std::min(limits.inflated_archive, kAlways + kTimes * bytes.bytes.size());
  return std::shared_ptr<Archive>(new Archive(ZipArchive::Open(std::move(bytes), limits)));
}

std::shared_ptr<Archive> Archive::Open(const std::string& path) {
  std::shared_ptr<MappedFile> file = MappedFile::Open(path);
  try {
    if (!ZipArchive::LooksLikeZip(file->bytes()))
      Fail(ErrorCode::kInvalidModel, "is no archive of PyTorch (since 1.6 they are ZIP files)");
    return Open(SharedBytes{file->bytes(), file});
  } catch (Error& error) {
    throw error.At(Printable(path));
  }
}

std::string Archive::Full(std::string_view name) const { return Cat(folder_, name); }

SharedBytes Archive::Read(std::string_view name) {
  auto it = read_.find(name);
  if (it == read_.end()) it = read_.emplace(std::string(name), zip_->Read(Full(name))).first;
  return it->second;
}

std::vector<std::string> Archive::NamesUnder(std::string_view folder) const {
  std::vector<std::string> names;
  for (const ZipEntry& entry : zip_->entries()) {
    std::string_view name = std::string_view(entry.name).substr(folder_.size());
    if (name.starts_with(folder) && !name.ends_with('/')) names.emplace_back(name);
  }
  return names;
}

Pickle Archive::ReadPickle(std::string_view name) {
  try {
    return Pickle::Load(Read(name).text());
  } catch (Error& error) {
    throw error.At(Printable(name));
  }
}

// A compressed entry that would unfold to more than the pickle says it holds is refused before it is unfolded.
void Archive::RequireStatedSize(const std::string& name, const StorageRef& storage) const {
  const ZipEntry* entry = zip_->Find(Full(name));
  if (!entry || entry->method == ZipEntry::Method::kStored) return;
  const size_t stated = StorageBytes(storage.dtype, std::max<int64_t>(0, storage.elements));
  if (entry->size > stated)
    Fail(ErrorCode::kInvalidModel, "it would unfold to ", entry->size, " bytes, and the archive says that it has ",
         storage.elements, " elements of ", storage.dtype);
}

Tensor Archive::MakeTensor(const TensorRecipe& recipe, std::string_view folder) {
  try {
    const std::string name = Cat(folder, "/", recipe.storage.key);
    RequireStatedSize(name, recipe.storage);
    if (recipe.quantizer)
      Fail(ErrorCode::kUnsupported,
           "the tensor is quantised (torch.quantization), and only a program says what to do with "
           "it: export a program, or take the weights from before quantisation");
    SharedBytes storage = Read(name);
    return TensorFromStorage(storage, recipe.dtype, recipe.offset, recipe.sizes, recipe.strides);
  } catch (Error& error) {
    throw error.At(Cat("storage '", Printable(recipe.storage.key), "'"));
  }
}

}  // namespace ferry::torch
