// The messages inside a ModelProto, each read by one function from its bytes.
#pragma once

#include <algorithm>
#include <string_view>

#include "graph/model.h"
#include "onnx/wire.h"

namespace ferry::onnx {

// The entry that `owner` stands at. One with unknown fields is also kept whole: see unknown_fields.h.
void ReadEntry(Fields& owner, Metadata& out, UnknownFields& kept);
OpsetImport ReadOpset(Source& source, std::string_view bytes);
Type ReadType(Source& source, std::string_view bytes);
StoredTensor ReadTensor(Source& source, std::string_view bytes);
StoredSparseTensor ReadSparseTensor(Source& source, std::string_view bytes);
Attribute ReadAttribute(Source& source, std::string_view bytes);
ValueInfo ReadValueInfo(Source& source, std::string_view bytes);
Node ReadNode(Source& source, std::string_view bytes);
Graph ReadGraph(Source& source, std::string_view bytes);
Function ReadFunction(Source& source, std::string_view bytes);
TrainingInfo ReadTrainingInfo(Source& source, std::string_view bytes);

// Protobuf would merge a single message that is given twice; no exporter writes that, so it is taken as damage.
class Once {
 public:
  void Take(Fields& fields);

 private:
  uint64_t seen_ = 0;
};

// Reads a submessage with `read` while errors name `field`.
template <class Read>
auto ReadPart(Fields& fields, const char* field, int64_t index, const Read& read) {
  Inside inside(fields.source(), field, index);
  return read(fields.source(), fields.Bytes());
}
// Room for the elements of a list, counted before the first is read: they are large, and growing would move them all.
template <class T>
void ReserveElements(Fields fields, std::vector<T>& out) {
  constexpr size_t kMost = 1 << 16;
  if (!out.empty()) return;
  const Tag tag = fields.tag();
  size_t count = 1;
  for (fields.Skip(); fields.Next(); fields.Skip()) count += fields.tag() == tag;
  out.reserve(std::min(count, kMost));
}
template <class T, class Read>
void ReadElement(Fields& fields, const char* field, std::vector<T>& out, const Read& read) {
  ReserveElements(fields, out);
  out.push_back(ReadPart(fields, field, static_cast<int64_t>(out.size()), read));
}

}  // namespace ferry::onnx
