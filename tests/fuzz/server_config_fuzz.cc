// config.pbtxt, its JSON form, and protobuf messages of the other calls; the first byte says which.
#include "server/model_config.h"
#include "server/proto_json.h"
#include "server/refusal.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ferry;
  using namespace ferry::server;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const ProtoMessage& config = ProtoSchema::OfServer().Message("inference.ModelConfig");
  try {
    if (data[0] % 2 == 0) {
      const Json given = ReadConfigText(text, "config.pbtxt");
      ValueInfo x;
      x.name = "x";
      x.type = Type::Tensor(DType::kFloat, {Dim::Named("n"), 3});
      ValueInfo y = x;
      y.name = "y";
      EncodeMessage(CompleteConfig(given, "m", {x}, {}, {y}, {}).json, config);
    } else {
      const Json decoded = DecodeMessage(text, config);
      const std::string bytes = EncodeMessage(decoded, config);
      if (EncodeMessage(DecodeMessage(bytes, config), config) != bytes) __builtin_trap();
      DecodeMessage(text, ProtoSchema::OfServer().Message("inference.RepositoryModelLoadRequest"));
    }
  } catch (const Refusal&) {
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) __builtin_trap();
  }
  return 0;
}
