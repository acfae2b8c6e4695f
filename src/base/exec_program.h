// Becoming another program.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace ferry {

// The program called `name` in the folder of this one, else on PATH; empty when it is in neither.
std::string FindProgram(const std::string& name);
// Replaces this process by the program; returns only where that fails, with the system's reason.
std::string ExecProgram(const std::string& path, std::span<const char* const> arguments);

}  // namespace ferry
