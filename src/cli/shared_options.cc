#include "cli/shared_options.h"

#include <cerrno>
#include <cstdlib>

#include "base/text.h"

namespace ferry::cli {

SessionOptions SessionOptionsFrom(const Arguments& arguments) {
  SessionOptions options;
  options.threads = static_cast<int>(arguments.Int("threads", 0, 1, 1024));
  options.provider = arguments.Get("provider", "cpu");
  options.cache_folder = arguments.Get("cache", "");
  options.exact = arguments.Has("exact");
  options.tune = arguments.Get("tune");
  options.precision = PrecisionNamed(arguments.Get("precision", "float32"));
  return options;
}

std::map<std::string, int64_t> DimensionsFrom(const Arguments& arguments) {
  std::map<std::string, int64_t> dimensions;
  for (const auto& [name, text] : arguments.Pairs("dim")) {
    char* end = nullptr;
    errno = 0;
    long long size = std::strtoll(text.c_str(), &end, 10);
    if (*end != 0 || errno != 0 || size < 0)
      throw UsageError{Cat("--dim ", Printable(name), " must be a whole number, got '", Printable(text), "'")};
    dimensions[name] = size;
  }
  return dimensions;
}

}  // namespace ferry::cli
