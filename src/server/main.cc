#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "base/version.h"
#include "server/server.h"

int main(int count, char** words) {
  using namespace ferry;
  try {
    const server::ServerOptions options = server::ParseOptions({words + 1, words + count});
    if (options.wants_help || options.wants_version) {
      const std::string text = options.wants_help ? server::HelpText() : Cat("ferry-server ", kVersion, "\n");
      std::fwrite(text.data(), 1, text.size(), stdout);
      return 0;
    }
    std::_Exit(server::RunServer(options));
  } catch (const Error& error) {
    std::fprintf(stderr, "ferry-server: %s\n", error.what());
    return error.code() == ErrorCode::kInvalidArgument ? 2 : 3;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ferry-server: %s\n", error.what());
    return 3;
  }
}
