// Bytes as HTTP/1.1 requests, in pieces.
#include "server/http1_parser.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ferry::server;
  if (size == 0) return 0;
  std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t step = data[0] + 1u;
  Http1Parser parser(4096, 8192, 2048);
  std::string pending;
  while (!bytes.empty() && parser.status() == 0) {
    pending += bytes.substr(0, step);
    bytes.remove_prefix(std::min(step, bytes.size()));
    while (!pending.empty() && parser.status() == 0) {
      const size_t taken = parser.Feed(pending);
      pending.erase(0, taken);
      if (parser.is_done())
        parser.TakeRequest();
      else if (taken == 0)
        break;
    }
  }
  return 0;
}
