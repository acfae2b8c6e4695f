#include "tensor/npz.h"

#include <array>

#include "base/zip.h"
#include "tensor/npy.h"
#include "tensor/npz_view.h"

namespace ferry {

static constexpr std::string_view kSuffix = ".npy";

static NamedTensors ReadArrays(ZipArchive& archive, Tensor (*read)(const SharedBytes&) = ReadNpy) {
  NamedTensors tensors;
  for (const ZipEntry& entry : archive.entries()) {
    try {
      if (!std::string_view(entry.name).ends_with(kSuffix))
        Fail(ErrorCode::kInvalidModel, "is not a .npy array, so this is no .npz file");
      std::string name = entry.name.substr(0, entry.name.size() - kSuffix.size());
      tensors.emplace_back(std::move(name), read(archive.Read(entry)));
    } catch (Error& error) {
      throw error.At(Cat("array '", Printable(entry.name), "'"));
    }
  }
  return tensors;
}

static NamedTensors ReadFile(const std::string& path, Tensor (*read)(const SharedBytes&)) {
  std::shared_ptr<ZipArchive> archive = ZipArchive::Open(path);
  try {
    return ReadArrays(*archive, read);
  } catch (Error& error) {
    throw error.At(Printable(path));
  }
}

NamedTensors ReadNpz(const std::string& path) { return ReadFile(path, ReadNpy); }

NamedTensors ViewNpz(const std::string& path) { return ReadFile(path, ViewNpy); }

NamedTensors ReadNpz(SharedBytes file) { return ReadArrays(*ZipArchive::Open(std::move(file))); }

void WriteNpz(const std::string& path, const NamedTensors& tensors) {
  ZipWriter writer(path);
  for (const auto& [name, tensor] : tensors) {
    NpyPieces npy = EncodeNpy(tensor);
    std::array<std::span<const std::byte>, 2> pieces = {std::as_bytes(std::span<const char>(npy.header)), npy.bytes()};
    writer.Add(Cat(name, kSuffix), pieces);
  }
  writer.Finish();
}

}  // namespace ferry
