// Messages, enums and services as the .proto texts in server/protocol define them, read when the server starts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ferry::server {

// Numbered as descriptor.proto does.
enum class FieldKind : int {
  kDouble = 1,
  kFloat = 2,
  kInt64 = 3,
  kUInt64 = 4,
  kInt32 = 5,
  kBool = 8,
  kString = 9,
  kMessage = 11,
  kBytes = 12,
  kUInt32 = 13,
  kEnum = 14,
};

struct ProtoEnum {
  std::string name, full_name;
  std::vector<std::pair<std::string, int>> values;
};

struct ProtoMessage;

struct ProtoField {
  std::string name;
  uint32_t number = 0;
  FieldKind kind = FieldKind::kString;
  bool repeated = false;
  int oneof = -1;         // which of the message's
  std::string type_name;  // as written, for messages and enums
  const ProtoMessage* message = nullptr;
  const ProtoEnum* enumeration = nullptr;
  bool is_map() const;
};

struct ProtoMessage {
  std::string name, full_name;
  bool is_map_entry = false;
  std::vector<ProtoField> fields;
  std::vector<std::string> oneofs;
  std::vector<std::unique_ptr<ProtoMessage>> messages;  // inside this one
  std::vector<std::unique_ptr<ProtoEnum>> enums;

  const ProtoField* Find(std::string_view name) const;
  const ProtoField* Find(uint32_t number) const;
};

inline bool ProtoField::is_map() const { return message && message->is_map_entry; }

struct ProtoMethod {
  std::string name, input_name, output_name;
  bool client_streams = false, server_streams = false;
  const ProtoMessage* input = nullptr;
  const ProtoMessage* output = nullptr;
};

struct ProtoService {
  std::string name, full_name;
  std::vector<ProtoMethod> methods;
};

struct ProtoFile {
  std::string name, package;
  std::vector<std::string> imports;
  std::vector<std::unique_ptr<ProtoMessage>> messages;
  std::vector<std::unique_ptr<ProtoEnum>> enums;
  std::vector<std::unique_ptr<ProtoService>> services;
};

class ProtoSchema {
 public:
  // Texts by file name, what they import before them. Throws kInternal naming the file and the line.
  explicit ProtoSchema(const std::vector<std::pair<std::string, std::string>>& texts);
  // The server's own.
  static const ProtoSchema& OfServer();

  const ProtoMessage& Message(std::string_view full_name) const;  // one that must be there
  const ProtoMessage* FindMessage(std::string_view full_name) const;
  const ProtoEnum* FindEnum(std::string_view full_name) const;
  const std::vector<std::unique_ptr<ProtoFile>>& files() const { return files_; }

 private:
  void Collect(const ProtoMessage& message);
  void Resolve(ProtoMessage& message);
  void ResolveMethods();

  std::vector<std::unique_ptr<ProtoFile>> files_;
  std::vector<const ProtoMessage*> all_messages_;
  std::vector<const ProtoEnum*> all_enums_;
};

// The .proto files of server/protocol: name and text, in the order of their imports; made by CMake.
std::vector<std::pair<std::string, std::string>> ProtocolTexts();

}  // namespace ferry::server
