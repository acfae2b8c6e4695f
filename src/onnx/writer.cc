#include "onnx/writer.h"

#include <filesystem>
#include <limits>
#include <optional>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "graph/stored_tensors.h"
#include "onnx/write_parts.h"

namespace ferry {
namespace onnx {
namespace {

// Readers map whole pages: large tensors begin on one. Small ones would waste most of it.
constexpr uint64_t kPage = 4096, kSmallAlignment = 64, kLargeTensor = 64 * 1024;

using Placed = std::vector<std::pair<uint64_t, const Tensor*>>;  // offset and elements, in file order

void CheckSize(uint64_t bytes) {
  constexpr uint64_t kLargest = std::numeric_limits<int32_t>::max();
  if (bytes > kLargest)
    Fail(ErrorCode::kLimit, "the model takes ", bytes,
         " bytes, more than the 2 GiB a .onnx file can have; write its weights to an external file");
}

// The name comes from the caller, never from the model: a location read from a file could point anywhere.
void CheckPlainName(const std::string& name, const std::string& model_name) {
  bool plain = !name.empty() && name != "." && name != ".." && name.find_first_of(std::string("/\\\0", 3)) == name.npos;
  Require(plain, "the external data file '", Printable(name), "' must be a plain file name, without folders");
  Require(name != model_name, "the external data file cannot have the model's own name '", Printable(name), "'");
}

void RequireElements(const StoredTensor& stored) {
  if (stored.storage == StoredTensor::Storage::kExternal) stored.Get();
}

bool WantsExternal(const Model& model, const WriteOptions& options) {
  if (options.external != WriteOptions::External::kAuto) return options.external == WriteOptions::External::kAlways;
  uint64_t total = 0;
  ForEachStoredTensor(model, [&](const StoredTensor& stored) { total += stored.tensor.bytes(); });
  return total > options.external_above;
}

// Tensors that share their elements in memory share them in the file.
Placed PlaceTensors(const Model& model, uint64_t smallest, Placement& placement) {
  Placed placed;
  uint64_t end = 0;
  std::map<std::pair<const std::byte*, size_t>, uint64_t> known;
  ForEachStoredTensor(model, [&](const StoredTensor& stored) {
    const Tensor& tensor = stored.tensor;
    if (!tensor.defined() || tensor.dtype() == DType::kString || tensor.bytes() == 0 || tensor.bytes() < smallest)
      return;
    auto [found, is_new] = known.try_emplace({tensor.raw(), tensor.bytes()}, 0);
    if (is_new) {
      uint64_t alignment = tensor.bytes() >= kLargeTensor ? kPage : kSmallAlignment;
      found->second = (end + alignment - 1) / alignment * alignment;
      end = found->second + tensor.bytes();
      placed.emplace_back(found->second, &tensor);
    }
    placement.extents[&stored] = {found->second, tensor.bytes()};
  });
  return placed;
}

void WritePieces(AtomicFile& file, std::string_view bytes) {
  ReadOnce(std::as_bytes(std::span(bytes)), [&](std::span<const std::byte> piece) {
    file.Write({reinterpret_cast<const char*>(piece.data()), piece.size()});
  });
}

void WriteData(AtomicFile& file, const Placed& placed) {
  static const std::string kZeros(kPage, '\0');
  uint64_t at = 0;
  for (const auto& [offset, tensor] : placed) {
    file.Write(std::string_view(kZeros).substr(0, offset - at));
    WritePieces(file, {reinterpret_cast<const char*>(tensor->raw()), tensor->bytes()});
    at = offset + tensor->bytes();
  }
}

}  // namespace
}  // namespace onnx

std::string SerializeModel(const Model& model) {
  onnx::Encoder out;
  onnx::PartWriter(out).WriteModel(model);
  onnx::CheckSize(out.size());
  return out.ToString();
}

void WriteModel(const Model& model, const std::string& path, const WriteOptions& options) {
  std::filesystem::path target(path);
  std::string model_name = target.filename().string();
  onnx::Placement placement;
  placement.file = options.external_name.empty() ? model_name + ".data" : options.external_name;
  onnx::CheckPlainName(placement.file, model_name);
  ForEachStoredTensor(model, [](const StoredTensor& stored) { onnx::RequireElements(stored); });

  onnx::Placed placed;
  if (onnx::WantsExternal(model, options)) placed = onnx::PlaceTensors(model, options.smallest_external, placement);
  onnx::Encoder out;
  onnx::PartWriter(out, &placement).WriteModel(model);
  onnx::CheckSize(out.size());

  AtomicFile file(path);
  std::optional<AtomicFile> data;
  if (!placed.empty()) {
    if (file.straight_through())
      Fail(ErrorCode::kIo, Printable(path),
           ": is no regular file, so its weights cannot be written to a file beside it");
    data.emplace((target.parent_path() / placement.file).string(), AtomicFile::Link::kReplaced);
    onnx::WriteData(*data, placed);
    data->Finish();
  }
  out.WriteTo([&](std::string_view piece) { onnx::WritePieces(file, piece); });
  file.Finish();
  if (data) data->Commit();
  file.Commit();
}

}  // namespace ferry
