#include "onnx/read_parts.h"

namespace ferry::onnx {
namespace {

struct TypeParts {
  Type type;
  Type::Unknown unknown;
  Once once;
};

void SetDType(Type& type, int32_t number) {
  bool valid = IsValidDType(number);
  type.dtype = valid ? static_cast<DType>(number) : DType::kUndefined;
  type.bad_dtype_number = valid ? 0 : number;
}

Dim ReadDim(Source& source, std::string_view bytes) {
  Dim dim;
  std::string unknown;
  Fields fields(source, bytes);
  while (fields.Next()) {
    switch (fields.tag()) {
      case shape_field::kDimValue:
        dim.value = fields.Int();
        dim.symbol.clear();
        break;
      case shape_field::kDimParam:
        dim.symbol = fields.Text();
        dim.value.reset();
        break;
      case shape_field::kDenotation: dim.denotation = fields.Text(); break;
      default: fields.Keep(unknown);
    }
  }
  if (!unknown.empty()) dim.unknown_fields = std::make_shared<const std::string>(std::move(unknown));
  return dim;
}

SymbolicShape ReadShape(Source& source, std::string_view bytes, std::string& unknown) {
  SymbolicShape shape;
  Fields fields(source, bytes);
  while (fields.Next()) {
    if (fields.tag() == shape_field::kDim)
      ReadElement(fields, "dim", shape, ReadDim);
    else
      fields.Keep(unknown);
  }
  return shape;
}

void ReadTensorType(Source& source, std::string_view bytes, TypeParts& parts) {
  Fields fields(source, bytes);
  Once once;
  while (fields.Next()) {
    switch (fields.tag()) {
      case type_field::kElementType: SetDType(parts.type, fields.Int32()); break;
      case type_field::kShape: {
        once.Take(fields);
        Inside inside(source, "shape");
        parts.type.shape = ReadShape(source, fields.Bytes(), parts.unknown.shape);
        break;
      }
      default: fields.Keep(parts.unknown.kind);
    }
  }
}

// Sequences and optionals hold their element in field 1; maps a key in field 1 and the value in field 2.
void ReadContainerType(Source& source, std::string_view bytes, TypeParts& parts) {
  bool is_map = parts.type.kind == Type::Kind::kMap;
  Tag element_field = is_map ? type_field::kValueType : type_field::kElementType;
  Type element;
  Fields fields(source, bytes);
  Once once;
  while (fields.Next()) {
    if (fields.tag() == element_field) {
      once.Take(fields);
      element = ReadPart(fields, is_map ? "value_type" : "elem_type", -1, ReadType);
    } else if (is_map && fields.tag() == type_field::kKeyType) {
      SetDType(parts.type, fields.Int32());
    } else {
      fields.Keep(parts.unknown.kind);
    }
  }
  parts.type.element = std::make_shared<const Type>(std::move(element));
}

void ReadOpaqueType(Source& source, std::string_view bytes, TypeParts& parts) {
  Fields fields(source, bytes);
  while (fields.Next()) {
    switch (fields.tag()) {
      case type_field::kOpaqueDomain: parts.type.opaque_domain = fields.Text(); break;
      case type_field::kOpaqueName: parts.type.opaque_name = fields.Text(); break;
      default: fields.Keep(parts.unknown.kind);
    }
  }
}

using ReadKind = void (*)(Source&, std::string_view, TypeParts&);

void TakeKind(Fields& fields, TypeParts& parts, Type::Kind kind, const char* name, ReadKind read) {
  Inside inside(fields.source(), name);
  std::string_view bytes = fields.Bytes();
  if (parts.type.known()) fields.source().Malformed(bytes.data(), "a type says twice what it is");
  parts.type.kind = kind;
  read(fields.source(), bytes, parts);
}

}  // namespace

Type ReadType(Source& source, std::string_view bytes) {
  TypeParts parts;
  Fields fields(source, bytes);
  using Kind = Type::Kind;
  while (fields.Next()) {
    switch (fields.tag()) {
      case type_field::kTensor: TakeKind(fields, parts, Kind::kTensor, "tensor_type", ReadTensorType); break;
      case type_field::kSparseTensor:
        TakeKind(fields, parts, Kind::kSparseTensor, "sparse_tensor_type", ReadTensorType);
        break;
      case type_field::kSequence: TakeKind(fields, parts, Kind::kSequence, "sequence_type", ReadContainerType); break;
      case type_field::kOptional: TakeKind(fields, parts, Kind::kOptional, "optional_type", ReadContainerType); break;
      case type_field::kMap: TakeKind(fields, parts, Kind::kMap, "map_type", ReadContainerType); break;
      case type_field::kOpaque: TakeKind(fields, parts, Kind::kOpaque, "opaque_type", ReadOpaqueType); break;
      case type_field::kDenotation: parts.type.denotation = fields.Text(); break;
      default: fields.Keep(parts.unknown.type);
    }
  }
  const Type::Unknown& unknown = parts.unknown;
  if (!unknown.type.empty() || !unknown.kind.empty() || !unknown.shape.empty())
    parts.type.unknown_fields = std::make_shared<const Type::Unknown>(std::move(parts.unknown));
  return std::move(parts.type);
}

}  // namespace ferry::onnx
