// What libstdc++ calls for an error that nobody caught: its own names the error's type, for which it brings 40 kB of a
// demangler into every binary. This one is for binaries, whose main catches everything; the library leaves it alone.
#include <unistd.h>

#include <cstdlib>

namespace __gnu_cxx {

[[gnu::cold]] void __verbose_terminate_handler();
void __verbose_terminate_handler() {
  static constexpr char kText[] = "an error was caught by nobody\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kText, sizeof kText - 1);
  std::abort();
}

}  // namespace __gnu_cxx
