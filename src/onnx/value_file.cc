#include "onnx/value_file.h"

#include "base/mapped_file.h"
#include "onnx/aligned.h"
#include "onnx/read_parts.h"
#include "onnx/write_parts.h"

namespace ferry {
namespace onnx {
namespace {

Value ReadSequenceValue(Source& source, std::string_view bytes);

Value ReadTensorValue(Source& source, std::string_view bytes) {
  StoredTensor stored = ReadTensor(source, bytes);
  if (stored.storage == StoredTensor::Storage::kExternal)
    Fail(ErrorCode::kUnsupported, source.Place(), " has external data, which a value file cannot have");
  return AlignedForUse(stored.Get());
}

Value ReadSparseValue(Source& source, std::string_view bytes) {
  StoredSparseTensor stored = ReadSparseTensor(source, bytes);
  SparseTensor sparse;
  sparse.shape = Shape(stored.dims);
  sparse.values = AlignedForUse(stored.values.Get());
  sparse.indices = AlignedForUse(stored.indices.Get());
  return sparse;
}

// The elements of a map's values side by side: each must be one number (or string) of the same type.
Tensor JoinScalars(const Sequence& sequence) {
  std::vector<Tensor> parts;
  for (const Value& value : sequence.elements) {
    const Tensor& part = value.tensor();
    if (part.size() != 1 || (!parts.empty() && part.dtype() != parts[0].dtype()) || IsPacked(part.dtype()))
      Fail(ErrorCode::kUnsupported, "a map whose values are not single elements of one type");
    parts.push_back(part);
  }
  Tensor joined(parts.empty() ? DType::kFloat : parts[0].dtype(), {static_cast<int64_t>(parts.size())});
  for (size_t i = 0; i < parts.size(); ++i) {
    if (joined.dtype() == DType::kString)
      joined.MutableData<std::string>()[i] = parts[i].Data<std::string>()[0];
    else
      std::copy_n(parts[i].raw(), parts[i].bytes(), joined.mutable_raw() + i * parts[i].bytes());
  }
  return joined;
}

Tensor IntegerKeys(const std::vector<int64_t>& keys, DType type) {
  Tensor wide = Tensor::FromVector(keys);
  if (type == DType::kInt64 || type == DType::kUInt64) return wide.ViewedAs(type);
  if (!IsInteger(type) || IsPacked(type)) Fail(ErrorCode::kInvalidModel, "a map cannot have keys of ", type);
  Tensor narrow(type, wide.shape());
  size_t width = static_cast<size_t>(BitWidth(type)) / 8;
  for (size_t i = 0; i < keys.size(); ++i) {  // little-endian: the low bytes come first
    auto* from = reinterpret_cast<const std::byte*>(&keys[i]);
    std::copy_n(from, width, narrow.mutable_raw() + i * width);
  }
  if (ToInt64Vector(narrow) != keys) Fail(ErrorCode::kInvalidModel, "a map has a key that is out of range for ", type);
  return narrow;
}

Value ReadMapValue(Source& source, std::string_view bytes) {
  int32_t key_type = 0;
  std::vector<int64_t> keys;
  std::vector<std::string> string_keys;
  Value values = Sequence{};
  Once once;
  Fields fields(source, bytes);
  while (fields.Next()) {
    switch (fields.tag()) {
      case map_field::kKeyType: key_type = fields.Int32(); break;
      case map_field::kKeys: fields.Ints(keys); break;
      case map_field::kStringKeys: string_keys.push_back(fields.Text()); break;
      case map_field::kValues:
        once.Take(fields);
        values = ReadPart(fields, "values", -1, ReadSequenceValue);
        break;
      default: fields.Skip();
    }
  }
  if (!IsValidDType(key_type)) Fail(ErrorCode::kInvalidModel, "a map has key type number ", key_type);
  auto type = static_cast<DType>(key_type);
  Map map;
  map.keys = type == DType::kString ? Tensor::FromVector(string_keys) : IntegerKeys(keys, type);
  map.values = JoinScalars(values.sequence());
  if (map.keys.size() != map.values.size())
    Fail(ErrorCode::kInvalidModel, "a map has ", map.keys.size(), " keys but ", map.values.size(), " values");
  return map;
}

// The value an OptionalProto holds; Nothing when it holds none.
Value ReadOptionalValue(Source& source, std::string_view bytes) {
  Value value = Nothing{};
  Fields fields(source, bytes);
  while (fields.Next()) {
    switch (fields.tag()) {
      case optional_field::kTensor: value = ReadPart(fields, "tensor_value", -1, ReadTensorValue); break;
      case optional_field::kSparseTensor: value = ReadPart(fields, "sparse_tensor_value", -1, ReadSparseValue); break;
      case optional_field::kSequence: value = ReadPart(fields, "sequence_value", -1, ReadSequenceValue); break;
      case optional_field::kMap: value = ReadPart(fields, "map_value", -1, ReadMapValue); break;
      case optional_field::kOptional: value = ReadPart(fields, "optional_value", -1, ReadOptionalValue); break;
      default: fields.Skip();
    }
  }
  return value;
}

Value ReadSequenceValue(Source& source, std::string_view bytes) {
  Sequence sequence;
  std::vector<Value>& elements = sequence.elements;
  Fields fields(source, bytes);
  while (fields.Next()) {
    switch (fields.tag()) {
      case sequence_field::kTensors: ReadElement(fields, "tensor_values", elements, ReadTensorValue); break;
      case sequence_field::kSparseTensors:
        ReadElement(fields, "sparse_tensor_values", elements, ReadSparseValue);
        break;
      case sequence_field::kSequences: ReadElement(fields, "sequence_values", elements, ReadSequenceValue); break;
      case sequence_field::kMaps: ReadElement(fields, "map_values", elements, ReadMapValue); break;
      case sequence_field::kOptionals: ReadElement(fields, "optional_values", elements, ReadOptionalValue); break;
      default: fields.Skip();
    }
  }
  return sequence;
}

Value ReadNamedValue(const std::string& name, std::string_view bytes, std::shared_ptr<const void> keep_alive,
                     const Type* expected) {
  Source source(name, bytes, std::move(keep_alive));
  source.ir_version = kNewestIrVersion;
  switch (expected ? expected->kind : Type::Kind::kTensor) {
    case Type::Kind::kSequence: return ReadSequenceValue(source, bytes);
    case Type::Kind::kOptional: return ReadOptionalValue(source, bytes);
    case Type::Kind::kMap: return ReadMapValue(source, bytes);
    case Type::Kind::kSparseTensor: return ReadSparseValue(source, bytes);
    case Type::Kind::kOpaque: Fail(ErrorCode::kUnsupported, "values of opaque types have no file format");
    default: return ReadTensorValue(source, bytes);
  }
}

class ValueWriter {
 public:
  explicit ValueWriter(Encoder& out) : out_(out) {}

