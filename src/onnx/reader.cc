#include "onnx/reader.h"

#include <filesystem>

#include "base/mapped_file.h"
#include "onnx/external_data.h"
#include "onnx/foreign.h"
#include "onnx/read_parts.h"
#include "onnx/unknown_fields.h"

namespace ferry {
namespace onnx {
namespace {

using namespace model_field;

// Attributes are judged by the IR version, and nothing makes it come first.
int64_t FindIrVersion(Source& source, std::string_view bytes) {
  int64_t version = 0;
  Fields fields(source, bytes);
  while (fields.Next()) {
    if (fields.tag() == kIrVersion)
      version = fields.Int();
    else
      fields.Skip();
  }
  return version;
}

void ReadModelField(Fields& fields, Model& model) {
  switch (fields.tag()) {
    case kIrVersion: model.ir_version = fields.Int(); break;
    case kProducerName: model.producer_name = fields.Text(); break;
    case kProducerVersion: model.producer_version = fields.Text(); break;
    case kDomain: model.domain = fields.Text(); break;
    case kModelVersion: model.model_version = fields.Int(); break;
    case kDoc: model.doc = fields.Text(); break;
    case kGraph:
      if (model.has_graph) fields.Fault("the model has a second graph");
      model.graph = ReadPart(fields, "graph", -1, ReadGraph);
      model.has_graph = true;
      break;
    case kOpsetImport: ReadElement(fields, "opset_import", model.opsets, ReadOpset); break;
    case kMetadata: ReadEntry(fields, model.metadata, model.unknown); break;
    case kTrainingInfo: ReadElement(fields, "training_info", model.training, ReadTrainingInfo); break;
    case kFunctions: ReadElement(fields, "functions", model.functions, ReadFunction); break;
    case kConfiguration: model.device_configurations.push_back(fields.Text()); break;
    default: fields.Keep(model.unknown);
  }
}

bool SaysNothing(const Model& model) {
  return model.ir_version == 0 && !model.has_graph && model.opsets.empty() && model.producer_name.empty() &&
         model.producer_version.empty() && model.domain.empty() && model.model_version == 0 && model.doc.empty() &&
         model.metadata.empty() && model.training.empty() && model.functions.empty() &&
         model.device_configurations.empty();
}

Model ReadModelProto(Source& source, std::string_view bytes) {
  source.ir_version = FindIrVersion(source, bytes);
  Model model;
  Fields fields(source, bytes);
  while (fields.Next()) ReadModelField(fields, model);
  SortFields(model.unknown);
  if (SaysNothing(model)) source.Malformed(bytes.data(), "a protobuf message, but none of its fields is a model's");
  return model;
}

Model ReadNamed(const std::string& name, std::string_view bytes, std::shared_ptr<const void> keep_alive) {
  if (bytes.empty()) Fail(ErrorCode::kInvalidModel, name, ": the file is empty");
  Source source(name, bytes, std::move(keep_alive));
  Model model;
  try {
    model = ReadModelProto(source, bytes);
  } catch (Error& error) {
    std::string foreign = DescribeForeignFormat(bytes);
    if (error.code() != ErrorCode::kInvalidModel || foreign.empty()) throw;
    Fail(ErrorCode::kInvalidModel, name, ": not an ONNX model: ", foreign);
  }
  return model;
}

}  // namespace
}  // namespace onnx

Model ReadModel(const std::string& path, const ReadOptions& options) {
  std::shared_ptr<MappedFile> file = MappedFile::Open(path);
  std::string_view bytes = file->text();
  Model model = onnx::ReadNamed(Printable(path), bytes, std::move(file));
  if (!options.load_external) return model;
  if (!options.folder.empty()) {
    onnx::LoadExternalData(model, onnx::ExternalFolder(options.folder));
    return model;
  }
  namespace fs = std::filesystem;
  std::string folder = fs::path(path).parent_path().string(), linked_folder;
  std::error_code fault;
  if (fs::is_symlink(path, fault)) linked_folder = fs::canonical(path, fault).parent_path().string();
  onnx::LoadExternalData(model, onnx::ExternalFolder(folder.empty() ? "." : folder, linked_folder));
  return model;
}

Model ReadModelFromMemory(std::span<const std::byte> bytes, std::shared_ptr<const void> keep_alive,
                          const ReadOptions& options) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  Model model = onnx::ReadNamed("model in memory", text, std::move(keep_alive));
  if (options.load_external && !options.folder.empty())
    onnx::LoadExternalData(model, onnx::ExternalFolder(options.folder));
  return model;
}

}  // namespace ferry
