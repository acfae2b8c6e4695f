// Bodies of inference requests: JSON with or without bytes behind it, of the generate extension, and protobuf; the
// first byte says which.
#include <memory>
#include <string>

#include "server/infer_codec.h"
#include "tests/fuzz/server_model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ferry::server;
  if (size < 3) return 0;
  static FuzzModel model;
  const std::string body(reinterpret_cast<const char*>(data) + 3, size - 3);
  try {
    InferRequest request;
    if (data[0] % 3 == 0) {
      request = ReadGrpcInfer(std::make_shared<const std::string>(body), *model.served, model.memory);
    } else {
      auto http = std::make_shared<HttpRequest>();
      http->body = body;
      if (data[0] >= 0xE0) {
        model.served->MakeJob(ReadGenerate(*http, *model.served, size_t{1} << 20));
        return 0;
      }
      size_t header = body.size();
      if (data[0] % 3 == 1) {
        header = std::min<size_t>(body.size(), data[1] | data[2] << 8);
        http->headers.emplace_back("inference-header-content-length", std::to_string(header));
      }
      request = ReadHttpInfer(http, header, *model.served, model.memory, size_t{1} << 20);
    }
    model.served->MakeJob(std::move(request));
  } catch (const Refusal&) {
  }
  return 0;
}
