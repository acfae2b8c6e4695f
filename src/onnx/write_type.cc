#include "onnx/write_parts.h"

namespace ferry::onnx {
namespace {

Tag FieldOf(Type::Kind kind) {
  switch (kind) {
    case Type::Kind::kTensor: return type_field::kTensor;
    case Type::Kind::kSparseTensor: return type_field::kSparseTensor;
    case Type::Kind::kSequence: return type_field::kSequence;
    case Type::Kind::kOptional: return type_field::kOptional;
    case Type::Kind::kMap: return type_field::kMap;
    case Type::Kind::kOpaque: return type_field::kOpaque;
    default: return 0;
  }
}

int64_t NumberOf(const Type& type) {
  return type.dtype == DType::kUndefined ? type.bad_dtype_number : static_cast<int64_t>(type.dtype);
}

}  // namespace

void PartWriter::WriteType(const Type& type) {
  static const Type::Unknown kNone;
  const Type::Unknown& unknown = type.unknown_fields ? *type.unknown_fields : kNone;
  auto write_kind = [&] {
    out_.Message(FieldOf(type.kind), [&] {
      WriteTypeKind(type);
      out_.Fields(unknown.kind);
    });
  };
  bool denotation_first = FieldOf(type.kind) > type_field::kDenotation;
  if (type.known() && !denotation_first) write_kind();
  out_.Text(type_field::kDenotation, type.denotation);
  if (type.known() && denotation_first) write_kind();
  out_.Fields(unknown.type);
}

void PartWriter::WriteTypeKind(const Type& type) {
  using namespace type_field;
  switch (type.kind) {
    case Type::Kind::kTensor:
    case Type::Kind::kSparseTensor:
      out_.NonZeroInt(kElementType, NumberOf(type));
      if (!type.shape) break;
      out_.Message(kShape, [&] {
        WriteShape(*type.shape);
        if (type.unknown_fields) out_.Fields(type.unknown_fields->shape);
      });
      break;
    case Type::Kind::kOpaque:
      out_.Text(kOpaqueDomain, type.opaque_domain);
      out_.Text(kOpaqueName, type.opaque_name);
      break;
    default: {
      bool is_map = type.kind == Type::Kind::kMap;
      if (is_map) out_.NonZeroInt(kKeyType, NumberOf(type));
      bool has_element =
          type.element && (type.element->known() || !type.element->denotation.empty() || type.element->unknown_fields);
      if (has_element) out_.Message(is_map ? kValueType : kElementType, [&] { WriteType(*type.element); });
    }
  }
}

void PartWriter::WriteShape(const SymbolicShape& shape) {
  using namespace shape_field;
  for (const Dim& dim : shape) {
    out_.Message(kDim, [&] {
      if (dim.value)
        out_.Int(kDimValue, *dim.value);
      else
        out_.Text(kDimParam, dim.symbol);
      out_.Text(kDenotation, dim.denotation);
      if (dim.unknown_fields) out_.Fields(*dim.unknown_fields);
    });
  }
}

}  // namespace ferry::onnx
