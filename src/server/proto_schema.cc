#include "server/proto_schema.h"

#include <charconv>

#include "base/error.h"

namespace ferry::server {
namespace {

// Reads the part of proto3 that the server's own files use.
class ProtoParser {
 public:
  ProtoParser(const std::string& name, std::string_view text) : text_(text), file_(std::make_unique<ProtoFile>()) {
    file_->name = name;
    Advance();
  }

  std::unique_ptr<ProtoFile> Parse() {
    while (!token_.empty()) {
      if (Take("syntax")) {
        SkipPast(";");
      } else if (Take("package")) {
        file_->package = Word();
        Expect(";");
      } else if (Take("import")) {
        const std::string quoted = Word();
        file_->imports.push_back(quoted.substr(1, quoted.size() - 2));
        Expect(";");
      } else if (Take("message")) {
        file_->messages.push_back(ParseMessage(file_->package));
      } else if (Take("enum")) {
        file_->enums.push_back(ParseEnum(file_->package));
      } else if (Take("service")) {
        ParseService();
      } else {
        FailHere("a definition is missing");
      }
    }
    return std::move(file_);
  }

 private:
  void Advance() {
    while (at_ < text_.size()) {
      if (text_[at_] == '\n') ++line_;
      if (static_cast<unsigned char>(text_[at_]) <= ' ') {
        ++at_;
      } else if (text_.substr(at_, 2) == "//") {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else {
        break;
      }
    }
    size_t end = at_;
    auto is_word = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
    };
    if (at_ < text_.size() && text_[at_] == '"') {
      end = text_.find('"', at_ + 1);
      end = end == std::string_view::npos ? text_.size() : end + 1;
    } else {
      while (end < text_.size() && is_word(text_[end])) ++end;
      if (end == at_ && end < text_.size()) ++end;
    }
    token_ = text_.substr(at_, end - at_);
    at_ = end;
  }

  [[noreturn]] void FailHere(std::string_view why) const {
    Fail(ErrorCode::kInternal, file_->name, ":", line_, ": ", why, " at '", token_, "'");
  }
  bool Take(std::string_view word) {
    if (token_ != word) return false;
    Advance();
    return true;
  }
  void Expect(std::string_view word) {
    if (!Take(word)) FailHere(Cat("'", word, "' is missing"));
  }
  std::string Word() {
    if (token_.empty()) FailHere("a word is missing");
    std::string word(token_);
    Advance();
    return word;
  }
  int Number() {
    int number = 0;
    auto [end, error] = std::from_chars(token_.data(), token_.data() + token_.size(), number);
    if (error != std::errc() || end != token_.data() + token_.size()) FailHere("a number is missing");
    Advance();
    return number;
  }
  void SkipPast(std::string_view word) {
    while (!token_.empty() && token_ != word) Advance();
    Expect(word);
  }

  static FieldKind KindOf(std::string_view type) {
    struct Row {
      std::string_view name;
      FieldKind kind;
    };
    static constexpr Row kRows[] = {
        {"double", FieldKind::kDouble}, {"float", FieldKind::kFloat}, {"int64", FieldKind::kInt64},
        {"uint64", FieldKind::kUInt64}, {"int32", FieldKind::kInt32}, {"bool", FieldKind::kBool},
        {"string", FieldKind::kString}, {"bytes", FieldKind::kBytes}, {"uint32", FieldKind::kUInt32},
    };
    for (const Row& row : kRows)
      if (row.name == type) return row.kind;
    return FieldKind::kMessage;  // or an enum: known when all is read
  }

  ProtoField ParseField(std::string type) {
    ProtoField field;
    field.kind = KindOf(type);
    if (field.kind == FieldKind::kMessage) field.type_name = std::move(type);
    field.name = Word();
    Expect("=");
    field.number = static_cast<uint32_t>(Number());
    Expect(";");
    return field;
  }

  // map<K, V> name = N is a repeated message NameEntry { K key = 1; V value = 2; }.
  void ParseMap(ProtoMessage& message) {
    Expect("<");
    const std::string key = Word();
    Expect(",");
    const std::string value = Word();
    Expect(">");
    auto entry = std::make_unique<ProtoMessage>();
    entry->is_map_entry = true;
    for (auto [name, type, number] :
         {std::tuple<const char*, const std::string&, uint32_t>{"key", key, 1u}, {"value", value, 2u}}) {
      ProtoField part;
      part.name = name;
      part.number = number;
      part.kind = KindOf(type);
      if (part.kind == FieldKind::kMessage) part.type_name = type;
      entry->fields.push_back(std::move(part));
    }
    ProtoField field = ParseField("Entry");
    bool upper = true;
    for (char c : field.name) {
      if (c != '_') entry->name += upper && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
      upper = c == '_';
    }
    entry->name += "Entry";
    entry->full_name = message.full_name + "." + entry->name;
    field.type_name = entry->name;
    field.repeated = true;
    message.fields.push_back(std::move(field));
    message.messages.push_back(std::move(entry));
  }

