#include "base/process.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <limits>

namespace ferry {

int64_t ProcessNumber() { return getpid(); }

int64_t PeakMemoryKilobytes() {
  // What the system counts as usage begins with the peak of the program that started this one; this does not.
  std::ifstream status("/proc/self/status");
  std::string key;
  while (status >> key) {
    int64_t kilobytes = 0;
    if (key == "VmHWM:" && status >> kilobytes) return kilobytes;
    status.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

std::string ProcessorModel() {
  constexpr size_t kLongest = 200;
  std::ifstream stream("/proc/cpuinfo");
  for (std::string line; std::getline(stream, line);) {
    const size_t colon = line.find(": ");
    if (colon != std::string::npos && line.compare(0, 10, "model name") == 0) return line.substr(colon + 2, kLongest);
  }
  return "unknown processor";
}

std::string BootName() {
  std::ifstream stream("/proc/sys/kernel/random/boot_id");
  std::string name;
  std::getline(stream, name);
  return name;
}

bool ErrorsGoToTerminal() { return isatty(STDERR_FILENO) == 1; }

std::string ExecutableFolder() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  if (length <= 0) return {};
  const std::string whole(path, static_cast<size_t>(length));
  return whole.substr(0, whole.rfind('/'));
}

}  // namespace ferry
