#include <set>

#include "onnx/unknown_fields.h"
#include "onnx/write_parts.h"

namespace ferry::onnx {

// Fields go out in the order of their numbers, as protobuf's own library writes them; unknown ones follow.

void PartWriter::WriteEntry(Tag tag, std::string_view key, std::string_view value) {
  out_.Message(tag, [&] {
    out_.Text(entry_field::kKey, key);
    out_.Bytes(entry_field::kValue, value);
  });
}

void PartWriter::WriteMetadata(Tag tag, const Metadata& entries, const UnknownFields& kept) {
  std::vector<std::string_view> whole = KeptMessages(kept, tag);
  std::multiset<Metadata::value_type> to_come;
  if (!whole.empty()) to_come.insert(entries.begin(), entries.end());
  auto next = whole.begin();
  for (const auto& entry : entries) {
    if (next != whole.end()) to_come.erase(to_come.find(entry));
    // What was kept of entries that are no longer in the model is left out.
    while (next != whole.end() && EntryOf(*next) != entry && to_come.count(EntryOf(*next)) == 0) ++next;
    if (next != whole.end() && EntryOf(*next) == entry)
      out_.Bytes(tag, *next++);
    else
      WriteEntry(tag, entry.first, entry.second);
  }
}

void PartWriter::WriteTexts(Tag tag, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) out_.Bytes(tag, text);
}

void PartWriter::WriteOpset(const OpsetImport& opset) {
  out_.Bytes(opset_field::kDomain, opset.domain);
  out_.NonZeroInt(opset_field::kVersion, opset.version);
  out_.Fields(opset.unknown);
}

void PartWriter::WriteModel(const Model& model) {
  using namespace model_field;
  out_.NonZeroInt(kIrVersion, model.ir_version);
  out_.Text(kProducerName, model.producer_name);
  out_.Text(kProducerVersion, model.producer_version);
  out_.Text(kDomain, model.domain);
  out_.NonZeroInt(kModelVersion, model.model_version);
  out_.Text(kDoc, model.doc);
  if (model.has_graph) out_.Message(kGraph, [&] { WriteGraph(model.graph); });
  WriteAll(kOpsetImport, model.opsets, &PartWriter::WriteOpset);
  WriteMetadata(kMetadata, model.metadata, model.unknown);
  WriteAll(kTrainingInfo, model.training, &PartWriter::WriteTrainingInfo);
  WriteAll(kFunctions, model.functions, &PartWriter::WriteFunction);
  WriteTexts(kConfiguration, model.device_configurations);
  out_.Fields(WithoutKept(model.unknown, {kMetadata}));
}

void PartWriter::WriteTrainingInfo(const TrainingInfo& info) {
  using namespace training_field;
  if (info.initialization) out_.Message(kInitialization, [&] { WriteGraph(*info.initialization); });
  if (info.algorithm) out_.Message(kAlgorithm, [&] { WriteGraph(*info.algorithm); });
  WriteMetadata(kInitializationBinding, info.initialization_binding, info.unknown);
  WriteMetadata(kUpdateBinding, info.update_binding, info.unknown);
  out_.Fields(WithoutKept(info.unknown, {kInitializationBinding, kUpdateBinding}));
}

void PartWriter::WriteGraph(const Graph& graph) {
  using namespace graph_field;
  WriteAll(kNode, graph.nodes, &PartWriter::WriteNode);
  out_.Text(kName, graph.name);
  WriteAll(kInitializer, graph.initializers, &PartWriter::WriteTensor);
  out_.Text(kDoc, graph.doc);
  WriteAll(kInput, graph.inputs, &PartWriter::WriteValueInfo);
  WriteAll(kOutput, graph.outputs, &PartWriter::WriteValueInfo);
  WriteAll(kValueInfo, graph.value_infos, &PartWriter::WriteValueInfo);
  for (const QuantizationAnnotation& annotation : graph.quantization) {
    out_.Message(kQuantization, [&] {
      out_.Text(annotation_field::kTensorName, annotation.tensor_name);
      WriteMetadata(annotation_field::kParameters, annotation.parameters, annotation.unknown);
      out_.Fields(WithoutKept(annotation.unknown, {annotation_field::kParameters}));
    });
  }
  WriteAll(kSparseInitializer, graph.sparse_initializers, &PartWriter::WriteSparseTensor);
  WriteMetadata(kMetadata, graph.metadata, graph.unknown);
  out_.Fields(WithoutKept(graph.unknown, {kMetadata}));
}