  void Write(const Value& value, const std::string& name, const Type* expected) {
    if (value.is_nothing() || (expected && expected->kind == Type::Kind::kOptional))
      WriteOptional(value, name, expected ? expected->element.get() : nullptr);
    else if (value.is_sequence())
      WriteSequence(value.sequence(), name, expected ? expected->element.get() : nullptr);
    else if (value.is_map())
      WriteMap(value.map(), name);
    else if (value.is_sparse())
      WriteSparse(value.sparse(), name);
    else
      PartWriter(out_).WriteTensor(MakeStored(name, value.tensor()));
  }

 private:
  static HeldKind KindOf(const Value& value, const Type* expected) {
    if (value.is_nothing() || (expected && expected->kind == Type::Kind::kOptional)) return HeldKind::kOptional;
    if (value.is_sequence()) return HeldKind::kSequence;
    if (value.is_map()) return HeldKind::kMap;
    return value.is_sparse() ? HeldKind::kSparseTensor : HeldKind::kTensor;
  }

  // In SequenceProto and OptionalProto alike, the field that holds a value follows from its kind.
  static Tag FieldOf(HeldKind kind) {
    switch (kind) {
      case HeldKind::kSparseTensor: return sequence_field::kSparseTensors;
      case HeldKind::kSequence: return sequence_field::kSequences;
      case HeldKind::kMap: return sequence_field::kMaps;
      case HeldKind::kOptional: return sequence_field::kOptionals;
      default: return sequence_field::kTensors;
    }
  }

  void WriteOptional(const Value& value, const std::string& name, const Type* element) {
    out_.Text(optional_field::kName, name);
    if (value.is_nothing()) return;
    HeldKind kind = KindOf(value, element);
    out_.Int(optional_field::kElementType, static_cast<int64_t>(kind));
    out_.Message(FieldOf(kind), [&] { Write(value, {}, element); });
  }

  void WriteSequence(const Sequence& sequence, const std::string& name, const Type* element) {
    out_.Text(sequence_field::kName, name);
    HeldKind kind = HeldKind::kTensor;
    if (!sequence.elements.empty()) kind = KindOf(sequence.elements[0], element);
    out_.Int(sequence_field::kElementType, static_cast<int64_t>(kind));
    for (const Value& value : sequence.elements) {
      Require(KindOf(value, element) == kind, "a sequence of different kinds of values cannot be written");
      out_.Message(FieldOf(kind), [&] { Write(value, {}, element); });
    }
  }

  void WriteMap(const Map& map, const std::string& name) {
    using namespace map_field;
    out_.Text(kName, name);
    out_.Int(kKeyType, static_cast<int64_t>(map.keys.dtype()));
    if (map.keys.dtype() == DType::kString) {
      for (const std::string& key : map.keys.Span<std::string>()) out_.Bytes(kStringKeys, key);
    } else {
      for (int64_t key : ToInt64Vector(map.keys)) out_.Int(kKeys, key);
    }
    Sequence values;
    for (int64_t i = 0; i < map.values.size(); ++i) values.elements.push_back(map.values.Rows(i, 1).Reshaped({}));
    out_.Message(kValues, [&] { WriteSequence(values, {}, nullptr); });
  }

  void WriteSparse(const SparseTensor& sparse, const std::string& name) {
    StoredSparseTensor stored;
    stored.values = MakeStored(name, sparse.values);
    stored.indices = MakeStored({}, sparse.indices);
    stored.dims = sparse.shape.ToVector();
    PartWriter(out_).WriteSparseTensor(stored);
  }

  Encoder& out_;
};

}  // namespace
}  // namespace onnx

Value ReadValueFile(const std::string& path, const Type* expected) {
  std::shared_ptr<MappedFile> file = MappedFile::Open(path);
  std::string_view bytes = file->text();
  try {
    return onnx::ReadNamedValue(Printable(path), bytes, std::move(file), expected);
  } catch (Error& error) {
    throw error.message().starts_with(Printable(path)) ? error : error.At(Printable(path));
  }
}

Value ReadValueFromMemory(std::span<const std::byte> bytes, std::shared_ptr<const void> keep_alive,
                          const Type* expected) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return onnx::ReadNamedValue("value in memory", text, std::move(keep_alive), expected);
}

std::string SerializeValue(const Value& value, const std::string& name, const Type* expected) {
  Require(value.present(), "there is no value to write");
  onnx::Encoder out;
  onnx::ValueWriter(out).Write(value, name, expected);
  return out.ToString();
}

}  // namespace ferry
