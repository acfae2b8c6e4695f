// What is asked about a mutant: a command line of 'ferry', run in this process.
#pragma once

#include <string>
#include <vector>

#include "mutants/damage.h"

namespace ferry::mutants {

struct Place {
  std::string folder;     // for whatever is written
  std::string mutant;     // the damaged file
  std::string recording;  // an .npz of the specimen's sound inputs; empty: there is none
};

// A command line without 'ferry', chosen among those that take such a file.
std::vector<std::string> CommandFor(const Specimen& specimen, const Place& place, Random& random);

enum class Outcome { kAnswered, kRefused, kWrong };

// As the binary would; kWrong: an exception that would have ended it. `said` tells which.
Outcome RunCommandLine(const std::vector<std::string>& words, std::string& said);

}  // namespace ferry::mutants
