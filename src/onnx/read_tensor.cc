#include <cstring>
#include <limits>
#include <protozero/pbf_writer.hpp>

#include "onnx/aligned.h"
#include "onnx/read_parts.h"
#include "onnx/unknown_fields.h"

namespace ferry::onnx {
namespace {

using namespace tensor_field;

// The bytes of a repeated number as they would be packed. They lie in the file unless an exporter cut them in pieces.
class Payload {
 public:
  void Add(std::string_view bytes) {
    if (bytes.empty()) return;
    if (view_.empty()) {
      view_ = bytes;
      return;
    }
    if (joined_.empty()) joined_ = view_;
    joined_ += bytes;
    view_ = joined_;
  }
  std::string_view bytes() const { return view_; }
  bool empty() const { return view_.empty(); }
  bool in_file() const { return joined_.empty(); }

 private:
  std::string_view view_;
  std::string joined_;
};

struct DataFields {
  bool has_raw = false;
  std::string_view raw;
  Payload floats, int32s, int64s, doubles, uint64s;
  std::vector<std::string_view> strings;
  int32_t location = kLocationDefault;
};

struct NamedPayload {
  const char* name;
  Tag tag;
  const Payload* payload;
};
using PayloadList = std::vector<NamedPayload>;

PayloadList Given(const DataFields& data) {
  PayloadList given;
  const NamedPayload all[] = {{"float_data", kFloatData, &data.floats},
                              {"int32_data", kInt32Data, &data.int32s},
                              {"int64_data", kInt64Data, &data.int64s},
                              {"double_data", kDoubleData, &data.doubles},
                              {"uint64_data", kUInt64Data, &data.uint64s}};
  for (const NamedPayload& one : all)
    if (!one.payload->empty()) given.push_back(one);
  return given;
}

// Which typed field holds the elements of a type, and how many of its numbers make one element.
Tag FieldOf(DType type) {
  switch (type) {
    case DType::kFloat:
    case DType::kComplex64: return kFloatData;
    case DType::kDouble:
    case DType::kComplex128: return kDoubleData;
    case DType::kInt64: return kInt64Data;
    case DType::kUInt32:
    case DType::kUInt64: return kUInt64Data;
    case DType::kString: return kStringData;
    default: return kInt32Data;
  }
}

template <class... Parts>
[[noreturn]] void Problem(const Parts&... parts) {
  Fail(ErrorCode::kInvalidModel, parts...);
}

void CheckSize(size_t have, size_t need, const Shape& shape, DType type, const char* field, const char* unit) {
  if (have != need)
    Problem("shape ", shape, " of ", type, " needs ", need, ' ', unit, ", but ", field, " holds ", have);
}

struct Range {
  int64_t low, high;
};

// The numbers an element of int32_data may have.
Range RangeOf(DType type) {
  switch (type) {
    case DType::kInt32: return {INT32_MIN, INT32_MAX};
    case DType::kInt16: return {INT16_MIN, INT16_MAX};
    case DType::kInt8: return {INT8_MIN, INT8_MAX};
    case DType::kBool: return {INT32_MIN, INT32_MAX};
    default: break;
  }
  if (IsPacked(type)) return {INT8_MIN, UINT8_MAX};  // a byte of several elements; some writers give it a sign
  return {0, BitWidth(type) == 16 ? UINT16_MAX : UINT8_MAX};
}

template <class Word>
Tensor DecodeNarrow(Source& source, DType type, const Shape& shape, std::string_view packed) {
  Tensor tensor(type, shape);
  Range range = RangeOf(type);
  std::byte* out = tensor.mutable_raw();
  ForEachVarint(source, packed, [&](uint64_t code) {
    auto number = static_cast<int32_t>(code);
    if (number < range.low || number > range.high) Problem(number, " in int32_data is not an element of ", type);
    Word word = type == DType::kBool ? static_cast<Word>(number != 0) : static_cast<Word>(number);
    std::memcpy(out, &word, sizeof(word));
    out += sizeof(word);
  });
  return tensor;
}

template <class Word>
Tensor DecodeWide(Source& source, DType type, const Shape& shape, std::string_view packed) {
  Tensor tensor(type, shape);
  std::byte* out = tensor.mutable_raw();
  ForEachVarint(source, packed, [&](uint64_t number) {
    if (number > std::numeric_limits<Word>::max()) Problem(number, " in uint64_data is not an element of ", type);
    auto word = static_cast<Word>(number);
    std::memcpy(out, &word, sizeof(word));
    out += sizeof(word);
  });
  return tensor;
}

size_t CountVarints(std::string_view packed) {
  size_t count = 0;
  for (char c : packed) count += static_cast<unsigned char>(c) < 0x80;
  return count;
}

Tensor DecodeVarints(Source& source, DType type, const Shape& shape, const char* name, std::string_view packed) {
  int bits = BitWidth(type);
  size_t words = bits < 8 ? StorageBytes(type, shape.ElementCount()) : static_cast<size_t>(shape.ElementCount());
  CheckSize(CountVarints(packed), words, shape, type, name, "numbers");
  switch (bits) {
    case 64: return DecodeWide<uint64_t>(source, type, shape, packed);
    case 32:
      return type == DType::kUInt32 ? DecodeWide<uint32_t>(source, type, shape, packed)
                                    : DecodeNarrow<uint32_t>(source, type, shape, packed);
    case 16: return DecodeNarrow<uint16_t>(source, type, shape, packed);
    default: return DecodeNarrow<uint8_t>(source, type, shape, packed);
  }
}

Tensor ViewBytes(Source& source, DType type, const Shape& shape, std::string_view bytes, bool in_file) {
  Tensor view = Tensor::Borrow(type, shape, bytes.data(), in_file ? source.keep_alive() : nullptr);
  return MakeReadable(in_file ? view : view.Clone());
}

Tensor DecodeTyped(Source& source, const StoredTensor& stored, const Shape& shape, const DataFields& data) {
  DType type = stored.dtype;
  PayloadList given = Given(data);
  if (given.size() + !data.strings.empty() > 1) Problem("has its elements in more than one field");
  if (type == DType::kString) {
    if (!given.empty()) Problem("is of string but has its elements in ", given[0].name);
    CheckSize(data.strings.size(), static_cast<size_t>(shape.ElementCount()), shape, type, "string_data", "strings");
    Tensor tensor(type, shape);
    std::copy(data.strings.begin(), data.strings.end(), tensor.MutableData<std::string>());
    return tensor;
  }
  if (!data.strings.empty()) Problem("is of ", type, " but has its elements in string_data");
  if (given.empty()) {
    if (shape.ElementCount() > 0) Problem("has shape ", shape, " of ", type, " but no elements");
    return Tensor(type, shape);
  }
  const auto& [name, tag, payload] = given[0];
  if (tag != FieldOf(type)) Problem("is of ", type, " but has its elements in ", name);
  if (tag != kFloatData && tag != kDoubleData) return DecodeVarints(source, type, shape, name, payload->bytes());
  CheckSize(payload->bytes().size(), StorageBytes(type, shape.ElementCount()), shape, type, name, "bytes");
  return ViewBytes(source, type, shape, payload->bytes(), payload->in_file());
}

Tensor DecodeElements(Source& source, const StoredTensor& stored, const DataFields& data) {
  if (stored.dtype == DType::kUndefined)
    Problem("has ", stored.dtype_number == 0 ? "no element type" : Cat("element type number ", stored.dtype_number),
            stored.dtype_number == 0 ? "" : ", which ONNX does not have");
  Shape shape(stored.dims);
  size_t bytes = StorageBytes(stored.dtype, shape.ElementCount());
  if (data.location != kLocationDefault) Problem("has data location ", data.location, ", which ONNX does not have");
  if (!data.has_raw) return DecodeTyped(source, stored, shape, data);
  if (!Given(data).empty() || !data.strings.empty()) Problem("has its elements in raw_data and in another field");
  if (stored.dtype == DType::kString) Problem("is of string but has its elements in raw_data");
  CheckSize(data.raw.size(), bytes, shape, stored.dtype, "raw_data", "bytes");
  return ViewBytes(source, stored.dtype, shape, data.raw, true);
}

// Elements that cannot be used are kept as the fields they came in, so that writing loses nothing.
void KeepUnusable(StoredTensor& stored, const DataFields& data) {
  protozero::pbf_writer out(stored.unknown);
  if (data.location != kLocationDefault && data.location != kLocationExternal)
    out.add_int32(kDataLocation, data.location);
  if (data.has_raw) out.add_bytes(kRawData, data.raw.data(), data.raw.size());
  for (const NamedPayload& one : Given(data)) {
    std::string_view bytes = one.payload->bytes();
    out.add_bytes(one.tag, bytes.data(), bytes.size());
  }
  for (std::string_view text : data.strings) out.add_bytes(kStringData, text.data(), text.size());
}

void ResolveElements(Source& source, StoredTensor& stored, const DataFields& data) {
  bool has_data = data.has_raw || !data.strings.empty() || !Given(data).empty();
  if (data.location == kLocationExternal) {
    stored.storage = StoredTensor::Storage::kExternal;
    if (!has_data) return;
    stored.problem = "is external but also has elements in the model file";
  } else {
    stored.storage = data.has_raw ? StoredTensor::Storage::kRaw : StoredTensor::Storage::kTyped;
    try {
      stored.tensor = DecodeElements(source, stored, data);
      return;
    } catch (const Error& error) {
      stored.problem = error.message();
    }
  }
  KeepUnusable(stored, data);
}

StoredTensor::Segment ReadSegment(Fields& owner, UnknownFields& kept) {
  StoredTensor::Segment segment;
  std::string_view bytes = owner.Bytes();
  bool is_whole = true;
  Fields fields(owner.source(), bytes);
  while (fields.Next()) {
    switch (fields.tag()) {
      case segment_field::kBegin: segment.begin = fields.Int(); break;
      case segment_field::kEnd: segment.end = fields.Int(); break;
      default: fields.Skip(); is_whole = false;
    }
  }
  if (!is_whole) KeepWhole(kept, kSegment, bytes);
  return segment;
}

bool ReadDataField(Fields& fields, DataFields& data) {
  switch (fields.tag()) {
    case kRawData:
      data.raw = fields.Bytes();
      data.has_raw = true;
      return true;
    case kFloatData: data.floats.Add(fields.PackedFixed(4)); return true;
    case kDoubleData: data.doubles.Add(fields.PackedFixed(8)); return true;
    case kInt32Data: data.int32s.Add(fields.PackedVarints()); return true;
    case kInt64Data: data.int64s.Add(fields.PackedVarints()); return true;
    case kUInt64Data: data.uint64s.Add(fields.PackedVarints()); return true;
    case kStringData: data.strings.push_back(fields.Bytes()); return true;
    case kDataLocation: data.location = fields.Int32(); return true;
    default: return false;
  }
}

}  // namespace

StoredTensor ReadTensor(Source& source, std::string_view bytes) {
  StoredTensor stored;
  DataFields data;
  Once once;
  Fields fields(source, bytes);
  while (fields.Next()) {
    if (ReadDataField(fields, data)) continue;
    switch (fields.tag()) {
      case kDims: fields.Ints(stored.dims); break;
      case kDataType: stored.dtype_number = fields.Int32(); break;
      case kSegment:
        once.Take(fields);
        stored.segment = ReadSegment(fields, stored.unknown);
        break;
      case kName: stored.name = fields.Text(); break;
      case kDoc: stored.doc = fields.Text(); break;
      case kExternalData: ReadEntry(fields, stored.external.entries, stored.unknown); break;
      case kMetadata: ReadEntry(fields, stored.metadata, stored.unknown); break;
      default: fields.Keep(stored.unknown);
    }
  }
  if (IsValidDType(stored.dtype_number)) stored.dtype = static_cast<DType>(stored.dtype_number);
  ResolveElements(source, stored, data);
  SortFields(stored.unknown);
  return stored;
}

StoredSparseTensor ReadSparseTensor(Source& source, std::string_view bytes) {
  StoredSparseTensor sparse;
  sparse.values.problem = sparse.indices.problem = "is missing";
  Once once;
  Fields fields(source, bytes);
  while (fields.Next()) {
    switch (fields.tag()) {
      case sparse_field::kValues:
        once.Take(fields);
        sparse.values = ReadPart(fields, "values", -1, ReadTensor);
        break;
      case sparse_field::kIndices:
        once.Take(fields);
        sparse.indices = ReadPart(fields, "indices", -1, ReadTensor);
        break;
      case sparse_field::kDims: fields.Ints(sparse.dims); break;
      default: fields.Keep(sparse.unknown);
    }
  }
  return sparse;
}

}  // namespace ferry::onnx
