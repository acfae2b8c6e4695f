#include "torch/pt2_archive.h"

#include "torch/pt2_graph.h"

namespace ferry::torch {
namespace {

constexpr std::string_view kProgram = "models/model.json";                    // since 2.8
constexpr std::string_view kOldProgram = "serialized_exported_program.json";  // 2.1 to 2.7

// Each weight an entry of its own, described by a table (since 2.9).
void ReadPayloads(Archive& archive, std::string_view folder, std::string_view table, ExportedProgram& program) {
  Json json = Json::Parse(archive.Read(Cat(folder, table)).text());
  for (const auto& [name, entry] : json.At("config").AsObject()) {
    try {
      SharedBytes bytes = archive.Read(Cat(folder, entry.At("path_name").AsString()));
      if (entry.At("use_pickle").AsBool()) {
        // Only custom objects and tensors of Python subclasses; a program that uses one is refused by its name.
        continue;
      }
      TensorMeta meta = ParseTensorMeta(entry.At("tensor_meta"));
      std::optional<Shape> sizes = ToConcrete(meta.sizes), strides = ToConcrete(meta.strides);
      if (!sizes || !strides || !meta.storage_offset.known() || sizes->rank() != strides->rank())
        Fail(ErrorCode::kInvalidModel, "its sizes are not numbers");
      if (meta.dtype == DType::kUndefined || meta.layout != kStridedLayout)
        Fail(ErrorCode::kUnsupported, "its element type or layout (", meta.dtype_number, ", ", meta.layout,
             ") has no counterpart in ONNX");
      program.weights[name] =
          TensorFromStorage(bytes, meta.dtype, *meta.storage_offset.value, sizes->ToVector(), strides->ToVector());
    } catch (Error& error) {
      throw error.At(Cat("weight '", Printable(name), "'"));
    }
  }
}

// All weights in one pickle (up to 2.8).
void ReadPickledWeights(Archive& archive, std::string_view entry, ExportedProgram& program) {
  SharedBytes bytes = archive.Read(entry);
  if (bytes.bytes.empty()) return;
  std::shared_ptr<Archive> inner = Archive::Open(bytes);
  Pickle pickle = inner->ReadPickle("data.pkl");
  const PickleValue& root = pickle.root();
  if (!root.is(PickleValue::Kind::kDict))
    Fail(ErrorCode::kInvalidModel, "the weights are ", root.KindName(), ", not a dict");
  for (size_t i = 0; i + 1 < root.items.size(); i += 2)
    if (root.items[i + 1]->is(PickleValue::Kind::kTensor))
      program.weights[root.items[i]->AsString()] = inner->MakeTensor(*root.items[i + 1]->tensor, "data");
}

void CollectTensors(Archive& archive, const PickleValue& value, std::vector<Tensor>& tensors) {
  if (value.is(PickleValue::Kind::kTensor)) tensors.push_back(archive.MakeTensor(*value.tensor, "data"));
  bool is_dict = value.is(PickleValue::Kind::kDict);
  if (value.is_sequence() || is_dict)
    for (size_t i = is_dict ? 1 : 0; i < value.items.size(); i += is_dict ? 2 : 1)
      CollectTensors(archive, *value.items[i], tensors);
}

void ReadSampleInputs(Archive& archive, std::string_view entry, ExportedProgram& program) {
  if (!archive.Has(entry)) return;
  SharedBytes bytes = archive.Read(entry);
  if (bytes.bytes.empty()) return;
  // Samples are a convenience: inputs of a class of the user's own must not stand in the way of an export.
  try {
    std::shared_ptr<Archive> inner = Archive::Open(bytes);
    Pickle pickle = inner->ReadPickle("data.pkl");
    CollectTensors(*inner, pickle.root(), program.sample_inputs);
  } catch (Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw error.At("sample inputs");
    program.sample_inputs.clear();
  }
}

ExportedProgram ReadGraph(Archive& archive, std::string_view entry) {
  try {
    // Graphs inside graphs (cond in cond) nest four levels of JSON each.
    return ParseProgram(Json::Parse(archive.Read(entry).text(), {.depth = 500}));
  } catch (Error& error) {
    throw error.At(Printable(entry));
  }
}

}  // namespace

bool HoldsExportedProgram(const Archive& archive) { return archive.Has(kProgram) || archive.Has(kOldProgram); }

ExportedProgram ReadPt2(Archive& archive) {
  if (archive.Has(kProgram)) {
    ExportedProgram program = ReadGraph(archive, kProgram);
    if (archive.Has("data/weights/model_weights_config.json")) {
      ReadPayloads(archive, "data/weights/", "model_weights_config.json", program);
      ReadPayloads(archive, "data/constants/", "model_constants_config.json", program);
    } else {
      ReadPickledWeights(archive, "data/weights/model.pt", program);
      ReadPickledWeights(archive, "data/constants/model.pt", program);
    }
    ReadSampleInputs(archive, "data/sample_inputs/model.pt", program);
    return program;
  }
  if (!archive.Has(kOldProgram))
    Fail(ErrorCode::kInvalidModel, "the archive holds no exported program: neither ", kProgram, " nor ", kOldProgram);
  ExportedProgram program = ReadGraph(archive, kOldProgram);
  // 2.1 wrote the same pickles under the names .json.
  for (std::string_view weights : {"serialized_state_dict", "serialized_constants"})
    for (std::string_view suffix : {".pt", ".json"})
      if (archive.Has(Cat(weights, suffix))) ReadPickledWeights(archive, Cat(weights, suffix), program);
  ReadSampleInputs(archive, "serialized_example_inputs.pt", program);
  return program;
}

ExportedProgram ReadPt2(const std::string& path) {
  std::shared_ptr<Archive> archive = Archive::Open(path);
  try {
    return ReadPt2(*archive);
  } catch (Error& error) {
    throw error.At(Printable(path));
  }
}

}  // namespace ferry::torch