void PartWriter::WriteNode(const Node& node) {
  using namespace node_field;
  WriteTexts(kInput, node.inputs);
  WriteTexts(kOutput, node.outputs);
  out_.Text(kName, node.name);
  out_.Text(kOpType, node.op_type);
  WriteAll(kAttribute, node.attributes, &PartWriter::WriteAttribute);
  out_.Text(kDoc, node.doc);
  out_.Text(kDomain, node.domain);
  out_.Text(kOverload, node.overload);
  WriteMetadata(kMetadata, node.metadata, node.unknown);
  WriteTexts(kDeviceConfigurations, node.device_configurations);
  out_.Fields(WithoutKept(node.unknown, {kMetadata}));
}

void PartWriter::WriteAttribute(const Attribute& attribute) {
  using namespace attribute_field;
  out_.Text(kName, attribute.name);
  WriteHeld(attribute);
  out_.Text(kDoc, attribute.doc);
  out_.NonZeroInt(kAttributeType, static_cast<int64_t>(attribute.type));
  out_.Text(kRefName, attribute.ref_name);
  out_.Fields(attribute.unknown);
}

void PartWriter::WriteHeld(const Attribute& attribute) {
  using namespace attribute_field;
  const Attribute::Held& held = attribute.held;
  if (auto* number = std::get_if<float>(&held)) return out_.Float(kFloat, *number);
  if (auto* number = std::get_if<int64_t>(&held)) return out_.Int(kInt, *number);
  if (auto* text = std::get_if<std::string>(&held)) return out_.Bytes(kString, *text);
  if (auto* tensor = std::get_if<std::shared_ptr<StoredTensor>>(&held))
    return WriteAll(kTensor, {*tensor}, &PartWriter::WriteTensor);
  if (auto* graph = std::get_if<std::shared_ptr<Graph>>(&held))
    return WriteAll(kGraph, {*graph}, &PartWriter::WriteGraph);
  if (auto* sparse = std::get_if<std::shared_ptr<StoredSparseTensor>>(&held))
    return WriteAll(kSparseTensor, {*sparse}, &PartWriter::WriteSparseTensor);
  if (auto* type = std::get_if<Type>(&held)) return out_.Message(kType, [&] { WriteType(*type); });
  if (auto* numbers = std::get_if<std::vector<float>>(&held)) {
    for (float number : *numbers) out_.Float(kFloats, number);
  } else if (auto* integers = std::get_if<std::vector<int64_t>>(&held)) {
    for (int64_t number : *integers) out_.Int(kInts, number);
  } else if (auto* texts = std::get_if<std::vector<std::string>>(&held)) {
    WriteTexts(kStrings, *texts);
  } else if (auto* tensors = std::get_if<std::vector<std::shared_ptr<StoredTensor>>>(&held)) {
    WriteAll(kTensors, *tensors, &PartWriter::WriteTensor);
  } else if (auto* graphs = std::get_if<std::vector<std::shared_ptr<Graph>>>(&held)) {
    WriteAll(kGraphs, *graphs, &PartWriter::WriteGraph);
  } else if (auto* sparses = std::get_if<std::vector<std::shared_ptr<StoredSparseTensor>>>(&held)) {
    WriteAll(kSparseTensors, *sparses, &PartWriter::WriteSparseTensor);
  } else if (auto* types = std::get_if<std::vector<Type>>(&held)) {
    WriteAll(kTypes, *types, &PartWriter::WriteType);
  }
}

void PartWriter::WriteFunction(const Function& function) {
  using namespace function_field;
  out_.Text(kName, function.name);
  WriteTexts(kInput, function.inputs);
  WriteTexts(kOutput, function.outputs);
  WriteTexts(kAttribute, function.attributes);
  WriteAll(kNode, function.nodes, &PartWriter::WriteNode);
  out_.Text(kDoc, function.doc);
  WriteAll(kOpsetImport, function.opsets, &PartWriter::WriteOpset);
  out_.Text(kDomain, function.domain);
  WriteAll(kAttributeProto, function.attribute_defaults, &PartWriter::WriteAttribute);
  WriteAll(kValueInfo, function.value_infos, &PartWriter::WriteValueInfo);
  out_.Text(kOverload, function.overload);
  WriteMetadata(kMetadata, function.metadata, function.unknown);
  out_.Fields(WithoutKept(function.unknown, {kMetadata}));
}

void PartWriter::WriteValueInfo(const ValueInfo& info) {
  using namespace value_info_field;
  out_.Text(kName, info.name);
  bool has_type = info.type.known() || !info.type.denotation.empty() || info.type.unknown_fields;
  if (has_type) out_.Message(kType, [&] { WriteType(info.type); });
  out_.Text(kDoc, info.doc);
  WriteMetadata(kMetadata, info.metadata, info.unknown);
  out_.Fields(WithoutKept(info.unknown, {kMetadata}));
}

}  // namespace ferry::onnx
