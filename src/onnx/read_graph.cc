#include "onnx/read_parts.h"
#include "onnx/unknown_fields.h"

namespace ferry::onnx {

void Once::Take(Fields& fields) {
  uint64_t bit = uint64_t{1} << (fields.tag() % 64);
  if (seen_ & bit) fields.Fault(Cat("field ", fields.tag(), " is given twice"));
  seen_ |= bit;
}

void ReadEntry(Fields& owner, Metadata& out, UnknownFields& kept) {
  Tag tag = owner.tag();
  std::string_view bytes = owner.Bytes();
  auto& [key, value] = out.emplace_back();
  bool is_whole = true;
  Fields fields(owner.source(), bytes);
  while (fields.Next()) {
    switch (fields.tag()) {
      case entry_field::kKey: key = fields.Text(); break;
      case entry_field::kValue: value = fields.Text(); break;
      default: fields.Skip(); is_whole = false;
    }
  }
  if (!is_whole) KeepWhole(kept, tag, bytes);
}

OpsetImport ReadOpset(Source& source, std::string_view bytes) {
  OpsetImport opset;
  Fields fields(source, bytes);
  while (fields.Next()) {
    switch (fields.tag()) {
      case opset_field::kDomain: opset.domain = fields.Text(); break;
      case opset_field::kVersion: opset.version = fields.Int(); break;
      default: fields.Keep(opset.unknown);
    }
  }
  return opset;
}

ValueInfo ReadValueInfo(Source& source, std::string_view bytes) {
  ValueInfo info;
  Once once;
  Fields fields(source, bytes);
  while (fields.Next()) {
    switch (fields.tag()) {
      case value_info_field::kName: info.name = fields.Text(); break;
      case value_info_field::kType:
        once.Take(fields);
        info.type = ReadPart(fields, "type", -1, ReadType);
        break;
      case value_info_field::kDoc: info.doc = fields.Text(); break;
      case value_info_field::kMetadata: ReadEntry(fields, info.metadata, info.unknown); break;
      default: fields.Keep(info.unknown);
    }
  }
  SortFields(info.unknown);
  return info;
}

Node ReadNode(Source& source, std::string_view bytes) {
  Node node;
  Fields fields(source, bytes);
  while (fields.Next()) {
    switch (fields.tag()) {
      case node_field::kInput: node.inputs.push_back(fields.Text()); break;
      case node_field::kOutput: node.outputs.push_back(fields.Text()); break;
      case node_field::kName: node.name = fields.Text(); break;
      case node_field::kOpType: node.op_type = fields.Text(); break;
      case node_field::kDomain: node.domain = fields.Text(); break;
      case node_field::kOverload: node.overload = fields.Text(); break;
      case node_field::kAttribute: ReadElement(fields, "attribute", node.attributes, ReadAttribute); break;
      case node_field::kDoc: node.doc = fields.Text(); break;
      case node_field::kMetadata: ReadEntry(fields, node.metadata, node.unknown); break;
      case node_field::kDeviceConfigurations: node.device_configurations.push_back(fields.Text()); break;
      default: fields.Keep(node.unknown);
    }
  }
  SortFields(node.unknown);
  return node;
}

namespace {
QuantizationAnnotation ReadAnnotation(Source& source, std::string_view bytes) {
  QuantizationAnnotation annotation;
  Fields fields(source, bytes);
  while (fields.Next()) {
    switch (fields.tag()) {
      case annotation_field::kTensorName: annotation.tensor_name = fields.Text(); break;
      case annotation_field::kParameters: ReadEntry(fields, annotation.parameters, annotation.unknown); break;
      default: fields.Keep(annotation.unknown);
    }
  }
  SortFields(annotation.unknown);
  return annotation;
}
}  // namespace

Graph ReadGraph(Source& source, std::string_view bytes) {
  Graph graph;
  Fields fields(source, bytes);
  while (fields.Next()) {
    switch (fields.tag()) {
      case graph_field::kNode: ReadElement(fields, "node", graph.nodes, ReadNode); break;
      case graph_field::kName: graph.name = fields.Text(); break;
      case graph_field::kInitializer: ReadElement(fields, "initializer", graph.initializers, ReadTensor); break;
      case graph_field::kSparseInitializer:
        ReadElement(fields, "sparse_initializer", graph.sparse_initializers, ReadSparseTensor);
        break;
      case graph_field::kDoc: graph.doc = fields.Text(); break;
      case graph_field::kInput: ReadElement(fields, "input", graph.inputs, ReadValueInfo); break;
      case graph_field::kOutput: ReadElement(fields, "output", graph.outputs, ReadValueInfo); break;
      case graph_field::kValueInfo: ReadElement(fields, "value_info", graph.value_infos, ReadValueInfo); break;
      case graph_field::kQuantization:
        ReadElement(fields, "quantization_annotation", graph.quantization, ReadAnnotation);
        break;
      case graph_field::kMetadata: ReadEntry(fields, graph.metadata, graph.unknown); break;
      default: fields.Keep(graph.unknown);
    }
  }
  SortFields(graph.unknown);
  return graph;
}

Function ReadFunction(Source& source, std::string_view bytes) {
  Function function;
  Fields fields(source, bytes);
  while (fields.Next()) {
    switch (fields.tag()) {
      case function_field::kName: function.name = fields.Text(); break;
      case function_field::kDomain: function.domain = fields.Text(); break;
      case function_field::kOverload: function.overload = fields.Text(); break;
      case function_field::kInput: function.inputs.push_back(fields.Text()); break;
      case function_field::kOutput: function.outputs.push_back(fields.Text()); break;
      case function_field::kAttribute: function.attributes.push_back(fields.Text()); break;
      case function_field::kAttributeProto:
        ReadElement(fields, "attribute_proto", function.attribute_defaults, ReadAttribute);
        break;
      case function_field::kNode: ReadElement(fields, "node", function.nodes, ReadNode); break;
      case function_field::kOpsetImport: ReadElement(fields, "opset_import", function.opsets, ReadOpset); break;
      case function_field::kValueInfo: ReadElement(fields, "value_info", function.value_infos, ReadValueInfo); break;
      case function_field::kDoc: function.doc = fields.Text(); break;
      case function_field::kMetadata: ReadEntry(fields, function.metadata, function.unknown); break;
      default: fields.Keep(function.unknown);
    }
  }
  SortFields(function.unknown);
  return function;
}

TrainingInfo ReadTrainingInfo(Source& source, std::string_view bytes) {
  TrainingInfo info;
  Once once;
  Fields fields(source, bytes);
  while (fields.Next()) {
    switch (fields.tag()) {
      case training_field::kInitialization:
        once.Take(fields);
        info.initialization = ReadPart(fields, "initialization", -1, ReadGraph);
        break;
      case training_field::kAlgorithm:
        once.Take(fields);
        info.algorithm = ReadPart(fields, "algorithm", -1, ReadGraph);
        break;
      case training_field::kInitializationBinding: ReadEntry(fields, info.initialization_binding, info.unknown); break;
      case training_field::kUpdateBinding: ReadEntry(fields, info.update_binding, info.unknown); break;
      default: fields.Keep(info.unknown);
    }
  }
  SortFields(info.unknown);
  return info;
}

}  // namespace ferry::onnx