  std::unique_ptr<ProtoMessage> ParseMessage(const std::string& scope) {
    auto message = std::make_unique<ProtoMessage>();
    message->name = Word();
    message->full_name = scope + "." + message->name;
    Expect("{");
    while (!Take("}")) {
      if (Take("message")) {
        message->messages.push_back(ParseMessage(message->full_name));
      } else if (Take("enum")) {
        message->enums.push_back(ParseEnum(message->full_name));
      } else if (Take("oneof")) {
        message->oneofs.push_back(Word());
        Expect("{");
        while (!Take("}")) {
          ProtoField field = ParseField(Word());
          field.oneof = static_cast<int>(message->oneofs.size()) - 1;
          message->fields.push_back(std::move(field));
        }
      } else if (Take("map")) {
        ParseMap(*message);
      } else {
        const bool repeated = Take("repeated");
        ProtoField field = ParseField(Word());
        field.repeated = repeated;
        message->fields.push_back(std::move(field));
      }
    }
    return message;
  }

  std::unique_ptr<ProtoEnum> ParseEnum(const std::string& scope) {
    auto made = std::make_unique<ProtoEnum>();
    made->name = Word();
    made->full_name = scope + "." + made->name;
    Expect("{");
    while (!Take("}")) {
      std::string value = Word();
      Expect("=");
      made->values.emplace_back(std::move(value), Number());
      Expect(";");
    }
    return made;
  }

  void ParseService() {
    auto service = std::make_unique<ProtoService>();
    service->name = Word();
    service->full_name = file_->package + "." + service->name;
    Expect("{");
    while (!Take("}")) {
      Expect("rpc");
      ProtoMethod method;
      method.name = Word();
      Expect("(");
      method.client_streams = Take("stream");
      method.input_name = file_->package + "." + Word();
      Expect(")");
      Expect("returns");
      Expect("(");
      method.server_streams = Take("stream");
      method.output_name = file_->package + "." + Word();
      Expect(")");
      Expect(";");
      service->methods.push_back(std::move(method));
    }
    file_->services.push_back(std::move(service));
  }

  std::string_view text_, token_;
  size_t at_ = 0;
  int line_ = 1;
  std::unique_ptr<ProtoFile> file_;
};

}  // namespace

const ProtoField* ProtoMessage::Find(std::string_view field) const {
  for (const ProtoField& known : fields)
    if (known.name == field) return &known;
  return nullptr;
}

const ProtoField* ProtoMessage::Find(uint32_t field) const {
  for (const ProtoField& known : fields)
    if (known.number == field) return &known;
  return nullptr;
}

ProtoSchema::ProtoSchema(const std::vector<std::pair<std::string, std::string>>& texts) {
  for (const auto& [name, text] : texts) {
    files_.push_back(ProtoParser(name, text).Parse());
    for (const auto& message : files_.back()->messages) Collect(*message);
    for (const auto& made : files_.back()->enums) all_enums_.push_back(made.get());
  }
  for (const auto& file : files_)
    for (const auto& message : file->messages) Resolve(*message);
  ResolveMethods();
}

void ProtoSchema::Collect(const ProtoMessage& message) {
  all_messages_.push_back(&message);
  for (const auto& made : message.enums) all_enums_.push_back(made.get());
  for (const auto& inner : message.messages) Collect(*inner);
}

// A name is looked for in the message itself first, then in what is around it.
void ProtoSchema::Resolve(ProtoMessage& message) {
  for (ProtoField& field : message.fields) {
    if (field.type_name.empty()) continue;
    for (std::string scope = message.full_name; !field.message && !field.enumeration;) {
      field.message = FindMessage(scope + "." + field.type_name);
      field.enumeration = FindEnum(scope + "." + field.type_name);
      const size_t dot = scope.rfind('.');
      if (dot == std::string::npos) break;
      scope.resize(dot);
    }
    if (field.enumeration) field.kind = FieldKind::kEnum;
    if (!field.message && !field.enumeration)
      Fail(ErrorCode::kInternal, message.full_name, " has a field of the unknown type ", field.type_name);
  }
  for (const auto& inner : message.messages) Resolve(*inner);
}

void ProtoSchema::ResolveMethods() {
  for (const auto& file : files_)
    for (const auto& service : file->services)
      for (ProtoMethod& method : service->methods) {
        method.input = &Message(method.input_name);
        method.output = &Message(method.output_name);
      }
}

const ProtoMessage* ProtoSchema::FindMessage(std::string_view full_name) const {
  for (const ProtoMessage* message : all_messages_)
    if (message->full_name == full_name) return message;
  return nullptr;
}

const ProtoEnum* ProtoSchema::FindEnum(std::string_view full_name) const {
  for (const ProtoEnum* made : all_enums_)
    if (made->full_name == full_name) return made;
  return nullptr;
}

const ProtoMessage& ProtoSchema::Message(std::string_view full_name) const {
  const ProtoMessage* message = FindMessage(full_name);
  if (!message) Fail(ErrorCode::kInternal, "there is no message ", full_name);
  return *message;
}

const ProtoSchema& ProtoSchema::OfServer() {
  static const ProtoSchema schema(ProtocolTexts());
  return schema;
}

}  // namespace ferry::server
