#include "base/process.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>

#include "base/small_text.h"

namespace ferry {

int64_t ProcessNumber() { return getpid(); }

int64_t PeakMemoryKilobytes() {
  // What the system counts as usage begins with the peak of the program that started this one; this does not.
  const std::string peak = ValueOf(ReadSmallText("/proc/self/status"), "VmHWM:");
  if (!peak.empty()) return std::strtoll(peak.c_str(), nullptr, 10);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

std::string ProcessorModel() {
  constexpr size_t kLongest = 200;
  const std::string name = ValueOf(ReadSmallText("/proc/cpuinfo"), "model name");
  return name.empty() ? "unknown processor" : name.substr(0, kLongest);
}

std::string BootName() { return FirstLineOf("/proc/sys/kernel/random/boot_id"); }

bool ErrorsGoToTerminal() { return isatty(STDERR_FILENO) == 1; }

std::string ExecutableFolder() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  if (length <= 0) return {};
  const std::string whole(path, static_cast<size_t>(length));
  return whole.substr(0, whole.rfind('/'));
}

}  // namespace ferry
