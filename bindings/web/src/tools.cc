// The command line as a function: every tool of Ferry's, with its answers as JSON.
#include <emscripten.h>

#include <cstdio>
#include <exception>

// main() of src/cli/main.cc under another name.
int FerryCommandLine(int count, char** words);

extern "C" EMSCRIPTEN_KEEPALIVE int ferry_web_command(int count, char** words) {
  constexpr int kUnusable = 3;
  try {
    const int status = FerryCommandLine(count, words);
    std::fflush(stdout);
    std::fflush(stderr);
    return status;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ferry: %s\n", error.what());
    return kUnusable;
  }
}
