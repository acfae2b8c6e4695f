#include "onnx/read_parts.h"

namespace ferry::onnx {
namespace {

using namespace attribute_field;

// The field that carries the value of each AttributeType, by the type's number.
constexpr Tag kFieldOfType[] = {0,        kFloat,   kInt,    kString,       kTensor,        kGraph, kFloats, kInts,
                                kStrings, kTensors, kGraphs, kSparseTensor, kSparseTensors, kType,  kTypes};
constexpr int32_t kTypeCount = static_cast<int32_t>(std::size(kFieldOfType));

AttributeType TypeOfField(Tag field) {
  for (int32_t i = 1; i < kTypeCount; ++i)
    if (kFieldOfType[i] == field) return static_cast<AttributeType>(i);
  return AttributeType::kUndefined;
}

// What an attribute says of itself, before its value is read: the type may stand after the value.
struct Header {
  int32_t type_number = 0;
  bool type_given = false;
  std::vector<AttributeType> values;  // which value fields there are, each once
};

Header ReadHeader(Source& source, std::string_view bytes, Attribute& attribute) {
  Header header;
  Fields fields(source, bytes);
  while (fields.Next()) {
    switch (fields.tag()) {
      case kName: attribute.name = fields.Text(); break;
      case kDoc: attribute.doc = fields.Text(); break;
      case kRefName: attribute.ref_name = fields.Text(); break;
      case kAttributeType:
        header.type_number = fields.Int32();
        header.type_given = header.type_number != 0;
        break;
      default: {
        AttributeType type = TypeOfField(fields.tag());
        bool is_new = true;
        for (AttributeType seen : header.values) is_new &= seen != type;
        if (is_new && type != AttributeType::kUndefined) header.values.push_back(type);
        fields.Skip();
      }
    }
  }
  return header;
}

std::string FindProblem(const Attribute& attribute, const Header& header, int64_t ir_version) {
  if (header.type_given && (header.type_number < 0 || header.type_number >= kTypeCount))
    return Cat("has type number ", header.type_number, ", which ONNX does not have");
  if (!attribute.ref_name.empty() && !header.values.empty())
    return Cat("has a value and also refers to the attribute '", Printable(attribute.ref_name), "'");
  if (header.values.size() > 1)
    return Cat("has several values: ", Name(header.values[0]), " and ", Name(header.values[1]));
  if (!header.values.empty() && header.values[0] != attribute.type)
    return Cat("is said to be ", Name(attribute.type), " but holds ", Name(header.values[0]));
  if (!header.type_given && (ir_version >= 2 || header.values.empty())) return "does not say its type";
  bool needs_value = attribute.type == AttributeType::kTensor || attribute.type == AttributeType::kGraph ||
                     attribute.type == AttributeType::kSparseTensor || attribute.type == AttributeType::kType;
  if (needs_value && header.values.empty() && attribute.ref_name.empty())
    return Cat("is said to be ", Name(attribute.type), " but holds nothing");
  return {};
}

// The value of an attribute whose value field is absent: proto3 writers leave out zeros, and empty lists have no field.
Attribute::Held DefaultValue(AttributeType type) {
  switch (type) {
    case AttributeType::kFloat: return 0.0f;
    case AttributeType::kInt: return int64_t{0};
    case AttributeType::kString: return std::string();
    case AttributeType::kFloats: return std::vector<float>();
    case AttributeType::kInts: return std::vector<int64_t>();
    case AttributeType::kStrings: return std::vector<std::string>();
    case AttributeType::kTensors: return std::vector<std::shared_ptr<StoredTensor>>();
    case AttributeType::kGraphs: return std::vector<std::shared_ptr<Graph>>();
    case AttributeType::kSparseTensors: return std::vector<std::shared_ptr<StoredSparseTensor>>();
    case AttributeType::kTypes: return std::vector<Type>();
    default: return {};
  }
}

template <class T, class Read>
void ReadHeld(Fields& fields, const char* field, Attribute& attribute, const Read& read) {
  if (std::holds_alternative<std::shared_ptr<T>>(attribute.held)) fields.Fault(Cat(field, " is given twice"));
  attribute.held = std::make_shared<T>(ReadPart(fields, field, -1, read));
}

template <class T, class Read>
void ReadHeldElement(Fields& fields, const char* field, Attribute& attribute, const Read& read) {
  auto& list = std::get<std::vector<std::shared_ptr<T>>>(attribute.held);
  list.push_back(std::make_shared<T>(ReadPart(fields, field, static_cast<int64_t>(list.size()), read)));
}

void ReadValue(Fields& fields, Attribute& attribute) {
  switch (fields.tag()) {
    case kFloat: attribute.held = fields.Float(); break;
    case kInt: attribute.held = fields.Int(); break;
    case kString: attribute.held = fields.Text(); break;
    case kTensor: ReadHeld<StoredTensor>(fields, "t", attribute, ReadTensor); break;
    case kGraph: ReadHeld<Graph>(fields, "g", attribute, ReadGraph); break;
    case kSparseTensor: ReadHeld<StoredSparseTensor>(fields, "sparse_tensor", attribute, ReadSparseTensor); break;
    case kType:
      if (std::holds_alternative<Type>(attribute.held)) fields.Fault("tp is given twice");
      attribute.held = ReadPart(fields, "tp", -1, ReadType);
      break;
    case kFloats: fields.Floats(std::get<std::vector<float>>(attribute.held)); break;
    case kInts: fields.Ints(std::get<std::vector<int64_t>>(attribute.held)); break;
    case kStrings: std::get<std::vector<std::string>>(attribute.held).push_back(fields.Text()); break;
    case kTensors: ReadHeldElement<StoredTensor>(fields, "tensors", attribute, ReadTensor); break;
    case kGraphs: ReadHeldElement<Graph>(fields, "graphs", attribute, ReadGraph); break;
    case kSparseTensors:
      ReadHeldElement<StoredSparseTensor>(fields, "sparse_tensors", attribute, ReadSparseTensor);
      break;
    case kTypes: ReadElement(fields, "type_protos", std::get<std::vector<Type>>(attribute.held), ReadType); break;
    default: fields.Keep(attribute.unknown);
  }
}

}  // namespace

Attribute ReadAttribute(Source& source, std::string_view bytes) {
  Attribute attribute;
  Header header = ReadHeader(source, bytes, attribute);
  bool type_known = header.type_number > 0 && header.type_number < kTypeCount;
  if (type_known)
    attribute.type = static_cast<AttributeType>(header.type_number);
  else if (!header.type_given && header.values.size() == 1)
    attribute.type = header.values[0];
  attribute.problem = FindProblem(attribute, header, source.ir_version);
  if (attribute.ref_name.empty()) attribute.held = DefaultValue(attribute.type);

  Fields fields(source, bytes);
  Tag value_field = kFieldOfType[static_cast<size_t>(attribute.type)];
  bool readable = attribute.ref_name.empty();
  while (fields.Next()) {
    Tag tag = fields.tag();
    if (tag == kName || tag == kDoc || tag == kRefName || (tag == kAttributeType && (type_known || !header.type_given)))
      fields.Skip();
    else if (readable && tag == value_field)
      ReadValue(fields, attribute);
    else
      fields.Keep(attribute.unknown);
  }
  // A type that the file should have given is not made up: the fault must still be there when it is written again.
  if (!header.type_given && source.ir_version >= 2) attribute.type = AttributeType::kUndefined;
  return attribute;
}

}  // namespace ferry::onnx
