#include "torch/state_dict.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "torch/archive.h"
#include "torch/pt2_archive.h"

namespace ferry::torch {
namespace {

using Kind = PickleValue::Kind;

constexpr struct {
  std::string_view name;
  DType dtype;
} kSafetensorsTypes[] = {
    {"F64", DType::kDouble},
    {"F32", DType::kFloat},
    {"F16", DType::kFloat16},
    {"BF16", DType::kBFloat16},
    {"I64", DType::kInt64},
    {"I32", DType::kInt32},
    {"I16", DType::kInt16},
    {"I8", DType::kInt8},
    {"U64", DType::kUInt64},
    {"U32", DType::kUInt32},
    {"U16", DType::kUInt16},
    {"U8", DType::kUInt8},
    {"BOOL", DType::kBool},
    {"C64", DType::kComplex64},
    {"F8_E4M3", DType::kFloat8E4M3FN},
    {"F8_E5M2", DType::kFloat8E5M2},
    {"F8_E8M0", DType::kFloat8E8M0},
};

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kLongestHeader = 100'000'000;  // as the format has it

DType SafetensorsType(const std::string& name) {
  for (const auto& known : kSafetensorsTypes)
    if (known.name == name) return known.dtype;
  Fail(ErrorCode::kUnsupported, "elements of type '", Printable(name), "' are not supported");
}

Tensor SafetensorsTensor(const Json& entry, const SharedBytes& data) {
  DType dtype = SafetensorsType(entry.At("dtype").AsString());
  std::vector<int64_t> sizes;
  for (const Json& size : entry.At("shape").AsArray()) sizes.push_back(size.AsInt());
  const Json::Array& range = entry.At("data_offsets").AsArray();
  if (range.size() != 2) Fail(ErrorCode::kInvalidModel, "'data_offsets' must be two numbers");
  uint64_t begin = range[0].AsUnsigned(), end = range[1].AsUnsigned();
  Shape shape(sizes);
  if (begin > end || end > data.bytes.size() || end - begin != StorageBytes(dtype, shape.ElementCount()))
    Fail(ErrorCode::kInvalidModel, dtype, shape, " does not lie in bytes ", begin, " to ", end, " of ",
         data.bytes.size());
  SharedBytes storage{data.bytes.subspan(begin, end - begin), data.keep_alive};
  return TensorFromStorage(storage, dtype, 0, sizes, shape.Strides());
}

StateDict ReadSafetensors(const SharedBytes& file) {
  uint64_t length = 0;
  if (file.bytes.size() < kLengthBytes) Fail(ErrorCode::kInvalidModel, "the file is too short to be safetensors");
  std::memcpy(&length, file.bytes.data(), kLengthBytes);
  if (length > kLongestHeader || length > file.bytes.size() - kLengthBytes)
    Fail(ErrorCode::kInvalidModel, "is neither a checkpoint of PyTorch (since 1.6) nor a .safetensors file");
  Json header = Json::Parse(file.text().substr(kLengthBytes, length));
  SharedBytes data{file.bytes.subspan(kLengthBytes + length), file.keep_alive};
  StateDict weights;
  for (const auto& [name, entry] : header.AsObject()) {
    if (name == "__metadata__") continue;
    try {
      weights.emplace_back(name, SafetensorsTensor(entry, data));
    } catch (Error& error) {
      throw error.At(Cat("tensor '", Printable(name), "'"));
    }
  }
  return weights;
}

bool HasTensors(const PickleValue& value) {
  if (value.kind != Kind::kDict) return false;
  for (size_t i = 1; i < value.items.size(); i += 2)
    if (value.items[i]->is(Kind::kTensor)) return true;
  return false;
}

// The dict of weights: one inside the root, under the names that training scripts use, or the root, or the only dict
// inside it that has tensors.
const PickleValue& FindWeights(const PickleValue& root) {
  if (root.kind != Kind::kDict)
    Fail(ErrorCode::kUnsupported, "the checkpoint holds ", root.KindName(),
         ", not a dict of tensors; save model.state_dict()");
  static constexpr std::string_view kUsual[] = {"state_dict", "model_state_dict", "model", "module", "weights"};
  for (std::string_view key : kUsual)
    if (const PickleValue* found = root.Find(key); found && HasTensors(*found)) return *found;
  if (HasTensors(root)) return root;
  const PickleValue* only = nullptr;
  for (size_t i = 1; i < root.items.size(); i += 2) {
    if (!HasTensors(*root.items[i])) continue;
    if (only) Fail(ErrorCode::kUnsupported, "the checkpoint has several dicts of tensors; save model.state_dict()");
    only = root.items[i];
  }
  if (!only) Fail(ErrorCode::kUnsupported, "the checkpoint has no dict of tensors; save model.state_dict()");
  return *only;
}

class CheckpointReader {
 public:
  explicit CheckpointReader(Archive& archive) : archive_(archive) {}

  StateDict Read() {
    if (!archive_.Has("data.pkl")) Fail(ErrorCode::kUnsupported, "the archive is no checkpoint: it has no data.pkl");
    Pickle pickle = archive_.ReadPickle("data.pkl");
    const PickleValue& root = pickle.root();
    if (root.is(Kind::kObject))
      AddModule(root, "");
    else
      AddTensors(FindWeights(root), "");
    return std::move(weights_);
  }

 private:
  // A TorchScript module: its tensors, then those of the modules in it.
  void AddModule(const PickleValue& module, const std::string& prefix) {
    if (module.items.empty() || !module.items[0]->is(Kind::kDict)) return;
    const PickleValue& state = *module.items[0];
    AddTensors(state, prefix);
    for (size_t i = 0; i + 1 < state.items.size(); i += 2)
      if (state.items[i + 1]->is(Kind::kObject))
        AddModule(*state.items[i + 1], Cat(prefix, state.items[i]->AsString(), "."));
  }

  void AddTensors(const PickleValue& dict, const std::string& prefix) {
    for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      if (!dict.items[i + 1]->is(Kind::kTensor)) continue;
      std::string name = Cat(prefix, dict.items[i]->AsString());
      try {
        weights_.emplace_back(name, archive_.MakeTensor(*dict.items[i + 1]->tensor, "data"));
      } catch (Error& error) {
        throw error.At(Cat("tensor '", Printable(name), "'"));
      }
    }
  }

  Archive& archive_;
  StateDict weights_;
};

StateDict ReadArchive(Archive& archive) {
  if (!HoldsExportedProgram(archive)) return CheckpointReader(archive).Read();
  ExportedProgram program = ReadPt2(archive);
  return StateDict(program.weights.begin(), program.weights.end());
}

}  // namespace

StateDict ReadStateDict(const SharedBytes& file) {
  if (!ZipArchive::LooksLikeZip(file.bytes)) return ReadSafetensors(file);
  return ReadArchive(*Archive::Open(file));
}

StateDict ReadStateDict(const std::string& path) {
  std::shared_ptr<MappedFile> file = MappedFile::Open(path);
  try {
    return ReadStateDict(SharedBytes{file->bytes(), file});
  } catch (Error& error) {
    throw error.At(Printable(path));
  }
}

}  // namespace ferry::torch
