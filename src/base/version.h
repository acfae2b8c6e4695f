// Ferry's own version, written by CMake from the project's.
#pragma once

namespace ferry {

extern const char kVersion[];  // "1.4.0"

}  // namespace ferry
