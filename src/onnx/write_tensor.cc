#include <cstring>

#include "base/error.h"
#include "onnx/unknown_fields.h"
#include "onnx/write_parts.h"

namespace ferry::onnx {
namespace {

using namespace tensor_field;

std::string_view BytesOf(const Tensor& tensor) { return {reinterpret_cast<const char*>(tensor.raw()), tensor.bytes()}; }

// Each word of the tensor's memory as the number protobuf writes for it.
template <class Word>
void WritePacked(Encoder& out, Tag tag, const Tensor& tensor) {
  out.Message(tag, [&] {
    for (size_t at = 0; at < tensor.bytes(); at += sizeof(Word)) {
      Word word;
      std::memcpy(&word, tensor.raw() + at, sizeof(word));
      out.PackedVarint(static_cast<uint64_t>(static_cast<int64_t>(word)));
    }
  });
}

bool IsBlank(const StoredTensor& stored) {
  return !stored.tensor.defined() && stored.dtype_number == 0 && stored.name.empty() && stored.dims.empty() &&
         stored.storage != StoredTensor::Storage::kExternal && stored.external.entries.empty() && !stored.segment &&
         stored.doc.empty() && stored.metadata.empty() && stored.unknown.empty();
}

}  // namespace

void PartWriter::WriteTyped(const Tensor& tensor) {
  if (tensor.size() == 0) return;
  switch (tensor.dtype()) {
    case DType::kString:
      for (const std::string& text : tensor.Span<std::string>()) out_.Bytes(kStringData, text);
      break;
    case DType::kFloat:
    case DType::kComplex64: out_.Borrowed(kFloatData, BytesOf(tensor)); break;
    case DType::kDouble:
    case DType::kComplex128: out_.Borrowed(kDoubleData, BytesOf(tensor)); break;
    case DType::kInt64: WritePacked<int64_t>(out_, kInt64Data, tensor); break;
    case DType::kUInt64: WritePacked<uint64_t>(out_, kUInt64Data, tensor); break;
    case DType::kUInt32: WritePacked<uint32_t>(out_, kUInt64Data, tensor); break;
    case DType::kInt32: WritePacked<int32_t>(out_, kInt32Data, tensor); break;
    case DType::kInt16: WritePacked<int16_t>(out_, kInt32Data, tensor); break;
    case DType::kInt8: WritePacked<int8_t>(out_, kInt32Data, tensor); break;
    default:
      if (BitWidth(tensor.dtype()) == 16)
        WritePacked<uint16_t>(out_, kInt32Data, tensor);
      else
        WritePacked<uint8_t>(out_, kInt32Data, tensor);
  }
}

void PartWriter::WriteSegment(const StoredTensor& stored) {
  const auto& [begin, end] = *stored.segment;
  for (std::string_view whole : KeptMessages(stored.unknown, kSegment))
    if (StoredTensor::Segment kept = SegmentOf(whole); kept.begin == begin && kept.end == end)
      return out_.Bytes(kSegment, whole);
  out_.Message(kSegment, [&, begin = begin, end = end] {
    out_.Int(segment_field::kBegin, begin);
    out_.Int(segment_field::kEnd, end);
  });
}

void PartWriter::WriteTensor(const StoredTensor& stored) {
  const Tensor& tensor = stored.tensor;
  const Placement::Extent* extent = nullptr;
  if (placement_) {
    auto found = placement_->extents.find(&stored);
    if (found != placement_->extents.end()) extent = &found->second;
  }
  bool stays_external = stored.storage == StoredTensor::Storage::kExternal && !tensor.defined();
  bool typed =
      tensor.defined() && (stored.storage == StoredTensor::Storage::kTyped || tensor.dtype() == DType::kString);

  for (int64_t dim : tensor.defined() ? tensor.shape().ToVector() : stored.dims) out_.Int(kDims, dim);
  DType dtype = tensor.defined() ? tensor.dtype() : stored.dtype;
  out_.NonZeroInt(kDataType, dtype == DType::kUndefined ? stored.dtype_number : static_cast<int64_t>(dtype));
  if (stored.segment) WriteSegment(stored);
  if (typed && !extent) WriteTyped(tensor);
  out_.Text(kName, stored.name);
  if (tensor.defined() && !typed && !extent) out_.Borrowed(kRawData, BytesOf(tensor));
  out_.Text(kDoc, stored.doc);
  if (extent) {
    WriteEntry(kExternalData, "location", placement_->file);
    WriteEntry(kExternalData, "offset", Cat(extent->offset));
    WriteEntry(kExternalData, "length", Cat(extent->length));
  } else if (stays_external || stored.storage != StoredTensor::Storage::kExternal) {
    WriteMetadata(kExternalData, stored.external.entries, stored.unknown);
  }
  if (extent || stays_external) out_.Int(kDataLocation, kLocationExternal);
  WriteMetadata(kMetadata, stored.metadata, stored.unknown);
  out_.Fields(WithoutKept(stored.unknown, {kSegment, kExternalData, kMetadata}));
}

void PartWriter::WriteSparseTensor(const StoredSparseTensor& sparse) {
  using namespace sparse_field;
  if (!IsBlank(sparse.values)) out_.Message(kValues, [&] { WriteTensor(sparse.values); });
  if (!IsBlank(sparse.indices)) out_.Message(kIndices, [&] { WriteTensor(sparse.indices); });
  for (int64_t dim : sparse.dims) out_.Int(sparse_field::kDims, dim);
  out_.Fields(sparse.unknown);
}

}  // namespace ferry::onnx
