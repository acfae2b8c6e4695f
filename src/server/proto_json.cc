#include "server/proto_json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "server/refusal.h"

namespace ferry::server {
namespace {

using protozero::pbf_wire_type;

constexpr int kMostDepth = 64;

Json EnumName(const ProtoEnum& enumeration, int32_t number) {
  for (const auto& [name, value] : enumeration.values)
    if (value == number) return name;
  return number;
}

// protobuf's parser of JSON, as Triton calls it, does not look at case.
bool IsSameName(std::string_view name, std::string_view given) {
  auto upper = [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c == '-' ? '_' : c; };
  return std::equal(name.begin(), name.end(), given.begin(), given.end(),
                    [&](char a, char b) { return upper(a) == upper(b); });
}

int32_t EnumNumber(const ProtoEnum& enumeration, const Json& value, std::string_view place) {
  if (value.is_number())
    if (const double number = value.AsDouble(); number == std::floor(number) && std::fabs(number) < 2e9)
      return static_cast<int32_t>(number);
  if (value.is_string())
    for (const auto& [name, number] : enumeration.values)
      if (IsSameName(name, value.AsString())) return number;
  Refuse(Code::kInvalidArgument, place, " is none of ", enumeration.name, "'s values");
}

pbf_wire_type WireTypeOf(FieldKind kind) {
  switch (kind) {
    case FieldKind::kDouble: return pbf_wire_type::fixed64;
    case FieldKind::kFloat: return pbf_wire_type::fixed32;
    case FieldKind::kString:
    case FieldKind::kBytes:
    case FieldKind::kMessage: return pbf_wire_type::length_delimited;
    default: return pbf_wire_type::varint;
  }
}

bool CanBePacked(const ProtoField& field) { return WireTypeOf(field.kind) != pbf_wire_type::length_delimited; }

class Decoder {
 public:
  static Json Message(std::string_view bytes, const ProtoMessage& message, int depth) {
    if (depth > kMostDepth) Refuse(Code::kInvalidArgument, "the message is nested too deeply");
    Json out = Json::Object{};
    std::vector<std::pair<const ProtoField*, Json>> lists;  // repeated fields and maps, complete at the end
    protozero::pbf_reader reader(bytes.data(), bytes.size());
    while (reader.next()) {
      const ProtoField* field = message.Find(reader.tag());
      // What comes in another form than the schema's is not that field.
      const bool is_packed =
          field && field->repeated && reader.wire_type() == pbf_wire_type::length_delimited && CanBePacked(*field);
      if (!field || (!is_packed && reader.wire_type() != WireTypeOf(field->kind))) {
        reader.skip();
        continue;
      }
      if (!field->repeated) {
        out.Set(field->name, One(reader, *field, depth));
        continue;
      }
      Json* list = nullptr;
      for (auto& [known, made] : lists)
        if (known == field) list = &made;
      if (!list) list = &lists.emplace_back(field, field->is_map() ? Json(Json::Object{}) : Json(Json::Array{})).second;
      Repeated(reader, *field, *list, depth);
    }
    for (auto& [field, list] : lists) out.Set(field->name, std::move(list));
    return out;
  }

 private:
  static Json One(protozero::pbf_reader& reader, const ProtoField& field, int depth) {
    switch (field.kind) {
      case FieldKind::kDouble: return reader.get_double();
      case FieldKind::kFloat: return static_cast<double>(reader.get_float());
      case FieldKind::kInt64: return reader.get_int64();
      case FieldKind::kUInt64: return reader.get_uint64();
      case FieldKind::kInt32: return reader.get_int32();
      case FieldKind::kUInt32: return reader.get_uint32();
      case FieldKind::kBool: return reader.get_uint64() != 0;  // protozero's get_bool reads past the end
      case FieldKind::kEnum: return EnumName(*field.enumeration, reader.get_enum());
      case FieldKind::kString:
      case FieldKind::kBytes: return reader.get_string();
      case FieldKind::kMessage: {
        const protozero::data_view view = reader.get_view();
        return Message({view.data(), view.size()}, *field.message, depth + 1);
      }
    }
    return {};
  }

