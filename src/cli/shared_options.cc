#include "cli/shared_options.h"

#include <cerrno>
#include <cstdlib>

#include "base/text.h"
#include "cli/output.h"
#include "engine/runtime.h"

namespace ferry::cli {

Limits LimitsFrom(const Arguments& arguments) {
  constexpr double kLongest = 1e9;
  Limits limits;
  const double seconds = arguments.Number("time-limit", 0);
  if (arguments.Has("time-limit") && (seconds <= 0 || seconds > kLongest))
    throw UsageError{
        Cat("--time-limit must be a number of seconds, got '", Printable(arguments.Get("time-limit")), "'")};
  limits.time = std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
  limits.bytes = arguments.Bytes("memory-limit", limits.bytes);
  limits.iterations = arguments.Int("max-iterations", limits.iterations, 1, INT64_MAX);
  limits.inflated_bytes = arguments.Bytes("max-inflated", limits.inflated_bytes);
  return limits;
}

SessionOptions SessionOptionsFrom(const Arguments& arguments) {
  SessionOptions options;
  options.limits = LimitsFrom(arguments);
  options.threads = static_cast<int>(arguments.Int("threads", 0, 1, 1024));
  options.provider = arguments.Get("provider", "cpu");
  const bool runs = !arguments.Has("plan");  // a plan can be made for a device that is elsewhere
  if (runs && options.provider.find(',') != std::string::npos)
    for (const std::string& sentence : ProvidersLeftOut(options)) Note(sentence);
  options.cache_folder = arguments.Get("cache", "");
  options.exact = arguments.Has("exact");
  options.tune = arguments.Get("tune");
  options.precision = PrecisionNamed(arguments.Get("precision", "float32"));
  options.device_memory = arguments.Bytes("device-memory", 0);
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
