// The messages of a ModelProto from what they are in memory; the counterpart of read_parts.h.
#pragma once

#include <map>

#include "graph/model.h"
#include "onnx/encoder.h"

namespace ferry::onnx {

// Where tensors go that are moved out of the model file.
struct Placement {
  std::string file;
  struct Extent {
    uint64_t offset, length;
  };
  std::map<const StoredTensor*, Extent> extents;
};

// Writes parts into an encoder. Tensors in `placement` become references; all others carry their elements, and those
// whose elements are not loaded stay the references they were.
class PartWriter {
 public:
  explicit PartWriter(Encoder& out, const Placement* placement = nullptr) : out_(out), placement_(placement) {}

  void WriteModel(const Model& model);
  void WriteTensor(const StoredTensor& stored);
  void WriteSparseTensor(const StoredSparseTensor& sparse);

 private:
  void WriteGraph(const Graph& graph);
  void WriteNode(const Node& node);
  void WriteAttribute(const Attribute& attribute);
  void WriteHeld(const Attribute& attribute);
  void WriteValueInfo(const ValueInfo& info);
  void WriteFunction(const Function& function);
  void WriteTrainingInfo(const TrainingInfo& info);
  void WriteOpset(const OpsetImport& opset);
  void WriteType(const Type& type);
  void WriteTypeKind(const Type& type);
  void WriteShape(const SymbolicShape& shape);
  void WriteTyped(const Tensor& tensor);
  void WriteMetadata(Tag tag, const Metadata& entries, const UnknownFields& kept);
  void WriteSegment(const StoredTensor& stored);
  void WriteEntry(Tag tag, std::string_view key, std::string_view value);

  // A repeated field: one message for each element.
  template <class T>
  void WriteAll(Tag tag, const std::vector<T>& list, void (PartWriter::*write)(const T&)) {
    for (const T& element : list) out_.Message(tag, [&] { (this->*write)(element); });
  }
  template <class T>
  void WriteAll(Tag tag, const std::vector<std::shared_ptr<T>>& list, void (PartWriter::*write)(const T&)) {
    for (const auto& element : list)
      if (element) out_.Message(tag, [&] { (this->*write)(*element); });
  }
  void WriteTexts(Tag tag, const std::vector<std::string>& texts);

  Encoder& out_;
  const Placement* placement_;
};

}  // namespace ferry::onnx