  static void Repeated(protozero::pbf_reader& reader, const ProtoField& field, Json& list, int depth) {
    if (field.is_map()) {
      const Json entry = One(reader, field, depth);
      const Json* key = entry.Find("key");
      const Json* value = entry.Find("value");
      std::string name = !key ? "" : key->is_string() ? key->AsString() : key->Dump(-1);
      const bool is_message = field.message->fields[1].kind == FieldKind::kMessage;
      list.Set(name, value ? *value : is_message ? Json(Json::Object{}) : Json(""));
      return;
    }
    if (!CanBePacked(field) || reader.wire_type() != pbf_wire_type::length_delimited) {
      list.Add(One(reader, field, depth));
      return;
    }
    auto add = [&](const auto& range) {
      for (auto value : range) list.Add(Json(value));
    };
    switch (field.kind) {
      case FieldKind::kDouble: return add(reader.get_packed_double());
      case FieldKind::kFloat: return add(reader.get_packed_float());
      case FieldKind::kInt64: return add(reader.get_packed_int64());
      case FieldKind::kUInt64: return add(reader.get_packed_uint64());
      case FieldKind::kInt32: return add(reader.get_packed_int32());
      case FieldKind::kUInt32: return add(reader.get_packed_uint32());
      case FieldKind::kBool: return add(reader.get_packed_bool());
      default:
        for (auto value : reader.get_packed_enum()) list.Add(EnumName(*field.enumeration, value));
    }
  }
};

void EncodeInto(protozero::pbf_writer& writer, const Json& value, const ProtoMessage& message, int depth);

void EncodeOne(protozero::pbf_writer& writer, const ProtoField& field, const Json& value, int depth) {
  switch (field.kind) {
    case FieldKind::kDouble: return writer.add_double(field.number, value.AsDouble());
    case FieldKind::kFloat: return writer.add_float(field.number, static_cast<float>(value.AsDouble()));
    case FieldKind::kInt64: return writer.add_int64(field.number, value.AsInt());
    case FieldKind::kUInt64: return writer.add_uint64(field.number, value.AsUnsigned());
    case FieldKind::kInt32: return writer.add_int32(field.number, static_cast<int32_t>(value.AsInt()));
    case FieldKind::kUInt32: return writer.add_uint32(field.number, static_cast<uint32_t>(value.AsUnsigned()));
    case FieldKind::kBool: return writer.add_bool(field.number, value.AsBool());
    case FieldKind::kEnum: return writer.add_enum(field.number, EnumNumber(*field.enumeration, value, field.name));
    case FieldKind::kString:
    case FieldKind::kBytes: return writer.add_string(field.number, value.AsString());
    case FieldKind::kMessage: {
      std::string bytes;  // an empty message is there all the same: `all {}`
      protozero::pbf_writer inner(bytes);
      EncodeInto(inner, value, *field.message, depth + 1);
      writer.add_message(field.number, bytes);
    }
  }
}

bool IsDefault(const ProtoField& field, const Json& value) {
  if (field.oneof >= 0 || field.kind == FieldKind::kMessage) return false;
  if (value.is_bool()) return !value.AsBool();
  if (value.is_integer()) return value.AsDouble() == 0;
  if (value.is_string())
    return value.AsString().empty() || (field.enumeration && value.AsString() == field.enumeration->values[0].first);
  return false;
}

Json MapKey(const ProtoField& key, const std::string& text) {
  if (key.kind == FieldKind::kString) return text;
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

void EncodeInto(protozero::pbf_writer& writer, const Json& value, const ProtoMessage& message, int depth) {
  if (depth > kMostDepth) Refuse(Code::kInternal, "the message is nested too deeply");
  for (const ProtoField& field : message.fields) {
    const Json* held = value.Find(field.name);
    if (!held || held->is_null()) continue;
    if (field.is_map()) {
      for (const auto& [key, item] : held->AsObject()) {
        protozero::pbf_writer entry(writer, field.number);
        EncodeOne(entry, field.message->fields[0], MapKey(field.message->fields[0], key), depth);
        EncodeOne(entry, field.message->fields[1], item, depth);
      }
    } else if (field.repeated) {
      for (const Json& item : held->AsArray()) EncodeOne(writer, field, item, depth);
    } else if (!IsDefault(field, *held)) {
      EncodeOne(writer, field, *held, depth);
    }
  }
}

Json DefaultOf(const ProtoField& field) {
  if (field.is_map()) return Json::Object{};
  if (field.repeated) return Json::Array{};
  switch (field.kind) {
    case FieldKind::kString:
    case FieldKind::kBytes: return "";
    case FieldKind::kBool: return false;
    case FieldKind::kEnum: return field.enumeration->values[0].first;
    case FieldKind::kDouble:
    case FieldKind::kFloat: return 0.0;
    default: return 0;
  }
}

// protobuf's JSON takes a field by its own name and by lowerCamelCase.
std::string CamelCase(std::string_view name) {
  std::string out;
  for (size_t i = 0; i < name.size(); ++i)
    if (name[i] == '_' && i + 1 < name.size())
      out += static_cast<char>(name[i + 1] >= 'a' && name[i + 1] <= 'z' ? name[i + 1] - 'a' + 'A' : name[i + 1]), ++i;
    else
      out += name[i];
  return out;
}

class Completer {
 public:
  explicit Completer(bool fills) : fills_(fills) {}

  Json Message(const Json& value, const ProtoMessage& message, const std::string& place, int depth) const {
    if (depth > kMostDepth) Refuse(Code::kInvalidArgument, place, " is nested too deeply");
    if (!value.is_object()) Refuse(Code::kInvalidArgument, place, " must be an object, not ", value.KindName());
    const std::vector<const Json*> held = Fields(value, message, place);
    Json out = Json::Object{};
    for (size_t i = 0; i < held.size(); ++i) {
      const ProtoField& field = message.fields[i];
      if (held[i])
        out.Set(field.name, Field(*held[i], field, Cat(place, ".", field.name), depth));
      else if (fills_ && field.oneof < 0 && (field.kind != FieldKind::kMessage || field.repeated))
        out.Set(field.name, DefaultOf(field));
    }
    return out;
  }

 private:
  // What is held of each of the message's fields; null: nothing.
  static std::vector<const Json*> Fields(const Json& value, const ProtoMessage& message, const std::string& place) {
    std::vector<const Json*> held(message.fields.size());
    std::vector<const ProtoField*> chosen(message.oneofs.size());
    for (const auto& [name, item] : value.AsObject()) {
      const ProtoField* field = FieldOf(message, name);
      if (!field) FailUnknown(message, name, place);
      if (item.is_null()) continue;
      const Json*& slot = held[static_cast<size_t>(field - message.fields.data())];
      if (slot) Refuse(Code::kInvalidArgument, place, ": '", field->name, "' is given twice");
      slot = &item;
      if (field->oneof < 0) continue;
      const ProtoField*& other = chosen[static_cast<size_t>(field->oneof)];
      if (other)
        Refuse(Code::kInvalidArgument, place, ": '", field->name, "' and '", other->name, "' exclude each other");
      other = field;
    }
    return held;
  }

  static const ProtoField* FieldOf(const ProtoMessage& message, const std::string& name) {
    if (const ProtoField* field = message.Find(name)) return field;
    for (const ProtoField& field : message.fields)
      if (CamelCase(field.name) == name) return &field;
    return nullptr;
  }

  [[noreturn]] static void FailUnknown(const ProtoMessage& message, const std::string& name, const std::string& place) {
    std::vector<std::string> names;
    for (const ProtoField& field : message.fields) names.push_back(field.name);
    const std::string closest = ClosestName(name, names);
    Refuse(Code::kInvalidArgument, place, ": ", message.name, " has no field '", Printable(name), "'",
           closest.empty() ? "" : Cat("; did you mean '", closest, "'?"));
  }

  Json Field(const Json& held, const ProtoField& field, const std::string& place, int depth) const {
    if (field.is_map()) {
      if (!held.is_object()) Refuse(Code::kInvalidArgument, place, " must be an object");
      Json map = Json::Object{};
      for (const auto& [key, item] : held.AsObject()) {
        const std::string inside = Cat(place, "['", Printable(key), "']");
        if (field.message->fields[0].kind != FieldKind::kString) Integer(key, field.message->fields[0].kind, inside);
        map.Set(key, One(item, field.message->fields[1], inside, depth));
      }
      return map;
    }
    if (!field.repeated) return One(held, field, place, depth);
    if (!held.is_array()) Refuse(Code::kInvalidArgument, place, " must be a list");
    Json list = Json::Array{};
    for (size_t i = 0; i < held.AsArray().size(); ++i)
      list.Add(One(held.AsArray()[i], field, Cat(place, "[", i, "]"), depth));
    return list;
  }

  Json One(const Json& value, const ProtoField& field, const std::string& place, int depth) const {
    switch (field.kind) {
      case FieldKind::kMessage: return Message(value, *field.message, place, depth + 1);
      case FieldKind::kEnum: return EnumName(*field.enumeration, EnumNumber(*field.enumeration, value, place));
      case FieldKind::kBool:
        if (!value.is_bool()) Refuse(Code::kInvalidArgument, place, " must be true or false");
        return value;
      case FieldKind::kString:
      case FieldKind::kBytes:
        if (!value.is_string()) Refuse(Code::kInvalidArgument, place, " must be a text");
        return value;
      case FieldKind::kDouble:
      case FieldKind::kFloat: return Number(value, place);
      default: return Integer(value, field.kind, place);
    }
  }

  static Json Number(const Json& value, const std::string& place) {
    if (value.is_number()) return value.AsDouble();
    if (value.is_string()) {
      const std::string& text = value.AsString();
      char* end = nullptr;
      const double number = std::strtod(text.c_str(), &end);
      if (!text.empty() && end == text.c_str() + text.size()) return number;
    }
    Refuse(Code::kInvalidArgument, place, " must be a number");
  }

  // protobuf's own JSON writes 64-bit integers as strings, and Python's may write 4 as 4.0.
  static Json Integer(const Json& given, FieldKind kind, const std::string& place) {
    Json value = given;
    if (given.is_string()) value = IntegerOf(given.AsString());
    if (value.is_number() && !value.is_integer())
      if (const double number = value.AsDouble(); number == std::floor(number) && std::fabs(number) < 9.2e18)
        value = static_cast<int64_t>(number);
    if (!value.is_integer()) Refuse(Code::kInvalidArgument, place, " must be an integer");
    const bool is_signed = kind == FieldKind::kInt64 || kind == FieldKind::kInt32;
    const double number = value.AsDouble();
    const double least = !is_signed ? 0 : kind == FieldKind::kInt32 ? std::numeric_limits<int32_t>::min() : -9.3e18;
    const double most = kind == FieldKind::kInt32    ? std::numeric_limits<int32_t>::max()
                        : kind == FieldKind::kUInt32 ? std::numeric_limits<uint32_t>::max()
                        : kind == FieldKind::kInt64  ? 9.2e18
                                                     : 1.9e19;
    if (number < least || number > most) Refuse(Code::kInvalidArgument, place, " is out of range");
    return value;
  }

  static Json IntegerOf(const std::string& text) {
    const char* const end = text.data() + text.size();
    if (int64_t number = 0; std::from_chars(text.data(), end, number) == std::from_chars_result{end, std::errc()})
      return number;
    if (uint64_t number = 0; std::from_chars(text.data(), end, number) == std::from_chars_result{end, std::errc()})
      return number;
    return {};
  }

  const bool fills_;
};

// descriptor.proto's numbers of fields.
void DescribeField(protozero::pbf_writer& message, const ProtoField& field) {
  protozero::pbf_writer out(message, 2);
  out.add_string(1, field.name);
  out.add_int32(3, static_cast<int32_t>(field.number));
  out.add_enum(4, field.repeated ? 3 : 1);
  out.add_enum(5, static_cast<int>(field.kind));
  if (field.message) out.add_string(6, "." + field.message->full_name);
  if (field.enumeration) out.add_string(6, "." + field.enumeration->full_name);
  if (field.oneof >= 0) out.add_int32(9, field.oneof);
}

void DescribeEnum(protozero::pbf_writer& parent, uint32_t tag, const ProtoEnum& enumeration) {
  protozero::pbf_writer out(parent, tag);
  out.add_string(1, enumeration.name);
  for (const auto& [name, number] : enumeration.values) {
    protozero::pbf_writer value(out, 2);
    value.add_string(1, name);
    value.add_int32(2, number);
  }
}

void DescribeMessage(protozero::pbf_writer& parent, uint32_t tag, const ProtoMessage& message) {
  protozero::pbf_writer out(parent, tag);
  out.add_string(1, message.name);
  for (const ProtoField& field : message.fields) DescribeField(out, field);
  for (const auto& inner : message.messages) DescribeMessage(out, 3, *inner);
  for (const auto& inner : message.enums) DescribeEnum(out, 4, *inner);
  if (message.is_map_entry) {
    protozero::pbf_writer options(out, 7);
    options.add_bool(7, true);
  }
  for (const std::string& oneof : message.oneofs) {
    protozero::pbf_writer made(out, 8);
    made.add_string(1, oneof);
  }
}

}  // namespace

Json DecodeMessage(std::string_view bytes, const ProtoMessage& message) {
  try {
    return Decoder::Message(bytes, message, 0);
  } catch (const protozero::exception& error) {
    Refuse(Code::kInvalidArgument, "the bytes are no ", message.full_name, ": ", error.what());
  }
}

std::string EncodeMessage(const Json& value, const ProtoMessage& message) {
  std::string bytes;
  protozero::pbf_writer writer(bytes);
  EncodeInto(writer, value, message, 0);
  return bytes;
}

Json WithDefaults(const Json& value, const ProtoMessage& message) {
  return Completer(true).Message(value, message, message.name, 0);
}

Json Normalized(const Json& value, const ProtoMessage& message) {
  return Completer(false).Message(value, message, message.name, 0);
}

std::string DescribeFile(const ProtoFile& file) {
  std::string bytes;
  protozero::pbf_writer out(bytes);
  out.add_string(1, file.name);
  out.add_string(2, file.package);
  for (const std::string& import : file.imports) out.add_string(3, import);
  for (const auto& message : file.messages) DescribeMessage(out, 4, *message);
  for (const auto& made : file.enums) DescribeEnum(out, 5, *made);
  for (const auto& service : file.services) {
    protozero::pbf_writer described(out, 6);
    described.add_string(1, service->name);
    for (const ProtoMethod& method : service->methods) {
      protozero::pbf_writer inner(described, 2);
      inner.add_string(1, method.name);
      inner.add_string(2, "." + method.input_name);
      inner.add_string(3, "." + method.output_name);
      if (method.client_streams) inner.add_bool(5, true);
      if (method.server_streams) inner.add_bool(6, true);
    }
  }
  out.add_string(12, "proto3");
  return bytes;
}

}  // namespace ferry::server
