#include "server/reflection.h"

#include "server/proto_json.h"

namespace ferry::server {
namespace {

bool Defines(const ProtoMessage& message, const std::string& symbol) {
  if (message.full_name == symbol) return true;
  for (const auto& made : message.enums)
    if (made->full_name == symbol) return true;
  for (const auto& inner : message.messages)
    if (Defines(*inner, symbol)) return true;
  return false;
}

bool Defines(const ProtoFile& file, const std::string& symbol) {
  for (const auto& message : file.messages)
    if (Defines(*message, symbol)) return true;
  for (const auto& made : file.enums)
    if (made->full_name == symbol) return true;
  for (const auto& service : file.services) {
    if (service->full_name == symbol) return true;
    for (const ProtoMethod& method : service->methods)
      if (service->full_name + "." + method.name == symbol) return true;
  }
  return false;
}

// The file and those it needs.
Json Descriptors(const ProtoFile& file) {
  Json list = Json::Array{};
  list.Add(DescribeFile(file));
  for (const std::string& import : file.imports)
    for (const auto& other : ProtoSchema::OfServer().files())
      if (other->name == import) list.Add(DescribeFile(*other));
  return Json().Set("file_descriptor_proto", std::move(list));
}

Json Answer(const Json& request) {
  Json out = Json().Set("original_request", request);
  const auto& files = ProtoSchema::OfServer().files();
  if (request.Find("list_services")) {
    Json services = Json::Array{};
    for (const auto& file : files)
      for (const auto& service : file->services) services.Add(Json().Set("name", service->full_name));
    return out.Set("list_services_response", Json().Set("service", std::move(services)));
  }
  const Json* symbol = request.Find("file_containing_symbol");
  const Json* name = request.Find("file_by_filename");
  for (const auto& file : files)
    if ((symbol && Defines(*file, symbol->AsString())) || (name && file->name == name->AsString()))
      return out.Set("file_descriptor_response", Descriptors(*file));
  return out.Set("error_response",
                 Json().Set("error_code", static_cast<int>(Code::kNotFound)).Set("error_message", "it is not found"));
}

class ReflectionCall : public GrpcCall {
 public:
  ReflectionCall(const ProtoMethod& types, std::shared_ptr<GrpcSink> sink) : types_(types), sink_(std::move(sink)) {}
  void OnMessage(std::string message) override {
    sink_->Send(EncodeMessage(Answer(DecodeMessage(message, *types_.input)), *types_.output));
  }
  void OnHalfClose() override { sink_->Finish(Code::kOk, ""); }
  void OnCancel() override {}
  bool MayWait() const override { return true; }

 private:
  const ProtoMethod& types_;
  const std::shared_ptr<GrpcSink> sink_;
};

}  // namespace

std::unique_ptr<GrpcCall> MakeReflectionCall(const ProtoMethod& types, std::shared_ptr<GrpcSink> sink) {
  return std::make_unique<ReflectionCall>(types, std::move(sink));
}

}  // namespace ferry::server
