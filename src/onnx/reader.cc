#include "onnx/reader.h"

#include <filesystem>

#include "base/mapped_file.h"
#include "onnx/external_data.h"
#include "onnx/foreign.h"
#include "onnx/read_parts.h"

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

// False when the field is not one of a model's.
bool ReadModelField(Source& source, Fields& fields, Model& model) {
  switch (fields.tag()) {
    case kIrVersion: model.ir_version = fields.Int(); return true;
    case kProducerName: model.producer_name = fields.Text(); return true;
    case kProducerVersion: model.producer_version = fields.Text(); return true;
    case kDomain: model.domain = fields.Text(); return true;
    case kModelVersion: model.model_version = fields.Int(); return true;
    case kDoc: model.doc = fields.Text(); return true;
    case kGraph:
      if (model.has_graph) fields.Fault("the model has a second graph");
      model.graph = ReadPart(fields, "graph", -1, ReadGraph);
      model.has_graph = true;
      return true;
    case kOpsetImport: ReadElement(fields, "opset_import", model.opsets, ReadOpset); return true;
    case kMetadata: ReadEntry(source, fields.Bytes(), model.metadata); return true;
    case kTrainingInfo: ReadElement(fields, "training_info", model.training, ReadTrainingInfo); return true;
    case kFunctions: ReadElement(fields, "functions", model.functions, ReadFunction); return true;
    case kConfiguration: model.device_configurations.push_back(fields.Text()); return true;
    default: fields.Keep(model.unknown); return false;
  }
}

Model ReadModelProto(Source& source, std::string_view bytes) {
  source.ir_version = FindIrVersion(source, bytes);
  Model model;
  bool looks_like_model = false;
  Fields fields(source, bytes);
  while (fields.Next()) looks_like_model |= ReadModelField(source, fields, model);
  if (!looks_like_model) source.Malformed(bytes.data(), "a protobuf message, but none of its fields is a model's");
  return model;
}

Model ReadNamed(const std::string& name, std::string_view bytes, std::shared_ptr<const void> keep_alive,
                const ReadOptions& options) {
  if (bytes.empty()) Fail(ErrorCode::kInvalidModel, name, ": the file is empty");
  if (std::string foreign = DescribeForeignFormat(bytes); !foreign.empty())
    Fail(ErrorCode::kInvalidModel, name, ": not an ONNX model: ", foreign);
  Source source(name, bytes, std::move(keep_alive));
  Model model;
  try {
    model = ReadModelProto(source, bytes);
  } catch (Error& error) {
    if (error.code() == ErrorCode::kInvalidModel && LooksLikeText(bytes))
      Fail(ErrorCode::kInvalidModel, name, ": not an ONNX model: this is a text file");
    throw;
  }
  if (options.load_external && !options.folder.empty()) LoadExternalData(model, options.folder);
  return model;
}

}  // namespace
}  // namespace onnx

Model ReadModel(const std::string& path, const ReadOptions& options) {
  std::shared_ptr<MappedFile> file = MappedFile::Open(path);
  ReadOptions here = options;
  if (here.folder.empty()) {
    here.folder = std::filesystem::path(path).parent_path().string();
    if (here.folder.empty()) here.folder = ".";
  }
  std::string_view bytes = file->text();
  return onnx::ReadNamed(Printable(path), bytes, std::move(file), here);
}

Model ReadModelFromMemory(std::span<const std::byte> bytes, std::shared_ptr<const void> keep_alive,
                          const ReadOptions& options) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return onnx::ReadNamed("model in memory", text, std::move(keep_alive), options);
}

}  // namespace ferry
