// What the operating system says about this process and the machine it runs on.
#pragma once

#include <cstdint>
#include <string>

namespace ferry {

int64_t ProcessNumber();
// The most memory the process had in use so far.
int64_t PeakMemoryKilobytes();
// The processor as its maker calls it; "unknown processor" where the system does not say.
std::string ProcessorModel();
// Another one after each start of the system; empty where it has none.
std::string BootName();
// Whether what is written to standard error is seen at once by a person.
bool ErrorsGoToTerminal();
// Where the file of this program lies; empty where the system does not say.
std::string ExecutableFolder();

}  // namespace ferry
