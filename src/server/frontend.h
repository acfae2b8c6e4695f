// The protocol's endpoints over HTTP and its methods over gRPC.
#pragma once

#include "server/http_message.h"
#include "server/service.h"

namespace ferry::server {

class Frontend : public RequestHandler {
 public:
  explicit Frontend(Service& service) : service_(service) {}

  void Handle(Door door, std::shared_ptr<HttpRequest> request, Respond respond) override;
  std::unique_ptr<GrpcCall> Call(Door door, const HttpRequest& request, std::shared_ptr<GrpcSink> sink) override;

 private:
  std::unique_ptr<GrpcCall> InferenceCall(const HttpRequest& request, bool is_stream, std::shared_ptr<GrpcSink> sink);
  HttpResponse Answer(const HttpRequest& request, const std::vector<std::string>& parts);
  HttpResponse AnswerModel(const HttpRequest& request, const std::vector<std::string>& parts);
  HttpResponse AnswerMemory(const HttpRequest& request, const std::vector<std::string>& parts);
  void Infer(const std::shared_ptr<HttpRequest>& request, std::string_view model, std::string_view version,
             const Respond& respond);
  void Generate(const HttpRequest& request, const std::string& model, const std::string& version, bool is_stream,
                const Respond& respond);
  bool Repository(const std::shared_ptr<HttpRequest>& request, const std::vector<std::string>& parts,
                  const Respond& respond);
  void CheckAccess(const HttpRequest& request, std::string_view api) const;

  Service& service_;
};

// The page at '/', which shows models and load and lets one try a model; made by CMake from server/page.html.
std::string_view PageText();

}  // namespace ferry::server
